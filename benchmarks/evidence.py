"""What the text suite's claims come to on three splits, beside the strongest simple baselines.

Every query is decided by policies that never saw its group: in five folds over queries of equal
text, in five folds over documents (queries that share a relevant document, or are nearly equal,
share a fold), and with its whole collection left out. Rewards are scored as the report scores them,
overhead charged; differences are paired, with intervals over queries.

    PYTHONPATH=. .venv/bin/python benchmarks/evidence.py overheads
    PYTHONPATH=. .venv/bin/python benchmarks/evidence.py query  # document, holdout, seeds likewise
    PYTHONPATH=. .venv/bin/python benchmarks/evidence.py clean  # once; clean_folds likewise
    PYTHONPATH=. .venv/bin/python benchmarks/evidence.py summary

Parts may run side by side; each keeps what it decided in ``--work``. ``overheads`` comes first and
wants the machine for itself. ``summary`` prints the table and writes
``benchmarks/results/evidence.json`` and ``docs/results/evidence.md``.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.results_file import RESULTS, ROOT, write_result

LAMS = (0.0, 0.1, 0.3, 0.5, 1.0)
FIGURE_LAMS = (0.0, 0.1, 0.3)
FOLDS = 5
SEED = 42
SEEDS_PART = "seeds"
SEEDS = (42, 1, 2, 3, 4)
PARTS = {"query": "folds over queries", "document": "folds over documents"}
HOLDOUT = "holdout"
CLEAN, CLEAN_FOLDS = "clean", "clean_folds"
JOINED = "joined-labels"
TITLES = {
    **PARTS,
    HOLDOUT: "collections left out",
    CLEAN: "three collections that no choice has seen, left out",
    CLEAN_FOLDS: "the same three, folds over queries",
}
PRIOR = "tuned_fusion_prior"
POLICIES = ("static_embedding", "reciprocal_ranks", "tuned_fusion", PRIOR)
MERGING, WITHOUT = "merging", "merging_no_history"
BEST, PER_DATASET, FUSION, ROUTER = (
    "best_static", "best_static_per_dataset", "tuned_fusion", "router",
)  # fmt: skip
SHOWN = (
    BEST, PER_DATASET, "reciprocal_ranks", FUSION, PRIOR, ROUTER, MERGING, WITHOUT,
    "oracle(A)",
)  # fmt: skip
COMPARED = (
    (ROUTER, BEST), (ROUTER, PER_DATASET), (FUSION, BEST), (WITHOUT, FUSION), (MERGING, WITHOUT),
    (MERGING, FUSION), (MERGING, PRIOR), (MERGING, BEST),
)  # fmt: skip


def _context(labels_folder: Path, split: str, work: Path, task: Any, seed: int = SEED) -> Any:
    from arms.progress import SilentProgress
    from oracle.labels import read_labels
    from router.query_encoder import QueryEncoder
    from training.embeddings import embed_queries
    from training.open_context import open_context
    from training.settings import TrainingSettings
    from training.table import routing_table
    from training.work_folder import WorkFolder

    labels = read_labels(labels_folder)
    settings = TrainingSettings(
        lams=LAMS,
        policies=(*POLICIES, MERGING, WITHOUT),
        router="static_embedding",
        seed=seed,
    )
    texts = _texts() if labels.texts is None else None
    action = routing_table(labels, labels.router_arms, texts, split)
    every = routing_table(labels, labels.pipelines, texts, split)
    folder = WorkFolder(work / "fits")
    folder.path.mkdir(parents=True, exist_ok=True)
    encoder = QueryEncoder(settings.encoder, settings.max_tokens, settings.encoder_dtype)
    embedded = embed_queries(action.texts.tolist(), encoder, folder.embeddings, SilentProgress())
    return open_context(
        settings, labels_folder, labels, action, every, encoder, embedded, folder, task
    )


def _texts() -> dict[tuple[str, str], str]:
    """Query texts from the collections themselves: the committed labels hold none."""
    import l2r

    texts: dict[tuple[str, str], str] = {}
    for recipe in ("training/recipes/text-suite.yaml", "benchmarks/clean-suite.yaml"):
        run = l2r.read_run(ROOT / recipe)
        if all(one.path.is_dir() for one in run.corpus):
            texts |= l2r.texts_of(l2r.read_datasets(run))
    return texts


def joined_labels(one: Path, other: Path, out: Path) -> Path:
    """Write ``out``, labels that hold both: the same arms over other datasets; return it."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    from arms.atomic import write_json
    from oracle.labels import MANIFEST, read_manifest

    manifests = read_manifest(one), read_manifest(other)
    for key in ("pipelines", "router_arms", "measures"):
        if manifests[0][key] != manifests[1][key]:
            raise SystemExit(f"{one} and {other} differ in {key}")
    out.mkdir(parents=True, exist_ok=True)
    for name in ("labels", "queries", "runs"):
        tables = [pq.read_table(folder / f"{name}.parquet") for folder in (one, other)]
        for column in [group for group in tables[1].column_names if group.endswith("_group")]:
            place = tables[1].column_names.index(column)  # released groups are numbered per folder
            named = [group and f"{other.name}:{group}" for group in tables[1][column].to_pylist()]
            tables[1] = tables[1].set_column(place, column, pa.array(named, pa.string()))
        joined = pa.concat_tables(tables, promote_options="default")
        pq.write_table(joined, out / f"{name}.parquet")
    datasets = {**manifests[0]["datasets"], **manifests[1]["datasets"]}
    write_json(out / MANIFEST, {**manifests[0], "datasets": datasets})
    return out


