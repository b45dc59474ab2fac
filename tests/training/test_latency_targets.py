"""Normalisations of latency, modelled latency, and targets smoothed over repeats."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from arms.errors import LabelsError
from arms.reward import log_latency, min_max_latency, normalise_latency, normalised_latency
from oracle.labels import read_labels
from tests.training.synthetic import write_labels
from tests.training.tables import make_table
from training.data import supervision
from training.latency_model import LatencyModel, fit_line
from training.latency_repeats import with_repeats
from training.policy_settings import TargetSettings
from training.table import routing_table
from training.target_latency import training_targets
from training.targets import soft_targets


def test_min_max_by_hand():
    latency_ms = np.array([[10.0, 30.0, 110.0], [5.0, 5.0, 5.0], [4.0, 8.0, 1.0]])
    competes = np.array([[True] * 3, [True] * 3, [True, True, False]])
    found = min_max_latency(latency_ms, competes)
    np.testing.assert_allclose(found, [[0, 0.2, 1], [0, 0, 0], [0, 1, np.nan]])
    np.testing.assert_allclose(min_max_latency(np.array([3.0, 4.0])), [0, 1])
    lonely = min_max_latency(np.array([[np.nan, 4.0]]), np.array([[False, False]]))
    assert np.isnan(lonely).all()


def test_log_by_hand():
    latency_ms = np.array([[np.e - 1, np.e**3 - 1, np.nan]])
    competes = np.array([[True, True, False]])
    np.testing.assert_allclose(log_latency(latency_ms, competes), [[0.25, 0.75, np.nan]])
    np.testing.assert_allclose(log_latency(np.zeros((1, 2))), [[0, 0]])


@pytest.mark.parametrize("name", ["row_sum", "min_max", "log"])
def test_every_normalisation_lies_in_0_to_1_and_keeps_the_order(name):
    latency_ms = np.random.default_rng(0).lognormal(3, 2, (200, 5))
    found = normalise_latency(name, latency_ms)
    assert ((found >= 0) & (found <= 1)).all()
    np.testing.assert_array_equal(found.argsort(axis=1), latency_ms.argsort(axis=1))


def test_normalisations_by_name():
    latency_ms = np.array([[1.0, 3.0]])
    np.testing.assert_array_equal(
        normalise_latency("row_sum", latency_ms), normalised_latency(latency_ms)
    )
    with pytest.raises(ValueError, match="row_sum, min_max, log, got 'square'"):
        normalise_latency("square", latency_ms)


def test_a_line_and_where_the_median_stands_in():
    lengths = np.arange(10, 30, dtype=float)
    line = fit_line(lengths, 2.0 + 0.5 * lengths, linear=True)
    np.testing.assert_allclose(line.at(np.array([12.0, 1000.0, 0.0])), [8.0, 16.5, 7.0])
    for few, linear in ((lengths[:9], True), (lengths, False)):
        flat = fit_line(few, 2.0 + 0.5 * few, linear)
        np.testing.assert_allclose(flat.at(np.array([0.0, 99.0])), np.median(2.0 + 0.5 * few))
    same = fit_line(np.full(12, 7.0), np.arange(12.0), linear=True)
    assert (same.slope, same.intercept) == (0.0, 5.5)


def test_latency_is_modelled_per_arm_and_dataset():
    train = make_table(
        np.zeros((4, 2)),
        latency_ms=[[1.0, 9.0], [3.0, 9.0], [10.0, 7.0], [30.0, 5.0]],
        competes=[[True, True], [True, True], [True, False], [True, False]],
        datasets=["x", "x", "y", "y"],
    )
    model = LatencyModel.fit(train, "median")
    there = make_table(
        np.zeros((3, 2)),
        latency_ms=[[100.0, 200.0]] * 3,
        competes=[[True, True], [True, False], [True, True]],
        datasets=["x", "y", "unseen"],
    )
    np.testing.assert_allclose(model.latency_ms(there), [[2, 9], [20, np.nan], [100, 200]])


def test_default_targets_are_the_papers():
    random = np.random.default_rng(0)
    table = make_table(random.random((20, 3)), latency_ms=1 + random.random((20, 3)))
    targets, weight = training_targets(table, 0.3, 0.1, TargetSettings())
    np.testing.assert_array_equal(targets, soft_targets(table.rewards(0.3), 0.1, table.competes))
    assert (weight == 1).all()


def test_targets_follow_the_normalisation_and_rewards_do_not():
    table = make_table([[0.5, 0.6]], latency_ms=[[10.0, 20.0]])
    options = TargetSettings(latency_normalisation="min_max")
    targets, _ = training_targets(table, 0.5, 0.1, options)
    # r = 0.25 + 0.5·(1 − 0) = 0.75 and 0.3 + 0.5·(1 − 1) = 0.3.
    np.testing.assert_allclose(targets, [[1 / (1 + np.exp(-4.5)), 1 / (1 + np.exp(4.5))]])
    supervised = supervision(table, 0.5, 0.1, options)
    np.testing.assert_allclose(supervised.rewards.numpy(), table.rewards(0.5), rtol=1e-6)
    np.testing.assert_allclose(supervised.targets.numpy(), targets, rtol=1e-6)


def test_targets_are_averaged_over_repeats():
    table = make_table([[0.5, 0.5], [0.5, 0.5]], latency_ms=[[10.0, 10.0], [10.0, 30.0]])
    samples = np.array([[[10.0, 30.0], [np.nan, np.nan]], [[30.0, 10.0], [np.nan, np.nan]]])
    smoothed = make_table(table.quality, table.latency_ms)
    object.__setattr__(smoothed, "latency_repeats_ms", samples)
    options = TargetSettings(smoothing="repeats")
    targets, _ = training_targets(smoothed, 1.0, 0.1, options)
    # Once the first arm is three times as slow, once the second: each gets a half.
    np.testing.assert_allclose(targets[0], [0.5, 0.5])
    # Nobody timed the second query: its label counts, r = 0.75 and 0.25.
    np.testing.assert_allclose(targets[1, 1], 1 / (1 + np.exp(5.0)))
    np.testing.assert_array_equal(smoothed.rows(np.array([1])).latency_repeats_ms, samples[:, [1]])


def test_repeats_are_read_beside_the_labels(tmp_path):
    folder = write_labels(tmp_path / "labels", count=20, lacking={"alpha": ("text_rerank",)})
    labels = read_labels(folder)
    table = routing_table(labels, labels.router_arms)
    with pytest.raises(LabelsError, match=r"holds no latency_samples.parquet"):
        with_repeats(table, folder)
    rows = [
        ("alpha", "q0000", "bm25", 0, 1.5),
        ("alpha", "q0000", "bm25", 2, 2.5),
        ("alpha", "q0000", "text_late", 0, 9.0),
        ("nobody", "q0000", "bm25", 0, 9.0),
    ]
    names = ("dataset", "query_id", "arm", "repeat", "latency_ms")
    samples = pa.Table.from_pylist([dict(zip(names, row, strict=True)) for row in rows])
    pq.write_table(samples, folder / "latency_samples.parquet")
    found = with_repeats(table, folder).latency_repeats_ms
    assert found.shape == (3, 20, 3)
    row = int(np.flatnonzero((table.query_ids == "q0000") & (table.datasets == "alpha"))[0])
    assert found[0, row, 0] == 1.5 and found[2, row, 0] == 2.5
    assert np.isfinite(found).sum() == 2
