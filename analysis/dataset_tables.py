"""The report's tables of datasets, arms and indexes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from analysis.columns import LAM, POLICY, measure_title
from analysis.outcomes import LATENCY, REWARD
from analysis.results import Results
from analysis.roles import ORACLE_ROUTER_ARMS, role_of, title_of
from analysis.storage import IndexEntry, index_entries, mapping
from analysis.summary import P95, REGRET_A
from analysis.table import Cell, Column, Table
from router.policy_names import BEST_STATIC_PER_DATASET

_SPLITS = ("train", "val", "test")
_STATUSES = ("ok", "empty", "error", "timeout", "skipped")


def datasets_table(results: Results) -> Table:
    """Queries per dataset and split, and how many test queries are compared."""
    labels = results.labels
    evaluation = results.test.scores.evaluation
    compared = np.zeros(len(labels.query_ids), dtype=bool)
    compared[evaluation.label_rows] = True
    columns = (
        Column("dataset", "dataset"),
        *(Column(f"queries_{split}", split, "count") for split in _SPLITS),
        Column("test_compared", "test, compared", "count"),
        Column("test_left_out", "left out: an arm failed", "count"),
        Column("arms_absent", "arms it lacks"),
        Column("dropped", "dropped on reading"),
    )
    rows = []
    for dataset in sorted(set(labels.datasets)):
        here = labels.datasets == dataset
        counts = [int((here & (labels.splits == split)).sum()) for split in _SPLITS]
        n_compared = int((here & compared).sum())
        absent = (labels.status[here] == "skipped").all(axis=0)
        lacks = [arm for arm, gone in zip(labels.pipelines, absent, strict=True) if gone]
        rows.append(
            (
                dataset,
                *counts,
                n_compared,
                counts[2] - n_compared,
                ", ".join(lacks) or "none",
                _dropped(labels.manifest, dataset),
            )
        )
    total: tuple[Cell, ...] = tuple(sum(row[i] for row in rows) for i in range(1, 6))
    table = (*rows, ("all", *total, "", ""))
    return Table("datasets", "Datasets and queries", columns, table, table)


def _dropped(manifest: Mapping[str, Any], dataset: str) -> str:
    entry = mapping(mapping(manifest.get("datasets")).get(dataset))
    kinds = mapping(entry.get("dropped"))
    return ", ".join(f"{kind}: {n}" for kind, n in sorted(kinds.items()) if n) or "none"


def arms_table(results: Results) -> Table:
    """Every arm of P: may a router choose it, with which encoder, and how its queries ended."""
    labels = results.labels
    encoders: dict[str, str] = {}
    for entry in index_entries(labels.manifest, labels.pipelines):
        if entry.encoder:
            encoders[entry.arm] = entry.encoder
    columns = (
        Column("arm", "arm"),
        Column("in_router_arms", "router may choose it"),
        Column("encoder", "encoder"),
        *(Column(f"n_{status}", status, "count") for status in _STATUSES),
    )
    rows = tuple(
        (
            arm,
            "yes" if arm in labels.router_arms else "no",
            encoders.get(arm, ""),
            *(int((labels.status[:, column] == status).sum()) for status in _STATUSES),
        )
        for column, arm in enumerate(labels.pipelines)
    )
    return Table("arms", "Arms, and how their queries ended", columns, rows, rows)


def per_dataset_table(results: Results) -> Table:
    """Every policy in each dataset; the report shows the measure of quality at the first λ."""
    measures = results.test.scores.evaluation.measures
    metrics = (*measures, REWARD, LATENCY, P95, REGRET_A)
    columns = (
        LAM,
        Column("dataset", "dataset"),
        POLICY,
        Column("n", "n", "count"),
        Column("n_queries", "queries", "count"),
        *(Column(measure, measure_title(measure), "quality") for measure in measures),
        Column(REWARD, "reward", "quality"),
        Column(LATENCY, "mean ms", "ms"),
        Column(P95, "P95 ms", "ms"),
        Column(REGRET_A, "regret", "change"),
    )
    rows = tuple(
        (
            one.lam,
            one.scope,
            title_of(one.policy),
            one.n,
            one.n_queries,
            *(one.means.get(metric) for metric in metrics),
        )
        for one in sorted(results.test.per_dataset, key=lambda one: (one.lam, one.scope))
    )
    return Table("per_dataset_long", "Every policy in each dataset", columns, rows, ())


def dataset_quality_table(results: Results, lam: float) -> Table:
    """Quality, dataset × policy, at one λ: what the heat map draws."""
    measure = results.labels.primary_measure
    policies = dataset_policies(results)
    cells = {
        (one.scope, one.policy): one.means.get(measure)
        for one in results.test.per_dataset
        if one.lam == lam
    }
    n_queries = {one.scope: one.n_queries for one in results.test.per_dataset}
    columns = (
        Column("dataset", "dataset"),
        Column("n_queries", "queries", "count"),
        *(Column(policy, title_of(policy), "quality") for policy in policies),
    )
    rows = tuple(
        (dataset, n_queries[dataset], *(cells.get((dataset, policy)) for policy in policies))
        for dataset in results.test.scores.evaluation.dataset_names
    )
    return Table(
        f"per_dataset_lam_{lam:g}",
        f"{measure_title(measure)} per dataset at λ = {lam:g}",
        columns,
        rows,
        rows,
        note="Small datasets leave few test queries: read the five-fold numbers beside these.",
    )


def dataset_policies(results: Results) -> tuple[str, ...]:
    """The policies worth a column per dataset: arms, their best, the router, the oracle."""
    chosen = (BEST_STATIC_PER_DATASET, results.router, ORACLE_ROUTER_ARMS)
    return tuple(
        policy
        for policy in results.test.scores.policies
        if role_of(policy) == "static" or policy in chosen
    )


def filters_table(results: Results) -> Table:
    """What kept queries and documents out of the numbers, and how many."""
    labels = results.labels
    rows: list[tuple[Cell, ...]] = []
    for dataset in sorted(set(labels.datasets)):
        entry = mapping(mapping(labels.manifest.get("datasets")).get(dataset))
        for kind, n in sorted(mapping(entry.get("dropped")).items()):
            rows.append(("dropped on reading", str(kind).replace("_", " "), dataset, n))
    n_test = int((labels.splits == "test").sum())
    rest = len(labels.query_ids) - n_test
    failed = results.test.scores.evaluation.failed_queries
    rows.append(("not compared", "queries to train or validate on", "all", rest))
    rows.append(("not compared", "test queries on which an arm failed", "all", failed))
    columns = (
        Column("stage", "stage"),
        Column("filter", "filter"),
        Column("dataset", "dataset"),
        Column("removed", "removed", "count"),
    )
    return Table("filters", "What was left out", columns, tuple(rows), tuple(rows))


def storage_table(results: Results) -> Table | None:
    """Each arm's indexes over all datasets (table 3); None where the manifest has no records."""
    entries = index_entries(results.labels.manifest, results.labels.pipelines)
    if not entries:
        return None
    columns = (
        Column("arm", "arm"),
        Column("n_datasets", "datasets", "count"),
        Column("n_units", "units", "count"),
        Column("size_mb", "MB on disk", "ms"),
        Column("memory_mb", "MB in memory", "ms"),
        Column("build_seconds", "build s", "ms"),
        Column("units_per_second", "units per s", "ms"),
        Column("build_peak_rss_mb", "largest peak memory, MB", "count"),
    )
    rows = []
    for arm in results.labels.pipelines:
        own = [one for one in entries if one.arm == arm]
        if own:
            units, seconds = _total(own, "n_units"), _total(own, "build_seconds")
            peaks = [one.build_peak_rss_mb for one in own if one.build_peak_rss_mb is not None]
            rows.append(
                (
                    arm,
                    len(own),
                    units,
                    _per_million(_total(own, "size_bytes")),
                    _per_million(_total(own, "memory_bytes")),
                    seconds,
                    units / seconds if units and seconds else None,
                    max(peaks, default=None),
                )
            )
    note = (
        "An arm that reads another arm's index counts its own files only. Peak memory is that of "
        "the process that built the index. A sum is left out where a dataset doesn't state its "
        "part."
    )
    table = tuple(rows)
    return Table("storage", "Indexes, all datasets", columns, table, table, note, latex=True)


