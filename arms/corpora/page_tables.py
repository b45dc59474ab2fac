"""Page collections in tables, as ViDoRe and MTEB publish them, as BEIR files in the cache.

Either three tables, ``corpus`` (id, picture, text), ``queries`` and ``qrels``, or one whose every
row is a query with its page. Rows are Parquet, JSON lines or tab-separated. A picture is
``{"bytes": …, "path": …}``, bytes, base64 text in JSON, or the path of a file; it is written once
per content. Layout: https://huggingface.co/vidore and MTEB's retrieval tasks.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from arms.corpora.beir import QRELS_HEADER
from arms.corpora.converted import Converted, Found, RecordWriter, convert, file_states
from arms.corpora.folder_walk import files_below
from arms.corpora.lines import writing
from arms.corpora.media import inside
from arms.corpora.pdf import MediaError
from arms.corpora.rows import Fields, Row, find_tables, read_rows
from arms.errors import CorpusError
from arms.progress import Progress, SilentProgress
from arms.read_errors import why_absent
from arms.settings import FieldName, TableName
from arms.text_form import is_visible, normalised_text

_MAGIC = (
    (b"\x89PNG", ".png"),
    (b"\xff\xd8\xff", ".jpg"),
    (b"GIF8", ".gif"),
    (b"II*\x00", ".tif"),
    (b"MM\x00*", ".tif"),
    (b"BM", ".bmp"),
)
_LONGEST_PATH = 1024
"""Longer text is a picture in base64."""


def convert_tables(
    folder: Path,
    globs: Mapping[TableName, str],
    fields: Mapping[FieldName, str],
    progress: Progress | None = None,
) -> Converted:
    """Write the tables as ``corpus.jsonl``, ``queries.jsonl``, ``qrels/all.tsv`` and ``images/``.

    Args:
        folder: below which the tables lie.
        globs: table → glob below ``folder``, for tables that don't lie where they are looked for.
        fields: field → column or template, for fields with other names.

    Raises:
        CorpusError: the folder is absent or holds no table.
    """
    if not folder.is_dir():
        raise CorpusError(
            f"{why_absent(folder, 'folder')}; give a folder of corpus, queries and qrels"
        )
    tables = find_tables(folder, globs)
    if "rows" not in tables and "corpus" not in tables:
        looked = ", ".join(globs.values()) or "*.parquet, *.jsonl"
        raise CorpusError(f"{folder} should hold tables of pages ({looked}); got none")
    files = [path for paths in tables.values() for path in paths]

    def write(target: Path) -> list[Found]:
        (target / "qrels").mkdir()
        (target / "images").mkdir()
        with (
            writing(target / "corpus.jsonl") as corpus,
            writing(target / "queries.jsonl") as queries,
            (progress or SilentProgress()).task(f"tables of {folder.name}", len(files)) as task,
        ):
            conversion = _Conversion(
                folder, target, fields, RecordWriter(corpus), RecordWriter(queries)
            )
            for name, paths in tables.items():
                for path in paths:
                    conversion.add_table(name, path)
                    task.advance()
        conversion.write_judgements()
        return [*conversion.problems, *links]

    links = files_below(folder)[1]
    state = [sorted(globs.items()), sorted(fields.items()), file_states(folder, files), links]
    return convert("tables", state, write)


@dataclass
class _Conversion:
    """Memory: ids of documents, the judgements, and of tables of rows the texts of queries."""

    source: Path
    target: Path
    fields: Mapping[FieldName, str]
    corpus: RecordWriter
    queries: RecordWriter
    problems: list[Found] = field(default_factory=list)
    _documents: set[str] = field(default_factory=set)
    _judgements: list[tuple[str, str, str]] = field(default_factory=list)
    _used: set[str] = field(default_factory=set)
    _query_of_text: dict[str, str] = field(default_factory=dict)
    """Of tables of rows: normalised text → query id."""
    _n_rows: int = 0

    def write_judgements(self) -> None:
        """Write the judgements of all tables.

        Raises:
            CorpusError: a given field is in none of the tables.
        """
        unused = set(self.fields) - self._used - {"positive_id"}
        if unused:
            named = ", ".join(f"{one}: {self.fields[one]}" for one in sorted(unused))
            raise CorpusError(f"no table of {self.source} has the columns of the fields {named}")
        with writing(self.target / "qrels" / "all.tsv") as stream:
            stream.write(QRELS_HEADER.encode())
            for row in self._judgements:
                stream.write(("\t".join(map(_plain, row)) + "\n").encode("utf-8", "replace"))

    def add_table(self, table: TableName, path: Path) -> None:
        """Add one file's rows; a damaged file is named and its remaining rows are left out."""
        name = path.relative_to(self.source).as_posix()
        fields = Fields(table, self.fields)
        try:
            looked_at = False
            for number, row in read_rows(path):
                if isinstance(row, MediaError):
                    self.problems.append((row.kind, f"{name}: {row}"))
                    continue
                if not looked_at:
                    self._look_at(fields, row)
                    looked_at = True
                empty = fields.empty_keys(row)
                if empty:
                    place = f"{name}: row {number}: {', '.join(empty)}"
                    self.problems.append(("empty_key", place))
                    continue
                self._add(table, fields, row, path)
        except MediaError as problem:
            self.problems.append((problem.kind, f"{name}: {problem}"))

    def _look_at(self, fields: Fields, row: Row) -> None:
        """Check the columns of a table's first row."""
        self._used |= fields.used(row)
        if missing := fields.missing(row):
            raise MediaError(
                "damaged_table",
                f"lacks {', '.join(missing)}; it has {', '.join(row)}; set 'fields'",
            )

    def _add(self, table: TableName, fields: Fields, row: Row, path: Path) -> None:
        self._n_rows += 1
        if table == "qrels":
            self._judge(
                fields.text(row, "query_id"),
                fields.text(row, "document_id"),
                fields.text(row, "grade") if fields.has(row, "grade") else 1,
            )
        elif table == "queries":
            self._add_query(fields, row, fields.text(row, "query_id"))
        elif table == "corpus":
            self._add_document(fields, row, path)
        else:
            doc_id = self._add_document(fields, row, path)
            if is_visible(fields.text(row, "query")):
                self._judge(self._query_of(fields, row, path), doc_id, 1)

    def _query_of(self, fields: Fields, row: Row, path: Path) -> str:
        """Return the id of the row's query; rows of one query text are one query."""
        text = normalised_text(fields.text(row, "query"))
        earlier = self._query_of_text.get(text)
        if earlier is not None:
            example = f"{path.relative_to(self.source).as_posix()}: '{earlier}': {text[:60]}"
            self.problems.append(("rows_of_one_query", example))
            return earlier
        query_id = fields.text(row, "query_id") or f"q{self._n_rows:06d}"
        self._query_of_text[text] = query_id
        self._add_query(fields, row, query_id)
        return query_id

    def _judge(self, query_id: str, doc_id: str, grade: Any) -> None:
        self._judgements.append((query_id, doc_id, str(grade)))

    def _add_query(self, fields: Fields, row: Row, query_id: str) -> None:
        positives = fields.value(row, "positives")
        for one in positives if isinstance(positives, list) else ():
            document = Fields(fields.table, {"positive_id": self.fields.get("positive_id", "")})
            named = one if isinstance(one, str) else document.text(one, "positive_id")
            self._judge(query_id, named, 1)
        self.queries.add(query_id, fields.text(row, "query"), _plain_values(row))

    def _add_document(self, fields: Fields, row: Row, path: Path) -> str:
        """Write the row's document, unless another row with its id did, and return its id."""
        doc_id = fields.text(row, "document_id")
        if doc_id and fields.table == "rows" and doc_id in self._documents:
            return doc_id
        metadata: dict[str, Any] = {}
        try:
            metadata |= self._picture(fields.value(row, "image"), path)
        except MediaError as problem:
            name = path.relative_to(self.source).as_posix()
            self.problems.append((problem.kind, f"{name}: '{doc_id}': {problem}"))
        if named := fields.text(row, "pdf"):
            metadata["pdf"] = _below(self.source, path.parent, named)
            page = fields.value(row, "page")
            if page is not None:
                written = fields.text(row, "page")
                metadata["page"] = int(written) if written.isdecimal() else page
        doc_id = doc_id or Path(str(metadata.get("image", self._n_rows))).stem
        if fields.table == "rows" and doc_id in self._documents:
            return doc_id
        self._documents.add(doc_id)
        text = fields.value(row, "text")
        self.corpus.add(
            doc_id, text if isinstance(text, str) else "", metadata, fields.text(row, "title")
        )
        return doc_id

    def _picture(self, value: Any, table: Path) -> dict[str, str]:
        content = _picture_bytes(value, self.source, table.parent)
        if content is None:
            return {}
        suffix = next((suffix for magic, suffix in _MAGIC if content.startswith(magic)), ".img")
        if content[8:12] == b"WEBP":
            suffix = ".webp"
        name = f"images/{hashlib.sha256(content).hexdigest()}{suffix}"
        if not (self.target / name).is_file():
            (self.target / name).write_bytes(content)
        return {"image": name}


