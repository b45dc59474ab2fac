"""Best static arms of the committed labels: which, and what they earn in folds and on test.

Over all datasets and within each, at each λ, picked on training and validation queries by the rule
of ``oracle/best_static.py`` and scored as reports do. Beside them the best arms within each dataset
as they were picked until 2026-11: by latency shares over P, though scored over A. Nothing is
trained and no text is read. Writes ``benchmarks/results/best_static.json``.

    PYTHONPATH=. .venv/bin/python benchmarks/best_static.py
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.results_file import ROOT, write_result

LAMS = (0.0, 0.1, 0.3, 0.5, 0.7, 1.0)
SUITES = ("text-suite", "pages-suite")
FOLDS, SEED = 5, 42


def tables(folder: Path) -> tuple[Any, Any]:
    """The labels over P and over A, without their texts."""
    from oracle.labels import read_labels
    from training.table import routing_table

    labels = read_labels(folder)
    keys = zip(labels.datasets.tolist(), labels.query_ids.tolist(), strict=True)
    texts = dict.fromkeys(keys, "")
    return (
        routing_table(labels, labels.pipelines, texts),
        routing_table(labels, labels.router_arms, texts),
    )


def rewards_of(every: Any, action: Any, lam: float) -> np.ndarray:
    """(Q, P) as policies are scored: latency over the sum of A's arms."""
    from arms.reward import latency_share, reward

    share = latency_share(every.latency_ms, action.total_latency_ms()[:, None])
    return reward(every.quality, share, lam)


def picked(every: Any, action: Any, seen: np.ndarray, unseen: np.ndarray) -> dict[str, np.ndarray]:
    """``<rule>/<λ>`` → rewards on the comparable ones of ``unseen`` queries."""
    from training.fitting import fit_best_static

    seen_every, rows = every.rows(seen), np.flatnonzero(unseen & every.comparable)
    fitted = fit_best_static(seen_every, action.rows(seen), LAMS)
    before = fit_best_static(seen_every, seen_every, LAMS)
    datasets, has = every.datasets[rows], every.competes[rows]
    found = {}
    for lam in LAMS:
        rewards = rewards_of(every, action, lam)
        columns = {
            "best_static": fitted[lam].choose(has),
            "best_static_per_dataset": fitted[lam].choose_per_dataset(datasets, has),
            "per_dataset_by_shares_over_p": before[lam].choose_per_dataset(datasets, has),
        }
        for name, chosen in columns.items():
            found[f"{name}/{lam:g}"] = rewards[rows, chosen]
    return found


def figures_of(suite: str) -> dict[str, float]:
    """``<suite>/<folds or test>/<rule>/<λ>`` → mean reward."""
    from training.folds import fold_of_queries

    every, action = tables(ROOT / "benchmarks" / "labels" / suite)
    fold_of = fold_of_queries(every, FOLDS, SEED)
    parts = [picked(every, action, fold_of != fold, fold_of == fold) for fold in range(FOLDS)]
    folds = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
    test = picked(every, action, every.splits != "test", every.splits == "test")
    return {
        f"{suite}/{place}/{name}": round(float(rewards.mean()), 6)
        for place, found in (("folds", folds), ("test", test))
        for name, rewards in found.items()
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--suites", nargs="+", default=list(SUITES))
    figures = {}
    for suite in parser.parse_args().suites:
        figures |= figures_of(suite)
    for name, value in figures.items():
        print(f"{name:60} {value:.4f}")
    print(write_result("best_static", figures))


if __name__ == "__main__":
    main()
