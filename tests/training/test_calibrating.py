"""Calibration: hand-computed means, intervals that cover, a grid that looks where it matters."""

import numpy as np
import pytest
from scipy import stats

import l2r
from arms.errors import LabelsError, RouterError
from router import Router
from router.artifact import read_router
from router.policies.static import StaticPolicy
from router.policy import Plan, PolicyInputs
from tests.training.synthetic import write_labels
from tests.training.tables import make_table
from training.calibrate_router import calibrate_router
from training.calibrating import HeldOut, calibrate_policy, fine_grid, realised_by
from training.plan_outcomes import PlanOutcomes, plan_outcomes, plan_rewards
from training.settings import BaselineSettings, TrainingSettings
from training.train_routers import train_routers

TABLE = make_table(
    [[1.0, 0.5, 0.2], [0.2, 0.6, 0.4]],
    latency_ms=[[1.0, 3.0, 10.0], [2.0, 4.0, 20.0]],
    datasets=["d", "e"],
)


def held_out(table, split="val"):
    return HeldOut(split, table, table, "hash")


def outcomes_of(latency_ms, quality, answering):
    return PlanOutcomes(
        np.asarray(answering), np.asarray(quality, float), np.asarray(latency_ms, float)
    )


def test_a_plan_pays_for_all_its_arms_and_the_last_one_answers():
    found = plan_outcomes([Plan(("a",)), Plan(("a", "c"), "cascade")], TABLE, 0.5)
    assert found.latency_ms.tolist() == [1.5, 22.5]
    assert found.quality.tolist() == [1.0, 0.4]
    assert found.answering.tolist() == [0, 2]
    # λ = 0.5: 0.5·1 + 0.5·(1 − 1.5/14); 0.5·0.4 + 0.5·(1 − 22.5/26).
    assert plan_rewards(found, TABLE, 0.5) == pytest.approx([0.946429, 0.267308], abs=1e-6)


def test_a_probe_that_the_dataset_lacks_costs_nothing():
    lacking = make_table([[1.0, 0.5]], competes=[[False, True]])
    found = plan_outcomes([Plan(("a", "b"), "cascade")], lacking, 0.0)
    assert found.latency_ms.tolist() == [1.0]
    with pytest.raises(LabelsError, match="an arm without a label, first a on the query 'q0'"):
        plan_outcomes([Plan(("a",))], lacking, 0.0)


def test_a_fused_plan_has_no_known_quality():
    with pytest.raises(LabelsError, match="no quality of fused rankings"):
        plan_outcomes([Plan(("a", "b"), "fuse")] * 2, TABLE, 0.0)


def test_a_calibration_by_hand():
    policy = StaticPolicy("p", ("a", "b", "c"), {0.0: "c", 0.5: "b"})
    held = held_out(TABLE)
    found = calibrate_policy(
        realised_by(policy, held, {0: 0.25}, PolicyInputs()), policy.lams, held
    )
    assert [point.lam for point in found.points] == [0.0, 0.5]
    first, second = found.points
    assert first.latency_ms.value == pytest.approx(15.25)
    assert first.latency_p95_ms.value == pytest.approx(10.25 + 0.95 * 10)
    assert (first.latency_ms.low, first.latency_ms.high) == (10.25, 20.25)  # one query or the other
    assert first.quality.value == pytest.approx(0.3)
    assert second.quality.value == pytest.approx(0.55)
    assert {arm: share.value for arm, share in second.share.items()} == {"a": 0, "b": 1, "c": 0}
    assert found.datasets == {"d": 1, "e": 1}
    assert (found.split, found.any_lam) == ("val", False)


def test_intervals_agree_with_scipy():
    random = np.random.default_rng(0)
    latency, quality = random.gamma(2.0, 10.0, 400), random.random(400)
    table = make_table(np.zeros((400, 2)))
    found = calibrate_policy(
        lambda lam: outcomes_of(latency, quality, np.arange(400) % 2), (0.5,), held_out(table)
    ).points[0]
    for measured, values, statistic in (
        (found.latency_ms, latency, np.mean),
        (found.quality, quality, np.mean),
        (found.latency_p95_ms, latency, lambda drawn, axis: np.percentile(drawn, 95, axis=axis)),
    ):
        reference = stats.bootstrap(
            (values,), statistic, method="percentile", n_resamples=2000, rng=1
        ).confidence_interval
        width = reference.high - reference.low
        assert measured.low == pytest.approx(reference.low, abs=0.12 * width)
        assert measured.high == pytest.approx(reference.high, abs=0.12 * width)


