"""Quality predictors: what they learn from texts and from probes, their plans, and their files."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from arms.errors import RouterError, SettingsError
from arms.progress import SilentProgress
from arms.records import Ranking
from oracle.labels import read_labels
from router.policies import load_policy
from router.policy import PolicyInputs
from router.query_encoder import QueryEncoder
from tests.training.synthetic import ARMS, WORDS, write_labels
from tests.training.tables import make_table
from training.fitting import FitContext, comparable_rows
from training.learners.probing import (
    CascadeLearner,
    ProbingLearner,
    best_of_each_pipeline,
    cheap_arms,
    every_arm,
)
from training.learners.quality import QualityLearner
from training.policy_settings import BoostingSettings, CascadeSettings, ProbingSettings
from training.recorded_runs import RecordedRuns
from training.settings import TrainingSettings
from training.table import routing_table
from training.work_folder import WorkFolder

BOOSTING = BoostingSettings(rounds=40, learning_rate=0.2, feature_share=1.0)


def write_runs(folder, labels):
    """bm25's first score, and whether text_dense agrees with it, tell which arm is best."""
    columns = labels.columns_of(ARMS)
    best = np.nan_to_num(labels.quality["nDCG@5"][:, columns]).argmax(axis=1)
    random = np.random.default_rng(3)
    rows = []
    for row, query_id in enumerate(labels.query_ids):
        agrees = best[row] != 1
        for arm in ARMS:
            start = 9.0 if best[row] == 0 and arm == "bm25" else 3.0
            first = "d0" if arm == "bm25" or agrees else "d5"
            ids = [first, *(f"d{number}" for number in range(6, 15))]
            scores = start - np.arange(10) * 0.1 + 0.01 * random.random()
            for rank, (doc_id, score) in enumerate(zip(ids, scores, strict=True), start=1):
                rows.append(
                    {
                        "dataset": labels.datasets[row],
                        "query_id": query_id,
                        "arm": arm,
                        "rank": rank,
                        "doc_id": doc_id,
                        "score": float(score),
                    }
                )
    pq.write_table(pa.Table.from_pylist(rows), folder / "runs.parquet")


def make_shop(root, tiny_bert, shuffled, with_runs=True):
    folder = write_labels(root, count=500, shuffled=shuffled, failing=3)
    labels = read_labels(folder)
    if with_runs:
        write_runs(folder, labels)
    action = routing_table(labels, labels.router_arms)
    telling = np.array(
        [
            [sum(word in text.split() for word in WORDS[arm]) for arm in ARMS]
            for text in action.texts
        ]
    )
    noise = 0.1 * np.random.default_rng(0).normal(size=(len(telling), 8))
    settings = TrainingSettings(
        lams=(0.0, 0.3),
        encoder=str(tiny_bert),
        boosting=BOOSTING,
        probing=ProbingSettings(most=2),
        cascade=CascadeSettings(share=0.1),
    )
    return FitContext(
        settings,
        QueryEncoder(settings.encoder),
        np.hstack([telling, noise]).astype(np.float32),
        action,
        routing_table(labels, labels.pipelines),
        WorkFolder(Path("unused")),
        SilentProgress().task("fitting", total=None).__enter__(),
        runs=RecordedRuns.beside(folder, labels),
    )


@pytest.fixture(scope="module")
def by_text(tmp_path_factory, tiny_bert):
    """Texts tell the best arm."""
    return make_shop(tmp_path_factory.mktemp("text") / "labels", tiny_bert, shuffled=False)


@pytest.fixture(scope="module")
def by_probe(tmp_path_factory, tiny_bert):
    """Texts tell nothing; rankings do."""
    return make_shop(tmp_path_factory.mktemp("probe") / "labels", tiny_bert, shuffled=True)


def rows_of(context, split):
    return comparable_rows(context, context.action.splits == split)


def fit(learner, context):
    return learner.fit(context, rows_of(context, "train"), rows_of(context, "val"))


def decide(context, policy, lam, split="test"):
    rows = rows_of(context, split)
    table = context.action.rows(rows)
    probed = None
    if policy.probes:
        probed = context.runs.probed(policy.probes, rows, context.every, policy.probe_depth)
    embedded = context.embedded[rows] if policy.queries else None
    known = PolicyInputs(embeddings=embedded, probed=probed, competes=table.competes)
    decided = policy.decide(table.texts.tolist(), lam, known)
    columns = [table.arms.index(plan.answering_arm) for plan in decided.plans]
    return decided, table.quality[np.arange(len(rows)), columns], table


