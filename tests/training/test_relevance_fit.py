"""The relevance model of probing policies: where its gains come from, and what it is good for."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from arms.progress import SilentProgress
from arms.records import Ranking
from oracle.labels import read_labels
from router.candidates import candidates
from router.policies import load_policy
from router.policy import PolicyInputs
from router.probe_features import as_lists, key_of
from router.query_encoder import QueryEncoder
from tests.training.graded import DISCOUNTS, graded_labels
from tests.training.synthetic import ARMS
from training.fitting import FitContext, comparable_rows
from training.learners.probing import ProbingLearner, probe_depth
from training.policy_settings import BoostingSettings, ProbingSettings, RelevanceSettings
from training.quality_fit import lists_of
from training.recorded_runs import RecordedRuns
from training.relevance_fit import Seen, dataset_weights, gains_of, hidden_from
from training.settings import TrainingSettings
from training.table import routing_table
from training.work_folder import WorkFolder

PROBES = ("bm25", "text_dense")


def make_shop(folder, tiny_bert):
    labels = read_labels(folder)
    action = routing_table(labels, labels.router_arms)
    trees = {"rounds": 60, "learning_rate": 0.15, "feature_share": 1.0}
    settings = TrainingSettings(
        lams=(0.0, 0.3),
        encoder=str(tiny_bert),
        boosting=BoostingSettings(**trees),
        probing=ProbingSettings(probes=PROBES, relevance=RelevanceSettings(**trees)),
    )
    noise = np.random.default_rng(1).normal(size=(len(action), 8)).astype(np.float32)
    return FitContext(
        settings,
        QueryEncoder(settings.encoder),
        noise,
        action,
        routing_table(labels, labels.pipelines),
        WorkFolder(Path("unused")),
        SilentProgress().task("fitting", total=None).__enter__(),
        runs=RecordedRuns.beside(folder, labels),
    )


@pytest.fixture(scope="module")
def context(tmp_path_factory, tiny_bert):
    return make_shop(graded_labels(tmp_path_factory.mktemp("graded") / "labels"), tiny_bert)


@pytest.fixture(scope="module")
def prober(context):
    return fit(context)


def rows_of(context, *splits):
    return comparable_rows(context, np.isin(context.action.splits.astype(str), splits))


def fit(context):
    return ProbingLearner().fit(context, rows_of(context, "train"), rows_of(context, "val"))


def decide(context, policy, lam=0.0):
    rows = rows_of(context, "test", "val")
    table = context.action.rows(rows)
    probed = context.runs.probed(policy.probes, rows, context.every, policy.probe_depth)
    known = PolicyInputs(embeddings=context.embedded[rows], probed=probed, competes=table.competes)
    decided = policy.decide(table.texts.tolist(), lam, known)
    columns = [table.arms.index(plan.answering_arm) for plan in decided.plans]
    return decided, table.quality[np.arange(len(rows)), columns], table


def test_gains_add_up_to_the_labelled_quality(context):
    rows = rows_of(context, "train")
    lists = lists_of(context, rows, PROBES, 10)
    asked = candidates(PROBES, lists, 5)
    gains = np.append(gains_of(context, rows, PROBES, lists, asked, 5), 0.0)
    for probe in PROBES:
        found = (gains[asked.at(lists[probe].documents[:, :5])] * DISCOUNTS[:5]).sum(axis=1)
        column = context.action.arms.index(probe)
        np.testing.assert_allclose(found, context.action.quality[rows, column], atol=1e-9)


def test_what_is_expected_of_a_list_is_what_it_has_in_the_mean(context, prober):
    assert prober.model.relevance is not None
    rows = rows_of(context, "test", "val")
    probed = context.runs.probed(PROBES, rows, context.every, prober.probe_depth)
    known = PolicyInputs(embeddings=context.embedded[rows], probed=probed)
    expected = prober.quality(context.action.texts[rows].tolist(), known)
    for probe in PROBES:
        column = context.action.arms.index(probe)
        actual = context.action.quality[rows, column]
        assert abs(expected[:, column].mean() - actual.mean()) < 0.1
        assert np.corrcoef(expected[:, column], actual)[0, 1] > 0.8


def test_it_decides_better_than_the_trees_of_whole_lists(context, prober):
    probing = context.settings.probing
    off = probing.model_copy(update={"relevance": RelevanceSettings(enabled=False)})
    without = fit(replace(context, settings=context.settings.model_copy(update={"probing": off})))
    assert without.model.relevance is None
    _, quality, table = decide(context, prober)
    static = np.nanmean(table.quality, axis=0).max()
    assert quality.mean() > static + 0.05
    assert quality.mean() > decide(context, without)[1].mean()


def test_saved_it_decides_alike_and_fits_repeat(context, prober, tmp_path):
    prober.save(tmp_path)
    loaded = load_policy(tmp_path)
    for lam in (0.0, 0.3):
        before, after = (decide(context, one, lam)[0] for one in (prober, loaded))
        assert before.plans == after.plans
        np.testing.assert_array_equal(before.probabilities, after.probabilities)
    again = fit(context)
    assert again.model.relevance.booster.texts == prober.model.relevance.booster.texts


def test_one_query_decides_as_in_a_batch(context, prober):
    rows = rows_of(context, "test")[:4]
    probed = context.runs.probed(PROBES, rows, context.every, prober.probe_depth)
    texts = context.action.texts[rows].tolist()
    whole = prober.quality(texts, PolicyInputs(embeddings=context.embedded[rows], probed=probed))
    for place, row in enumerate(rows):
        one = {arm: found[place : place + 1] for arm, found in probed.items()}
        known = PolicyInputs(embeddings=context.embedded[row][None], probed=one)
        np.testing.assert_allclose(
            prober.quality([texts[place]], known)[0], whole[place], atol=1e-5
        )


def test_a_probe_that_is_missing_is_foreseen_and_an_empty_one_has_nothing(context, prober):
    rows = rows_of(context, "test")[:1]
    probed = context.runs.probed(PROBES, rows, context.every, prober.probe_depth)
    texts, embedded = context.action.texts[rows].tolist(), context.embedded[rows]
    dense = context.action.arms.index("text_dense")
    missing = {"bm25": probed["bm25"]}
    empty = {**missing, "text_dense": [type(probed["bm25"][0])((), ())]}
    quality = [
        prober.quality(texts, PolicyInputs(embeddings=embedded, probed=one))[0, dense]
        for one in (missing, empty)
    ]
    assert quality[0] > 0.2
    assert quality[1] == 0.0


def test_labels_without_grades_fit_the_trees_alone(tmp_path, tiny_bert):
    context = make_shop(graded_labels(tmp_path / "labels", grades=False), tiny_bert)
    assert context.runs.grades("bm25") is None
    policy = fit(context)
    assert policy.model.relevance is None and policy.probes == PROBES


def test_every_arm_is_looked_at_unless_told_otherwise(context):
    def fitted(**changed):
        probing = context.settings.probing.model_copy(update={"probes": None, **changed})
        settings = context.settings.model_copy(update={"probing": probing})
        return fit(replace(context, settings=settings))

    assert len(fitted(most=2).probes) == 2
    assert len(fitted(most=2, relevance=RelevanceSettings(enabled=False)).probes) == 2
    policy = fitted()
    assert policy.probes == ARMS
    boosters = policy.model.boosters  # nothing is left for them to foresee
    assert not boosters.predict(np.ones((3, boosters.features))).any()
    _, quality, table = decide(context, policy)
    assert quality.mean() > np.nanmean(table.quality, axis=0).max() + 0.1


def test_only_ndcg_is_a_sum_of_gains(context):
    context.runs.measure = "RR@5"
    try:
        assert fit(context).model.relevance is None
    finally:
        context.runs.measure = "nDCG@5"


def test_no_more_is_read_than_the_labels_hold(context):
    assert [probe_depth(context, PROBES, wanted) for wanted in (10, 11, 20)] == [10, 11, 12]


def seen_by_hand():
    """Queries 0 and 1 want x, 2 and 3 want y; 3 finds x too, and 4 finds nothing relevant."""
    wanted = [("x", 1.0), ("x", 0.5), ("y", 1.0), ("y", 1.0), ("z", 0.0)]
    found = [[name] for name, _ in wanted]
    found[3] = ["y", "x"]
    lists = as_lists(
        ["a"],
        {"a": [Ranking(tuple(one), (2.0, 1.0)[: len(one)]) for one in found]},
        10,
        len(found),
    )
    asked = candidates(["a"], lists, 5)
    gain_of = {(row, key_of(name)): gain for row, (name, gain) in enumerate(wanted)}
    pairs = zip(asked.rows.tolist(), asked.documents.tolist(), strict=True)
    return Seen(asked, np.array([gain_of.get(pair, 0.0) for pair in pairs]), 5, 5)


def test_what_is_hidden_from_a_training_query_by_hand():
    seen, groups = seen_by_hand(), np.array(["t", "u", "v", "w", "t"])
    own = groups[:, None] == groups
    every = slice(0, 5)
    np.testing.assert_array_equal(hidden_from(seen, groups, 0.0, 1)(every), own)
    # As though nobody had asked about what they want: x of 0 and 1, y of 2 and 3.
    share = own.copy()
    share[:2, :2] = share[2:4, 2:4] = True
    hidden = hidden_from(seen, groups, 1.0, 1)
    np.testing.assert_array_equal(hidden(every), share)
    np.testing.assert_array_equal(hidden(slice(2, 4)), share[2:4])


def test_the_queries_whose_documents_are_hidden_are_drawn_alike_each_time():
    seen, groups = seen_by_hand(), np.array([f"t{n}" for n in range(5)])
    own = np.eye(5, dtype=bool)
    for seed in range(20):
        drawn = [hidden_from(seen, groups, 0.5, seed)(slice(0, 5)) for _ in range(2)]
        np.testing.assert_array_equal(*drawn)
    more = [
        (hidden_from(seen, groups, share, seed)(slice(0, 5)) != own).any(axis=1)[:4]
        for seed in range(200)
        for share in (0.25, 0.75)
    ]
    assert 0.18 < np.mean(more[::2]) < 0.32 and 0.68 < np.mean(more[1::2]) < 0.82
    assert all((few <= many).all() for few, many in zip(more[::2], more[1::2], strict=True))


def test_weights_of_datasets_by_hand():
    datasets = np.array(["a", "b", "b", "b", "b"], dtype=object)
    assert dataset_weights(datasets, 0.0).tolist() == [1.0] * 5
    assert dataset_weights(datasets, 0.5).tolist() == [1.0, *[0.5] * 4]
    assert dataset_weights(datasets, 1.0).tolist() == [1.0, *[0.25] * 4]


def test_documents_of_two_datasets_share_no_past(context):
    datasets = context.action.datasets.astype(str)
    for row, ranking in enumerate(context.runs.rankings("bm25")):
        assert all(name.startswith(f"{datasets[row]}/") for name in ranking.doc_ids)


def test_a_grade_that_is_missing_is_told(tmp_path, tiny_bert, caplog):
    folder = graded_labels(tmp_path / "labels")
    runs = pq.read_table(folder / "runs.parquet")
    grades = [None, *runs["grade"].to_pylist()[1:]]
    place = runs.column_names.index("grade")
    runs = runs.set_column(place, "grade", pa.array(grades, pa.int32()))
    pq.write_table(runs, folder / "runs.parquet")
    policy = fit(make_shop(folder, tiny_bert))
    assert policy.model.relevance is None
    assert "a grade for every document" in caplog.text
