"""An outside audit's tables, recomputed from committed labels and printed beside its figures.

Fusions of lists (its table 2), fusions on collections that they weren't fitted on, and the lead
over late interaction for queries that share a relevant document with another fold, and others.
Only the labels are read: rankings with grades, latencies, folds by equal text. So fusions are
refitted here; what merging decided is compared where ``--decisions`` names a router's
``decisions.parquet`` (folds ``cv0`` … ``cv4``), since the committed labels hold no query texts.

    PYTHONPATH=. .venv/bin/python benchmarks/audit_tables.py

Writes ``benchmarks/results/audit_tables.json``: ``<table>_<row>_<column>`` and ``…_audit``. A few
minutes on one thread.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.results_file import RESULTS, ROOT, write_result

FOLDS, SEED = 5, 42
RESAMPLES = 2000
LATE = "text_late"
SETS = {
    "two_bm25": ("bm25", "bm25@paragraph"),
    "four_cheap": ("bm25", "bm25@paragraph", "text_dense", "text_dense@paragraph"),
    "five": ("bm25", "bm25@paragraph", "text_dense", "text_dense@paragraph", "text_rerank"),
    "bm25_dense": ("bm25", "text_dense"),
    "bm25_rerank": ("bm25", "text_rerank"),
}
NESTED = ("two_bm25", "four_cheap", "five")
NOISE = 0.002
"""A difference beyond this is explained below, or isn't noise of a fit."""

_FUSED = {
    "rrf": (0.678, 0.665, 0.682),
    "min_max_sum": (0.684, 0.692, 0.713),
    "min_max": (0.685, 0.705, 0.726),
    "min_max_per_dataset": (0.685, 0.705, 0.728),
    "top_score": (0.686, 0.710, 0.731),
    "prior": (0.700, 0.721, 0.741),
    "lead_late": (-0.021, 0.003, 0.024),
}
AUDIT: dict[str, float] = {
    # Table 2: nDCG@5, five folds by equal text.
    **{
        f"fusions_{name}_{row}": figures[place]
        for row, figures in _FUSED.items()
        for place, name in enumerate(NESTED)
    },
    "fusions_bm25_dense_rrf": 0.654,
    "fusions_bm25_dense_top_score": 0.702,
    "fusions_bm25_rerank_rrf": 0.718,
    "fusions_bm25_rerank_top_score": 0.730,
    "fusions_late": 0.7071,
    # Weights fitted on the other collections.
    "unseen_five_top_score": 0.7300,
    "unseen_bm25_rerank_top_score": 0.7286,
    "unseen_four_cheap_top_score": 0.7078,
    "unseen_two_bm25_top_score": 0.6846,
    "unseen_four_cheap_reward_lead_bm25": 0.005,
    "unseen_merging_five": 0.7264,
    # Relevant documents that another fold's query had, or not.
    "documents_seen_queries": 4630,
    "documents_unseen_queries": 1700,
    "documents_seen_merging_lead_late": 0.073,
    "documents_unseen_merging_lead_late": 0.011,
    "documents_seen_merging_no_history_lead_late": 0.030,
    "documents_unseen_merging_no_history_lead_late": 0.022,
}
WHY = {
    "top_score": "another search for weights; optima of nDCG@5 are flat",
    "min_max": "another search for weights; optima of nDCG@5 are flat",
    "prior": "the audit had one or two weights for a count of its own, here one for c / (c + 1)",
    "documents": "the audit read all judgements; the labels tell relevant documents only where one "
    "of the arms found them",
    "unseen_four_cheap_reward": "latencies: the labels' own, a shared encoding counted once",
}
"""Begins or ends a figure's name → why it may differ."""


@dataclass(frozen=True)
class Suite:
    """Committed labels as arrays; Q queries."""

    found: Any
    """:class:`training.fusion_fit.Found` of the arms that are fused."""
    datasets: np.ndarray
    groups: np.ndarray
    """(Q,) number of each query's text."""
    folds: np.ndarray
    quality: Mapping[str, np.ndarray]
    """Arm → (Q,) nDCG@k."""
    latency_ms: Mapping[str, np.ndarray]
    encode_ms: Mapping[str, float]
    """Arm → mean milliseconds of encoding the query, where the labels tell."""
    total_ms: np.ndarray
    """(Q,) the sum over the arms a router may choose."""
    keys: Sequence[tuple[str, str]]
    k: int


