"""Training with the guard: what is stored, and that it is asked for where it can be."""

import numpy as np
import pyarrow.parquet as pq
import pytest

from arms.errors import SettingsError
from router import Router
from router.artifact import policy_folder, read_router
from router.decisions import read_decisions
from router.policies import load_policy
from router.policies.guarded import GuardedPolicy
from router.policy import PolicyInputs
from tests.training.synthetic import write_labels
from tests.training.tables import make_table
from training.domain_settings import OutOfDomainSettings
from training.guarding import mean_outcomes
from training.policy_settings import StaticEmbeddingSettings
from training.settings import TrainingSettings
from training.train_routers import train_routers


def test_mean_outcomes_by_hand():
    table = make_table(
        [[0.4, 0.8], [0.6, 0.0]],
        latency_ms=[[1.0, 3.0], [2.0, 1.0]],
        competes=[[True, True], [True, False]],
    )
    quality, share = mean_outcomes(table)
    assert quality == pytest.approx([0.5, 0.4])
    assert share == pytest.approx([(0.25 + 1.0) / 2, (0.75 + 1.0) / 2])
    # The mean reward at any λ: here 0.5, of which the lacking arm counts 0 once.
    for lam in (0.0, 0.5, 1.0):
        rewards = np.where(table.competes, table.rewards(lam), 0.0).mean(axis=0)
        assert (1 - lam) * quality + lam * (1 - share) == pytest.approx(rewards)


def settings(tiny_bert, **options):
    return TrainingSettings(
        lams=(0.0, 0.5),
        encoder=str(tiny_bert),
        overhead_queries=3,
        cross_validation_folds=2,
        out_of_domain=OutOfDomainSettings(enabled=True, false_alarm_rate=0.2),
        gate={"enabled": False},
        **options,
    )


def test_the_default_router_is_guarded_wherever_it_decides(tiny_bert, tmp_path):
    labels = write_labels(tmp_path / "labels", count=120, datasets=("alpha", "beta"))
    given = settings(tiny_bert, policies=(), router="router_per_lam")
    train_routers(labels, None, tmp_path / "router", given)
    policy = load_policy(policy_folder(tmp_path / "router", "router"))
    assert isinstance(policy, GuardedPolicy)
    assert policy.domain.vectors.shape[0] == 96  # the training queries
    assert policy.domain.false_alarm_rate == 0.2
    record = read_router(tmp_path / "router")
    assert record.calibration["router"].queries == 12
    router = Router.load(tmp_path / "router")
    decided = read_decisions(tmp_path / "router" / "decisions.parquet").to_pandas()
    mine = decided[(decided.policy == "router") & (decided.lam == 0.0) & (decided.split == "val")]
    queries = pq.read_table(labels / "queries.parquet").to_pandas().set_index("query_id")
    choices = router.select_many(queries.text[mine.query_id].tolist(), lam=0.0)
    assert [choice.arm for choice in choices] == mine.plan.tolist()
    foreign = [choice for choice in choices if choice.reason]
    assert 1 <= len(foreign) <= 0.2 * len(choices)
    assert {split for split in decided.split if split.startswith("cv")} == {"cv0", "cv1"}


def test_a_router_without_query_vectors_cannot_be_guarded(tiny_bert, tmp_path):
    labels = write_labels(tmp_path / "labels", count=60)
    given = settings(tiny_bert, policies=("tfidf",), router="tfidf")
    with pytest.raises(SettingsError, match="needs a default router that reads query vectors"):
        train_routers(labels, None, tmp_path / "router", given)


def test_a_static_router_is_guarded_by_its_own_vectors(tiny_bert, tmp_path):
    labels = write_labels(tmp_path / "labels", count=120, datasets=("alpha", "beta"))
    given = settings(
        tiny_bert,
        policies=("static_embedding",),
        router="static_embedding",
        static_embedding=StaticEmbeddingSettings(
            dimension=16, epochs=2, ngrams=("words",), buckets=256
        ),
    )
    train_routers(labels, None, tmp_path / "router", given)
    policy = load_policy(policy_folder(tmp_path / "router", "router"))
    assert isinstance(policy, GuardedPolicy)
    assert policy.inner.kind == "static_embedding"
    assert policy.frozen_encoder() is None
    assert policy.domain.vectors.shape == (96, policy.inner.features.dim)
    router = Router.load(tmp_path / "router")
    texts = pq.read_table(labels / "queries.parquet").to_pandas()
    train = texts.text[texts.split == "train"].tolist()
    assert all(one.reason is None for one in router.select_many(train, lam=0.0))
    vectors = policy.embed(train, 0.0)
    np.testing.assert_array_equal(
        policy.inner.probabilities(train, 0.5, PolicyInputs(embeddings=vectors)),
        policy.inner.probabilities(train, 0.5),
    )
    held = router.select_many(texts.text[texts.split == "val"].tolist(), lam=0.0)
    foreign = [one.reason for one in held if one.reason]
    assert 1 <= len(foreign) <= 0.2 * len(held)
    assert all(reason.startswith("out of domain: distance") for reason in foreign)
    decided = read_decisions(tmp_path / "router" / "decisions.parquet").to_pandas()
    mine = decided[(decided.policy == "router") & (decided.lam == 0.0) & (decided.split == "test")]
    queries = texts.set_index("query_id").text[mine.query_id].tolist()
    assert [one.arm for one in router.select_many(queries, lam=0.0)] == mine.plan.tolist()
