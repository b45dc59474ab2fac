"""BEIR folders: ``corpus.jsonl``, ``queries.jsonl``, ``qrels/*.tsv``, plain or gzipped.

A corpus line is ``{"_id", "title", "text", "metadata"}``; title and metadata may be left out. A
query line is ``{"_id", "text", "metadata"}``. Judgements are tab-separated: query id, document id,
integer grade, below a header line. Layout: Thakur et al., BEIR (arXiv 2104.08663), and its code.

Metadata may name media below the folder: ``pdf`` with ``page`` (from 1), ``pdf`` alone (all its
pages), or ``image``. They become the document's pages.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from arms.atomic import atomic_folder
from arms.corpora.corpus import Corpus, Dataset
from arms.corpora.lines import decode, numbered_lines, writing
from arms.corpora.media import PageMaker
from arms.corpora.pdf import MediaError
from arms.corpora.problems import LineError
from arms.errors import CorpusError
from arms.read_errors import why_absent
from arms.records import Document, Query

QRELS_HEADER = "query-id\tcorpus-id\tscore\n"


@dataclass(frozen=True, slots=True)
class BeirFolder:
    """The files of one BEIR folder. A plain file is preferred to its gzipped namesake."""

    corpus: Path
    queries: Path
    qrels: tuple[Path, ...]


def find_corpus(folder: Path) -> Path:
    """Return ``corpus.jsonl`` or ``corpus.jsonl.gz``; raise ``CorpusError`` without one."""
    path = _find(folder, "corpus.jsonl")
    if path is None:
        raise CorpusError(f"{folder} should hold corpus.jsonl or corpus.jsonl.gz; got neither")
    return path


def find_folder(folder: Path) -> BeirFolder:
    """Return the folder's files; raise ``CorpusError`` that names all that are missing."""
    if not folder.is_dir():
        raise CorpusError(f"{why_absent(folder, 'folder')}; give a folder with corpus.jsonl")
    corpus = _find(folder, "corpus.jsonl")
    queries, qrels = _find(folder, "queries.jsonl"), _qrels(folder)
    named = (("corpus.jsonl", corpus), ("queries.jsonl", queries), ("qrels/*.tsv", qrels))
    missing = [name for name, found in named if not found]
    if missing or corpus is None or queries is None:
        hint = "" if corpus is None else "; l2r queries makes labelled queries from a corpus"
        raise CorpusError(f"{folder} lacks {', '.join(missing)} (plain or .gz){hint}")
    return BeirFolder(corpus, queries, qrels)


def find_judged(folder: Path) -> tuple[Path, tuple[Path, ...]]:
    """Return queries and judgements that lie in ``folder``; raise ``CorpusError`` without them."""
    queries, qrels = _find(folder, "queries.jsonl"), _qrels(folder)
    if queries is None or not qrels:
        named = (("queries.jsonl", queries), ("qrels/*.tsv", qrels))
        raise CorpusError(
            f"{folder} lacks {', '.join(name for name, found in named if not found)} (plain or "
            ".gz); l2r queries makes labelled queries from a corpus"
        )
    return queries, qrels


def _qrels(folder: Path) -> tuple[Path, ...]:
    return tuple(sorted([*folder.glob("qrels/*.tsv"), *folder.glob("qrels/*.tsv.gz")]))


def _find(folder: Path, name: str) -> Path | None:
    return next((p for p in (folder / name, folder / f"{name}.gz") if p.is_file()), None)


def parse_document(line: bytes) -> Document:
    """Read one corpus line; raise ``LineError`` that names the kind of problem.

    An empty text passes: whether that is a problem depends on the title and the media.
    """
    record = _record(line)
    text = _text_field(record, "text")
    title = "" if record.get("title") is None else _text_field(record, "title")
    return Document(_identifier(record), title, text, _metadata(record))


def parse_query(line: bytes) -> Query:
    """Read one query line; raise ``LineError`` that names the kind of problem."""
    record = _record(line)
    return Query(_identifier(record), _text_field(record, "text"), _metadata(record))


def _record(line: bytes) -> dict[str, Any]:
    text = decode(line).rstrip("\r\n")
    try:
        record = json.loads(text)
    except RecursionError as error:
        raise LineError("malformed_json", "nested too deeply") from error
    except json.JSONDecodeError as error:
        raise LineError("malformed_json", f"{error.msg} at column {error.colno}") from error
    except ValueError as error:  # an integer of thousands of digits
        raise LineError("malformed_json", str(error)) from error
    if not isinstance(record, dict):
        raise LineError("malformed_json", f"expected an object, got {type(record).__name__}")
    if b"\\ud" in line or b"\\uD" in line:
        _refuse_lone_surrogates(record)
    return record


def _refuse_lone_surrogates(record: dict[str, Any]) -> None:
    """Half of a surrogate pair, escaped, is valid JSON and can't be written as UTF-8."""
    try:
        json.dumps(record, ensure_ascii=False).encode("utf-8")
    except UnicodeEncodeError as error:
        raise LineError("not_utf8", f"half a surrogate pair: {error.reason}") from error


