"""The bootstrap over clusters, against a plain loop; leads over queries and over datasets."""

from dataclasses import replace

import numpy as np
import pytest

from analysis.bootstrap import Resamples
from analysis.mean_table import MeanTable
from analysis.uncertainty import (
    cluster_means,
    clusterings,
    uncertainties,
)


def test_cluster_means_are_those_of_a_plain_loop():
    random = np.random.default_rng(0)
    values, codes = random.random((40, 2)), random.integers(0, 7, 40)
    members = random.random(40) < 0.8
    found = cluster_means(values, members, codes, Resamples(7, 300, seed=3))
    plain, generator = [], np.random.default_rng(3)
    for _ in range(300):
        rows = []
        for cluster in generator.integers(0, 7, size=7):
            rows += [row for row in np.flatnonzero(codes == cluster) if members[row]]
        plain.append(values[rows].mean(axis=0))
    np.testing.assert_allclose(found, plain)


def test_a_resample_without_a_member_is_undefined():
    values = np.array([[1.0], [3.0]])
    found = cluster_means(values, np.array([True, False]), np.array([0, 1]), Resamples(2, 50, 1))
    defined = np.isfinite(found[:, 0])
    assert 0 < defined.sum() < 50 and (found[defined] == 1.0).all()


def test_leads_over_queries_and_over_datasets(results):
    scores = results.test.scores
    one = next(
        one for one in results.test.uncertainties if (one.policy, one.lam) == ("router", 0.1)
    )
    router, static = (scores.get(name, 0.1).reward for name in ("router", "best_static"))
    assert one.lead.value == pytest.approx((router - static).mean())
    codes = scores.evaluation.dataset_codes
    by_dataset = [(router - static)[codes == code].mean() for code in np.unique(codes)]
    assert one.lead_macro == pytest.approx(np.mean(by_dataset))
    same = next(
        other
        for other in results.test.headrooms
        if (other.policy, other.lam, other.metric, other.own) == ("router", 0.1, "reward", True)
    )
    assert (one.closed, one.closed_macro) == (same.closed, same.closed_macro)


def test_clusters_that_agree_within_widen_the_interval(results):
    scores = results.test.scores
    means = MeanTable(scores, Resamples(len(scores.evaluation), 500, 1), 0.95)
    router, static = (scores.get(name, 0.1).reward for name in ("router", "best_static"))
    alike = np.argsort(np.argsort(router - static)) // 5  # neighbours by their difference
    many = {"document": alike, "collection": np.zeros(len(alike), dtype=np.intp)}
    found = next(
        one
        for one in uncertainties(means, many, 500, 1)
        if (one.policy, one.lam) == ("router", 0.1)
    )
    low, high = found.lead_by["document"]
    assert high - low > 1.5 * (found.lead.high - found.lead.low)
    assert found.lead_by["collection"] == (None, None)  # one of them, fewer than five


def test_queries_of_an_unknown_document_stand_alone(results):
    labels, evaluation = results.labels, results.test.scores.evaluation
    groups = np.full(len(labels.query_ids), None, dtype=object)
    first, third = evaluation.label_rows[[0, 2]]
    groups[[first, third]] = "g"
    codes = clusterings(replace(labels, document_groups=groups), evaluation)["document"]
    same = labels.datasets[first] == labels.datasets[third]
    assert (codes[0] == codes[2]) == same
    assert len(set(codes.tolist())) == len(codes) - same
