"""How long a policy takes to decide: measured like an arm, one query at a time."""

from __future__ import annotations

import time
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from router.policy import Policy, Probed


def measure_overhead(
    policy: Policy,
    queries: Sequence[str],
    lam: float,
    repeats: int = 3,
    warm_up: int = 5,
    probed: Probed | None = None,
) -> NDArray[np.float64]:
    """(len(queries),) median milliseconds of deciding each query: serial, warm, one at a time.

    ``warm_up`` queries are decided first and not counted. Each repeat walks all queries, so that
    drift hits them alike, rather than repeating one query while its memory is hot. ``probed``:
    one ranking per query of each probe; running the probes is not the policy's own time.
    """
    if repeats < 1:
        raise ValueError(f"repeats must be at least 1, got {repeats}")
    if not queries:
        return np.zeros(0)
    policy.prepare(lam)
    found = [
        None
        if probed is None
        else {arm: rankings[row : row + 1] for arm, rankings in probed.items()}
        for row in range(len(queries))
    ]
    for turn in range(warm_up):
        row = turn % len(queries)
        policy.decide([queries[row]], lam, probed=found[row])
    samples_ms = np.empty((repeats, len(queries)))
    for repeat in range(repeats):
        for row, query in enumerate(queries):
            begin = time.perf_counter_ns()
            policy.decide([query], lam, probed=found[row])
            samples_ms[repeat, row] = (time.perf_counter_ns() - begin) / 1e6
    return np.asarray(np.median(samples_ms, axis=0))
