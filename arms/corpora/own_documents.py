"""Queries that stand among the documents themselves, as in ArguAna: an argument is the query, and
the same argument, under the same id, is a document.

An arm finds that document first, and it is no answer; BEIR's evaluation leaves it out
(``ignore_identical_ids``). Ids may also be equal by chance, as numbers are: then texts differ.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Literal

from arms.corpora.corpus import Corpus
from arms.records import Document, Query
from arms.text_form import normalised_text

SAME_TEXT = 0.5
"""Share of the documents with a query's id that must have its text for it to be no chance."""


def without_own(
    wish: bool | Literal["auto"],
    corpus: Corpus,
    queries: Sequence[Query],
    candidates: Collection[str],
) -> frozenset[str]:
    """Return ids of the queries whose document of the same id is left out of their ranking.

    Args:
        wish: all of ``candidates``, none, or (``auto``) all if most have their query's text.
        corpus: walked once, for ``auto``, and not where there are no candidates.
        queries: with the candidates among them.
        candidates: ids of queries that a document has too, and that isn't judged relevant.
    """
    if wish is False or not candidates:
        return frozenset()
    if wish is True:
        return frozenset(candidates)
    text_of = {one.query_id: one.text for one in queries if one.query_id in candidates}
    alike = sum(
        _has_text(document, text_of[document.doc_id])
        for document in corpus
        if document.doc_id in text_of
    )
    return frozenset(candidates) if alike >= SAME_TEXT * len(text_of) else frozenset()


def _has_text(document: Document, text: str) -> bool:
    wanted = normalised_text(text)
    return wanted in (normalised_text(document.text), normalised_text(document.full_text))
