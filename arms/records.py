"""The small immutable records that pass between stages."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from arms.text_form import composed

Granularity = Literal["document", "paragraph", "page"]
Modality = Literal["text", "page_image", "any", "none"]
Architecture = Literal["sparse", "dense", "late", "rerank", "fusion", "external", "none"]
Status = Literal["ok", "empty", "error", "timeout", "skipped"]

Qrels = Mapping[str, Mapping[str, int]]
"""Judgements: query id → document id → grade (0 = judged not relevant)."""


@dataclass(frozen=True, slots=True)
class Page:
    """Where one page's picture is; :mod:`arms.corpora.pictures` reads it."""

    path: Path
    """A PDF, or a picture file."""
    number: int | None
    """The page of the PDF, from 1; None for a picture file."""
    sha256: str
    """Of the file's bytes."""
    dpi: int = 144
    """At which a PDF's page is drawn; a picture file has its own pixels."""
    visual_density: float | None = None
    """Share of the page's area under images, tables and charts, in [0, 1]; None: not known."""

    @property
    def key(self) -> str:
        """Equal for pages of equal content, so that results can be kept by content."""
        return self.sha256 if self.number is None else f"{self.sha256}:{self.number}:{self.dpi}"


@dataclass(frozen=True, slots=True)
class Document:
    """One labelled document of a corpus; judgements name its ``doc_id``.

    Title and text are kept in composed Unicode form (NFC), whatever form they are given in.
    """

    doc_id: str
    title: str
    text: str
    metadata: Mapping[str, Any] = field(default_factory=dict)
    pages: tuple[Page, ...] = ()
    """In reading order; a document may be one page, many, or have no picture at all."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "title", composed(self.title))
        object.__setattr__(self, "text", composed(self.text))

    @property
    def full_text(self) -> str:
        """Title and text, separated by one space; the title may be empty."""
        return f"{self.title} {self.text}" if self.title else self.text


@dataclass(frozen=True, slots=True)
class Unit:
    """What one arm indexes of a document: the whole text, a paragraph of it, or a page's picture.

    All units of a document follow one another in a view, in reading order.
    """

    unit_id: str
    doc_id: str
    text: str
    page: Page | None = None
    """The picture, for units of granularity ``page``; their text is empty."""


@dataclass(frozen=True, slots=True)
class Query:
    """One query. ``metadata`` may hold gold information: never a router's feature.

    The text is kept in composed Unicode form (NFC), whatever form it is given in.
    """

    query_id: str
    text: str
    metadata: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        object.__setattr__(self, "text", composed(self.text))


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


def without(ranking: Ranking, doc_ids: Collection[str], k: int) -> Ranking:
    """Return the first ``k`` documents of ``ranking`` that aren't among ``doc_ids``."""
    if not doc_ids:
        return Ranking(ranking.doc_ids[:k], ranking.scores[:k])
    kept = [
        (doc_id, score)
        for doc_id, score in zip(ranking.doc_ids, ranking.scores, strict=True)
        if doc_id not in doc_ids
    ][:k]
    return Ranking(tuple(doc_id for doc_id, _ in kept), tuple(score for _, score in kept))
