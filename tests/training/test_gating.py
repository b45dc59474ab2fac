"""Gates open where choosing pays on validation queries, overhead charged, and nowhere else."""

import math

import numpy as np
import pytest

from router.policies.gated import CLOSED_KEY, GatedPolicy
from router.policies.static import StaticPolicy
from router.policy import NO_INPUTS
from training.gating import arm_means, costs_of_default, gated_gains, with_gates
from training.settings import TrainingSettings
from training.table import RoutingTable

ARMS = ("fast", "slow")
N = 40


def table(quality, latency=(1.0, 9.0), competes=None, n=N):
    texts = np.array([f"q{i}" for i in range(n)], dtype=object)
    quality = np.asarray(quality, dtype=float)
    there = np.ones((n, 2), dtype=bool) if competes is None else competes
    return RoutingTable(
        arms=ARMS,
        datasets=np.array(["reports"] * n, dtype=object),
        query_ids=texts,
        splits=np.array(["train"] * (n // 2) + ["val"] * (n - n // 2), dtype=object),
        text_groups=texts,
        split_groups=texts,
        texts=texts,
        quality=np.where(there, quality, np.nan),
        latency_ms=np.where(there, np.tile(latency, (n, 1)), np.nan),
        competes=there,
        comparable=np.ones(n, dtype=bool),
    )


class Knows(StaticPolicy):
    """Sends even queries to slow with probability .9, odd ones to fast with .6."""

    def probabilities(self, queries, lam, known=NO_INPUTS):
        even = np.array([int(one[1:]) % 2 == 0 for one in queries])
        return np.where(even[:, None], [0.1, 0.9], [0.6, 0.4])


def context(one, **settings):
    from types import SimpleNamespace

    return SimpleNamespace(
        settings=TrainingSettings(lams=(0.0, 0.5, 1.0), **settings),
        action=one,
        every=one,
        runs=None,
        reusable_ms=None,
        embedded=np.zeros((len(one), 0), dtype=np.float32),
        encoder=None,
    )


def rows(one):
    return np.flatnonzero(one.splits == "train"), np.flatnonzero(one.splits == "val")


EVEN_WINS = np.array([[0.0, 1.0] if i % 2 == 0 else [1.0, 0.9] for i in range(N)])
"""slow is the best single arm: .95 against .5; knowing the query is worth .05 at λ = 0."""


def costs(ms):
    return {0: np.full(N, ms)}


def test_gain_and_error_by_hand():
    one = table(EVEN_WINS)
    policy = Knows("inner", ARMS, "fast")
    gates = with_gates(context(one), "router", policy, costs(0.0), *rows(one)).gates
    # at λ = 0 even queries gain 0, odd ones .1: mean .05, deviation .05 · √(20/19)
    assert gates[0.0].gain == pytest.approx(0.05)
    assert gates[0.0].error == pytest.approx(0.05 * math.sqrt(20 / 19) / math.sqrt(20))
    assert gates[0.0].is_open and gates[0.0].queries == 20
    # at λ = 1 fast is the best single arm: leaving it loses .8, so that no margin pays
    assert not gates[1.0].is_open


def test_overhead_is_charged_and_closes_the_gate():
    one = table(EVEN_WINS)
    policy = Knows("inner", ARMS, "fast")
    cheap = with_gates(context(one), "router", policy, costs(0.0), *rows(one))
    dear = with_gates(context(one), "router", policy, costs(5.0), *rows(one))
    # λ = .5: fast is the best single arm; even queries gain .5 · 1 − .5 · .8 by leaving it
    assert cheap.gates[0.5].gain == pytest.approx(0.05) and cheap.gates[0.5].is_open
    # 5 ms count as √10, the middle of their power of ten, of 10 ms in all
    assert dear.gates[0.5].gain == pytest.approx(0.05 - 0.5 * math.sqrt(10) / 10.0)
    assert not dear.gates[0.5].is_open
    assert dear.gates[0.0].is_open  # at λ = 0 milliseconds don't count


def test_the_best_margin_is_taken():
    # odd queries: the inner policy prefers fast by log(.6/.4) = .41, wrongly; slow is best alone
    quality = np.array([[0.0, 0.8] if i % 2 == 0 else [0.7, 0.8] for i in range(N)])
    one = table(quality)
    gate = with_gates(context(one), "router", Knows("x", ARMS, "fast"), costs(0.0), *rows(one))
    assert gate.gates[0.0].gain == pytest.approx(0.0)  # nobody leaves at margins from .8 on
    assert not gate.gates[0.0].is_open  # and what gains nothing isn't asked


def test_no_validation_or_no_gates_leaves_the_policy_as_it_is():
    one, policy = table(EVEN_WINS), Knows("inner", ARMS, "fast")
    train, validation = rows(one)
    nothing = validation[:0]
    assert with_gates(context(one), "router", policy, costs(0.0), train, nothing) is policy
    off = context(one, gate={"enabled": False})
    assert with_gates(off, "router", policy, costs(0.0), train, validation) is policy


def test_gains_count_open_gates_alone():
    one, policy = table(EVEN_WINS), Knows("inner", ARMS, "fast")
    gates = with_gates(context(one), "router", policy, costs(0.0), *rows(one)).gates
    expected = np.mean([gates[lam].gain if gates[lam].is_open else 0 for lam in (0.0, 0.5, 1.0)])
    gains = gated_gains(context(one), policy, costs(0.0), *rows(one))
    assert gains.shape == (N // 2,)
    assert gains.mean() == pytest.approx(expected)


def test_an_arm_that_a_dataset_lacks_is_never_the_best_single_arm():
    competes = np.ones((N, 2), dtype=bool)
    competes[0, 1] = False
    means = arm_means(table(EVEN_WINS, competes=competes))
    assert means.quality.tolist() == [pytest.approx(0.5), 0.0]
    assert means.latency_share[1] == 1.0


def test_costs_of_every_key_that_a_fold_may_meet():
    one = table(EVEN_WINS)
    policy = with_gates(context(one), "r", Knows("x", ARMS, "fast"), costs(0.0), *rows(one))
    assert isinstance(policy, GatedPolicy)
    known = costs_of_default(policy, costs(2.0), {1: np.full(N, 3.0)})
    assert known[CLOSED_KEY].tolist() == [0.0] * N and known[1].tolist() == [3.0] * N
    plain = StaticPolicy("x", ARMS, "fast")
    assert costs_of_default(plain, costs(2.0), {0: np.full(N, 3.0)})[0][0] == 3.0


def test_settings_refuse_negative_margins():
    with pytest.raises(ValueError, match="at least 0"):
        TrainingSettings(gate={"margins": [-0.1]})


def test_the_whole_command_with_gates(tiny_bert, tmp_path):
    import pyarrow.parquet as pq

    from router import Router
    from router.artifact import policy_folder
    from router.decisions import read_decisions
    from router.policies import load_policy
    from tests.training.synthetic import write_labels
    from training.train_routers import train_routers

    labels = write_labels(tmp_path / "labels", count=300)
    settings = TrainingSettings(
        lams=(0.0, 1.0),
        encoder=str(tiny_bert),
        policies=("static_embedding",),
        router="static_embedding",
        cross_validation_folds=2,
        overhead_queries=2,
        static_embedding={"dimension": 16, "epochs": 8, "ngrams": ["words"], "buckets": 256},
    )
    record = train_routers(labels, None, tmp_path / "router", settings)
    policy = load_policy(policy_folder(tmp_path / "router", "router"))
    assert isinstance(policy, GatedPolicy) and policy.inner.name == "static_embedding"
    assert "static_embedding" not in record.policies  # it lies inside the gated one
    assert record.gates["1.0"]["margin"] is None  # the fastest arm wins, whatever the query
    assert record.gates["0.0"]["queries"] == 30
    assert record.training_metrics["router"]["1"]["val"]["collapsed"] is False

    decided = read_decisions(tmp_path / "router" / "decisions.parquet").to_pandas()
    assert {"router", "static_embedding"} <= set(decided.policy)
    queries = pq.read_table(labels / "queries.parquet").to_pandas().set_index("query_id")
    router = Router.load(tmp_path / "router")
    for lam in (0.0, 1.0):
        mine = decided[(decided.policy == "router") & (decided.lam == lam)]
        mine = mine[mine.split == "test"]
        for row in mine.itertuples():
            served = router.select(queries.text[row.query_id], lam=lam, dataset=row.dataset)
            assert served.arm == row.plan
        closed = policy.gate_at(lam).margin == math.inf
        assert (mine.overhead_ms.max() < 1.0) >= closed
