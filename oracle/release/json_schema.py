"""A JSON Schema of a release's rows, for readers in any language.

Format: JSON Schema 2020-12 (https://json-schema.org/draft/2020-12).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, get_args

import pyarrow as pa

from arms.records import Status
from oracle.release.layout import FORMAT_VERSION, SUMMARIES, description_of
from oracle.tables import RELEVANT_GRADES, RELEVANT_IDS

SPLITS = ("train", "val", "test")
STATUSES: tuple[str, ...] = get_args(Status)
RAN = ("ok", "empty")

_NUMBERS_AT_LEAST_0 = (
    "latency_ms",
    "latency_iqr_ms",
    "encode_ms",
    "search_ms",
    "rerank_ms",
    "repeats",
    "repeat",
)
_NULLABLE = (
    "latency_iqr_ms",
    "latency_modelled",
    "encode_ms",
    "search_ms",
    "rerank_ms",
    "repeats",
    "best_arm",
    "reward",
    "visual_density",
    "grade",
    "near_duplicate_group",
    "document_group",
)


def release_json_schema(
    schemas: Mapping[str, pa.Schema], pipelines: Sequence[str], measures: Sequence[str]
) -> dict[str, Any]:
    """Return a schema with one definition per table under ``$defs``: one row as a JSON object.

    A definition is named by ``#/$defs/<table>``; the document itself describes a row of labels.
    """
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": f"Oracle labels, release format {FORMAT_VERSION}",
        "description": "One row of labels.parquet; other tables: see $defs.",
        "$ref": "#/$defs/labels",
        "$defs": {
            table: _row(table, schema, pipelines, measures) for table, schema in schemas.items()
        },
    }


def _row(
    table: str, schema: pa.Schema, pipelines: Sequence[str], measures: Sequence[str]
) -> dict[str, Any]:
    row: dict[str, Any] = {
        "title": SUMMARIES[table],
        "type": "object",
        "properties": {field.name: _column(table, field, pipelines, measures) for field in schema},
        "required": list(schema.names),
        "additionalProperties": False,
    }
    if table == "labels":
        numbers = ("latency_ms", *measures)
        row["if"] = {"properties": {"status": {"enum": list(RAN)}}}
        row["then"] = {"properties": {name: {"type": "number"} for name in numbers}}
        row["else"] = {"properties": {name: {"type": "null"} for name in numbers}}
    return row


def _column(
    table: str, field: pa.Field, pipelines: Sequence[str], measures: Sequence[str]
) -> dict[str, Any]:
    name = field.name
    described: dict[str, Any] = {"description": description_of(name)}
    arms = list(pipelines)
    if name == "ties":
        return {**described, "type": "array", "items": {"enum": arms}}
    if name == RELEVANT_GRADES:
        grade = {"type": "integer", "minimum": 1}
        return {**described, "type": ["array", "null"], "items": grade}
    if name == RELEVANT_IDS:
        return {**described, "type": ["array", "null"], "items": {"type": "string"}}
    if name in ("arm", "best_arm"):
        return {**described, "enum": arms + [None] * (name == "best_arm")}
    choices = {"status": list(STATUSES), "split": list(SPLITS), "arm_set": ["router", "pipelines"]}
    if name in choices:
        return {**described, "enum": choices[name]}
    kind = _json_type(field.type)
    measured = table == "labels" and name in ("latency_ms", *measures)
    nullable = name in _NULLABLE or measured
    described["type"] = [kind, "null"] if nullable else kind
    if name in _NUMBERS_AT_LEAST_0:
        described["minimum"] = 0
    elif name == "rank":
        described["minimum"] = 1
    elif name in ("lam", "visual_density") or (table == "labels" and name in measures):
        described |= {"minimum": 0, "maximum": 1}
    return described


def _json_type(kind: pa.DataType) -> str:
    if pa.types.is_string(kind):
        return "string"
    if pa.types.is_boolean(kind):
        return "boolean"
    return "integer" if pa.types.is_integer(kind) else "number"
