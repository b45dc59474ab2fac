"""Folders of PDFs, and folders of page pictures, as BEIR files in the cache.

All files below the folder are taken, in the order of their paths; hidden ones are not. Links are
followed inside the folder, and named where they lead elsewhere. Labelled queries may lie beside
them in BEIR form: ``queries.jsonl`` and ``qrels/*.tsv``.
"""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from arms.corpora.converted import Converted, Found, RecordWriter, convert, file_states
from arms.corpora.folder_walk import files_below
from arms.corpora.lines import writing
from arms.corpora.media import inspect_pdf
from arms.corpora.pdf import MediaError, text_layers
from arms.corpora.pictures import count_frames
from arms.errors import CorpusError, MissingExtraError
from arms.progress import Progress, SilentProgress
from arms.read_errors import is_utf8, shown, why_absent

_SUFFIXES = ".png .jpg .jpeg .jfif .tif .tiff .webp .gif .bmp .jp2 .ppm .pgm"
PICTURES = frozenset(_SUFFIXES.split())
_MANY_FRAMES = frozenset((".tif", ".tiff"))
_NAMES = "queries.jsonl queries.jsonl.gz made_from.json readme readme.md readme.txt license"
_BESIDE = frozenset(_NAMES.split())

_SHOWN_LINKS = 5

Documents = Literal["page", "file"]


def convert_pdfs(folder: Path, documents: Documents, progress: Progress | None = None) -> Converted:
    """Write the PDFs' text layers as a corpus; a document is a page, or a whole file.

    Ids are ``<path without suffix>::p001``, … for pages and ``<path without suffix>`` for files. A
    page without text layer has an empty text: pictures are never read here. A whole file's text
    is its pages', an empty line between.

    Raises:
        CorpusError: the folder is absent or holds no PDF.
        MissingExtraError: pypdfium2 isn't installed.
    """
    paths, others = _files(folder, frozenset((".pdf",)), "PDF")

    def write(target: Path) -> list[Found]:
        problems: list[Found] = []
        with (
            writing(target / "corpus.jsonl") as stream,
            (progress or SilentProgress()).task(f"PDFs of {folder.name}", len(paths)) as task,
        ):
            corpus = RecordWriter(stream)
            for path in paths:
                _add_pdf(path, folder, documents, corpus, problems)
                task.advance()
        return [*problems, *others]

    state = [documents, file_states(folder, paths), others]
    return convert("pdf", state, write)


def _add_pdf(
    path: Path, folder: Path, documents: Documents, corpus: RecordWriter, problems: list[Found]
) -> None:
    name = path.relative_to(folder).as_posix()
    stem = name[: -len(path.suffix)]
    try:
        found = inspect_pdf(path)
        if found.n_pages is None:
            raise MissingExtraError("pypdfium2", "pages")
        texts = text_layers(path, found.sha256)
    except MediaError as problem:
        problems.append((problem.kind, f"{name}: {problem}"))
        return
    usable: dict[int, str] = {}
    for number, text in enumerate(texts, start=1):
        if isinstance(text, MediaError):
            problems.append((text.kind, f"{name}: {text}"))
            continue
        usable[number] = text
        if documents == "page":
            metadata = {"pdf": name, "page": number, "n_pages": len(texts)}
            corpus.add(f"{stem}::p{number:03d}", text, metadata)
    if documents == "file" and usable:
        text = "\n\n".join(filter(str.strip, usable.values()))
        corpus.add(stem, text, {"pdf": name, "page": list(usable), "n_pages": len(texts)})


def convert_pictures(folder: Path) -> Converted:
    """Write a corpus of documents without text, one a picture; the id is its path, no suffix.

    Raises:
        CorpusError: the folder is absent or holds no picture.
    """
    paths, others = _files(folder, PICTURES, "picture")

    def write(target: Path) -> list[Found]:
        problems: list[Found] = []
        with writing(target / "corpus.jsonl") as stream:
            corpus = RecordWriter(stream)
            for path in paths:
                name = path.relative_to(folder).as_posix()
                corpus.add(name[: -len(path.suffix)], "", {"image": name})
                n_frames = count_frames(path) if path.suffix.lower() in _MANY_FRAMES else 1
                if n_frames > 1:
                    problems.append(("more_frames", f"{name}: {n_frames} pages"))
        return [*problems, *others]

    return convert("images", [file_states(folder, paths), others], write)


def _files(folder: Path, suffixes: frozenset[str], kind: str) -> tuple[list[Path], list[Found]]:
    """Return the files with one of the suffixes, and notices of files of other kinds."""
    if not folder.is_dir():
        raise CorpusError(f"{why_absent(folder, 'folder')}; give a folder with {kind} files")
    wanted: list[Path] = []
    paths, others = files_below(folder)
    for path in paths:
        name = path.relative_to(folder).as_posix()
        if not is_utf8(name):
            others.append(("unreadable_name", shown(name)))
        elif path.suffix.lower() in suffixes:
            wanted.append(path)
        elif name.lower() not in _BESIDE and not name.startswith("qrels/"):
            others.append(("other_file", name))
    if not wanted:
        n_links = sum(kind != "other_file" for kind, _ in others)
        found = f"{len(others) - n_links} other files" if len(others) > n_links else "no file"
        if n_links:
            found += "; links that aren't followed: " + ", ".join(
                example for kind, example in others[:_SHOWN_LINKS] if kind != "other_file"
            )
        raise CorpusError(f"{folder} should hold {kind} files ({_some(suffixes)}); got {found}")
    return wanted, others


def _some(suffixes: frozenset[str]) -> str:
    return ", ".join(sorted(suffixes)[:8])