def _fitted(context: Any, rows: Any, default: str, costs: Mapping[int, Any]) -> Any:
    from training.cross_validation import fit_fold
    from training.default_policy import with_default

    fitted = fit_fold(context, rows, per_lam=False)
    return with_default(context, fitted, default, costs, rows.train, rows.validation)


def _fixed_split(context: Any) -> Any:
    from training import fitting
    from training.cross_validation import FoldRows

    splits = context.action.splits
    return FoldRows(
        fitting.comparable_rows(context, splits == "train"),
        fitting.comparable_rows(context, splits == "val"),
        splits != "test",
    )


def overheads(labels_folder: Path, work: Path) -> None:
    """Fit the labels' own split once, time what deciding takes, and keep the medians."""
    from arms.atomic import write_json
    from arms.progress import SilentProgress
    from router.policy_names import ROUTER as DEFAULT
    from training.cross_validation import fit_fold
    from training.decide import measured_overheads
    from training.default_policy import with_default
    from training.gating import costs_of_default

    with SilentProgress().task("", 1) as task:
        context = _context(labels_folder, "query", work, task)
    rows, name = _fixed_split(context), context.settings.router
    fitted = fit_fold(context, rows, per_lam=False)
    costs = measured_overheads(context, fitted.learned)
    fitted = with_default(context, fitted, name, costs[name], rows.train, rows.validation)
    router = measured_overheads(context, {DEFAULT: fitted.learned[DEFAULT]})[DEFAULT]
    costs[DEFAULT] = dict(costs_of_default(fitted.learned[DEFAULT], costs[name], router))
    medians = {
        policy: {str(key): float(np.median(taken)) for key, taken in of_policy.items()}
        for policy, of_policy in costs.items()
    }
    write_json(work / "overheads.json", medians)
    print(json.dumps(medians, indent=2))


def _folds(action: Any, part: str, clean: Sequence[str]) -> np.ndarray:
    """(Q,) the fold of each query in ``part``; below 0 it is never scored."""
    from training.folds import fold_of_queries

    if part == HOLDOUT:
        return np.unique(action.datasets.astype(str), return_inverse=True)[1]
    folds = fold_of_queries(action, FOLDS, SEED)
    if part in (CLEAN, CLEAN_FOLDS):
        is_clean = np.isin(action.datasets.astype(str), clean)
        folds = np.where(is_clean, 0 if part == CLEAN else folds, -1)
    return folds


def decide(labels_folder: Path, part: str, work: Path, clean: Sequence[str] = ()) -> None:
    """Decide every query in ``part``'s folds, fold by fold; finished folds are kept.

    ``clean``: the datasets that the parts ``clean`` and ``clean_folds`` score.
    """
    import pyarrow as pa

    from arms.progress import SilentProgress
    from router.decisions import read_decisions, write_decisions
    from training.cross_validation import rows_of_fold
    from training.decide import add_decisions
    from training.decision_table import DecisionTable

    medians = json.loads((work / "overheads.json").read_text(encoding="utf-8"))
    with SilentProgress().task("", 1) as task:
        split = part if part in PARTS else "query"
        context = _context(labels_folder, split, work, task)
    action, default = context.action, context.settings.router
    folds = _folds(action, part, clean)
    costs = {
        policy: {int(key): np.full(len(action), ms) for key, ms in by_key.items()}
        for policy, by_key in medians.items()
    }
    tables = []
    for fold in sorted(set(folds[folds >= 0].tolist())):
        path = work / part / f"{fold}.parquet"
        if not path.is_file():
            rows = rows_of_fold(context, folds, fold)
            fitted = _fitted(context, rows, default, costs[default])
            decisions, unseen = DecisionTable(), np.flatnonzero(folds == fold)
            named = np.full(len(unseen), f"cv{fold}", dtype=object)
            add_decisions(decisions, context, fitted, unseen, named, costs)
            path.parent.mkdir(parents=True, exist_ok=True)
            write_decisions(decisions.finish(), path)
        print(f"{part}: fold {fold} decided", flush=True)
        tables.append(read_decisions(path))
    write_decisions(pa.concat_tables(tables, promote_options="default"), work / f"{part}.parquet")


