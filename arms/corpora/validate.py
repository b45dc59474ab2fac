"""One pass over a BEIR folder that finds every problem before anything costly is begun."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from arms.corpora.beir import BeirFolder, parse_document, parse_query
from arms.corpora.lines import decode, numbered_lines
from arms.corpora.media import PageMaker, media_name
from arms.corpora.pdf import MediaError
from arms.corpora.problems import LineError, Problems
from arms.errors import CorpusError
from arms.records import Document, Qrels, Query
from arms.text_form import KnownIds, code_points, composed, is_visible, normalised_text

MEDIA_FIELDS = ("image", "pdf", "table", "video", "audio")
"""Metadata that names a file: a document with one may have no text."""

_HEADER_WORDS = {"score", "grade", "relevance", "rel", "label"}

Record = TypeVar("Record", Document, Query)
Grades = dict[str, dict[str, int]]


@dataclass
class CheckedCorpus:
    """What the corpus file holds: the ids that can be used and the lines that can't."""

    doc_ids: set[str] = field(default_factory=set)
    excluded_lines: set[int] = field(default_factory=set)


@dataclass(frozen=True)
class CheckedFolder:
    """A folder's usable content, and all that is wrong with the rest."""

    excluded_lines: frozenset[int]
    """Numbers of the corpus file's unusable lines."""
    queries: tuple[Query, ...]
    """In file order; each has at least one relevant document that is there."""
    qrels: Qrels
    """Of these queries, in their order; only documents that are there."""
    own_documents: frozenset[str]
    """Ids of queries that a document has too, and that isn't judged relevant to its query."""
    problems: Problems


def refuse(problems: Problems, name: str, strict: bool) -> None:
    """Raise ``CorpusError`` listing all problems: errors if ``strict``, else only with fatal ones.

    Notices are listed below the errors and never refuse by themselves.
    """
    if not problems.of("fatal") and not (strict and problems.of("error")):
        return
    listed = problems.describe("fatal", "error")
    notices = problems.describe("warning", "notice")
    advice = "Mend the files, or read with strict: false, which leaves the named items out."
    if problems.of("fatal"):
        advice = "Mend the files: nothing that can be measured is left of them."
    raise CorpusError(
        f"dataset '{name}' can't be used as it is:\n{listed}\n"
        + (f"also noticed, not refused:\n{notices}\n" if notices else "")
        + advice
    )


def check_folder(
    folder: BeirFolder, pages: PageMaker | None = None, problems: Problems | None = None
) -> CheckedFolder:
    """Walk corpus, queries and judgements once each, and the media; find all problems.

    Memory: the ids of all documents while checking, and the queries and judgements.
    What is found is added to ``problems``.
    A later item with an earlier one's id is unusable, the earlier one stands; so for judgements.
    """
    problems = problems or Problems()
    corpus = check_corpus(folder.corpus, problems, pages)
    queries = _check_queries(folder.queries, problems)
    grades: Grades = {query_id: {} for query_id in queries}
    known = _Judged(corpus.doc_ids, KnownIds(corpus.doc_ids), KnownIds(grades))
    for path in folder.qrels:
        _check_judgements(path, known, grades, problems)
    judged = [query for query in queries.values() if _has_relevant(query, grades, problems)]
    _notice_same_texts(judged, problems)
    if not judged:
        problems.add("no_query", "")
    qrels = {query.query_id: grades[query.query_id] for query in judged}
    own = frozenset(
        query_id
        for query_id, of_query in qrels.items()
        if query_id in corpus.doc_ids and of_query.get(query_id, 0) == 0
    )
    return CheckedFolder(frozenset(corpus.excluded_lines), tuple(judged), qrels, own, problems)


def check_corpus(path: Path, problems: Problems, pages: PageMaker | None = None) -> CheckedCorpus:
    """Walk the corpus file once, and the media that it names, adding to ``problems``.

    A document whose file can't be used stays where it has text, without a page.
    """
    found = CheckedCorpus()
    media, forms = _MediaCheck(pages), _Forms()
    for number, document in _parsed(path, parse_document, problems):
        place = f"{path.name}:{number}"
        usable = document is not None and _usable(document, place, media, problems)
        if document is None or not usable:
            found.excluded_lines.add(number)
        elif document.doc_id in found.doc_ids:
            problems.add("duplicate_document_id", f"{place}: '{document.doc_id}'")
            found.excluded_lines.add(number)
        elif earlier := forms.earlier(document.doc_id):
            problems.add("ids_differ_in_form", _alike(place, earlier, document.doc_id))
            found.excluded_lines.add(number)
        else:
            found.doc_ids.add(document.doc_id)
    media.report(problems)
    if not found.doc_ids:
        problems.add("no_document", path.name)
    return found


class _MediaCheck:
    """Gathers what is wrong with media, so that a file is named once, however many name it."""

    def __init__(self, pages: PageMaker | None) -> None:
        self._pages = pages
        self._places: dict[tuple[str, str], list[str]] = {}

    def usable(self, document: Document, place: str) -> bool:
        """Whether the document's media, if it names any, can be used."""
        try:
            if self._pages is not None:
                self._pages.pages(document.metadata)
        except MediaError as problem:
            example = f"{media_name(document.metadata)}: {problem}"
            self._places.setdefault((problem.kind, example), []).append(place)
            return False
        return True

    def report(self, problems: Problems) -> None:
        """Add what was found."""
        for (kind, example), places in self._places.items():
            more = f" and {len(places) - 1} more" if len(places) > 1 else ""
            problems.add(kind, f"{example} ({places[0]}{more})", len(places))