def read_suite(folder: Path) -> Suite:
    """Read labels; texts aren't needed."""
    from oracle.labels import read_labels
    from training.folds import fold_of_queries
    from training.fusion_fit import found_by
    from training.recorded_runs import RecordedRuns
    from training.table import routing_table

    labels = read_labels(folder)
    keys = list(zip(labels.datasets.tolist(), labels.query_ids.tolist(), strict=True))
    table = routing_table(labels, labels.router_arms, dict.fromkeys(keys, ""), "query")
    every = routing_table(labels, labels.pipelines, dict.fromkeys(keys, ""), "query")
    runs = RecordedRuns.beside(folder, labels)
    if runs is None or runs.relevant_grades is None or not runs.measure.startswith("nDCG@"):
        raise SystemExit(f"{folder} holds no graded rankings, or its quality isn't nDCG@k")
    k = int(runs.measure.removeprefix("nDCG@"))
    discounts = 1.0 / np.log2(np.arange(k) + 2.0)
    best = [np.sort(grades)[::-1][:k] for grades in runs.relevant_grades]
    ideal = np.array([one @ discounts[: len(one)] if len(one) else 1.0 for one in best])
    arms = [arm for arm in SETS["five"] if arm in labels.pipelines]
    found = found_by(
        {arm: runs.rankings(arm) for arm in arms}, {arm: runs.grades(arm) for arm in arms}, ideal
    )
    return Suite(
        found,
        labels.datasets,
        np.unique(table.text_groups.astype(str), return_inverse=True)[1].ravel(),
        fold_of_queries(table, FOLDS, SEED),
        {arm: every.quality[:, column] for column, arm in enumerate(every.arms)},
        {arm: every.latency_ms[:, column] for column, arm in enumerate(every.arms)},
        encode_ms(folder),
        table.total_latency_ms(),
        keys,
        k,
    )


def encode_ms(folder: Path) -> dict[str, float]:
    """Arm → mean milliseconds of encoding a query that was timed; absent where unknown."""
    import pyarrow.parquet as pq

    names = pq.read_schema(folder / "labels.parquet").names
    if "encode_ms" not in names:
        return {}
    told = pq.read_table(folder / "labels.parquet", columns=["arm", "encode_ms"]).to_pandas()
    means = told.dropna().groupby("arm")["encode_ms"].mean()
    return {str(arm): float(value) for arm, value in means.items() if value > 0}


Fit = Callable[[Any, Any], Any]
"""From training and held-out examples to a :class:`router.list_fusion.ListFusion`."""


def out_of_fold(suite: Suite, parts: np.ndarray, fit: Fit, prior: bool = False) -> np.ndarray:
    """(Q,) nDCG@k of every query, fused by what was fitted on the other parts."""
    from training.fusion_fit import Examples, count_relevant, prior_column

    found, quality = suite.found, np.zeros(len(suite.found))
    for part in np.unique(parts):
        train, test = np.flatnonzero(parts != part), np.flatnonzero(parts == part)
        sides = []
        counted = count_relevant(found.rows(train)) if prior else None
        for rows in (train, test):
            own, column = found.rows(rows), None
            if counted is not None:
                column = prior_column(counted, own, suite.groups[rows] if rows is train else None)
            sides.append(Examples(own, suite.datasets[rows], column))
        quality[test] = answered(fit(sides[0], suite.datasets[test]), sides[1], suite.k)
    return quality


def answered(fusion: Any, examples: Any, k: int) -> np.ndarray:
    """(n,) nDCG@k of what ``fusion`` answers to ``examples``."""
    quality = np.zeros(len(examples.found))
    for dataset in np.unique(examples.datasets.astype(str)):
        here = np.flatnonzero(examples.datasets == dataset)
        weights = fusion.of_datasets.get(dataset, fusion.weights)
        objective = examples.objective(fusion.arms, fusion.method, k, dataset)
        quality[here] = objective.of_queries(weights)
    return quality


