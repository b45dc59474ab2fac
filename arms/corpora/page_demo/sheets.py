"""Pages as PDF: running text, lists, slides with a chart, and typed papers, with reportlab.

The same content gives the same bytes: dates and ids are fixed, fonts are PDF's built-in ones.
"""

from __future__ import annotations

import io
import random
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from arms.corpora.page_demo.charts import COLOURS, FORMS, draw_chart
from arms.corpora.page_demo.words import words
from arms.corpora.page_demo.world import Fact, Item, Organisation, Series, person
from arms.extras import not_importable

if TYPE_CHECKING:
    from reportlab.pdfgen.canvas import Canvas

A4 = (595.3, 841.9)
SLIDE = (720.0, 405.0)
"""Width and height in points, as everywhere here."""

_MARGIN = 57.0
_INK = "#222222"
_EMBLEM_SHARE = 0.4


@contextmanager
def pdf_file(path: Path) -> Iterator[Canvas]:
    """Yield a canvas; its pages are written to ``path``.

    Raises:
        MissingExtraError: reportlab isn't installed.
    """
    try:
        from reportlab.pdfgen.canvas import Canvas
    except ImportError as error:
        raise not_importable(error, "reportlab", "demo") from error
    canvas = Canvas(str(path), pageCompression=1, invariant=1)
    yield canvas
    canvas.save()


def draw_text_pages(
    canvas: Canvas, organisation: Organisation, parts: Sequence[Sequence[Fact]], rng: random.Random
) -> None:
    """Running text, a page for each part: its facts among sentences that answer nothing."""
    filler = rng.sample(words()["filler"], len(words()["filler"]))
    for number, facts in enumerate(parts, start=1):
        canvas.setPageSize(A4)
        top = _heading(canvas, organisation.name, f"Notes for those who work with us, {number}")
        width = A4[0] - 2 * _MARGIN
        if rng.random() < _EMBLEM_SHARE:
            height = rng.uniform(60, 170)
            _emblem(canvas, rng, (_MARGIN, top - height), (width, height))
            top -= height + 16
        sentences = [_filler(one, rng) for one in filler[number - 1 :: len(parts)]]
        for paragraph in _paragraphs(organisation, facts, sentences, rng):
            top = _set_lines(canvas, paragraph, ("Helvetica", 11, 15), top, width) - 7
        canvas.showPage()


def _paragraphs(
    organisation: Organisation, facts: Sequence[Fact], filler: list[str], rng: random.Random
) -> Iterator[str]:
    sentences = list(filler)
    for fact in rng.sample(facts, len(facts)):
        sentences.insert(rng.randrange(1, len(sentences)), fact.statement)
    opening = f"{organisation.name} has put together what happened in the past years."
    sentences = [opening, *sentences]
    size = rng.choice((4, 5, 6))
    for begin in range(0, len(sentences), size):
        yield " ".join(sentences[begin : begin + size])


def _filler(sentence: str, rng: random.Random) -> str:
    return sentence.format(
        person=person(rng), person2=person(rng), town=rng.choice(words()["names"]["towns"])
    )


def draw_table_page(canvas: Canvas, organisation: Organisation) -> None:
    """One page with the organisation's item list and the figures that stand in tables."""
    canvas.setPageSize(A4)
    items = organisation.items
    top = _heading(canvas, organisation.name, f"Item list {items[0].year}")
    top = _draw_table(canvas, _item_rows(items), top)
    for series in organisation.table_series:
        top = _draw_table(canvas, _series_rows(series), top - 28)
    canvas.showPage()


def _item_rows(items: Sequence[Item]) -> list[list[str]]:
    return [["Code", *words()["records"]["columns"]], *([one.code, *one.cells] for one in items)]


def _series_rows(series: Series) -> list[list[str]]:
    return [
        ["", *map(str, series.years)],
        [f"{series.topic}, {series.unit}", *(series.value(year) for year in series.years)],
    ]


def _draw_table(canvas: Canvas, rows: list[list[str]], top: float) -> float:
    """Draw a table below ``top`` and return its lower edge."""
    from reportlab.platypus import Table

    table = Table(rows, rowHeights=23, hAlign="LEFT")
    table.setStyle(
        [
            ("FONT", (0, 0), (-1, -1), "Helvetica", 10),
            ("FONT", (0, 0), (-1, 0), "Helvetica-Bold", 10),
            ("LINEBELOW", (0, 0), (-1, -1), 0.5, "#999999"),
            ("LINEABOVE", (0, 0), (-1, 0), 1, _INK),
        ]
    )
    _, height = table.wrapOn(canvas, A4[0] - 2 * _MARGIN, A4[1])
    table.drawOn(canvas, _MARGIN, top - height)
    return float(top - height)


