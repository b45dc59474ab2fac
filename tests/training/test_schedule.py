import math
from itertools import pairwise

import pytest
import torch

from training.schedule import decay_groups, warmup_cosine


def test_linear_warm_up_then_cosine_to_zero():
    factors = [warmup_cosine(step, 40, 0.1) for step in range(41)]
    assert factors[:4] == pytest.approx([0.2, 0.4, 0.6, 0.8])
    assert factors[4] == 1.0
    assert factors[22] == pytest.approx(0.5)
    assert factors[40] == pytest.approx(0.0, abs=1e-12)
    assert all(later < earlier for earlier, later in pairwise(factors[4:]))


def test_without_warm_up_it_starts_at_the_peak():
    assert warmup_cosine(0, 10, 0.0) == 1.0
    assert warmup_cosine(5, 10, 0.0) == pytest.approx(0.5 * (1 + math.cos(math.pi / 2)))


@pytest.mark.parametrize("total_steps", [1, 2])
def test_very_short_runs_still_learn(total_steps):
    assert all(warmup_cosine(step, total_steps, 0.1) > 0 for step in range(total_steps))


def test_biases_norms_and_frozen_weights_do_not_decay():
    module = torch.nn.Sequential(
        torch.nn.Linear(3, 4), torch.nn.LayerNorm(4), torch.nn.Linear(4, 2)
    )
    module[2].weight.requires_grad_(False)
    decaying, others = decay_groups(module.named_parameters(), 0.01)
    assert [tuple(p.shape) for p in decaying["params"]] == [(4, 3)]
    assert [tuple(p.shape) for p in others["params"]] == [(4,), (4,), (4,), (2,)]
    assert (decaying["weight_decay"], others["weight_decay"]) == (0.01, 0.0)
