"""Add a policy learned from a log of outcomes to a finished router: what ``l2r learn`` does."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from arms.encoders.resolve import resolve
from arms.progress import Progress, SilentProgress
from router.artifact import add_policy, check_addable, read_router
from router.frozen_queries import FrozenQueries, same_encoder
from router.policies.bandit import BanditPolicy
from training.bandit import Outcomes, estimate_outcomes
from training.outcome_log import read_outcomes
from training.policy_settings import BanditSettings

_CHUNK = 256
_TAU = 0.1
"""Of a router that records none."""


def learn_from_log(
    router_folder: Path,
    log: Path,
    name: str = "bandit_log",
    settings: BanditSettings | None = None,
    progress: Progress | None = None,
) -> BanditPolicy:
    """Learn a policy over the router's arms from ``log``, and keep it in the router as ``name``.

    The encoder that the router records embeds the queries, the offline one where it records none.
    The router's default policy stays as it is; so do
    ``decisions.parquet`` and reports, which know nothing of the new policy.

    Raises:
        RouterError: the router is unusable, its encoder isn't to be found, or ``name`` is taken by
            a policy of another kind.
        LabelsError: the log is unusable.
    """
    record = read_router(router_folder)
    check_addable(router_folder, record, name, BanditPolicy.kind)
    outcomes = read_outcomes(log, record.arms)
    if record.encoder_id is None or record.encoder_revision is None:
        resolved = resolve(None)
    else:
        resolved = same_encoder(record.encoder_id, record.encoder_revision)
    queries = FrozenQueries(resolved)
    distinct = sorted(set(outcomes.queries))
    parts = []
    with (progress or SilentProgress()).task("embedding queries", total=len(distinct)) as task:
        for begin in range(0, len(distinct), _CHUNK):
            chunk = distinct[begin : begin + _CHUNK]
            parts.append(queries.embed(chunk))
            task.advance(len(chunk))
    row_of = {text: row for row, text in enumerate(distinct)}
    vectors = np.concatenate(parts)[[row_of[text] for text in outcomes.queries]]
    found = estimate_outcomes(
        Outcomes(
            vectors, outcomes.columns, outcomes.quality, outcomes.latency_ms, outcomes.propensity
        ),
        len(record.arms),
        (settings or BanditSettings()).penalties,
    )
    tau = record.tau or _TAU
    policy = BanditPolicy(
        name, record.arms, queries, found.quality, found.latency_ms, found.logged, tau
    )
    add_policy(router_folder, policy)
    return policy
