"""Made-up labels and decisions with known answers."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from oracle.labels import Labels, read_labels
from oracle.tables import GROUP_COLUMNS
from router.decisions import DECISION_SCHEMA, write_decisions

PIPELINES = ("bm25", "text_dense", "text_late", "text_rerank")
ROUTER_ARMS = ("bm25", "text_dense", "text_rerank")
MEAN_MS = {"bm25": 2.0, "text_dense": 12.0, "text_late": 90.0, "text_rerank": 30.0}
MEASURES = ("nDCG@5", "RR@5", "R@5")


@dataclass
class World:
    """Q queries × P arms, written as a labels folder by :meth:`write`."""

    quality: np.ndarray
    latency_ms: np.ndarray
    datasets: list[str]
    splits: list[str]
    pipelines: tuple[str, ...] = PIPELINES
    router_arms: tuple[str, ...] = ROUTER_ARMS
    status: np.ndarray | None = None
    manifest: dict = field(default_factory=dict)

    def write(self, folder: Path, repeats: int = 3) -> Labels:
        folder.mkdir(parents=True, exist_ok=True)
        n, p = self.quality.shape
        status = np.full((n, p), "ok", dtype=object) if self.status is None else self.status
        ids = np.array([f"q{row:06d}" for row in range(n)], dtype=object)
        datasets = np.array(self.datasets, dtype=object)
        splits = np.array(self.splits, dtype=object)
        kept = (status != "skipped").ravel()
        ran = np.isin(status, ("ok", "empty"))

        def long(values):
            return np.repeat(values, p)[kept]

        def cells(values):
            return pa.array(np.where(ran, values, np.nan).ravel()[kept], from_pandas=True)

        zeros = np.zeros((n, p))
        columns = {
            "dataset": long(datasets),
            "query_id": long(ids),
            "split": long(splits),
            "arm": np.tile(np.array(self.pipelines, dtype=object), n)[kept],
            "status": status.ravel()[kept],
            **{name: cells(self.quality * (1 - 0.1 * i)) for i, name in enumerate(MEASURES)},
            "latency_ms": cells(self.latency_ms),
            "latency_iqr_ms": cells(self.latency_ms * (0.2 if repeats > 1 else 0.0)),
            "latency_modelled": np.zeros(int(kept.sum()), dtype=bool),
            "encode_ms": cells(zeros),
            "search_ms": cells(self.latency_ms),
            "rerank_ms": cells(zeros),
            "repeats": np.full(int(kept.sum()), repeats),
        }
        pq.write_table(pa.table(columns), folder / "labels.parquet")
        queries = {"dataset": datasets, "query_id": ids, "split": splits}
        queries |= dict.fromkeys(GROUP_COLUMNS, ids)
        pq.write_table(pa.table(queries), folder / "queries.parquet")
        if repeats:
            self._write_samples(folder, columns, repeats)
        manifest = {
            "schema_version": 1,
            "pipelines": list(self.pipelines),
            "router_arms": list(self.router_arms),
            "measures": list(MEASURES),
            **self.manifest,
        }
        (folder / "manifest.json").write_text(json.dumps(manifest))
        return read_labels(folder)

    def _write_samples(self, folder, columns, repeats):
        factor = np.linspace(0.8, 1.2, repeats) if repeats > 1 else np.ones(1)
        median = columns["latency_ms"].to_numpy(zero_copy_only=False)
        table = {name: np.repeat(columns[name], repeats) for name in ("dataset", "query_id", "arm")}
        table["repeat"] = np.tile(np.arange(repeats), len(median))
        table["latency_ms"] = (median[:, None] * factor[None, :]).ravel()
        pq.write_table(pa.table(table), folder / "latency_samples.parquet")


def make_world(n: int = 400, seed: int = 0, datasets: int = 3, test_share: float = 0.3) -> World:
    """Each dataset favours another arm; latencies are log-normal around ``MEAN_MS``."""
    rng = np.random.default_rng(seed)
    p = len(PIPELINES)
    dataset = rng.integers(0, datasets, n)
    base = np.array([0.42, 0.45, 0.56, 0.55])
    favour = 0.25 * np.eye(p)[[0, 1, 3]][dataset % 3]
    shared = rng.normal(0, 0.25, (n, 1))
    quality = np.clip(base + favour + shared + rng.normal(0, 0.12, (n, p)), 0, 1)
    means = np.array([MEAN_MS[arm] for arm in PIPELINES])
    latency = means * rng.lognormal(0, 0.25, (n, p))
    draw = rng.random(n)
    splits = np.where(draw < test_share, "test", np.where(draw < test_share + 0.1, "val", "train"))
    names = ["manuals", "tables", "claims", "speech", "letters", "code"]
    return World(quality, latency, [names[i % 6] for i in dataset], splits.tolist())


def decide(
    labels: Labels,
    policy: str,
    lam: float | None,
    columns: np.ndarray,
    overhead_ms: float = 0.0,
    splits: np.ndarray | None = None,
) -> pa.Table:
    """Decisions of one arm per query: ``columns`` (Q,) into P, for all Q queries of ``labels``."""
    n = len(labels.query_ids)
    arms = np.array(labels.pipelines, dtype=object)
    return pa.table(
        {
            "policy": pa.array([policy] * n, pa.string()),
            "lam": pa.array([lam] * n, pa.float64()),
            "dataset": pa.array(labels.datasets, pa.string()),
            "query_id": pa.array(labels.query_ids, pa.string()),
            "split": pa.array(labels.splits if splits is None else splits, pa.string()),
            "plan": pa.array(arms[columns], pa.string()),
            "probability": pa.array([None] * n, pa.float64()),
            "overhead_ms": pa.array(np.full(n, overhead_ms)),
        },
        schema=DECISION_SCHEMA,
    )


def with_ceilings(table: pa.Table, **ceilings: list[float | None]) -> pa.Table:
    """Tell what the ideal order of the merged candidates is worth: ``nDCG=[…]``, cut at 5."""
    for measure, values in ceilings.items():
        column = pa.array(values, pa.float64(), from_pandas=True)
        table = table.append_column(f"ceiling:{measure}@5", column)
    return table


def with_answers(table: pa.Table, plans: list[str], **answers: list[float | None]) -> pa.Table:
    """Put other plans, and what the policy's own rankings are worth: ``nDCG=[…]``, cut at 5."""
    table = table.set_column(table.column_names.index("plan"), "plan", pa.array(plans))
    for measure, values in answers.items():
        column = pa.array(values, pa.float64(), from_pandas=True)
        table = table.append_column(f"answer:{measure}@5", column)
    return table