def fitted(arms: Sequence[str], method: str, k: int, per_dataset: bool = False) -> Fit:
    """Weights for a normalisation, fitted on the training queries alone."""
    from training.fusion_fit import fit_fusion

    def fit(train: Any, _: Any) -> Any:
        return fit_fusion(arms, train, train, k, (method,), per_dataset)  # type: ignore[arg-type]

    return fit


def fixed(arms: Sequence[str], method: str) -> Fit:
    """All weights equal, nothing fitted."""
    from router.list_fusion import ListFusion

    def fit(train: Any, _: Any) -> Any:
        return ListFusion(tuple(arms), method, np.ones(len(arms)))  # type: ignore[arg-type]

    return fit


def fusions(suite: Suite) -> tuple[dict[str, float], dict[str, np.ndarray]]:
    """Table 2's fusions in folds; also (Q,) nDCG of those that the table of documents needs."""
    figures: dict[str, float] = {"fusions_late": float(np.nanmean(suite.quality[LATE]))}
    kept = {}
    for name, arms in SETS.items():
        rows = {
            "rrf": (fixed(arms, "reciprocal_ranks"), False),
            "min_max_sum": (fixed(arms, "min_max"), False),
            "min_max": (fitted(arms, "min_max", suite.k), False),
            "min_max_per_dataset": (fitted(arms, "min_max", suite.k, True), False),
            "top_score": (fitted(arms, "top_score", suite.k), False),
            "z": (fitted(arms, "z", suite.k), False),
            "prior": (fitted(arms, "top_score", suite.k), True),
        }
        for row, (fit, prior) in rows.items():
            if name not in NESTED and row not in ("rrf", "top_score", "prior"):
                continue
            quality = out_of_fold(suite, suite.folds, fit, prior)
            figures[f"fusions_{name}_{row}"] = float(quality.mean())
            kept[f"{name}_{row}"] = quality
        lead = kept[f"{name}_top_score"] - suite.quality[LATE]
        figures |= with_interval(f"fusions_{name}_lead_late", lead)
    return figures, kept


def unseen_collections(suite: Suite) -> dict[str, float]:
    """Weights fitted on the other collections; with rewards at λ = 0.1 for the four cheap arms."""
    figures = {}
    parts = np.unique(suite.datasets.astype(str), return_inverse=True)[1].ravel()
    for name in ("five", "bm25_rerank", "four_cheap", "two_bm25"):
        arms = SETS[name]
        quality = out_of_fold(suite, parts, fitted(arms, "top_score", suite.k))
        taken = shared_latency_ms(suite, arms)
        figures[f"unseen_{name}_top_score"] = float(quality.mean())
        figures[f"unseen_{name}_rrf"] = float(
            out_of_fold(suite, parts, fixed(arms, "reciprocal_ranks")).mean()
        )
        figures[f"unseen_{name}_mean_ms"] = float(np.nanmean(taken))
        lead = reward(suite, quality, taken, 0.1) - reward(
            suite, suite.quality["bm25"], suite.latency_ms["bm25"], 0.1
        )
        figures |= with_interval(f"unseen_{name}_reward_lead_bm25", lead)
    return figures


def shared_latency_ms(suite: Suite, arms: Sequence[str]) -> np.ndarray:
    """(Q,) the sum over ``arms``, a vector of the query that several of them need made once.

    Reranking needs it too where its labels hold two passes of the encoder.
    """
    told = suite.encode_ms
    passes = [told.get(arm, 0.0) for arm in arms if arm.startswith("text_dense")]
    one = told.get("text_dense", 0.0)
    if passes and "text_rerank" in arms and told.get("text_rerank", 0.0) > 1.5 * one:
        passes.append(one)
    saved = sum(passes) - max(passes, default=0.0)
    return np.asarray(np.sum([suite.latency_ms[arm] for arm in arms], axis=0) - saved)


def reward(suite: Suite, quality: np.ndarray, taken_ms: np.ndarray, lam: float) -> np.ndarray:
    """(Q,) Equation 1."""
    from router.realised import plan_reward

    return plan_reward(quality, taken_ms, suite.total_ms, lam)


