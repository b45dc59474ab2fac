"""The blend of an ensemble: the geometric mean of what its members say."""

import numpy as np
import pytest

from router.policies import load_policy
from router.policies.ensemble import EnsemblePolicy, blend
from router.policies.static import StaticPolicy


def test_blend_is_the_geometric_mean():
    rows = [np.array([[0.5, 0.3, 0.2]]), np.array([[0.1, 0.3, 0.6]])]
    wanted = np.sqrt([0.05, 0.09, 0.12])
    assert np.allclose(blend(rows), [wanted / wanted.sum()])


def test_an_arm_that_all_rule_out_stays_out_and_one_that_some_do_may_still_win():
    rows = [np.array([[0.0, 0.9, 0.1, 0.0]])] + [np.array([[0.99, 0.0, 0.01, 0.0]])] * 2
    together = blend(rows)[0]
    assert together.argmax() == 0
    assert together[3] == 0.0
    assert (together[:3] > 0).all()
    assert together.sum() == pytest.approx(1.0)


def test_a_blend_is_saved_with_its_members_beside_it(tmp_path):
    members = [StaticPolicy(name, ("a", "b"), name) for name in ("a", "b")]
    policy = EnsemblePolicy("router", members, "blend")
    for one in (policy, *members):
        (tmp_path / "policies" / one.name).mkdir(parents=True)
        one.save(tmp_path / "policies" / one.name)
    loaded = load_policy(tmp_path / "policies" / "router")
    assert np.allclose(loaded.probabilities(["x"], 0.5), [[0.5, 0.5]])
    assert loaded.decide(["x"], 0.5).plans == policy.decide(["x"], 0.5).plans
