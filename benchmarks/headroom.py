"""How much of the headroom at λ = 0 is closed by reading queries, and by looking at results.

Grouped five-fold cross-validation on the labels of the text suite: every policy is fitted inside
the training folds, and decides on the fold that is left out. For three arms (bm25, text_dense,
fusion) and for all that the labels' router may choose, prints mean nDCG@5 and the share of the
headroom closed, from the best static arm and from the best static arm of each dataset, to the best
arm of each query: over all queries with a paired bootstrap interval (queries of one text are drawn
together), and as the mean of datasets. Probing answers with the arm whose list it expects to be
best; ``/merged`` is the policy that merges the same lists into its own ranking. The best arm of
each query bounds the first, not the second. Writes ``benchmarks/results/headroom.json``.

    PYTHONPATH=. .venv/bin/python benchmarks/headroom.py
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.results_file import RESULTS, ROOT, write_result

SUITE = "text-suite"
FOLDS = 5
RESAMPLES = 2000
THREE = ("bm25", "text_dense", "fusion")
RERANK = "text_rerank"
Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Trial:
    """Which arms may answer, and which are looked at first."""

    name: str
    answering: tuple[str, ...]
    probes: tuple[str, ...]

    @property
    def arms(self) -> tuple[str, ...]:
        """Those that may answer, then probes that may not."""
        return (*self.answering, *(one for one in self.probes if one not in self.answering))


def trials(router_arms: Sequence[str]) -> list[Trial]:
    """What is compared: three arms first, then all."""
    every = tuple(router_arms)
    cheap = tuple(one for one in every if one != RERANK)
    return [
        Trial("three/query_only", THREE, ()),
        Trial("three/two_probes", THREE, THREE[:2]),
        Trial("three/cheap_probes", THREE, THREE),
        Trial("three/all_probes", THREE, (*THREE, RERANK)),
        Trial("all/query_only", every, ()),
        Trial("all/cheap_probes", every, cheap),
        Trial("all/all_probes", every, every),
    ]


def arguments() -> argparse.Namespace:
    """What the command line says."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--labels", type=Path, default=ROOT / "runs" / SUITE / "labels")
    parser.add_argument("--recipe", type=Path, default=ROOT / f"training/recipes/{SUITE}.yaml")
    parser.add_argument(
        "--only", nargs="*", help="trials to run, by name; figures of the others are kept"
    )
    parser.add_argument("--folds", type=int, default=FOLDS, help="scored folds, fewer to try")
    parser.add_argument("--name", default="headroom", help="of the file of results")
    return parser.parse_args()


def workshop(labels_folder: Path, recipe: Path) -> Any:
    """Everything that fits share, over the arms that the labels' router may choose."""
    import l2r
    from arms.progress import SilentProgress
    from oracle.labels import read_labels
    from router.query_encoder import QueryEncoder
    from training.embeddings import embed_queries
    from training.open_context import open_context
    from training.table import routing_table
    from training.work_folder import WorkFolder

    run = l2r.read_run(recipe)
    labels = read_labels(labels_folder)
    texts = None
    if labels.texts is None:
        texts = {
            (dataset.name, query.query_id): query.text
            for dataset in l2r.read_datasets(run)
            for query in dataset.queries
        }
    action = routing_table(labels, labels.router_arms, texts)
    settings = run.training
    encoder = QueryEncoder(settings.encoder, settings.max_tokens, settings.encoder_dtype)
    work = WorkFolder(ROOT / "runs" / "headroom.work")
    work.path.mkdir(parents=True, exist_ok=True)
    embedded = embed_queries(action.texts.tolist(), encoder, work.embeddings, l2r._progress())
    task = SilentProgress().task("fitting", total=None).__enter__()
    every = routing_table(labels, labels.pipelines, texts)
    return open_context(
        settings, labels_folder, labels, action, every, encoder, embedded, work, task
    )


def over(context: Any, trial: Trial) -> Any:
    """The workshop with the trial's arms alone; probes that may not answer don't compete."""
    columns = [context.every.arms.index(arm) for arm in trial.arms]
    may_answer = np.array([arm in trial.answering for arm in trial.arms])
    every = context.every
    action = replace(
        every,
        arms=trial.arms,
        quality=np.where(may_answer, every.quality[:, columns], np.nan),
        latency_ms=every.latency_ms[:, columns],
        competes=every.competes[:, columns] & may_answer,
        relevant_first=None,
    )
    return replace(context, action=action)


