"""The small immutable records that pass between stages."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

Granularity = Literal["document", "paragraph"]
Modality = Literal["text", "page_image", "any", "none"]
Architecture = Literal["sparse", "dense", "late", "rerank", "fusion", "external", "none"]
Status = Literal["ok", "empty", "error", "timeout", "skipped"]

Qrels = Mapping[str, Mapping[str, int]]
"""Judgements: query id → document id → grade (0 = judged not relevant)."""


@dataclass(frozen=True, slots=True)
class Document:
    """One labelled document of a corpus; judgements name its ``doc_id``."""

    doc_id: str
    title: str
    text: str
    metadata: Mapping[str, Any] = field(default_factory=dict)

    @property
    def full_text(self) -> str:
        """Title and text, separated by one space; the title may be empty."""
        return f"{self.title} {self.text}" if self.title else self.text


@dataclass(frozen=True, slots=True)
class Unit:
    """What one arm indexes of a document: the whole text, or one paragraph of it.

    All units of a document follow one another in a view, in reading order.
    """

    unit_id: str
    doc_id: str
    text: str


@dataclass(frozen=True, slots=True)
class Query:
    """One query. ``metadata`` may hold gold information: never a router's feature."""

    query_id: str
    text: str
    metadata: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Ranking:
    """Labelled documents found for one query.

    ``doc_ids`` are distinct, ordered by descending score, then by ascending document id;
    ``scores`` run parallel to them. Both empty: the arm ran and found nothing.
    """

    doc_ids: tuple[str, ...]
    scores: tuple[float, ...]

    def __post_init__(self) -> None:
        if len(self.doc_ids) != len(self.scores):
            raise ValueError(
                f"a ranking needs one score per document, got {len(self.doc_ids)} documents "
                f"and {len(self.scores)} scores"
            )
