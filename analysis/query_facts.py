"""What labels may know of a query beside its results: visual density, kind of page, length."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa

from analysis.evaluation import FloatArray
from analysis.query_places import QueryPlaces
from arms.corpora.granularity import words
from arms.errors import LabelsError
from oracle.labels import Labels, TextArray, read_columns


@dataclass(frozen=True, eq=False)
class QueryFacts:
    """Arrays run parallel to the labels' queries; None where labels don't say."""

    visual_density: FloatArray | None = None
    """(Q,) in [0, 1], mean over the query's relevant units; NaN where unknown."""
    page_kinds: TextArray | None = None
    """(Q,) kind of the relevant pages; empty where unknown."""
    words: FloatArray | None = None
    """(Q,) words of the query text; None where the text was withheld."""


def read_query_facts(labels_folder: Path, labels: Labels) -> QueryFacts:
    """Read the optional columns ``visual_density`` and ``page_kind`` of ``queries.parquet``.

    Raises:
        LabelsError: a visual density outside [0, 1], or one that isn't a number.
    """
    path = labels_folder / "queries.parquet"
    table = read_columns(path, ["dataset", "query_id"], ["visual_density", "page_kind"])
    words = None if labels.texts is None else word_counts(labels.texts)
    rows = QueryPlaces(labels).rows_of(table["dataset"], table["query_id"])
    density = kinds = None
    if "visual_density" in table.column_names:
        density = np.full(len(labels.query_ids), np.nan)
        density[rows] = _densities(table["visual_density"], path)
    if "page_kind" in table.column_names:
        kinds = np.full(len(labels.query_ids), "", dtype=object)
        texts = table["page_kind"].cast(pa.string()).fill_null("")
        kinds[rows] = texts.to_numpy(zero_copy_only=False)
    known = density is not None and bool(np.isfinite(density).any())
    return QueryFacts(
        visual_density=density if known else None,
        page_kinds=kinds if kinds is not None and kinds.astype(bool).any() else None,
        words=words,
    )


def word_counts(texts: TextArray) -> FloatArray:
    """(Q,) words of each text, as paragraphs count them; NaN where a text is absent."""
    return np.array([np.nan if text is None else len(words(text)) for text in texts])


def _densities(column: pa.ChunkedArray, path: Path) -> FloatArray:
    try:
        values = column.cast(pa.float64()).to_numpy()
    except pa.ArrowException as error:
        raise LabelsError(
            f"{path}: visual_density isn't a number ({error}); expected a share in [0, 1] or null"
        ) from error
    values = np.array(values, dtype=np.float64)
    outside = int(((values < 0.0) | (values > 1.0)).sum())
    if outside:
        raise LabelsError(
            f"{path}: {outside} queries have a visual_density outside [0, 1]; expected a share of "
            "the page, or null"
        )
    return values
