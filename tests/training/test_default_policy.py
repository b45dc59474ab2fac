"""Which policies answer by default: validation decides, the simpler one where it can't tell."""

from types import SimpleNamespace

import numpy as np
import pytest

from router.policies.static import StaticPolicy
from router.policy import NO_INPUTS
from router.policy_names import PER_LAM, ROUTER
from tests.training.test_gating import ARMS, EVEN_WINS, Knows, N, context, costs, rows, table
from training.default_policy import choose_asked, choose_search, validated


class Looks(StaticPolicy):
    """Needs an index: it runs ``fast`` first."""

    probes = ("fast",)
    probe_depth = 1


class Clairvoyant(Looks):
    """Picks the better arm of every query at λ = 0."""

    def probabilities(self, queries, lam, known=NO_INPUTS):
        even = np.array([int(one[1:]) % 2 == 0 for one in queries])
        return np.where(even[:, None], [0.0, 1.0], [1.0, 0.0])


def opened(quality, **settings):
    one = table(quality)
    found = context(one, **settings)
    found.runs = SimpleNamespace(probed=lambda probes, *_: None)
    return found


def asked(context, learned, ms=0.0):
    times = {name: costs(ms) for name in learned}
    return choose_asked(context, learned, *rows(context.action), times)


def searching(context, learned, ms=0.0):
    times = {name: costs(0.0 if name == ROUTER else ms) for name in learned}
    return choose_search(context, learned, rows(context.action)[1], times)


def test_what_gains_most_behind_its_gates_selects_unless_it_needs_an_index():
    context = opened(EVEN_WINS)
    learned = {
        "always_fast": StaticPolicy("always_fast", ARMS, "fast"),
        "knows": Knows("knows", ARMS, "fast"),
        "looks": Clairvoyant("looks", ARMS, "slow"),
    }
    assert asked(context, learned) == "knows"
    assert asked(context, {"looks": learned["looks"]}) == "looks"  # there is no other


def test_where_every_gate_is_closed_the_fastest_selects():
    context = opened(np.ones((N, 2)))
    learned = {
        "slow": StaticPolicy("slow", ARMS, "slow"),
        "fast": StaticPolicy("fast", ARMS, "fast"),
    }
    assert asked(context, learned) == "fast"


def test_without_validation_the_heads_per_lam_select():
    context = opened(EVEN_WINS)
    learned = {"knows": Knows("knows", ARMS, "fast"), PER_LAM: StaticPolicy(PER_LAM, ARMS, "fast")}
    train, validation = rows(context.action)
    times = {name: costs(0.0) for name in learned}
    assert choose_asked(context, learned, train, validation[:0], times) == PER_LAM
    router = {ROUTER: learned["knows"]}
    assert choose_search(context, router, validation[:0], {ROUTER: costs(0.0)}) == ROUTER


def test_search_asks_the_best_of_all_with_overhead_and_probes_charged():
    quality = np.array([[0.0, 1.0] if i % 2 == 0 else [1.0, 0.0] for i in range(N)])
    context = opened(quality)
    learned = {
        ROUTER: StaticPolicy(ROUTER, ARMS, "fast"),
        "looks": Clairvoyant("looks", ARMS, "slow"),
    }
    assert searching(context, learned) == "looks"
    assert searching(context, learned, ms=20.0) == ROUTER


def test_search_asks_the_router_where_looking_first_is_no_better():
    context = opened(EVEN_WINS)
    learned = {ROUTER: StaticPolicy(ROUTER, ARMS, "slow"), "looks": Looks("looks", ARMS, "slow")}
    assert searching(context, learned) == ROUTER


def test_a_policy_named_in_the_settings_answers_both_ways():
    context = opened(EVEN_WINS, router="looks")
    learned = {ROUTER: StaticPolicy(ROUTER, ARMS, "fast"), "looks": Looks("looks", ARMS, "slow")}
    assert asked(context, learned) == "looks"
    assert searching(context, learned) == ROUTER


def test_the_overhead_is_charged_by_order_of_magnitude():
    context = opened(EVEN_WINS)
    policy, validation = StaticPolicy("x", ARMS, "fast"), rows(context.action)[1]
    free = validated(context, policy, validation, costs(0.0))
    dear = validated(context, policy, validation, costs(2.0))
    assert free.latency_ms == 1.0
    assert dear.latency_ms == pytest.approx(1.0 + 10**0.5)
    mean_lam = 0.5  # of 0, .5 and 1
    assert (free.rewards - dear.rewards).mean() == pytest.approx(mean_lam * 10**0.5 / 10.0)
