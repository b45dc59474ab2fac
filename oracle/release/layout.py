"""What a release consists of: file names, columns, and what each column holds.

A release is a labels folder (``oracle.labels``) that other labels' readers open as it is, with a
dataset card, a JSON Schema, checksums and a loader beside it.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Literal

import pyarrow as pa

from oracle.tables import (
    BEST_ARM_SCHEMA,
    GRADE,
    PAGE_FIELDS,
    QUERY_SCHEMA,
    RELEVANT_FIELDS,
    RUN_SCHEMA,
    SAMPLE_SCHEMA,
    label_schema,
)

FORMAT_VERSION = 1
CARD = "README.md"
SCHEMA = "schema.json"
CHECKSUMS = "SHA256SUMS"
EXAMPLE = "example.py"
EXAMPLE_SOURCE = Path(__file__).parent / "loader_example.py"
"""A release carries a copy of this file; it is run by readers, never by us."""

TextMode = Literal["keep", "omit", "hash"]
TEXT_MODES: tuple[TextMode, ...] = ("keep", "omit", "hash")

TABLES = ("labels", "queries", "best_arms", "runs", "latency_samples")
"""Parquet files of a release, the first three always there."""
REQUIRED_TABLES = TABLES[:3]

SUMMARIES = {
    "labels": "one row per dataset, query and arm: status, quality, latency",
    "queries": "one row per query: its split, and which queries share a text",
    "best_arms": "derived from the labels: the arm of the highest reward per query and λ",
    "runs": "the documents each arm returned, by rank",
    "latency_samples": "every single timing behind the medians in labels",
}

DESCRIPTIONS = {
    "dataset": "collection that the query belongs to",
    "query_id": "id of the query, unique within its dataset",
    "split": "train, val or test; queries of one text_group are never on two sides",
    "text": "the query's text",
    "text_group": "equal for queries of equal text (letter case and white space aside), or of a "
    "group that their dataset names as dataset/group; never on two sides",
    "near_duplicate_group": "equal within a dataset for queries joined, directly or through "
    "others, by nearly equal texts (cosine of character n-grams of at least 0.8) and a relevant "
    "document in common, beside those of one text_group; null where unknown",
    "document_group": "equal within a dataset for queries joined, directly or through others, by a "
    "relevant document in common, beside those of one near_duplicate_group; null where unknown",
    "arm": "retrieval pipeline, as `name@granularity#encoder`, short where unambiguous",
    "status": "ok; empty: ran and found nothing (quality 0); error or timeout: no result, "
    "quality and latency are null; skipped: the dataset lacks the arm",
    "latency_ms": "milliseconds of one query, serial and warm; the median of its repeats",
    "latency_iqr_ms": "interquartile range of the repeats, in milliseconds",
    "latency_modelled": "true: not timed, but taken from a model fitted to a timed sample",
    "encode_ms": "milliseconds spent on encoding the query; null where unknown",
    "search_ms": "milliseconds spent on searching; null where unknown",
    "rerank_ms": "milliseconds spent on reranking; null where unknown",
    "repeats": "how many timings the median is over; 0 or null where none was taken here",
    "visual_density": "share of the relevant pages' area under images, tables and charts, in "
    "[0, 1]; null where unknown; gold information",
    "page_kind": "kind of the relevant pages; empty where unknown; gold information",
    "relevant_grades": "grades above 0 of all documents judged for the query, whether an arm found "
    "them or not, descending; null where unknown; gold information. With `grade` of runs they give "
    "the quality of any ranking of the documents seen",
    "relevant_ids": "the documents that relevant_grades speaks of, in its order: by grade, then by "
    "id; null where unknown; gold information",
    "rank": "place in the ranking, from 1",
    "doc_id": "document of the collection",
    "score": "the arm's own score of the document",
    "grade": "relevance of the document as judged; 0 where it isn't judged, null where unknown; "
    "gold information. The sum of grade / log2(1 + rank) over the first k ranks is DCG@k",
    "repeat": "number of the timing, from 0",
    "lam": "λ, the weight of latency in the reward, from 0 to 1",
    "arm_set": "router: the arms a router may choose; pipelines: all that were run",
    "best_arm": "the fastest of `ties` on the query, the first where equal; null where an arm of "
    "the set failed on the query",
    "ties": "all arms whose reward is the highest",
    "reward": "reward of the best arm, latency normalised over the arm set",
}
"""Column → what it holds. A measure's column is described by :func:`description_of`."""


def description_of(column: str) -> str:
    """Return what a column holds; one that isn't listed is a measure."""
    return DESCRIPTIONS.get(column, "quality of the arm's ranking for the query, in [0, 1]")


def table_schemas(
    measures: Sequence[str],
    with_text: bool,
    with_pages: bool,
    with_grades: bool,
    with_relevant_grades: bool,
) -> dict[str, pa.Schema]:
    """Return the Arrow schema of every table of a release, columns in order.

    ``with_pages``: whether the labels say what the relevant pages are like; ``with_grades``:
    whether rankings say how each document was judged; ``with_relevant_grades``: whether queries say
    how all their documents were.
    """
    queries = QUERY_SCHEMA if with_text else QUERY_SCHEMA.remove(QUERY_SCHEMA.names.index("text"))
    if with_pages:
        queries = pa.schema([*queries, *PAGE_FIELDS])
    if with_relevant_grades:
        queries = pa.schema([*queries, *RELEVANT_FIELDS])
    runs = RUN_SCHEMA if with_grades else RUN_SCHEMA.remove(RUN_SCHEMA.names.index(GRADE))
    return {
        "labels": label_schema(measures),
        "queries": queries,
        "best_arms": BEST_ARM_SCHEMA,
        "runs": runs,
        "latency_samples": SAMPLE_SCHEMA,
    }
