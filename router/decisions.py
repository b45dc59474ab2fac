"""``decisions.parquet``: what every policy decided on every labelled query.

Written once by training, beside the router; analysis reads it and never refits anything.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from arms.atomic import atomic_file
from arms.errors import RouterError
from arms.read_errors import damage

FOLDS = "cv"
"""Begins the split of decisions in folds of grouped cross-validation; the fold's number follows."""
DOCUMENT_FOLDS = "doc"
"""The same of folds in which no relevant document is shared."""
DECISION_SCHEMA = pa.schema(
    [
        # router, tfidf, static:bm25, best_static, best_static_per_dataset, random_same_mix, ...
        pa.field("policy", pa.string()),
        pa.field("lam", pa.float64()),
        pa.field("dataset", pa.string()),
        pa.field("query_id", pa.string()),
        # The split the query has in this evaluation: train, val or test of the fixed split, or
        # cv0 … cv4 for grouped cross-validation, where the model never saw the query's group, or
        # doc0 … doc4 for folds of queries that share no relevant document.
        pa.field("split", pa.string()),
        # str(router.policy.Plan): one arm, or arms joined by "+" (fused), ">" (cascade) or "&"
        # (merged).
        pa.field("plan", pa.string()),
        # Of the chosen plan; null where a policy has none.
        pa.field("probability", pa.float64()),
        # Milliseconds the policy itself took; 0 for a static one.
        pa.field("overhead_ms", pa.float64()),
    ]
)


PREDICTED = pa.field("predicted_quality", pa.float64())
"""A further column that decisions may have: the quality that the policy expected of its plan."""
REUSED = pa.field("reused_encode_ms", pa.float64())
"""Another: milliseconds, at least 0, that the plan's arms save by taking the policy's query vector
instead of encoding the query again. A plan's latency is its arms' and ``overhead_ms`` less
these."""
ANSWER = "answer:"
"""Begins the names of further columns, one for each measure of the labels (``answer:nDCG@5``): the
quality of the ranking that the policy made itself, where the plan merges arms; null elsewhere,
where the labels hold the answering arm's. Absent where no policy merges."""
CEILING = "ceiling:"
"""Begins the names of as many others (``ceiling:nDCG@5``): the quality of the same documents in
their ideal order, the most that any ranking of what the plan's arms found could come to. A policy
that makes the ranking itself is held against that, one that picks an arm's against the oracle."""
_FURTHER = (PREDICTED, REUSED)


def write_decisions(table: pa.Table, path: Path) -> None:
    """Write ``table`` atomically, cast to the schema; further columns are kept."""
    schema = _schema(table.column_names)
    with atomic_file(path) as temporary:
        pq.write_table(table.select(schema.names).cast(schema), temporary)


def read_decisions(path: Path) -> pa.Table:
    """Read decisions; raise ``RouterError`` where the file or a column is missing."""
    if not path.is_file():
        raise RouterError(f"{path} is missing; run l2r train, which writes it beside the router")
    try:
        table = pq.read_table(path)
    except (OSError, pa.ArrowException) as error:
        raise RouterError(f"{damage(path, error)}; rerun l2r train") from error
    missing = [name for name in DECISION_SCHEMA.names if name not in table.column_names]
    if missing:
        raise RouterError(f"{path} lacks the columns {', '.join(missing)}; rerun l2r train")
    return table.select(_schema(table.column_names).names)


def _schema(present: Sequence[str]) -> pa.Schema:
    further = [one for one in _FURTHER if one.name in present]
    own = [
        pa.field(name, pa.float64())
        for prefix in (ANSWER, CEILING)
        for name in present
        if name.startswith(prefix)
    ]
    return pa.schema([*DECISION_SCHEMA, *further, *own])