def decided(
    context: Any, trial: Trial, folds: NDArray[np.intp], scored: int
) -> tuple[Floats, Floats]:
    """(Q,) quality of what was decided at λ = 0, and of what the probes found, merged.

    NaN outside the scored folds, and of what isn't there: without probes nothing is merged.
    """
    from router.policy import PolicyInputs
    from training.cross_validation import rows_of_fold
    from training.learners.probing import probe_depth
    from training.quality_fit import fit_quality

    options = context.settings.probing
    found, own = np.full(len(folds), np.nan), np.full(len(folds), np.nan)
    for fold in range(scored):
        rows = rows_of_fold(context, folds, fold)
        if rows is None:
            continue
        depth = probe_depth(context, trial.probes, options.depth)
        policy = fit_quality(context, trial.name, rows.train, rows.validation, trial.probes, depth)
        if policy is None:
            continue
        mine = np.flatnonzero((folds == fold) & context.action.comparable)
        table = context.action.rows(mine)
        probed = None
        if trial.probes:
            probed = context.runs.probed(trial.probes, mine, context.every, depth)
        known = PolicyInputs(
            embeddings=context.embedded[mine], probed=probed, competes=table.competes
        )
        plans = policy.decide(table.texts.tolist(), 0.0, known).plans
        columns = [table.arms.index(plan.answering_arm) for plan in plans]
        found[mine] = table.quality[np.arange(len(mine)), columns]
        if trial.probes:
            own[mine] = merged(context, trial.probes, rows.train, mine, known)
    return found, own


def merged(
    context: Any, probes: Sequence[str], train: NDArray[np.intp], rows: NDArray[np.intp], known: Any
) -> Floats:
    """(n,) nDCG@5 of what ``probes`` found for ``rows``, merged by models fitted on ``train``."""
    from router.arm_sets import ArmSet
    from router.frozen_queries import FrozenQueries
    from router.policies.merging import MergingPolicy
    from training.learners.merging import fit_arm_set
    from training.learners.probing import probe_depth
    from training.merged_quality import own_quality, primary
    from training.quality_fit import fit_vectors, relative_quality

    table, every = context.action.rows(train), context.every
    relative, _ = relative_quality(table)
    vectors = fit_vectors(
        context.embedded[train], relative, table.competes, context.settings.boosting
    )
    depth = probe_depth(context, probes, context.settings.merging.depth)
    arm_set = fit_arm_set(context, train, probes, vectors, depth)
    alone = [ArmSet((arm,)) for arm in table.arms]
    queries = FrozenQueries.of(context.encoder)
    policy = MergingPolicy("merging", table.arms, [*alone, arm_set], vectors, queries, depth)
    # A probe that may not answer for an arm's own sake may be merged.
    columns = [every.arms.index(arm) for arm in table.arms]
    everyone = replace(known, competes=every.competes[rows][:, columns])
    texts = context.action.texts[rows].tolist()
    found = policy.merge(len(alone), texts, everyone)
    return primary(context.runs, own_quality(context.runs, rows, found))


@dataclass(frozen=True)
class References:
    """What policies over some arms are measured by, (Q,) each."""

    oracle: Floats
    static: tuple[Floats, ...]
    """Per arm; the next best where the dataset lacks it."""
    per_dataset: Floats

    @classmethod
    def of(cls, quality: Floats, datasets: NDArray[np.str_]) -> References:
        """From (Q, A) qualities, NaN where an arm is lacking; chosen on the same queries."""
        order = np.argsort(-np.nanmean(quality, axis=0), kind="stable")
        static = []
        for column in range(quality.shape[1]):
            found = quality[:, column]
            for other in order:
                found = np.where(np.isnan(found), quality[:, other], found)
            static.append(found)
        per_dataset = np.zeros(len(quality))
        for name in np.unique(datasets):
            mine = datasets == name
            per_dataset[mine] = max((one[mine] for one in static), key=lambda one: one.mean())
        return cls(np.nanmax(quality, axis=1), tuple(static), per_dataset)


def closed(got: float, base: float, oracle: float) -> float:
    """Per cent of the way from ``base`` to ``oracle``, all of them means."""
    return float(100.0 * (got - base) / (oracle - base))


