"""One model for every λ: interpolated heads, and that they learn what heads per λ learn."""

import numpy as np
import pytest
import torch

from router.policies.encoder import LinearHead, interpolated_head
from tests.training.tables import make_table
from training.baselines import choose
from training.conditioned import (
    ConditionedModule,
    Measured,
    fit_conditioned_heads,
    knot_weights,
)
from training.data import supervision
from training.lightning_module import Optimisation
from training.settings import ConditionedSettings, FrozenSettings, TrainingSettings

LAMS = (0.0, 0.25, 0.5, 0.75, 1.0)


def test_knot_weights_by_hand():
    knots = torch.tensor([0.0, 0.5, 1.0])
    got = knot_weights(torch.tensor([0.0, 0.25, 0.5, 0.9, 1.0]), knots)
    wanted = [[1, 0, 0], [0.5, 0.5, 0], [0, 1, 0], [0, 0.2, 0.8], [0, 0, 1]]
    np.testing.assert_allclose(got, wanted, atol=1e-6)
    assert knot_weights(torch.tensor([0.3, 0.9]), torch.tensor([0.5])).tolist() == [[1], [1]]
    inner = knot_weights(torch.tensor([0.1, 0.9]), torch.tensor([0.3, 0.7]))
    np.testing.assert_allclose(inner, [[1, 0], [0, 1]], atol=1e-6)


def test_the_served_head_interpolates_as_the_trained_one():
    heads = {
        knot: LinearHead(np.full((2, 3), knot, np.float32), np.array([knot, -knot], np.float32))
        for knot in (0.2, 0.4, 1.0)
    }
    for lam in (0.0, 0.2, 0.3, 0.4, 0.85, 1.0):
        weights = knot_weights(torch.tensor([lam]), torch.tensor([0.2, 0.4, 1.0]))[0].numpy()
        wanted = sum(share * head.bias for share, head in zip(weights, heads.values(), strict=True))
        np.testing.assert_allclose(interpolated_head(heads, lam).bias, wanted, atol=1e-6)


@pytest.fixture(scope="module")
def problem():
    """The sign of one feature tells where the slow arm is worth its time, and for which λ."""
    random = np.random.default_rng(0)
    features = random.normal(size=(900, 6)).astype(np.float32) * 4 + 1
    gain = np.where(features[:, 0] > 1, 0.6, 0.0)
    quality = np.stack([np.full(900, 0.3), 0.3 + gain], axis=1)
    latency = np.tile([10.0, 30.0], (900, 1))
    return features, make_table(quality, latency)


@pytest.mark.parametrize("knots", [(0.0, 1.0), (0.0, 0.3, 1.0)])
def test_one_fit_is_right_at_every_lam(problem, knots):
    features, table = problem
    train, held_out = np.arange(700), np.arange(700, 900)
    settings = TrainingSettings(
        lams=LAMS,
        frozen=FrozenSettings(learning_rate=0.05),
        conditioned=ConditionedSettings(knots=knots),
    )
    heads, metrics = fit_conditioned_heads(
        (features[train], table.rows(train)), (features[held_out], table.rows(held_out)), settings
    )
    assert metrics["constant"] == 0
    rows = np.arange(len(held_out))
    for lam in LAMS:
        rewards = table.rewards(lam)[held_out]
        probabilities = interpolated_head(heads, lam).probabilities(features[held_out])
        chosen = choose(probabilities, table.competes[held_out])
        assert rewards[rows, chosen].mean() > rewards.max(axis=1).mean() - 0.02


def test_masked_arms_are_never_chosen_and_leave_no_nan(problem):
    features, table = problem
    table = make_table(table.quality, table.latency_ms, competes=np.tile([True, False], (900, 1)))
    measured = Measured.of(table)
    assert torch.isfinite(measured.latency_share).all()
    settings = TrainingSettings(conditioned=ConditionedSettings(epochs=1))
    rows = np.arange(200)
    heads, _ = fit_conditioned_heads((features[rows], table.rows(rows)), None, settings)
    assert all(np.isfinite(head.weight).all() for head in heads.values())


@pytest.mark.parametrize("lam", [0.0, 0.4, 1.0])
def test_targets_are_those_of_the_heads_per_lam(lam):
    random = np.random.default_rng(1)
    competes = np.array([[True, True, True]] * 6 + [[True, False, True]] * 6)
    quality = np.where(np.arange(12)[:, None] == 3, 0.0, random.random((12, 3)))
    table = make_table(quality, random.lognormal(2, 1, (12, 3)), competes)
    wanted = supervision(table, lam, 0.1)
    module = ConditionedModule(table.arms, 4, Optimisation(0.1, 0.0, 0.1), TrainingSettings())
    batch, lams = Measured.of(table).batch(torch.arange(12)), torch.full((12,), lam)
    got, counts = module.targets(batch, lams)
    np.testing.assert_allclose(got, wanted.targets, atol=1e-5)
    np.testing.assert_array_equal(counts, wanted.weight)
    np.testing.assert_allclose(module.rewards(batch, lams), wanted.rewards, atol=1e-6)
