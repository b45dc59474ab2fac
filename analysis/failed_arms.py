"""Arms that failed on every test query: left out by name, so that the others can be compared."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from analysis.evaluation import FloatArray
from oracle.labels import Labels

_TEST = "test"
_FAILED = ("error", "timeout")


def without_dead_arms(
    labels: Labels, samples_ms: FloatArray | None = None
) -> tuple[Labels, FloatArray | None, tuple[str, ...]]:
    """Return labels and (Q, P, repeats) timings of the arms that are alive, and notes on the rest.

    Dead is an arm that ended in error or timeout on every test query of the datasets that have it.
    Arms that a router may choose stay: the reward is normalised over them.
    """
    status = labels.status[labels.splits == _TEST]
    failed, ran = np.isin(status, _FAILED), status != "skipped"
    dead = ran.any(axis=0) & (failed == ran).all(axis=0)
    dead &= ~np.isin(labels.pipelines, labels.router_arms)
    if not dead.any():
        return labels, samples_ms, ()
    kept = np.flatnonzero(~dead)
    alive = replace(
        labels,
        pipelines=tuple(labels.pipelines[column] for column in kept),
        status=labels.status[:, kept],
        latency_ms=labels.latency_ms[:, kept],
        quality={measure: values[:, kept] for measure, values in labels.quality.items()},
    )
    notes = tuple(
        f"{labels.pipelines[column]} is left out: it failed on all "
        f"{int(ran[:, column].sum()):,} test queries."
        for column in np.flatnonzero(dead)
    )
    return alive, None if samples_ms is None else samples_ms[:, kept], notes