def seeds(labels_folder: Path, work: Path) -> None:
    """Fit the labels' own split with five seeds; keep what each decided on the test queries."""
    from arms.progress import SilentProgress
    from router.decisions import write_decisions
    from training.decide import add_decisions
    from training.decision_table import DecisionTable

    medians = json.loads((work / "overheads.json").read_text(encoding="utf-8"))
    for seed in SEEDS:
        path = work / f"{SEEDS_PART}-{seed}.parquet"
        if path.is_file():
            continue
        with SilentProgress().task("", 1) as task:
            context = _context(labels_folder, "query", work, task, seed)
        costs = {
            policy: {int(key): np.full(len(context.action), ms) for key, ms in by_key.items()}
            for policy, by_key in medians.items()
        }
        name = context.settings.router
        fitted = _fitted(context, _fixed_split(context), name, costs[name])
        tested = np.flatnonzero(context.action.splits == "test")
        decisions = DecisionTable()
        splits = np.full(len(tested), "cv0", dtype=object)
        add_decisions(decisions, context, fitted, tested, splits, costs)
        write_decisions(decisions.finish(), path)
        print(f"seed {seed} decided", flush=True)


def scored(labels_folder: Path, part: str, work: Path) -> Any:
    """Return (policy, λ) → outcome, over the queries that everybody decided."""
    from analysis.decided import join_decisions
    from analysis.decision_codes import FOLDS as POOLED
    from analysis.decision_codes import read_decision_batches
    from analysis.evaluation import evaluate_queries
    from analysis.results import score_all
    from oracle.labels import read_labels

    labels = read_labels(labels_folder)
    decided = join_decisions(read_decision_batches(work / f"{part}.parquet"), labels)
    rows = decided.label_rows(POOLED)
    evaluation = evaluate_queries(labels, rows, POOLED, labels.router_arms)
    return score_all(labels, decided, evaluation, LAMS).outcomes


def summary(labels_folder: Path, work: Path) -> None:
    """Print and write the table, and the figures."""
    from analysis.bootstrap import Resamples, estimate_means

    figures: dict[str, Any] = {}
    lines = ["# Evidence", "", _INTRODUCTION, ""]
    gaps, history = [], []
    for part in TITLES:
        if not (work / f"{part}.parquet").is_file():
            continue
        is_clean = part in (CLEAN, CLEAN_FOLDS)
        outcomes = scored(work / JOINED if is_clean else labels_folder, part, work)
        n = len(next(iter(outcomes.values())).evaluation)
        codes = next(iter(outcomes.values())).evaluation.dataset_codes
        resamples = Resamples(n, 2000, SEED)
        names = [name for name in SHOWN if (name, LAMS[0]) in outcomes]
        lines += [f"## {TITLES[part].capitalize()} ({n:,} queries)", "", *_rewards(outcomes, names)]
        lines += ["", "Reward minus reward; paired 95 % intervals over queries:", ""]
        lines += [_row(["", *(f"λ = {lam:g}" for lam in LAMS)]), _row(["---"] * (len(LAMS) + 1))]
        for ours, theirs in COMPARED:
            if ours not in names or theirs not in names:
                continue
            cells = []
            for lam in LAMS:
                difference = outcomes[ours, lam].reward - outcomes[theirs, lam].reward
                one = estimate_means(difference[:, None], resamples, 0.95)[0]
                cells.append(f"{one.value:+.4f} [{one.low:+.4f}, {one.high:+.4f}]")
                if (ours, theirs) == (ROUTER, BEST) and not is_clean:
                    gaps.append(one.value)
                if (ours, theirs) == (MERGING, WITHOUT) and part in ("document", HOLDOUT):
                    history.append(one.value)
            lines.append(_row([f"{ours} − {theirs}", *cells]))
        lines.append("")
        for lam in FIGURE_LAMS:
            for name in names:
                key = f"{part}_lam{lam:g}_{name}"
                rewards = outcomes[name, lam].reward
                figures[key] = round(float(np.nanmean(rewards)), 5)
                macro = [np.nanmean(rewards[codes == one]) for one in sorted(set(codes.tolist()))]
                figures[f"{key}_macro"] = round(float(np.mean(macro)), 5)
    lines += _seed_lines(labels_folder, work, figures)
    figures["router_worst_gap_to_best_static"] = round(float(min(gaps)), 5)
    if history:
        figures["history_worst_gap"] = round(float(min(history)), 5)
    timed = RESULTS / "single_query.json"
    if timed.is_file():
        told = json.loads(timed.read_text(encoding="utf-8"))["figures"]
        for arm in ("text_dense", "text_rerank"):
            figures |= {f"{arm}_p50_ms": told[f"{arm}_p50_ms"]}
    path = write_result("evidence", figures)
    text = "\n".join(lines).replace("-0.", "−0.").replace("+-", "±")
    (ROOT / "docs" / "results" / "evidence.md").write_text(text, encoding="utf-8")
    print(text)
    print(f"figures: {path}")


