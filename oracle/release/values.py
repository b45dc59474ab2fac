"""What the rows of a release may hold: ranges, statuses, and that tables fit one another."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from oracle.release.columns import keys, numbers, repeated, row_describer, texts
from oracle.release.faults import Fault, row_fault
from oracle.release.graded_quality import (
    quality_faults,
    relevant_grade_faults,
    sound_relevant_grades,
)
from oracle.release.grades import grade_faults
from oracle.release.group_faults import group_faults, relevant_id_faults
from oracle.release.json_schema import RAN, SPLITS, STATUSES
from oracle.release.ranking_order import order_faults
from oracle.release.sample_medians import sample_faults
from oracle.tables import GRADE, RELEVANT_GRADES

BoolArray = NDArray[np.bool_]


def value_faults(
    tables: Mapping[str, pa.Table],
    pipelines: Sequence[str],
    measures: Sequence[str],
    whole_runs: bool = True,
    split: Any = None,
) -> list[Fault]:
    """Return every fault in the values of ``tables``, which have the columns they should have.

    ``whole_runs``: no ranking was cut, nor a score rounded, after its quality was computed.
    ``split``: what the manifest says of the split, whatever that is.
    """
    faults: list[Fault] = []
    for name, table in tables.items():
        faults += _null_keys(name, table)
    if faults:  # what follows compares keys
        return faults
    queries = tables.get("queries")
    if queries is not None:
        faults += _query_faults(queries)
        faults += group_faults(queries, split)
    if "labels" in tables:
        faults += _label_faults(tables["labels"], pipelines, measures)
        if queries is not None:
            faults += _unlike_queries(tables["labels"], queries)
            faults += _missing_labels(tables["labels"], queries, pipelines)
    for name in ("best_arms", "runs", "latency_samples"):
        if name in tables:
            faults += _side_table_faults(name, tables[name], pipelines, queries)
    if "runs" in tables:
        faults += order_faults(tables["runs"], exact_scores=whole_runs)
    if "latency_samples" in tables and "labels" in tables:
        faults += sample_faults(tables["labels"], tables["latency_samples"])
    relevant = None
    if queries is not None and RELEVANT_GRADES in queries.column_names:
        faults += relevant_grade_faults(queries)
        relevant = sound_relevant_grades(queries)
        graded = "runs" in tables and GRADE in tables["runs"].column_names
        faults += relevant_id_faults(queries, tables["runs"] if graded else None)
    if "runs" in tables and GRADE in tables["runs"].column_names:
        faults += grade_faults(tables["runs"], tables.get("labels"), measures, relevant or ())
        if relevant is not None and "labels" in tables:
            faults += quality_faults(
                tables["runs"], tables["labels"], measures, relevant, whole_runs
            )
    return faults


_KEYS = (
    *("dataset", "query_id", "arm", "split", "status", "text_group"),
    *("lam", "arm_set", "rank", "doc_id", "repeat"),
)


def _null_keys(name: str, table: pa.Table) -> list[Fault]:
    faults = []
    for column in (one for one in table.column_names if one in _KEYS):
        missing = pc.is_null(table[column]).to_numpy()
        faults += row_fault(_file(name), missing, f"{column} is null", lambda row: "no value")
    return faults


def _query_faults(queries: pa.Table) -> list[Fault]:
    describe = row_describer(queries, ("dataset", "query_id"))
    splits = texts(queries, "split")
    faults = row_fault(
        "queries.parquet",
        ~np.isin(splits, SPLITS),
        f"split is none of {', '.join(SPLITS)}",
        describe,
    )
    faults += row_fault(
        "queries.parquet",
        repeated(queries, ("dataset", "query_id")),
        "the same dataset and query_id as an earlier row",
        describe,
    )
    groups = texts(queries, "text_group")
    split_of: dict[str, str] = {}
    torn = np.array([split_of.setdefault(g, s) != s for g, s in zip(groups, splits, strict=True)])
    faults += row_fault(
        "queries.parquet",
        torn.astype(bool),
        "text_group is in another split too, so that train and test share a question",
        describe,
    )
    if "text" in queries.column_names:
        missing = pc.is_null(queries["text"]).to_numpy()
        faults += row_fault("queries.parquet", missing, "text is null", describe)
    if "visual_density" in queries.column_names:
        density = numbers(queries, "visual_density")
        unknown = pc.is_null(queries["visual_density"]).to_numpy()
        outside = ~unknown & ~((density >= 0) & (density <= 1))
        message = "visual_density is outside [0, 1]; a share or null is expected"
        faults += row_fault("queries.parquet", outside, message, describe)
        without = pc.is_null(queries["page_kind"]).to_numpy()
        faults += row_fault("queries.parquet", without, "page_kind is null", describe)
    return faults


def _label_faults(
    labels: pa.Table, pipelines: Sequence[str], measures: Sequence[str]
) -> list[Fault]:
    file = "labels.parquet"
    describe = row_describer(labels, ("dataset", "query_id", "arm"))
    status = texts(labels, "status")
    ran = np.isin(status, RAN)

    def fault(wrong: BoolArray, message: str) -> list[Fault]:
        return row_fault(file, wrong, message, describe)

    faults = fault(~np.isin(status, STATUSES), f"status is none of {', '.join(STATUSES)}")
    faults += fault(~np.isin(texts(labels, "arm"), pipelines), "arm isn't in the manifest")
    faults += fault(
        repeated(labels, ("dataset", "query_id", "arm")),
        "the same dataset, query_id and arm as an earlier row",
    )
    for name in (*measures, "latency_ms"):
        values = numbers(labels, name)
        null = pc.is_null(labels[name]).to_numpy()
        nan = ~null & np.isnan(values)
        faults += fault(nan, f"{name} is NaN; a number or null is expected")
        faults += fault(np.isin(status, STATUSES) & ~ran & ~null, f"a failure has a {name}")
        faults += fault(ran & null, f"status is ok or empty, and {name} is null")
        if name in measures:
            outside = ~null & ~nan & ~((values >= 0.0) & (values <= 1.0))
            faults += fault(outside, f"{name} lies outside [0, 1]")
            faults += fault(
                (status == "empty") & (values > 0.0), f"status is empty, {name} isn't 0"
            )
    for name in ("latency_ms", "latency_iqr_ms", "encode_ms", "search_ms", "rerank_ms", "repeats"):
        values = numbers(labels, name)
        faults += fault(values < 0.0, f"{name} is negative")
        faults += fault(np.isinf(values), f"{name} is infinite")
        if name != "latency_ms":
            null = pc.is_null(labels[name]).to_numpy()
            faults += fault(np.isnan(values) & ~null, f"{name} is NaN")
    return faults


def _unlike_queries(labels: pa.Table, queries: pa.Table) -> list[Fault]:
    """Labels of queries that aren't listed, or that are listed with another split."""
    describe = row_describer(labels, ("dataset", "query_id", "arm"))
    places = pc.index_in(keys(labels), value_set=keys(queries).combine_chunks())
    absent = pc.is_null(places).to_numpy()
    faults = row_fault("labels.parquet", absent, "the query isn't in queries.parquet", describe)
    rows = pc.fill_null(places, 0).to_numpy().astype(np.intp)
    if len(queries):
        other = ~absent & (texts(queries, "split")[rows] != texts(labels, "split"))
        faults += row_fault(
            "labels.parquet", other, "split differs from that of queries.parquet", describe
        )
    return faults