def test_the_grid_is_finest_where_latency_falls():
    def latency_ms(lam):
        return 50.0 if lam < 0.03 else 50.0 - 400 * (lam - 0.03) if lam < 0.13 else 10.0

    grid = fine_grid(latency_ms, wanted=(0.1, 0.77))
    assert grid == sorted(set(grid))
    assert {0.0, 0.1, 0.77, 1.0} <= set(grid)
    assert len(grid) == 41
    steps = -np.diff([latency_ms(lam) for lam in grid])
    assert max(steps) < 4.0
    assert sum(0.03 <= lam <= 0.13 for lam in grid) >= 15


def test_a_flat_curve_needs_no_finer_grid():
    assert fine_grid(lambda lam: 3.0) == np.linspace(0, 1, 17).tolist()


def test_a_jump_is_not_halved_for_ever():
    grid = fine_grid(lambda lam: 50.0 if lam < 0.3 else 1.0)
    assert min(np.diff(grid)) >= 1 / 1024


def test_nothing_held_out_is_refused():
    with pytest.raises(LabelsError, match="no comparable query lies in the split 'val'"):
        calibrate_policy(lambda lam: None, (0.5,), held_out(make_table(np.zeros((0, 2)))))


@pytest.fixture(scope="module")
def trained(tmp_path_factory, tiny_bert):
    root = tmp_path_factory.mktemp("calibrated")
    labels = write_labels(root / "labels", count=200, lacking={"beta": ("text_rerank",)})
    settings = TrainingSettings(
        lams=(0.0, 0.5),
        encoder=str(tiny_bert),
        overhead_queries=3,
        cross_validation_folds=0,
        baselines=BaselineSettings(inverse_regularisation=(10.0,)),
    )
    train_routers(labels, None, root / "router", settings)
    return labels, root / "router"


def test_training_calibrates_the_default_policy_on_validation(trained):
    _, folder = trained
    record = read_router(folder)
    found = record.calibration[record.defaults.select]
    assert (found.split, found.queries) == ("val", 20)
    assert found.labels_hash == record.labels_hash
    overhead_ms = record.overhead_ms[record.defaults.select]
    assert found.points[0].latency_ms.value > overhead_ms  # both at λ = 0
    slowest = found.points[0].latency_ms.value
    choice = Router.load(folder).select("which", max_latency_ms=slowest + 1)
    assert choice.promised == found.points[0]


def test_another_policy_is_calibrated_from_the_console(trained, capsys):
    labels, folder = trained
    with pytest.raises(SystemExit, match="0"):
        l2r.main(["calibrate", str(folder), str(labels), "--policy", "tfidf", "--split", "test"])
    printed = capsys.readouterr().out
    assert "tfidf on 20 queries of the split 'test'" in printed
    assert "alpha 10, beta 10" in printed
    record = read_router(folder)
    assert record.calibration["tfidf"].split == "test"
    assert set(record.calibration) == {"tfidf", record.defaults.select}
    with pytest.raises(SystemExit, match="0"):
        l2r.main(["select", str(folder), "which", "--max-quality-loss", "1"])
    assert "promised       mean latency" in capsys.readouterr().out
    with pytest.raises(SystemExit, match="1"):
        l2r.main(["select", str(folder), "which", "--max-latency-ms", "0.0001"])
    assert "can't be met: the fastest that this policy gets is" in capsys.readouterr().err


def test_what_cannot_be_calibrated_is_said(trained, tmp_path, capsys):
    labels, folder = trained
    with pytest.raises(RouterError, match=r"this router has the policies .*; got lost"):
        calibrate_router(folder, labels, "lost")
    other = write_labels(tmp_path / "labels", count=30)
    with pytest.raises(SystemExit, match="0"):
        l2r.main(["calibrate", str(folder), str(other), "--policy", "best_static"])
    assert "not the labels that the router was trained on" in capsys.readouterr().out
    textless = write_labels(tmp_path / "textless", count=30, with_text=False)
    with pytest.raises(LabelsError, match="holds no query texts, and a policy decides by them"):
        calibrate_router(folder, textless)
    with pytest.raises(SystemExit, match="1"):
        l2r.main(["calibrate", str(folder), str(labels), "--split", "train"])
    assert "--split is one of val, test, got 'train'" in capsys.readouterr().err
