"""How long policies take to decide: measured like arms, one query at a time."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from router.policy import Policy, PolicyInputs, Probed


def measure_overheads(
    policies: Mapping[str, Policy],
    queries: Sequence[str],
    lam: float | Mapping[str, float],
    repeats: int = 3,
    warm_up: int = 5,
    probed: Mapping[str, Probed | None] | None = None,
    seed: int = 0,
) -> dict[str, NDArray[np.float64]]:
    """Policy → (len(queries),) median milliseconds of deciding each query: serial and warm.

    ``warm_up`` queries are decided first and not counted. Each repeat walks all queries, and the
    policies take turns in random order at every query, so that drift hits them alike. A policy
    without a model for ``lam`` (one for all, or one each) answers at its nearest. ``probed``:
    policy → one ranking per query of each probe; running the probes is not the policy's own time.
    """
    if repeats < 1:
        raise ValueError(f"repeats must be at least 1, got {repeats}")
    if not queries:
        return {name: np.zeros(0) for name in policies}
    wanted = lam if isinstance(lam, Mapping) else dict.fromkeys(policies, lam)
    lams = {name: policy.nearest_lam(wanted[name]) for name, policy in policies.items()}
    found = {name: _by_query((probed or {}).get(name), len(queries)) for name in policies}
    for name, policy in policies.items():
        policy.prepare(lams[name])
        for turn in range(warm_up):
            row = turn % len(queries)
            policy.decide([queries[row]], lams[name], found[name][row])
    random, names = np.random.default_rng(seed), list(policies)
    samples_ms = {name: np.empty((repeats, len(queries))) for name in names}
    for repeat in range(repeats):
        for row, query in enumerate(queries):
            for place in random.permutation(len(names)):
                name = names[place]
                begin = time.perf_counter_ns()
                policies[name].decide([query], lams[name], found[name][row])
                samples_ms[name][repeat, row] = (time.perf_counter_ns() - begin) / 1e6
    return {name: np.asarray(np.median(taken, axis=0)) for name, taken in samples_ms.items()}


def measure_overhead(
    policy: Policy,
    queries: Sequence[str],
    lam: float,
    repeats: int = 3,
    warm_up: int = 5,
    probed: Probed | None = None,
) -> NDArray[np.float64]:
    """(len(queries),) median milliseconds of one policy alone; see :func:`measure_overheads`."""
    alone = {"": policy}
    return measure_overheads(alone, queries, lam, repeats, warm_up, {"": probed})[""]


def _by_query(probed: Probed | None, queries: int) -> list[PolicyInputs]:
    if probed is None:
        return [PolicyInputs()] * queries
    return [
        PolicyInputs(probed={arm: [rankings[row]] for arm, rankings in probed.items()})
        for row in range(queries)
    ]