def _missing_labels(labels: pa.Table, queries: pa.Table, pipelines: Sequence[str]) -> list[Fault]:
    """Arms that some queries of a dataset have and others lack without a status that says so."""
    places = pc.index_in(keys(labels), value_set=keys(queries).combine_chunks())
    arms = pc.index_in(labels["arm"], value_set=pa.array(pipelines, pa.string()))
    known = (pc.is_valid(places).to_numpy()) & (pc.is_valid(arms).to_numpy())
    rows = pc.fill_null(places, 0).to_numpy().astype(np.intp)[known]
    columns = pc.fill_null(arms, 0).to_numpy().astype(np.intp)[known]
    there = np.zeros((len(queries), len(pipelines)), dtype=bool)
    there[rows, columns] = True
    datasets = texts(queries, "dataset")
    faults: list[Fault] = []
    for dataset in sorted(set(datasets.tolist())):
        members = np.flatnonzero(datasets == dataset)
        for column, arm in enumerate(pipelines):
            lacking = members[~there[members, column]]
            if 0 < len(lacking) < len(members):
                first = queries["query_id"][int(lacking[0])].as_py()
                faults.append(
                    Fault(
                        "labels.parquet",
                        "value",
                        f"{len(lacking)} of {len(members)} queries of {dataset} have no row for "
                        f"{arm}, e.g. {first}; an arm that wasn't run has the status skipped",
                    )
                )
    return faults


def _side_table_faults(
    name: str, table: pa.Table, pipelines: Sequence[str], queries: pa.Table | None
) -> list[Fault]:
    file = _file(name)
    columns = {
        "best_arms": ("dataset", "query_id", "lam", "arm_set"),
        "runs": ("dataset", "query_id", "arm", "rank"),
        "latency_samples": ("dataset", "query_id", "arm", "repeat"),
    }[name]
    describe = row_describer(table, columns)
    faults = row_fault(
        file, repeated(table, columns), f"the same {', '.join(columns)} as an earlier row", describe
    )
    if queries is not None:
        absent = pc.is_null(
            pc.index_in(keys(table), value_set=keys(queries).combine_chunks())
        ).to_numpy()
        faults += row_fault(file, absent, "the query isn't in queries.parquet", describe)
    arm_column = "best_arm" if name == "best_arms" else "arm"
    arms = pa.array(pipelines, pa.string())
    unknown = pc.is_valid(table[arm_column]).to_numpy() & ~pc.is_in(
        table[arm_column], value_set=arms
    ).to_numpy(zero_copy_only=False)
    faults += row_fault(file, unknown, f"{arm_column} isn't in the manifest", describe)
    for column, low, high in {
        "best_arms": (("lam", 0.0, 1.0), ("reward", -np.inf, np.inf)),
        "runs": (("rank", 1.0, np.inf), ("score", -np.inf, np.inf)),
        "latency_samples": (("latency_ms", 0.0, np.inf), ("repeat", 0.0, np.inf)),
    }[name]:
        values = numbers(table, column)
        undefined = pc.is_null(table[column]).to_numpy() & (column == "reward")
        outside = ~undefined & ~(np.isfinite(values) & (values >= low) & (values <= high))
        faults += row_fault(file, outside, f"{column} isn't a number {_range(low, high)}", describe)
    return faults


def _range(low: float, high: float) -> str:
    if np.isinf(low):
        return "that is finite"
    return f"of at least {low:g}" if np.isinf(high) else f"in [{low:g}, {high:g}]"


def _file(table: str) -> str:
    return f"{table}.parquet"