def seen_documents(suite: Suite) -> np.ndarray:
    """(Q,) whether a relevant document that was found was relevant to another fold's query."""
    rows, places = np.nonzero(suite.found.gains > 0)
    keys, number = np.unique(suite.found.keys[rows, places], return_inverse=True)
    in_fold = np.zeros((len(keys), FOLDS), dtype=bool)
    in_fold[number, suite.folds[rows]] = True
    elsewhere = in_fold.sum(axis=1)[number] - 1 > 0  # its own fold is one of them
    seen = np.zeros(len(suite.found), dtype=bool)
    seen[rows[elsewhere]] = True
    return seen


def documents(suite: Suite, kept: Mapping[str, np.ndarray]) -> dict[str, float]:
    """Lead over late interaction where a relevant document was seen, and where none was."""
    seen = seen_documents(suite)
    figures: dict[str, float] = {}
    for name, here in (("seen", seen), ("unseen", ~seen)):
        figures[f"documents_{name}_queries"] = int(here.sum())
        for policy, quality in kept.items():
            lead = (quality - suite.quality[LATE])[here & np.isfinite(quality)]
            if len(lead):
                figures |= with_interval(f"documents_{name}_{policy}_lead_late", lead)
    return figures


def decided(suite: Suite, path: Path, policies: Iterable[str]) -> dict[str, np.ndarray]:
    """Policy → (Q,) nDCG of its own rankings at λ = 0 in folds; NaN where it made none."""
    import pyarrow.parquet as pq

    table = pq.read_table(path, filters=[("lam", "=", 0.0)]).to_pandas()
    table = table[table["split"].str.match(r"cv\d+$")]
    answer = next(name for name in table.columns if name.startswith("answer:nDCG@"))
    row_of = {key: row for row, key in enumerate(suite.keys)}
    found = {}
    for policy in policies:
        own = table[table["policy"] == policy]
        if not len(own):
            continue
        quality = np.full(len(suite.keys), np.nan)
        rows = [row_of[key] for key in zip(own["dataset"], own["query_id"], strict=True)]
        quality[rows] = own[answer].to_numpy()
        found[policy] = quality
    return found


def with_interval(name: str, values: np.ndarray) -> dict[str, float]:
    """Mean, and its 95 % bootstrap interval over queries."""
    from analysis.bootstrap import Resamples, estimate_means

    known = values[np.isfinite(values)]
    one = estimate_means(known[:, None], Resamples(len(known), RESAMPLES, SEED), 0.95)[0]
    return {name: one.value, f"{name}_low": one.low, f"{name}_high": one.high}


def compared(figures: Mapping[str, float]) -> list[str]:
    """A line for each figure that the audit has, with why where they differ beyond noise."""
    lines = [f"{'':50}{'here':>9}{'audit':>9}{'apart':>9}"]
    for name, theirs in AUDIT.items():
        ours = figures.get(name)
        if ours is None:
            lines.append(f"{name:50}{'–':>9}{theirs:9.4g}{'':9}  needs --decisions")
            continue
        apart = ours - theirs
        noisy = abs(apart) <= (NOISE if theirs < 2 else 0.01 * theirs)
        why = "" if noisy else next((told for key, told in WHY.items() if key in name), "")
        lines.append(f"{name:50}{ours:9.4g}{theirs:9.4g}{apart:+9.4f}  {why}")
    return lines


def main() -> None:
    """Recompute, print, write."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument(
        "--labels", type=Path, default=ROOT / "benchmarks/labels/text-suite-audited"
    )
    parser.add_argument("--decisions", type=Path, help="decisions.parquet with merging's folds")
    parser.add_argument("--results", type=Path, default=RESULTS, help="folder of the JSON")
    given = parser.parse_args()
    suite = read_suite(given.labels)
    figures, kept = fusions(suite)
    figures |= unseen_collections(suite)
    shown = {name: kept[name] for name in ("five_top_score", "five_prior")}
    if given.decisions is not None:
        shown |= decided(suite, given.decisions, ("merging", "merging_no_history"))
    figures |= documents(suite, shown)
    # Further tables of the audit (best static per dataset, shares of the default) come here.
    print("\n".join(compared(figures)))
    further = sorted(set(figures) - set(AUDIT))
    print("\n".join(f"{name:50}{figures[name]:9.4g}" for name in further))
    path = write_result(
        "audit_tables",
        figures | {f"{name}_audit": one for name, one in AUDIT.items()},
        given.results,
    )
    print(path)


if __name__ == "__main__":
    main()