def _picture_bytes(value: Any, root: Path, folder: Path) -> bytes | None:
    """Return a picture's bytes, from wherever the row keeps them; None where it has none."""
    if isinstance(value, Mapping):
        content = value.get("bytes")
        if isinstance(content, str):
            return _decoded(content)
        return _picture_bytes(content if content is not None else value.get("path"), root, folder)
    if value is None or isinstance(value, bytes):
        return value
    if not isinstance(value, str):
        raise MediaError("bad_media_reference", f"expected a picture, got {value!r:.40}")
    if len(value) > _LONGEST_PATH or value.startswith("data:"):
        return _decoded(value)
    return inside(root, _below(root, folder, value)).read_bytes()


def _decoded(value: str) -> bytes:
    try:
        return base64.b64decode(value.partition("base64,")[2] or value, validate=True)
    except binascii.Error as error:
        raise MediaError("bad_media_reference", f"is no base64 text: {error}") from error


def _below(root: Path, folder: Path, named: str) -> str:
    """Return ``named``, which is relative to ``folder`` or to ``root``, relative to ``root``."""
    beside = folder / named
    if beside.exists() and beside.resolve().is_relative_to(root.resolve()):
        return beside.relative_to(root).as_posix()
    return named


def _plain(value: str) -> str:
    return value.replace("\t", " ").replace("\n", " ").replace("\r", " ")


def _plain_values(row: Row) -> dict[str, Any]:
    """The row's values that JSON can hold, short ones: they label reports."""
    return dict(_kept(row))


def _kept(row: Row) -> Iterator[tuple[str, Any]]:
    for name, value in row.items():
        try:
            if value is not None and len(json.dumps(value)) <= 2000:
                yield name, value
        except (TypeError, ValueError):
            continue