@pytest.fixture(scope="module")
def reader(by_text):
    return fit(QualityLearner(), by_text)


@pytest.fixture(scope="module")
def prober(by_probe):
    return fit(ProbingLearner(), by_probe)


@pytest.fixture(scope="module")
def cascade(by_probe):
    return fit(CascadeLearner(), by_probe)


def test_the_text_is_read(by_text, reader):
    decided, quality, table = decide(by_text, reader, 0.0)
    assert quality.mean() > 0.9 * table.quality.max(axis=1).mean()
    assert {plan.combine for plan in decided.plans} == {"single"}
    assert abs(decided.predicted_quality.mean() - quality.mean()) < 0.05


def test_probes_tell_what_the_text_does_not(by_probe, prober, cascade):
    blind = decide(by_probe, fit(QualityLearner(), by_probe), 0.0)[1].mean()
    assert prober.probes == ("bm25", "text_rerank") or prober.probes == ("bm25", "text_dense")
    assert cascade.probes == ("bm25",)
    assert cascade.frozen_encoder() is None
    for policy in (prober, cascade):
        assert decide(by_probe, policy, 0.0)[1].mean() > blind + 0.05


def test_plans_name_probes_first_and_never_twice(by_probe, prober):
    decided = decide(by_probe, prober, 0.0)[0]
    for plan in decided.plans:
        assert set(prober.probes) <= set(plan.arms)
        assert len(set(plan.arms)) == len(plan.arms)
        assert plan.combine == "cascade"
    np.testing.assert_allclose(decided.probabilities.sum(axis=1), 1.0)


def test_latency_weighs_more_as_lam_grows_and_probes_at_hand_are_free(by_probe, cascade, reader):
    further = []
    for lam in (0.0, 0.2, 0.5, 1.0):
        plans = decide(by_probe, cascade, lam)[0].plans
        further.append(np.mean([len(plan.arms) > 1 for plan in plans]))
        assert all(plan.combine == "single" for plan in plans if len(plan.arms) == 1)
    assert further[0] > 0.3
    assert further == sorted(further, reverse=True)
    assert further[-1] == 0
    rewards = reader.rewards(np.full((1, 3), 0.5), 1.0, None)
    np.testing.assert_allclose(rewards, 1 - reader.model.latency_ms / reader.model.latency_ms.sum()
                               + np.zeros((1, 3)))  # fmt: skip
    assert cascade.rewards(np.full((1, 3), 0.5), 1.0, None)[0, 0] == 1.0


def test_masked_arms_never_answer(by_probe, prober):
    rows = rows_of(by_probe, "test")
    probed = by_probe.runs.probed(prober.probes, rows, by_probe.every, 10)
    allowed = np.tile([False, True, False], (len(rows), 1))
    texts = by_probe.action.texts[rows].tolist()
    known = PolicyInputs(embeddings=by_probe.embedded[rows], probed=probed, competes=allowed)
    decided = prober.decide(texts, 0.0, known)
    assert {plan.answering_arm for plan in decided.plans} == {"text_dense"}
    np.testing.assert_array_equal(decided.probabilities, allowed.astype(float))


def test_a_dataset_without_a_probe_runs_none(cascade):
    known = PolicyInputs(probed={}, competes=np.array([[False, True, True]]))
    plan = cascade.decide(["a"], 0.0, known).plans[0]
    assert plan.combine == "single"
    empty = replace(known, probed={"bm25": [Ranking((), ())]})
    assert cascade.decide(["a"], 0.0, empty).plans[0] == plan


def test_one_query_decides_as_in_a_batch(by_probe, prober):
    rows = rows_of(by_probe, "test")[:5]
    texts = by_probe.action.texts[rows].tolist()
    probed = by_probe.runs.probed(prober.probes, rows, by_probe.every, 10)
    vectors = by_probe.embedded[rows]
    whole = prober.decide(texts, 0.1, PolicyInputs(embeddings=vectors, probed=probed))
    for row, text in enumerate(texts):
        one = {arm: found[row : row + 1] for arm, found in probed.items()}
        alone = prober.decide(
            [text], 0.1, PolicyInputs(embeddings=vectors[row : row + 1], probed=one)
        )
        assert alone.plans[0] == whole.plans[row]
        np.testing.assert_allclose(alone.probabilities[0], whole.probabilities[row], atol=1e-5)