def _identifier(record: dict[str, Any]) -> str:
    value = record.get("_id")
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    if not isinstance(value, str) or not value.strip():
        raise LineError("missing_field", _expected_text("_id", record))
    return value


def _text_field(record: dict[str, Any], name: str) -> str:
    value = record.get(name)
    if not isinstance(value, str):
        raise LineError("missing_field", _expected_text(name, record))
    return value


def _expected_text(name: str, record: dict[str, Any]) -> str:
    got = repr(record[name])[:40] if name in record else f"the fields {', '.join(record) or 'none'}"
    return f"expected text in '{name}', got {got}"


def _metadata(record: dict[str, Any]) -> dict[str, Any]:
    value = record.get("metadata")
    return value if isinstance(value, dict) else {}


class BeirCorpus(Corpus):
    """A corpus file, read anew on every walk: one document is in memory at a time.

    It holds only the numbers of the lines to leave out, which :mod:`arms.corpora.validate` finds.
    Ids are not checked here.
    """

    def __init__(
        self,
        path: Path,
        name: str,
        language: str = "english",
        excluded_lines: frozenset[int] = frozenset(),
        pages: PageMaker | None = None,
    ) -> None:
        """``pages`` makes the documents' pages; by default they have none."""
        self.path = path
        self.name = name
        self.language = language
        self._excluded_lines = excluded_lines
        self._pages = pages

    def __iter__(self) -> Iterator[Document]:
        """Yield the documents in file order.

        Raises:
            CorpusError: a line that is not left out is unusable; the message gives its number.
        """
        for number, line in numbered_lines(self.path):
            if number in self._excluded_lines:
                continue
            try:
                yield self._with_pages(parse_document(line))
            except LineError as error:
                raise CorpusError(f"{self.path}:{number}: {error.kind}: {error}") from error

    def _with_pages(self, document: Document) -> Document:
        """Unusable files are what :mod:`arms.corpora.validate` reports; here they give no page."""
        try:
            pages = self._pages.pages(document.metadata) if self._pages else ()
        except MediaError:
            return document
        return replace(document, pages=pages) if pages else document

    def __len__(self) -> int:
        return self._n_documents

    @cached_property
    def _n_documents(self) -> int:
        return sum(number not in self._excluded_lines for number, _ in numbered_lines(self.path))


def write_beir(dataset: Dataset, folder: Path, overwrite: bool = False) -> None:
    """Write the dataset as a BEIR folder, whole or not at all; it reads back equal.

    All judgements go to ``qrels/test.tsv``, the name that BEIR's own loader looks for. Files of the
    documents' pages are copied to ``media/``, named by content, where their metadata names them;
    dpi and density are settings of the reader and aren't written.

    Raises:
        CorpusError: ``folder`` holds something and ``overwrite`` is off, or an id holds a tab or
            a line break, which the judgements' format can't carry.
    """
    if not overwrite and folder.exists() and (folder.is_file() or any(folder.iterdir())):
        raise CorpusError(f"{folder} exists already; name another folder or allow overwriting")
    with atomic_folder(folder) as temporary:
        with writing(temporary / "corpus.jsonl") as stream:
            for document in dataset.corpus:
                media = _copy_media(document, temporary)
                stream.write(_line(_document_record(document, media)))
        with writing(temporary / "queries.jsonl") as stream:
            for query in dataset.queries:
                record = {"_id": query.query_id, "text": query.text}
                stream.write(_line({**record, "metadata": dict(query.metadata)}))
        (temporary / "qrels").mkdir()
        with writing(temporary / "qrels" / "test.tsv") as stream:
            stream.write(QRELS_HEADER.encode())
            for query_id, grades in dataset.qrels.items():
                for doc_id, grade in grades.items():
                    stream.write(f"{_plain(query_id)}\t{_plain(doc_id)}\t{grade}\n".encode())


def _copy_media(document: Document, folder: Path) -> dict[str, Any]:
    """Copy the file of the document's pages and return the metadata that names it."""
    if not document.pages:
        return {}
    first = document.pages[0]
    name = f"media/{first.sha256[:32]}{first.path.suffix.lower()}"
    (folder / "media").mkdir(exist_ok=True)
    if not (folder / name).is_file():
        shutil.copyfile(first.path, folder / name)
    if first.number is None:
        return {"pdf": None, "page": None, "image": name}
    numbers = [page.number for page in document.pages]
    return {"pdf": name, "page": numbers if len(numbers) > 1 else first.number, "image": None}


def _document_record(document: Document, media: dict[str, Any]) -> dict[str, Any]:
    metadata = {**document.metadata, **media}
    return {
        "_id": document.doc_id,
        "title": document.title,
        "text": document.text,
        "metadata": {k: v for k, v in metadata.items() if k not in media or v is not None},
    }


def _line(record: dict[str, Any]) -> bytes:
    return (json.dumps(record, ensure_ascii=False) + "\n").encode("utf-8")


def _plain(identifier: str) -> str:
    if any(mark in identifier for mark in "\t\r\n"):
        raise CorpusError(
            f"id {identifier!r} holds a tab or a line break; judgements can't name it"
        )
    return identifier