def rewards(labels: Labels, lam: float) -> np.ndarray:
    """(Q, P) reward, computed the plain way."""
    total = np.nansum(labels.latency_ms[:, labels.columns_of(labels.router_arms)], axis=1)
    share = labels.latency_ms / total[:, None]
    return (1 - lam) * labels.quality["nDCG@5"] + lam * (1 - share)


def best_columns(labels: Labels, lam: float) -> np.ndarray:
    """(Q,) column of the best router arm per query."""
    columns = labels.columns_of(labels.router_arms)
    return columns[np.nan_to_num(rewards(labels, lam)[:, columns], nan=-9.0).argmax(axis=1)]


def best_single_column(labels: Labels, lam: float, rows: np.ndarray) -> int:
    """The arm with the best mean reward over ``rows``."""
    return int(rewards(labels, lam)[rows].mean(axis=0).argmax())


def suite_decisions(
    labels: Labels,
    lams: tuple[float, ...] = (0.0, 0.1, 0.3, 0.5, 0.7, 1.0),
    seed: int = 1,
    hits: float = 0.6,
    folds: int = 5,
) -> pa.Table:
    """Every policy training writes: a router right on ``hits`` of the queries, baselines, folds."""
    rng = np.random.default_rng(seed)
    n = len(labels.query_ids)
    choices = labels.columns_of(labels.router_arms)
    seen = labels.splits != "test"
    fold_names = np.array([f"cv{fold}" for fold in range(folds)], dtype=object)
    fold_of = fold_names[np.arange(n) % folds] if folds else None
    tables = []

    def noisy(lam, share):
        single = np.full(n, best_single_column(labels, lam, seen))
        return np.where(rng.random(n) < share, best_columns(labels, lam), single)

    for lam in lams:
        router = noisy(lam, hits)
        per_dataset = np.zeros(n, dtype=int)
        for dataset in np.unique(labels.datasets):
            members = labels.datasets == dataset
            per_dataset[members] = best_single_column(labels, lam, members & seen)
        for policy, columns, overhead in (
            ("router", router, 1.5),
            ("tfidf", noisy(lam, hits / 3), 0.2),
            ("best_static", np.full(n, best_single_column(labels, lam, seen)), 0.0),
            ("best_static_per_dataset", per_dataset, 0.0),
            ("random_same_mix", rng.permutation(router), 0.0),
            ("static:bm25", np.full(n, choices[0]), 0.0),
        ):
            tables.append(decide(labels, policy, lam, columns, overhead))
            if folds:
                tables.append(decide(labels, policy, lam, columns, overhead, fold_of))
    tables.append(decide(labels, "router_lora", lams[0], noisy(lams[0], hits), 12.0))
    return pa.concat_tables(tables)


def write_suite(folder: Path, world: World | None = None, **options) -> tuple[Path, Path]:
    """Write labels and decisions under ``folder``; return both paths."""
    labels = (world or make_world()).write(folder / "labels")
    router = folder / "router"
    router.mkdir(parents=True, exist_ok=True)
    write_decisions(suite_decisions(labels, **options), router / "decisions.parquet")
    return folder / "labels", router