def test_saved_policies_decide_alike_and_fits_repeat(by_probe, prober, cascade, reader, tmp_path):
    for number, policy in enumerate((prober, cascade, reader)):
        folder = tmp_path / str(number)
        folder.mkdir()
        policy.save(folder)
        loaded = load_policy(folder)
        assert (loaded.name, loaded.arms, loaded.probes) == (policy.name, ARMS, policy.probes)
        before, after = (decide(by_probe, one, 0.2)[0] for one in (policy, loaded))
        assert before.plans == after.plans
        np.testing.assert_array_equal(before.probabilities, after.probabilities)
    again = fit(CascadeLearner(), by_probe)
    assert again.model.boosters.texts == cascade.model.boosters.texts
    np.testing.assert_array_equal(again.model.weights, cascade.model.weights)


def test_altered_files_are_refused(cascade, tmp_path):
    def saved(name):
        folder = tmp_path / name
        folder.mkdir()
        cascade.save(folder)
        return folder

    folder = saved("altered")
    path = folder / "boosters-1.txt"
    path.write_text(path.read_text().replace("leaf_value=", "leaf_value=9 ", 1))
    with pytest.raises(RouterError, match=r"boosters-1.txt is not the file that training wrote"):
        load_policy(folder)
    folder = saved("absent")
    (folder / "boosters-0.txt").unlink()
    with pytest.raises(RouterError, match=r"boosters-0.txt is absent"):
        load_policy(folder)
    folder = saved("other")
    content = (folder / "policy.json").read_text().replace('"probe_depth": 10', '"depth": 10')
    (folder / "policy.json").write_text(content)
    with pytest.raises(RouterError, match="missing or unexpected entries: depth, probe_depth"):
        load_policy(folder)


def test_without_rankings_probing_policies_are_left_out(tmp_path, tiny_bert, caplog):
    context = make_shop(tmp_path / "labels", tiny_bert, shuffled=False, with_runs=False)
    assert context.runs is None
    assert fit(ProbingLearner(), context) is None
    assert fit(CascadeLearner(), context) is None
    assert [one.getMessage() for one in caplog.records] == [
        f"no {name} policy: the labels hold no rankings (runs.parquet)"
        for name in ("probing", "cascade")
    ]
    assert fit(QualityLearner(), context).name == "router_quality"


def test_asked_without_rankings_a_probing_policy_says_what_it_needs(cascade):
    with pytest.raises(RouterError, match="looks at what bm25 find before it decides"):
        cascade.decide(["a"], 0.0)


def test_probes_that_a_router_cannot_run_are_refused(by_probe):
    named = ProbingSettings(probes=("bm25", "text_late"))
    context = replace(by_probe, settings=by_probe.settings.model_copy(update={"probing": named}))
    with pytest.raises(SettingsError, match=r"training.probing.probes names text_late"):
        fit(ProbingLearner(), context)


def test_default_probes_by_hand():
    table = replace(
        make_table([[0.5, 0.6, 0.9, 0.7, 0.2]], [[1.0, 2.0, 90.0, 20.0, 95.0]]),
        arms=("bm25", "bm25@paragraph", "fusion", "text_dense#gte", "text_late"),
    )
    assert best_of_each_pipeline(table, 3) == ("bm25@paragraph", "text_dense#gte", "text_late")
    assert best_of_each_pipeline(table, 2) == ("bm25@paragraph", "text_dense#gte")
    assert every_arm(table) == (
        *("bm25", "bm25@paragraph", "text_dense#gte", "fusion", "text_late"),
    )
    assert cheap_arms(table, 0.03) == ("bm25", "bm25@paragraph")
    assert cheap_arms(table, 0.001) == ()
    named = replace(table, pipelines={"bm25": "fusion", "fusion": "bm25", "text_late": "none"})
    assert best_of_each_pipeline(named, 3) == ("text_dense#gte", "fusion")
    assert "text_late" not in every_arm(named)
    assert cheap_arms(named, 0.03) == ("bm25@paragraph",)
