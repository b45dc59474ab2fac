"""What a query's relevant pages are like: gold facts for reports, which never reach a router."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Any

from arms.corpora.corpus import Dataset
from arms.records import Query

KIND_SEPARATOR = " + "


def visual_densities(dataset: Dataset, query_ids: Sequence[str]) -> list[float | None]:
    """Return, per query, the mean visual density over all pages of its relevant documents.

    None where no relevant document has a page whose density is known. The corpus is walked once.
    """
    relevant = {
        query_id: [doc for doc, grade in dataset.qrels.get(query_id, {}).items() if grade > 0]
        for query_id in query_ids
    }
    wanted = {doc_id for doc_ids in relevant.values() for doc_id in doc_ids}
    known: dict[str, list[float]] = {}
    for document in dataset.corpus:
        if document.doc_id in wanted and document.pages:
            densities = (page.visual_density for page in document.pages)
            known[document.doc_id] = [one for one in densities if one is not None]
    means: list[float | None] = []
    for query_id in query_ids:
        found = [one for doc_id in relevant[query_id] for one in known.get(doc_id, ())]
        means.append(fmean(found) if found else None)
    return means


def page_kind(query: Query) -> str:
    """Return the kind of page that answers the query, as its metadata says; empty where it doesn't.

    ``page_kind``, or else ``evidence_sources``: several are sorted and joined with `` + ``.
    """
    for name in ("page_kind", "evidence_sources"):
        kind = _joined(query.metadata, name)
        if kind:
            return kind
    return ""


def _joined(metadata: Mapping[str, Any], name: str) -> str:
    value = metadata.get(name)
    if isinstance(value, str):
        return value.strip()
    if isinstance(value, (list, tuple)):
        return KIND_SEPARATOR.join(sorted({one.strip() for one in value if isinstance(one, str)}))
    return ""
