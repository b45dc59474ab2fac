"""Write the generated corpus: PDFs, and the BEIR files that name their pages."""

from __future__ import annotations

import hashlib
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import Field

from arms.atomic import atomic_folder
from arms.corpora.beir import write_beir
from arms.corpora.corpus import Dataset, MemoryCorpus
from arms.corpora.page_demo.questions import ask
from arms.corpora.page_demo.scanner import scan
from arms.corpora.page_demo.sheets import (
    draw_chart_slide,
    draw_picture_page,
    draw_table_page,
    draw_text_pages,
    draw_typed_page,
    pdf_file,
)
from arms.corpora.page_demo.world import Fact, Organisation, PageKind, draw_organisations
from arms.corpora.pdf import text_layers
from arms.corpora.pictures import load_picture
from arms.progress import Progress, SilentProgress, Task
from arms.records import Document, Page, Query
from arms.settings import Settings
from arms.sole_writer import writes

SCAN_DPI = 120
TEXT_PAGES = 2
"""Of running text, for each organisation."""
_PDFS = "pdf"


class PageDemoSettings(Settings):
    """How large the generated corpus is."""

    organisations: int = Field(
        default=30, ge=1, le=216, description="each has about six pages and 42 questions"
    )
    seed: int = Field(default=42, description="of names, numbers and places")


@dataclass(frozen=True, slots=True)
class _Sheet:
    """One written page: what it is, and which facts it states."""

    file: str
    number: int
    kind: PageKind
    facts: tuple[Fact, ...]

    @property
    def doc_id(self) -> str:
        return f"{self.file}-p{self.number}"


@writes("folder")
def write_page_demo(
    folder: Path, settings: PageDemoSettings | None = None, progress: Progress | None = None
) -> None:
    """Write the corpus to ``folder``, whole or not at all: ``pdf/``, corpus, queries and qrels.

    Equal settings and library versions give equal bytes. A document is a page; its text is the
    page's text layer. What is gold information stands in the metadata of queries: ``page_kind``,
    ``family``, ``frame``, ``answer``, and ``split_group``, the style of asking.

    Raises:
        MissingExtraError: reportlab, matplotlib, Pillow or pypdfium2 isn't installed.
    """
    settings = settings or PageDemoSettings()
    organisations = draw_organisations(settings.seed, settings.organisations)
    documents: list[Document] = []
    queries: list[Query] = []
    qrels: dict[str, dict[str, int]] = {}
    with atomic_folder(folder) as temporary:
        (temporary / _PDFS).mkdir()
        with (progress or SilentProgress()).task("draw PDF pages", len(organisations)) as task:
            for organisation, sheets in _draw_all(temporary, organisations, settings.seed, task):
                documents += [_document(temporary, sheet) for sheet in sheets]
                for query, sheet in _questions(organisation, sheets, settings.seed):
                    queries.append(query)
                    qrels[query.query_id] = {sheet.doc_id: 1}
        dataset = Dataset(folder.name, MemoryCorpus(folder.name, documents), tuple(queries), qrels)
        write_beir(dataset, temporary / "beir")
        for path in (temporary / "beir").iterdir():
            path.rename(temporary / path.name)
        (temporary / "beir").rmdir()


def _draw_all(
    folder: Path, organisations: Sequence[Organisation], seed: int, task: Task
) -> Iterator[tuple[Organisation, list[_Sheet]]]:
    for organisation in organisations:
        rng = random.Random(f"pages {seed} {organisation.number}")
        sheets = [
            *_draw_report(folder, organisation, rng),
            *_draw_slides(folder, organisation, rng),
            *_draw_scan(folder, organisation, rng),
        ]
        yield organisation, sheets
        task.advance()


def _draw_report(folder: Path, organisation: Organisation, rng: random.Random) -> list[_Sheet]:
    name = f"report-{organisation.number:03}"
    facts = organisation.facts_on("text")
    parts = [facts[part::TEXT_PAGES] for part in range(TEXT_PAGES)]
    with pdf_file(_pdf(folder, name)) as canvas:
        draw_text_pages(canvas, organisation, parts, rng)
        draw_table_page(canvas, organisation)
    return [
        *(_Sheet(name, number, "text", part) for number, part in enumerate(parts, start=1)),
        _Sheet(name, TEXT_PAGES + 1, "table", organisation.facts_on("table")),
    ]


def _draw_slides(folder: Path, organisation: Organisation, rng: random.Random) -> list[_Sheet]:
    name = f"slides-{organisation.number:03}"
    if not organisation.charts:
        return []
    sheets = []
    with pdf_file(_pdf(folder, name)) as canvas:
        for number, series in enumerate(organisation.charts, start=1):
            draw_chart_slide(canvas, series, organisation.name, number, rng)
            shown = organisation.facts_on("chart")
            facts = tuple(fact for fact in shown if fact.topic == series.topic)
            sheets.append(_Sheet(name, number, "chart", facts))
    return sheets


def _draw_scan(folder: Path, organisation: Organisation, rng: random.Random) -> list[_Sheet]:
    name = f"papers-{organisation.number:03}"
    if not organisation.facts_on("scan"):
        return []
    typed = folder / f"{name}-typed.pdf"
    with pdf_file(typed) as canvas:
        draw_typed_page(canvas, organisation, rng)
    picture = load_picture(Page(typed, 1, _sha256(typed), SCAN_DPI))
    typed.unlink()
    with pdf_file(_pdf(folder, name)) as canvas:
        draw_picture_page(canvas, scan(picture, rng))
    return [_Sheet(name, 1, "scan", organisation.facts_on("scan"))]


def _pdf(folder: Path, name: str) -> Path:
    return folder / _PDFS / f"{name}.pdf"


def _sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _document(folder: Path, sheet: _Sheet) -> Document:
    path = _pdf(folder, sheet.file)
    text = text_layers(path, _sha256(path))[sheet.number - 1]
    if not isinstance(text, str):
        raise text
    metadata = {"pdf": f"{_PDFS}/{path.name}", "page": sheet.number, "page_kind": sheet.kind}
    return Document(sheet.doc_id, "", text, metadata)


def _questions(
    organisation: Organisation, sheets: Sequence[_Sheet], seed: int
) -> Iterator[tuple[Query, _Sheet]]:
    """Yield two questions for each fact, with the page that states it."""
    rng = random.Random(f"questions {seed} {organisation.number}")
    for position, fact in enumerate(organisation.facts):
        (sheet,) = (one for one in sheets if fact in one.facts)
        for variant, (text, frame) in enumerate(ask(fact, organisation.style, rng)):
            metadata: dict[str, Any] = {
                "page_kind": fact.place,
                "family": fact.family,
                "answer": fact.value,
                "frame": f"{organisation.style}.{frame}",
                "split_group": f"style-{organisation.style}",
            }
            query_id = f"q{organisation.number:03}-{position:02}{'ab'[variant]}"
            yield Query(query_id, text, metadata), sheet