def draw_chart_slide(
    canvas: Canvas, series: Series, owner: str, number: int, rng: random.Random
) -> None:
    """One slide: a chart as a picture, and a footer of text that says nothing of it."""
    canvas.setPageSize(SLIDE)
    picture = draw_chart(series, owner, rng.choice(FORMS), rng.choice(COLOURS))
    height = rng.uniform(0.7, 0.92) * (SLIDE[1] - 30)
    width = height * 6.4 / 3.8
    left = rng.uniform(0.1, 0.9) * (SLIDE[0] - width)
    canvas.drawImage(_image(picture), left, 24 + (SLIDE[1] - 30 - height) / 2, width, height)
    canvas.setFont("Helvetica", 9)
    canvas.drawString(24, 12, "For internal discussion")
    canvas.drawRightString(SLIDE[0] - 24, 12, f"Slide {number}")
    canvas.showPage()


def draw_typed_page(canvas: Canvas, organisation: Organisation, rng: random.Random) -> None:
    """One typed page with stamp and signature, as it lies on the scanner."""
    canvas.setPageSize(A4)
    canvas.setFillColor(_INK)
    canvas.setFont("Courier-Bold", 15)
    canvas.drawString(_MARGIN + 15, A4[1] - 90, organisation.name)
    canvas.setFont("Courier", 12)
    canvas.drawString(_MARGIN + 15, A4[1] - 112, f"Folder {rng.randrange(10, 90)}, abstract")
    top = A4[1] - 160
    for fact in organisation.facts_on("scan"):
        width = A4[0] - 2 * _MARGIN - 20
        top = (
            _set_lines(canvas, entry(fact, organisation), ("Courier", 12, 19), top, width, 15) - 16
        )
    canvas.drawString(_MARGIN + 15, top - 30, f"Copied by {person(rng)}")
    canvas.setStrokeColor("#555577")
    canvas.setLineWidth(2.5)
    canvas.circle(A4[0] - 140, top - 60, 34)
    canvas.showPage()


def entry(fact: Fact, organisation: Organisation) -> str:
    """Return what a typed page says of a fact: whose it is, then the statement."""
    return f"{organisation.name}: {fact.statement[0].lower()}{fact.statement[1:]}"


def draw_picture_page(canvas: Canvas, picture: bytes) -> None:
    """One A4 page that is nothing but a picture (PNG or JPEG), as a scanner writes it."""
    canvas.setPageSize(A4)
    canvas.drawImage(_image(picture), 0, 0, *A4)
    canvas.showPage()


def _heading(canvas: Canvas, title: str, subtitle: str) -> float:
    """Draw title and subtitle and return where the text below may begin."""
    canvas.setFillColor(_INK)
    canvas.setFont("Helvetica-Bold", 19)
    canvas.drawString(_MARGIN, A4[1] - 80, title)
    canvas.setFont("Helvetica", 13)
    canvas.drawString(_MARGIN, A4[1] - 102, subtitle)
    return A4[1] - 128


def _set_lines(
    canvas: Canvas,
    text: str,
    font: tuple[str, float, float],
    top: float,
    width: float,
    indent: float = 0,
) -> float:
    """Set ``text`` in lines below ``top`` and return its foot; font: name, size, step."""
    from reportlab.lib.utils import simpleSplit

    name, size, step = font
    canvas.setFont(name, size)
    for line in simpleSplit(text, name, size, width):
        top -= step
        canvas.drawString(_MARGIN + indent, top, line)
    return top


def _emblem(
    canvas: Canvas, rng: random.Random, corner: tuple[float, float], size: tuple[float, float]
) -> None:
    """Draw a picture of coloured discs, which means nothing."""
    from PIL import Image, ImageDraw

    width, height = (round(2 * side) for side in size)
    picture = Image.new("RGB", (width, height), "#eef0f4")
    pen = ImageDraw.Draw(picture)
    for _ in range(7):
        radius = rng.randrange(height // 8, height // 2)
        across, down = rng.randrange(width), rng.randrange(height)
        box = (across - radius, down - radius, across + radius, down + radius)
        pen.ellipse(box, fill=rng.choice(COLOURS))
    stream = io.BytesIO()
    picture.save(stream, "PNG")
    canvas.drawImage(_image(stream.getvalue()), *corner, *size)


def _image(picture: bytes) -> Any:
    from reportlab.lib.utils import ImageReader

    return ImageReader(io.BytesIO(picture))
