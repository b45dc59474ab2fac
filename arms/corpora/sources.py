"""From a dataset's settings to the files that hold it: its own, or converted ones."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from arms.corpora.beir import BeirFolder, find_corpus, find_folder, find_judged
from arms.corpora.density import density_of
from arms.corpora.hub import MEDIA, TABLES, download
from arms.corpora.media import PageMaker
from arms.corpora.page_folder import convert_pdfs, convert_pictures
from arms.corpora.page_tables import convert_tables
from arms.corpora.problems import Problems
from arms.progress import Progress
from arms.settings import DatasetSettings


@dataclass(frozen=True)
class Source:
    """Where a dataset lies, and what is known to be wrong with it before its lines are read."""

    folder: Path
    """May hold ``queries.jsonl`` and ``qrels/``."""
    pages: PageMaker
    converted: Path | None = None
    """The corpus file, where it doesn't lie in ``folder``."""
    found: tuple[tuple[str, str], ...] = ()

    def corpus(self) -> Path:
        """Return the corpus file; raise ``CorpusError`` where there is none."""
        return self.converted or find_corpus(self.folder)

    def files(self) -> BeirFolder:
        """Return corpus, queries and judgements; raise ``CorpusError`` naming what is missing."""
        if self.converted is None:
            return find_folder(self.folder)
        queries, qrels = find_judged(self.folder)
        return BeirFolder(self.converted, queries, qrels)

    def problems(self) -> Problems:
        """Return a new collection of problems that begins with what was found."""
        problems = Problems()
        for kind, example in self.found:
            problems.add(kind, example)
        return problems


def locate(settings: DatasetSettings, progress: Progress | None = None) -> Source:
    """Return the dataset's files; download and convert them first where needed.

    Raises:
        CorpusError: they are absent, of another format, or can't be fetched.
        SettingsError: the density's layout model can't be imported.
        MissingExtraError: the format needs a package that isn't installed.
    """
    density = density_of(settings.density)
    path = settings.path if settings.hub is None else download(settings.hub, _patterns(settings))
    if settings.format == "beir":
        return Source(path, PageMaker(path, settings.dpi, density))
    image_root, judged = None, path
    if settings.format == "pdf":
        converted = convert_pdfs(path, settings.documents, progress)
    elif settings.format == "images":
        converted = convert_pictures(path)
    else:
        converted = convert_tables(path, settings.tables, settings.fields, progress)
        image_root = judged = converted.folder
    pages = PageMaker(path, settings.dpi, density, image_root)
    return Source(judged, pages, converted.folder / "corpus.jsonl", converted.problems)


def _patterns(settings: DatasetSettings) -> list[str]:
    """Globs of the files to fetch: named tables and media beside them, or all tables and media."""
    if settings.format != "vidore" or not settings.tables:
        return [*TABLES, *MEDIA]
    tables = list(settings.tables.values())
    if not {"pdf", "image"} & settings.fields.keys():
        return tables
    folders = {_static_folder(glob) for glob in tables}
    return [*tables, *(f"{folder}{suffix}" for folder in sorted(folders) for suffix in MEDIA)]


def _static_folder(glob: str) -> str:
    """Return the folder that all matches lie in: what stands before the first wildcard."""
    return glob[: re.search(r"[*?\[]|$", glob).start()].rpartition("/")[0] + "/"  # type: ignore[union-attr]
