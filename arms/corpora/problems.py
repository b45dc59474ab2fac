"""What can be wrong with a corpus, its queries or its judgements, collected before refusing."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Literal

from arms.errors import CorpusError

Severity = Literal["fatal", "error", "warning", "notice"]
"""fatal: always refused. error: refused when strict, else left out. warning: kept, and said aloud.
notice: kept, and told where something is refused."""

EXAMPLES_PER_KIND = 3
"""Of lines; of ``FILE_PROBLEMS`` every one is shown."""

FILE_PROBLEMS: dict[str, tuple[Severity, str]] = {
    "bad_media_reference": ("error", "pdf, page or image in a document's metadata is unusable"),
    "media_outside_folder": ("error", "a named file is not inside the dataset's folder"),
    "missing_media": ("error", "a named file is absent or can't be read"),
    "unreadable_name": ("error", "a file's name is not UTF-8; rename it"),
    "missing_page": ("error", "a named page is not in its PDF"),
    "empty_file": ("error", "a file has no byte"),
    "not_a_pdf": ("error", "a file is not a PDF"),
    "truncated_pdf": ("error", "a PDF stops before its end"),
    "encrypted_pdf": ("error", "a PDF can't be opened without a password"),
    "damaged_pdf": ("error", "a PDF can't be opened"),
    "pdf_without_pages": ("error", "a PDF has no page"),
    "unreadable_page": ("error", "a PDF's page can't be loaded"),
    "damaged_table": ("error", "a table of rows can't be read"),
    "dangling_link": ("warning", "a link leads nowhere; what it meant isn't read"),
    "link_outside_folder": (
        "warning",
        "a link leads outside the folder and isn't followed; copy what it means into the folder",
    ),
    "unusable_picture": ("error", "a picture can't be decoded, or is too large"),
}
"""What can be wrong with PDFs and pictures. Each is named: its owner must find the file."""

PROBLEM_KINDS: dict[str, tuple[Severity, str]] = {
    "no_document": ("fatal", "no usable document; a corpus needs at least one"),
    "no_query": ("fatal", "no usable query with a relevant document"),
    "malformed_json": ("error", "a line is not one JSON object"),
    "malformed_row": ("error", "a row has more or fewer cells than its table has columns"),
    "empty_key": ("error", "a row's cell is empty in a column of ids"),
    "missing_field": ("error", "a line lacks a field, or the field is not text"),
    "not_utf8": ("error", "a line is not UTF-8 text"),
    "duplicate_document_id": ("error", "a document has the id of an earlier one"),
    "duplicate_query_id": ("error", "a query has the id of an earlier one"),
    "ids_differ_in_form": (
        "error",
        "an id differs from an earlier one in Unicode form alone (composed or decomposed)",
    ),
    "id_of_other_form": (
        "error",
        "a judgement writes an id in another Unicode form (composed or decomposed); write it alike",
    ),
    "empty_document": ("error", "a document has neither text nor title nor media"),
    "empty_query": ("error", "a query has no visible character"),
    "malformed_judgement": ("error", "a line is not query-id, corpus-id, score with tabs between"),
    "bad_grade": ("error", "a grade is not an integer of 0 or more"),
    "conflicting_judgement": ("error", "a pair was judged before with another grade"),
    "judgement_of_absent_document": ("error", "a judged document is absent or left out"),
    "judgement_of_absent_query": ("error", "a judged query is absent or left out"),
    "query_without_judgement": ("error", "no document that is there is relevant to the query"),
    **FILE_PROBLEMS,
    "repeated_judgement": ("notice", "a pair was judged before with the same grade"),
    "same_query_text": ("notice", "queries that share their text with another id"),
    "document_with_title_only": ("notice", "a document has a title and no text"),
    "rows_of_one_query": (
        "warning",
        "rows have the query text of an earlier row and are one query with several pages",
    ),
    "link_to_known": ("notice", "a link leads to what is read already, and isn't read again"),
    "more_frames": ("notice", "a TIFF holds several pages, of which the first is read"),
    "other_file": ("notice", "a file is of a kind that isn't read"),
    "document_without_text": ("notice", "a document has media and no text"),
}
"""Kind → severity and description, in the order of a report."""


class LineError(CorpusError):
    """One line of a file is unusable; ``kind`` is a key of ``PROBLEM_KINDS``."""

    def __init__(self, kind: str, detail: str) -> None:
        super().__init__(detail)
        self.kind = kind


@dataclass
class Problems:
    """Counts of each kind of problem, with up to three examples of each, or all."""

    counts: Counter[str] = field(default_factory=Counter)
    examples: dict[str, list[str]] = field(default_factory=dict)

    def add(self, kind: str, example: str, amount: int = 1) -> None:
        """Record ``amount`` problems of one kind; the example says where and what."""
        self.counts[kind] += amount
        shown = self.examples.setdefault(kind, [])
        if kind in FILE_PROBLEMS or len(shown) < EXAMPLES_PER_KIND:
            shown.append(example)

    def of(self, *severities: Severity) -> dict[str, int]:
        """Return kind → count of the kinds with one of these severities, in report order."""
        return {
            kind: self.counts[kind]
            for kind, (severity, _) in PROBLEM_KINDS.items()
            if severity in severities and self.counts[kind]
        }

    def describe(self, *severities: Severity) -> str:
        """Return one line per kind: its name, count, description and examples."""
        return "\n".join(
            f"  {kind} ({count}): {PROBLEM_KINDS[kind][1]}"
            + "".join(f"\n    {example}" for example in self.examples[kind] if example)
            for kind, count in self.of(*severities).items()
        )
