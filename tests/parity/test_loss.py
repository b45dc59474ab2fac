"""Reward, soft targets and KL against hand-computed numbers and torch.nn.functional.kl_div."""

import math

import numpy as np
import pytest
import torch

from arms.reward import normalised_latency, reward
from training.losses import kl_loss, kl_per_query, masked_logits
from training.targets import gradient_weight, soft_targets

NAN = float("nan")


def test_reward_of_a_hand_computed_query():
    shares = normalised_latency(np.array([[10.0, 30.0, 60.0]]))
    np.testing.assert_allclose(shares, [[0.1, 0.3, 0.6]])
    # (1 - 0.25) * s + 0.25 * (1 - l)
    np.testing.assert_allclose(
        reward(np.array([[0.0, 0.5, 1.0]]), shares, 0.25), [[0.225, 0.55, 0.85]]
    )


def test_soft_targets_of_a_hand_computed_query():
    # r / tau = 0, ln 2, ln 5: weights 1, 2, 5.
    rewards = 0.1 * np.log([[1.0, 2.0, 5.0]])
    np.testing.assert_allclose(soft_targets(rewards, 0.1), [[1 / 8, 2 / 8, 5 / 8]])


def test_a_masked_arm_gets_exactly_zero_and_the_rest_share():
    rewards = np.array([[0.1 * math.log(3.0), NAN, 0.0], [NAN, NAN, 0.7]])
    competes = np.array([[True, False, True], [False, False, True]])
    targets = soft_targets(rewards, 0.1, competes)
    np.testing.assert_allclose(targets, [[0.75, 0.0, 0.25], [0.0, 0.0, 1.0]])
    assert targets[0, 1] == 0.0


def test_targets_survive_extreme_temperatures_and_an_empty_row():
    sharp = soft_targets(np.array([[0.0, 1.0, 1.0]]), 1e-6)
    np.testing.assert_allclose(sharp, [[0.0, 0.5, 0.5]])
    nothing = soft_targets(np.array([[NAN, NAN]]), 0.1, np.zeros((1, 2), dtype=bool))
    np.testing.assert_array_equal(nothing, [[0.0, 0.0]])
    assert soft_targets(np.zeros((0, 3)), 0.1).shape == (0, 3)


@pytest.mark.parametrize("tau", [0.0, -1.0, NAN, math.inf])
def test_a_temperature_must_be_positive(tau):
    with pytest.raises(ValueError, match="tau must be a positive number"):
        soft_targets(np.zeros((1, 2)), tau)


def test_a_competing_arm_without_a_reward_is_refused():
    with pytest.raises(ValueError, match="finite reward"):
        soft_targets(np.array([[0.2, NAN]]), 0.1)


def test_only_all_zero_queries_leave_the_gradient():
    rewards = np.array([[0.0, 0.0], [0.0, 0.2], [0.0, NAN], [0.3, NAN]])
    competes = np.array([[True, True], [True, True], [True, False], [True, False]])
    np.testing.assert_array_equal(gradient_weight(rewards, competes), [0, 1, 0, 1])


def _random_case(masked: bool) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    random = np.random.default_rng(7)
    competes = random.random((40, 5)) < 0.7 if masked else np.ones((40, 5), dtype=bool)
    competes[:, 2] = True
    rewards = np.where(competes, random.random((40, 5)), NAN)
    targets = torch.tensor(soft_targets(rewards, 0.1, competes))
    logits = torch.tensor(random.normal(size=(40, 5)), requires_grad=True)
    return logits, targets, torch.tensor(competes)


def test_kl_of_a_hand_computed_query():
    logits = torch.log(torch.tensor([[0.25, 0.75]], dtype=torch.float64))
    targets = torch.tensor([[0.5, 0.5]], dtype=torch.float64)
    everyone = torch.ones((1, 2), dtype=torch.bool)
    expected = 0.5 * math.log(0.5 / 0.25) + 0.5 * math.log(0.5 / 0.75)
    assert kl_per_query(logits, targets, everyone).item() == pytest.approx(expected, rel=1e-12)


def test_kl_equals_torch_where_every_arm_competes():
    logits, targets, competes = _random_case(masked=False)
    ours = kl_loss(logits, targets, competes, torch.ones(40))
    theirs = torch.nn.functional.kl_div(
        torch.log_softmax(logits, dim=-1), targets, reduction="batchmean"
    )
    torch.testing.assert_close(ours, theirs, rtol=1e-12, atol=1e-14)
    (gradient,) = torch.autograd.grad(ours, logits, retain_graph=True)
    (reference,) = torch.autograd.grad(theirs, logits)
    torch.testing.assert_close(gradient, reference, rtol=1e-10, atol=1e-14)


def test_masked_kl_equals_torch_on_the_competing_columns_alone():
    logits, targets, competes = _random_case(masked=True)
    ours = kl_per_query(logits, targets, competes)
    for row in range(len(logits)):
        columns = competes[row]
        theirs = torch.nn.functional.kl_div(
            torch.log_softmax(logits[row, columns], dim=-1),
            targets[row, columns],
            reduction="sum",
        )
        assert ours[row].item() == pytest.approx(theirs.item(), rel=1e-10, abs=1e-14)


def test_the_gradient_is_policy_minus_target_and_zero_on_masked_arms():
    logits, targets, competes = _random_case(masked=True)
    kl_loss(logits, targets, competes, torch.ones(40)).backward()
    policy = torch.softmax(masked_logits(logits.detach(), competes), dim=-1)
    torch.testing.assert_close(logits.grad, (policy - targets) / 40)
    assert (logits.grad[~competes] == 0).all()


def test_a_target_of_zero_on_a_competing_arm_is_no_nan():
    logits = torch.tensor([[2.0, -1.0, 0.0]], requires_grad=True)
    targets = torch.tensor([[1.0, 0.0, 0.0]])
    loss = kl_loss(logits, targets, torch.ones((1, 3), dtype=torch.bool), torch.ones(1))
    loss.backward()
    assert loss.item() == pytest.approx(-math.log(math.exp(2) / (math.exp(2) + math.exp(-1) + 1)))
    assert torch.isfinite(logits.grad).all()


def test_the_mean_is_over_contributing_queries():
    logits, targets, competes = _random_case(masked=True)
    weight = torch.zeros(40)
    weight[:10] = 1.0
    ours = kl_loss(logits, targets, competes, weight)
    torch.testing.assert_close(ours, kl_per_query(logits, targets, competes)[:10].mean())


@pytest.mark.parametrize("nobody_competes", [False, True])
def test_a_batch_left_out_whole_gives_zero_and_zero_gradients(nobody_competes):
    logits = torch.randn((3, 4), requires_grad=True)
    competes = torch.full((3, 4), not nobody_competes)
    targets = torch.zeros((3, 4)) if nobody_competes else torch.full((3, 4), 0.25)
    loss = kl_loss(logits, targets, competes, torch.zeros(3))
    loss.backward()
    assert loss.item() == 0.0
    assert torch.equal(logits.grad, torch.zeros((3, 4)))
