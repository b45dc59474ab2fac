"""Add a policy learned from a log of outcomes to a finished router: what ``l2r learn`` does."""

from __future__ import annotations

from pathlib import Path

from arms.encoders.resolve import resolve
from arms.progress import Progress, SilentProgress
from arms.sole_writer import writes
from router.artifact import RouterRecord, add_policy, check_addable, policy_folder, read_router
from router.frozen_queries import ELSEWHERE, ENCODER_KEYS, FrozenQueries, same_encoder
from router.policies.bandit import BanditPolicy
from router.policies.files import POLICY, read_policy_json
from training.bandit import Outcomes, estimate_outcomes
from training.embeddings import embed_queries
from training.outcome_log import read_outcomes
from training.policy_settings import BanditSettings
from training.work_folder import WorkFolder

_TAU = 0.1
"""Of a router that records none."""


@writes("router_folder")
def learn_from_log(
    router_folder: Path,
    log: Path,
    name: str = "bandit_log",
    settings: BanditSettings | None = None,
    progress: Progress | None = None,
) -> BanditPolicy:
    """Learn a policy over the router's arms from ``log``, and keep it in the router as ``name``.

    See :func:`encoder_of` for what embeds the queries. The router's default policy stays as it is;
    so do ``decisions.parquet`` and reports, which know nothing of the new policy.

    Raises:
        RouterError: the router is unusable, its encoder isn't to be found, or ``name`` is taken by
            a policy of another kind.
        LabelsError: the log is unusable.
    """
    record = read_router(router_folder)
    check_addable(router_folder, record, name, BanditPolicy.kind)
    bars = progress or SilentProgress()
    outcomes = read_outcomes(log, record.arms, bars)
    queries = encoder_of(router_folder, record)
    cache = WorkFolder.beside(router_folder).embeddings
    vectors = embed_queries(outcomes.queries, queries.load(), cache, bars)
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


def encoder_of(router_folder: Path, record: RouterRecord) -> FrozenQueries:
    """Return the router's frozen encoder, cut and rounded as its policies have it.

    Where none of them reads it, at 128 tokens in float32; the offline encoder where the router
    records none.

    Raises:
        RouterError: the encoder found here isn't the one that the router was trained with.
    """
    if record.encoder_id is None or record.encoder_revision is None:
        return FrozenQueries(resolve(None))
    folders = [policy_folder(router_folder, name) for name in record.policies]
    for path in (path for folder in folders for path in sorted(folder.rglob(POLICY))):
        content = read_policy_json(path.parent)
        for block in (content, content.get("encoder")):
            if (
                isinstance(block, dict)
                and set(ENCODER_KEYS) <= set(block)
                and block["encoder_revision"] == record.encoder_revision
                and not str(block["encoder"]).startswith(ELSEWHERE)
            ):
                return FrozenQueries.read(block)
    return FrozenQueries(same_encoder(record.encoder_id, record.encoder_revision))
