"""Reward of every policy at every λ on the committed labels of the text suite.

Trains all policies on the labels under ``benchmarks/labels`` (the texts come from the collections
that the suite's recipe names), and evaluates them as a report does: on the test split, overheads
and probes counted, with paired bootstrap intervals. Prints the rewards, and writes them to
``benchmarks/results/suite_rewards.json``.

    PYTHONPATH=. .venv/bin/python benchmarks/suite_rewards.py
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path
from typing import Any

from benchmarks.results_file import ROOT, write_result

SUITE = "text-suite"


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--labels", type=Path, default=ROOT / "benchmarks" / "labels" / SUITE)
    parser.add_argument("--recipe", type=Path, default=ROOT / f"training/recipes/{SUITE}.yaml")
    parser.add_argument("--router", type=Path, help="decisions of this router; default: train one")
    parser.add_argument("--name", default="suite_rewards", help="of the file of results")
    return parser.parse_args()


def trained(labels: Path, recipe: Path, folder: Path) -> Path:
    """Train as the recipe says, on these labels; return the router's folder."""
    import l2r
    from training.train_routers import train_routers

    run = l2r.read_run(recipe)
    texts = {
        (dataset.name, query.query_id): query.text
        for dataset in l2r.read_datasets(run)
        for query in dataset.queries
    }
    train_routers(labels, texts, folder, run.training, l2r._progress())
    return folder


def rewards(labels_folder: Path, router_folder: Path) -> dict[str, float]:
    """``<policy>/<λ>``: mean reward on the test queries and its interval, and what differs."""
    from analysis.decision_codes import read_decision_batches
    from analysis.results import compute_results
    from analysis.settings import ReportSettings
    from oracle.labels import read_labels
    from router.artifact import DECISIONS

    labels = read_labels(labels_folder)
    decisions = read_decision_batches(router_folder / DECISIONS)
    results = compute_results(labels, decisions, ReportSettings())
    figures: dict[str, float] = {"test_queries": len(results.test.scores.evaluation)}
    for compared in results.test.comparisons:
        key = f"{compared.policy}/{compared.lam:g}"
        figures |= _estimate(f"{key}/router_minus", compared.reward_difference)
    for key, value in _means(results).items():
        figures |= _estimate(key, value)
    return figures


def _means(results: Any) -> dict[str, Any]:
    from analysis.bootstrap import Resamples
    from analysis.mean_table import MeanTable

    settings, scores = results.settings, results.test.scores
    resamples = Resamples(len(scores.evaluation), settings.n_resamples, settings.seed)
    table = MeanTable(scores, resamples, settings.confidence)
    found = {}
    for (policy, lam), outcome in scores.outcomes.items():
        common = table.common((outcome,))
        mean = table.mean(outcome, "reward", common)
        found[f"{policy}/{lam:g}"] = table.estimate(mean.value, mean.replicates, common.n)
    return found


def _estimate(key: str, estimate: Any) -> dict[str, float]:
    if estimate.value is None:
        return {}
    return {key: estimate.value, f"{key}/low": estimate.low, f"{key}/high": estimate.high}


def main() -> None:
    given = arguments()
    with tempfile.TemporaryDirectory() as temporary:
        router = given.router or trained(given.labels, given.recipe, Path(temporary) / "router")
        figures = rewards(given.labels, router)
    figures = {key: round(value, 6) for key, value in figures.items()}
    for key in sorted(key for key in figures if f"{key}/low" in figures):
        low, high = figures[f"{key}/low"], figures[f"{key}/high"]
        print(f"{key:45} {figures[key]:+.4f} [{low:+.4f}, {high:+.4f}]")
    print(write_result(given.name, figures))


if __name__ == "__main__":
    main()
