"""Schemas of the labels' files, and writing them so that equal content gives equal bytes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from arms.atomic import atomic_file
from arms.out_of_memory import is_out_of_memory, out_of_memory
from oracle.labels import LABEL_COLUMNS

RUNS = "runs.parquet"
SAMPLES = "latency_samples.parquet"
_TEXT_COLUMNS = ("dataset", "query_id", "split", "arm", "status")
_TYPES = {"latency_modelled": pa.bool_(), "repeats": pa.int32()}

GROUP_COLUMNS = ("text_group", "near_duplicate_group", "document_group")
"""Of ``queries.parquet``: the groups of each strength (``oracle.groups``), loosest first."""
QUERY_SCHEMA = pa.schema(
    [(name, pa.string()) for name in ("dataset", "query_id", "split", *GROUP_COLUMNS, "text")]
)
PAGE_FIELDS = (pa.field("visual_density", pa.float64()), pa.field("page_kind", pa.string()))
"""Of ``queries.parquet``; labels of before 0.2, and imported ones, don't have them."""
RUN_SCHEMA = pa.schema(
    [
        ("dataset", pa.string()),
        ("query_id", pa.string()),
        ("arm", pa.string()),
        ("rank", pa.int32()),
        ("doc_id", pa.string()),
        ("score", pa.float64()),
        ("grade", pa.int32()),
    ]
)
GRADE = "grade"
"""Of ``runs.parquet``; rankings of before 0.2 don't have it."""
RELEVANT_GRADES = "relevant_grades"
RELEVANT_IDS = "relevant_ids"
RELEVANT_FIELDS = (
    pa.field(RELEVANT_GRADES, pa.list_(pa.int32())),
    pa.field(RELEVANT_IDS, pa.list_(pa.string())),
)
"""Of ``queries.parquet``, aligned; labels imported from tables don't have them."""
SAMPLE_SCHEMA = pa.schema(
    [
        ("dataset", pa.string()),
        ("query_id", pa.string()),
        ("arm", pa.string()),
        ("repeat", pa.int32()),
        ("latency_ms", pa.float64()),
    ]
)
FAILURE_SCHEMA = pa.schema(
    [
        (name, pa.string())
        for name in ("dataset", "query_id", "arm", "while_doing", "status", "message")
    ]
)
BEST_ARM_SCHEMA = pa.schema(
    [
        ("dataset", pa.string()),
        ("query_id", pa.string()),
        ("lam", pa.float64()),
        ("arm_set", pa.string()),
        ("best_arm", pa.string()),
        ("ties", pa.list_(pa.string())),
        ("reward", pa.float64()),
    ]
)
RANK_UNIT_SCHEMA = pa.schema(
    [
        ("query_id", pa.string()),
        ("status", pa.string()),
        ("message", pa.string()),
        ("doc_ids", pa.list_(pa.string())),
        ("scores", pa.list_(pa.float64())),
    ]
)
MEMORY_BYTES, QUERY_BACKENDS = "memory_bytes", "query_backends"
"""Metadata of a latency unit, JSON: arm → bytes that its opened index holds in memory, and arm →
itself or a part of it → what runs its query encoder."""

LATENCY_UNIT_SCHEMA = pa.schema(
    [
        ("query_id", pa.string()),
        ("arm", pa.string()),
        ("status", pa.string()),
        ("message", pa.string()),
        ("latency_ms", pa.float64()),
        ("latency_iqr_ms", pa.float64()),
        ("encode_ms", pa.float64()),
        ("search_ms", pa.float64()),
        ("rerank_ms", pa.float64()),
        ("stated", pa.bool_()),
        ("samples_ms", pa.list_(pa.float64())),
    ]
)


def label_schema(measures: Sequence[str]) -> pa.Schema:
    """Return the schema of ``labels.parquet``: the measures stand before the latencies."""
    fields = []
    for name in LABEL_COLUMNS:
        if name == "latency_ms":
            fields += [(measure, pa.float64()) for measure in measures]
        text = name in _TEXT_COLUMNS
        fields.append((name, pa.string() if text else _TYPES.get(name, pa.float64())))
    return pa.schema(fields)


def column(values: Any, kind: pa.DataType) -> pa.Array:
    """Return an Arrow column of ``values``; NaN becomes null."""
    array = np.asarray(values)
    if array.dtype.kind == "f":
        return pa.array(array, type=kind, mask=np.isnan(array))
    return pa.array(array, type=kind)


def write_table(path: Path, table: pa.Table | Iterable[pa.Table], schema: pa.Schema) -> None:
    """Write one table, or several as row groups, atomically and without a time stamp."""
    tables = [table] if isinstance(table, pa.Table) else table
    with (
        atomic_file(path) as temporary,
        pq.ParquetWriter(temporary, schema, compression="zstd", write_page_checksum=True) as writer,
    ):
        for one in tables:
            writer.write_table(one.select(schema.names).cast(schema))


def write_small_table(path: Path, table: pa.Table) -> None:
    """Write one table in as few bytes as parquet allows, atomically; slower than the usual way.

    Splitting the bytes of floating-point numbers before they are compressed saves a third.
    """
    split = [field.name for field in table.schema if pa.types.is_floating(field.type)]
    with atomic_file(path) as temporary:
        pq.write_table(
            table,
            temporary,
            compression="zstd",
            compression_level=19,
            use_dictionary=[name for name in table.column_names if name not in split],
            column_encoding={name: "BYTE_STREAM_SPLIT" for name in split},
            write_page_checksum=True,
        )


def damage_of(path: Path) -> str | None:
    """Return what is wrong with a table's file; None where every page of it can be read.

    One batch of rows is in memory at a time.

    Raises:
        PermissionError: nobody can say, since it may not be read.
        OutOfMemoryError: nobody can say, for want of memory.
    """
    if not path.is_file():
        return "absent"
    try:
        with pq.ParquetFile(path, page_checksum_verification=True) as table:
            for _ in table.iter_batches():
                pass
    except PermissionError:
        raise
    except (OSError, pa.ArrowException) as error:
        if is_out_of_memory(error):
            raise out_of_memory(error, f"read {path}") from error
        return f"damaged: {error}"
    return None