def _total(entries: list[IndexEntry], field: str) -> float | None:
    values = [getattr(one, field) for one in entries]
    return None if any(value is None for value in values) else float(sum(values))


def _per_million(n_bytes: float | None) -> float | None:
    return None if n_bytes is None else n_bytes / 1e6


def index_table(results: Results) -> Table | None:
    """Bytes and build time of each index; None where the manifest has no records of them."""
    entries = index_entries(results.labels.manifest, results.labels.pipelines)
    columns = (
        Column("dataset", "dataset"),
        Column("arm", "arm"),
        Column("n_documents", "documents", "count"),
        Column("n_units", "units", "count"),
        Column("size_bytes", "bytes on disk", "count"),
        Column("memory_bytes", "bytes in memory", "count"),
        Column("build_seconds", "build s", "ms"),
        Column("units_per_second", "units per s", "ms"),
        Column("build_peak_rss_mb", "peak memory, MB", "count"),
        Column("encoder", "encoder"),
    )
    rows = tuple(
        (
            one.dataset,
            one.arm,
            one.n_documents,
            one.n_units,
            one.size_bytes,
            one.memory_bytes,
            one.build_seconds,
            one.units_per_second,
            one.build_peak_rss_mb,
            one.encoder or "",
        )
        for one in entries
    )
    if not rows:
        return None
    return Table("storage_by_dataset", "Every index", columns, rows, rows, folded=True)