def _seed_lines(labels_folder: Path, work: Path, figures: dict[str, Any]) -> list[str]:
    """The test split with five seeds: mean reward, lowest and highest."""
    parts = [f"{SEEDS_PART}-{seed}" for seed in SEEDS]
    if not all((work / f"{part}.parquet").is_file() for part in parts):
        return []
    found = [scored(labels_folder, part, work) for part in parts]
    lines = ["## Five seeds, test split: mean reward, lowest to highest", ""]
    lines += [_row(["", *(f"λ = {lam:g}" for lam in LAMS)]), _row(["---"] * (len(LAMS) + 1))]
    for name in (ROUTER, MERGING, WITHOUT, BEST):
        cells = []
        for lam in LAMS:
            rewards = [float(np.nanmean(one[name, lam].reward)) for one in found]
            cells.append(f"{np.mean(rewards):.4f} ({min(rewards):.4f} to {max(rewards):.4f})")
            if lam in FIGURE_LAMS:
                figures[f"seeds_lam{lam:g}_{name}_lowest"] = round(min(rewards), 5)
                figures[f"seeds_lam{lam:g}_{name}_highest"] = round(max(rewards), 5)
        lines.append(_row([name, *cells]))
    return [*lines, ""]


def _rewards(outcomes: Mapping[Any, Any], names: Sequence[str]) -> list[str]:
    """Mean reward, micro and macro, and mean milliseconds."""
    head = ["", *(f"λ = {lam:g}" for lam in LAMS), "macro, λ = 0", "ms, λ = 0", "ms, λ = 0.1"]
    lines = [_row(head), _row(["---"] * len(head))]
    for name in names:
        cells = [f"{np.nanmean(outcomes[name, lam].reward):.4f}" for lam in LAMS]
        codes = outcomes[name, 0.0].evaluation.dataset_codes
        rewards = outcomes[name, 0.0].reward
        macro = np.mean([np.nanmean(rewards[codes == one]) for one in sorted(set(codes.tolist()))])
        times = [f"{np.nanmean(outcomes[name, lam].latency_ms):.1f}" for lam in (0.0, 0.1)]
        lines.append(_row([name, *cells, f"{macro:.4f}", *times]))
    return lines


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


_INTRODUCTION = (
    "Mean reward of every policy on the text suite, made by `benchmarks/evidence.py`. Each query "
    "is decided by policies that saw nothing of its group. Latencies are the labels'; every "
    "policy's own overhead is charged."
)


def main() -> None:
    """Run one part."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("part", choices=("overheads", *TITLES, SEEDS_PART, "summary"))
    parser.add_argument("--labels", type=Path, default=ROOT / "benchmarks/labels/text-suite")
    parser.add_argument("--clean", type=Path, default=ROOT / "benchmarks/labels/clean-suite")
    parser.add_argument("--work", type=Path, default=ROOT / "runs/evidence")
    given = parser.parse_args()
    given.work.mkdir(parents=True, exist_ok=True)
    if given.part == "overheads":
        overheads(given.labels, given.work)
    elif given.part == SEEDS_PART:
        seeds(given.labels, given.work)
    elif given.part == "summary":
        summary(given.labels, given.work)
    elif given.part in (CLEAN, CLEAN_FOLDS):
        from oracle.labels import read_manifest

        joined = joined_labels(given.labels, given.clean, given.work / JOINED)
        decide(joined, given.part, given.work, list(read_manifest(given.clean)["datasets"]))
    else:
        decide(given.labels, given.part, given.work)


if __name__ == "__main__":
    main()