def _parsed(
    path: Path, parse: Callable[[bytes], Record], problems: Problems
) -> Iterator[tuple[int, Record | None]]:
    """Yield each line's number and record, or None in place of a record that can't be read."""
    for number, line in numbered_lines(path):
        try:
            yield number, parse(line)
        except LineError as error:
            problems.add(error.kind, f"{path.name}:{number}: {error}")
            yield number, None


def _usable(document: Document, place: str, media: _MediaCheck, problems: Problems) -> bool:
    has_media = media.usable(document, place)
    if document.text.strip():
        return True
    example = f"{place}: '{document.doc_id}'"
    if document.title.strip():
        problems.add("document_with_title_only", example)
    elif not has_media:
        return False
    elif any(document.metadata.get(name) for name in MEDIA_FIELDS):
        problems.add("document_without_text", example)
    else:
        problems.add("empty_document", example)
        return False
    return True


def _check_queries(path: Path, problems: Problems) -> dict[str, Query]:
    queries: dict[str, Query] = {}
    forms = _Forms()
    line_of: dict[str, int] = {}
    for number, query in _parsed(path, parse_query, problems):
        if query is None:
            continue
        example = f"{path.name}:{number}: '{query.query_id}'"
        if not is_visible(query.text):
            problems.add("empty_query", example)
        elif query.query_id in queries:
            first = line_of[query.query_id]
            problems.add("duplicate_query_id", f"{example}, as line {first}")
        elif earlier := forms.earlier(query.query_id):
            place = f"{path.name}:{number}"
            problems.add("ids_differ_in_form", _alike(place, earlier, query.query_id))
        else:
            queries[query.query_id] = query
            line_of[query.query_id] = number
    return queries


class _Forms:
    """Ids so far by their composed form: two that differ in nothing else look the same."""

    def __init__(self) -> None:
        self._first: dict[str, str] = {}

    def earlier(self, identifier: str) -> str | None:
        """Return the earlier id that differs from this one in its Unicode form alone."""
        if identifier.isascii():
            return None
        first = self._first.setdefault(composed(identifier), identifier)
        return None if first == identifier else first


def _alike(place: str, earlier: str, later: str) -> str:
    return f"{place}: {code_points(later)}, after {code_points(earlier)}"


@dataclass(frozen=True)
class _Judged:
    """What judgements may name."""

    doc_ids: set[str]
    documents: KnownIds
    queries: KnownIds


def _check_judgements(path: Path, known: _Judged, grades: Grades, problems: Problems) -> None:
    first = True
    for number, line in numbered_lines(path):
        try:
            columns = decode(line).rstrip("\r\n").split("\t")
            if not (first and _is_header(columns)):
                _add_judgement(columns, known, grades)
        except JudgementError as errors:
            for kind, detail in errors.found:
                problems.add(kind, f"qrels/{path.name}:{number}: {detail}")
        except LineError as error:
            problems.add(error.kind, f"qrels/{path.name}:{number}: {error}")
        first = False


def _is_header(columns: list[str]) -> bool:
    return columns[-1].strip().casefold() in _HEADER_WORDS


class JudgementError(CorpusError):
    """All that is wrong with one judgement: ``(kind, detail)`` pairs."""

    def __init__(self, found: list[tuple[str, str]]) -> None:
        super().__init__("; ".join(detail for _, detail in found))
        self.found = found


def _add_judgement(columns: list[str], known: _Judged, grades: Grades) -> None:
    if len(columns) != 3:
        raise LineError("malformed_judgement", f"expected 3 columns, got {len(columns)}")
    query_id, doc_id, written = columns
    grade = _grade(written)
    found: list[tuple[str, str]] = []
    if grade is None:
        found.append(("bad_grade", f"'{written}'"))
    if query_id not in grades:
        found.append(_absent("judgement_of_absent_query", query_id, known.queries))
    if doc_id not in known.doc_ids:
        found.append(_absent("judgement_of_absent_document", doc_id, known.documents))
    earlier = grades.get(query_id, {}).get(doc_id)
    if grade is not None and earlier is not None:
        kind = "repeated_judgement" if earlier == grade else "conflicting_judgement"
        found.append((kind, f"'{query_id}' '{doc_id}': {earlier}, then {grade}"))
    if found or grade is None:
        raise JudgementError(found)
    grades[query_id][doc_id] = grade


def _absent(kind: str, named: str, known: KnownIds) -> tuple[str, str]:
    """Return the kind of problem and what to tell of an id that isn't there, as it is written."""
    stored = known.in_other_form(named)
    if stored is None:
        return kind, f"'{named}'"
    return "id_of_other_form", f"{code_points(named)}; it is there as {code_points(stored)}"


def _grade(written: str) -> int | None:
    """Return the grade, or None where it is not an integer of 0 or more ('2.0' is 2)."""
    try:
        value = math.nan if "_" in written else float(written)  # Python reads 1_0 as 10
        return int(value) if value >= 0 and value.is_integer() else None
    except (ValueError, OverflowError):
        return None


def _has_relevant(query: Query, grades: Grades, problems: Problems) -> bool:
    if any(grade > 0 for grade in grades[query.query_id].values()):
        return True
    problems.add("query_without_judgement", f"'{query.query_id}'")
    return False


def _notice_same_texts(queries: list[Query], problems: Problems) -> None:
    """Equal but for case and white space; the split keeps such queries on one side."""
    by_text: dict[str, list[str]] = {}
    for query in queries:
        by_text.setdefault(normalised_text(query.text), []).append(query.query_id)
    for ids in by_text.values():
        if len(ids) > 1:
            shown = ", ".join(f"'{query_id}'" for query_id in ids[:3])
            problems.add("same_query_text", shown, amount=len(ids))