def figures(got: Floats, references: References, table: Any, seed: int) -> dict[str, float]:
    """nDCG@5 and headroom closed, micro with 95 % intervals, and macro."""
    datasets, groups = table.datasets.astype(str), table.text_groups.astype(str)
    names = np.unique(datasets)

    def micro(values: Floats) -> float:
        return float(values.mean())

    def macro(values: Floats) -> float:
        return float(np.mean([values[datasets == name].mean() for name in names]))

    best = {mean: max(references.static, key=mean) for mean in (micro, macro)}
    told: dict[str, float] = {}
    for way, mean in (("micro", micro), ("macro", macro)):
        oracle = mean(references.oracle)
        told[f"{way}_ndcg"] = float(mean(got))
        for base, values in (("static", best[mean]), ("per_dataset", references.per_dataset)):
            told[f"{way}_closed_over_{base}_percent"] = closed(mean(got), mean(values), oracle)
    random = np.random.default_rng(seed)
    place = np.unique(groups, return_inverse=True)[1]
    n = place.max() + 1
    sums = {
        key: np.bincount(place, values, n)
        for key, values in (
            ("got", got),
            ("oracle", references.oracle),
            ("static", best[micro]),
            ("per_dataset", references.per_dataset),
        )
    }
    draws = np.stack(
        [np.bincount(random.integers(n, size=n), minlength=n) for _ in range(RESAMPLES)]
    )
    drawn = {key: draws @ values for key, values in sums.items()}
    for base in ("static", "per_dataset"):
        shares = 100.0 * (drawn["got"] - drawn[base]) / (drawn["oracle"] - drawn[base])
        low, high = np.percentile(shares, [2.5, 97.5])
        told |= {
            f"micro_closed_over_{base}_percent/low": float(low),
            f"micro_closed_over_{base}_percent/high": float(high),
        }
    return told


def line(name: str, told: dict[str, float]) -> str:
    """One row of the printed table."""
    parts = [f"{name:28s}"]
    for base in ("static", "per_dataset"):
        key = f"micro_closed_over_{base}_percent"
        interval = f"[{told[f'{key}/low']:.0f}, {told[f'{key}/high']:.0f}]"
        macro = told[f"macro_closed_over_{base}_percent"]
        parts.append(f"{told[key]:5.1f} {interval:>9s} {macro:6.1f}")
    return f"{parts[0]} {told['micro_ndcg']:.4f} {told['macro_ndcg']:.4f} | " + " | ".join(
        parts[1:]
    )


def main() -> None:
    """Run the trials, print, and write the results."""
    from training.folds import fold_of_queries

    given = arguments()
    context = workshop(given.labels, given.recipe)
    folds = fold_of_queries(context.action, FOLDS, context.settings.seed)
    written: dict[str, Any] = {"labels": given.labels.parent.name, "folds": given.folds}
    print(f"{'':28s} nDCG@5        | % closed over the best static arm, over the best per dataset")
    print(f"{'':28s} micro  macro  | micro           macro | micro           macro")
    for trial in trials(context.action.arms):
        if given.only and trial.name not in given.only:
            continue
        began = time.process_time()
        mine = over(context, trial)
        got, own = decided(mine, trial, folds, given.folds)
        there = ~np.isnan(got)
        quality = np.where(mine.action.competes, mine.action.quality, np.nan)[there]
        quality = quality[:, : len(trial.answering)]
        table = mine.action.rows(there)
        references = References.of(quality, table.datasets.astype(str))
        for name, values in ((trial.name, got), (f"{trial.name}/merged", own)):
            if not np.isnan(values[there]).any():
                told = figures(values[there], references, table, context.settings.seed)
                print(line(name, told), flush=True)
                written |= {f"{name}/{key}": value for key, value in told.items()}
        written["queries"] = int(there.sum())
        written[f"{trial.name}/cpu_s"] = round(time.process_time() - began, 1)
        kept = RESULTS / f"{given.name}.json"
        if given.only and kept.is_file():
            written = json.loads(kept.read_text(encoding="utf-8"))["figures"] | written
        write_result(given.name, written)
    print(f"{time.process_time():.0f} s of processor time; written to {given.name}.json")


if __name__ == "__main__":
    main()
