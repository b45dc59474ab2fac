"""λ where the router isn't asked are told once, and aren't called a collapse."""

from analysis.collapse import collapses
from analysis.gates import closed_gates, gate_sentences
from analysis.roles import ORACLE_ROUTER_ARMS
from analysis.routing_share import RoutingShare
from analysis.summary import MICRO

RECORD = {
    "defaults": {"select": "router", "search": "router"},
    "gates": {
        "0.0": {"margin": 0.1, "gain": 0.02, "error": 0.01, "queries": 90},
        "0.5": {"margin": None, "gain": -0.01, "error": 0.01, "queries": 90},
        "1.0": {"margin": None, "gain": 0.0, "error": 0.0, "queries": 90},
    },
}


def test_closed_gates_of_the_default_policy_alone():
    assert closed_gates(RECORD, "router") == {0.5, 1.0}
    assert closed_gates(RECORD, "tfidf") == frozenset()
    assert (
        closed_gates({"defaults": {"select": "router", "search": "router"}}, "router")
        == frozenset()
    )


def test_one_sentence_names_the_lams():
    (sentence,) = gate_sentences(frozenset({0.5, 1.0}), (0.0, 0.5, 1.0))
    assert sentence.startswith("At λ = 0.5, 1 the router isn't asked")
    assert gate_sentences(frozenset({0.5}), (0.0,)) == ()


def test_a_closed_gate_is_no_collapse():
    def share(policy, shares):
        return RoutingShare(policy, 0.5, MICRO, 10, shares)

    shares = [share(ORACLE_ROUTER_ARMS, (0.5, 0.5)), share("router", (1.0, 0.0))]
    assert [one.policy for one in collapses(shares, ("a", "b"))] == ["router"]
    assert collapses(shares, ("a", "b"), {("router", 0.5)}) == []
