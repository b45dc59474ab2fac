"""A router that has stopped choosing is told near the claim and the tables."""

import numpy as np
import pyarrow as pa
import pytest

from analysis.collapse import Collapse, collapse_sentences, collapses
from analysis.headline import headline
from analysis.results import compute_results
from analysis.routing_share import RoutingShare
from analysis.settings import ReportSettings
from router.collapse import collapsed_arm
from tests.analysis.synthetic import best_columns, decide, make_world

ARMS = ("bm25", "text_dense")


@pytest.mark.parametrize(
    ("shares", "oracle", "arm"),
    [
        ((0.95, 0.05), (0.94, 0.06), 0),
        ((0.0, 1.0), (0.5, 0.5), 1),
        ((0.949, 0.051), (0.5, 0.5), None),
        ((1.0, 0.0), (0.96, 0.04), None),  # the oracle does the same
        ((), (), None),
    ],
)
def test_the_rule(shares, oracle, arm):
    assert collapsed_arm(shares, oracle) == arm


def share(policy, lam, *shares, scope="micro", n=10):
    return RoutingShare(policy, lam, scope, n, shares)


def test_policies_are_held_against_the_oracle_at_their_lam():
    shares = [
        share("oracle(A)", 0.0, 0.6, 0.4),
        share("oracle(A)", 0.5, 0.97, 0.03),
        share("router", 0.0, 1.0, 0.0),
        share("router", 0.5, 1.0, 0.0),
        share("tfidf", 0.0, 0.7, 0.3),
        share("tfidf", 0.0, 1.0, 0.0, scope="npl"),
        share("best_static", 0.0, 1.0, 0.0),
        share("lost", 0.7, 1.0, 0.0),
        share("undecided", 0.0, 0.0, 0.0, n=0),
    ]
    assert collapses(shares, ARMS) == [Collapse("router", 0.0, "bm25", 1.0, 0.6)]


def test_one_sentence_for_all_lams_of_a_policy():
    found = [Collapse("router", lam, "bm25", 1.0, oracle) for lam, oracle in ((0, 0.6), (0.1, 0.7))]
    assert collapse_sentences(found) == (
        "router has collapsed at λ = 0, 0.1: it sends 100 % of the test queries to bm25; the "
        "oracle over A sends 60 %, 70 % there.",
    )


def test_the_report_says_so_beside_the_claim(tmp_path):
    labels = make_world(n=200).write(tmp_path)
    column = labels.pipelines.index("bm25")
    constant = np.full(len(labels.query_ids), column)

    def said(columns):
        decisions = pa.concat_tables(
            [decide(labels, "router", 0.0, columns), decide(labels, "tfidf", 0.0, constant)]
        )
        return headline(compute_results(labels, decisions, ReportSettings(n_resamples=100)))

    warning = said(constant)[-1]
    test = labels.splits == "test"
    share = (best_columns(labels, 0.0)[test] == column).mean()
    assert warning == (
        "router has collapsed at λ = 0: it sends 100 % of the test queries to bm25; the oracle "
        f"over A sends {100 * share:.0f} % there."
    )
    assert not any("collapsed" in sentence for sentence in said(best_columns(labels, 0.0)))
