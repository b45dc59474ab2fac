"""Each learner on made-up labels: the wording of a query tells its best arm."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from arms.progress import SilentProgress
from oracle.labels import read_labels
from router.artifact import read_router
from router.decisions import read_decisions
from router.policy import PolicyInputs
from router.query_encoder import QueryEncoder
from router.router import Router
from tests.training.synthetic import ARMS, WORDS, make_texts, write_labels
from tests.training.tables import make_table
from training.fitting import FitContext, comparable_rows
from training.learn_log import learn_from_log
from training.learners import LEARNERS
from training.learners.arabzadeh import cheapest_success, first_hits
from training.learners.multi_label import multi_hot
from training.linear_fits import fit_sigmoids, fit_softmax
from training.policy_settings import BanditSettings, MultiLabelSettings
from training.settings import FrozenSettings, TrainingSettings
from training.table import routing_table
from training.train_routers import train_routers
from training.work_folder import WorkFolder

OURS = ("knn", "arabzadeh", "multi_label", "bandit", "ensemble_confidence", "ensemble_majority")


@pytest.fixture(scope="module")
def context(tmp_path_factory, tiny_bert):
    """A workshop whose vectors count the telling words of each arm; no encoder is run."""
    root = tmp_path_factory.mktemp("context")
    labels = read_labels(
        write_labels(root / "labels", count=400, lacking={"beta": ("text_rerank",)}, failing=3)
    )
    action = routing_table(labels, labels.router_arms)
    vectors = np.array(
        [
            [sum(word in text.split() for word in WORDS[arm]) for arm in ARMS]
            for text in action.texts
        ]
    )
    noise = 0.1 * np.random.default_rng(0).normal(size=(len(vectors), 8))
    settings = TrainingSettings(lams=(0.0, 0.3), encoder=str(tiny_bert))
    with SilentProgress().task("fitting", total=None) as task:
        yield FitContext(
            settings,
            QueryEncoder(settings.encoder),
            np.hstack([vectors, noise]).astype(np.float32),
            action,
            routing_table(labels, labels.pipelines),
            WorkFolder(Path("unused")),
            task,
        )


def rows_of(context, split):
    return comparable_rows(context, context.action.splits == split)


def learner(name):
    return next(one for one in LEARNERS if one.name == name)


def fitted(context, name, **changes):
    changed = replace(context, settings=context.settings.model_copy(update=changes))
    return learner(name).fit(changed, rows_of(context, "train"), rows_of(context, "val"))


def quality_of(context, policy, lam=0.0, split="test"):
    rows = rows_of(context, split)
    table = context.action.rows(rows)
    known = PolicyInputs(embeddings=context.embedded[rows], competes=table.competes)
    decided = policy.decide(table.texts.tolist(), lam, known)
    columns = [table.arms.index(plan.answering_arm) for plan in decided.plans]
    return float(table.quality[np.arange(len(rows)), columns].mean()), decided


@pytest.mark.parametrize("name", ["knn", "multi_label", "bandit"])
def test_it_learns_which_arm_the_words_point_to(context, name):
    policy = fitted(context, name)
    table = context.action.rows(rows_of(context, "test"))
    best_static = np.where(table.competes, table.quality, 0).mean(axis=0).max()
    oracle = np.where(table.competes, table.quality, 0).max(axis=1).mean()
    reached = quality_of(context, policy)[0]
    assert reached > best_static + 0.7 * (oracle - best_static)


def test_knn_says_what_to_expect(context):
    reached, decided = quality_of(context, fitted(context, "knn"))
    assert abs(decided.predicted_quality.mean() - reached) < 0.1


def test_knn_never_looks_at_the_test_queries(context):
    action = context.action
    spoiled = action.quality.copy()
    spoiled[action.splits == "test"] = 0.123
    other = replace(context, action=replace(action, quality=spoiled))
    for name in ("knn", "arabzadeh", "multi_label", "bandit"):
        one, two = (
            learner(name).fit(each, rows_of(each, "train"), rows_of(each, "val"))
            for each in (context, other)
        )
        known = PolicyInputs(embeddings=context.embedded[rows_of(context, "test")])
        queries = [""] * len(known.embeddings)
        np.testing.assert_array_equal(
            one.probabilities(queries, 0.0, known), two.probabilities(queries, 0.0, known)
        )


def test_arabzadeh_escalates_by_its_budget(context):
    policy = fitted(context, "arabzadeh")
    assert policy.cheapest == "bm25" and policy.success == "quality = 1"
    shares = [
        np.mean(
            [plan.answering_arm == "bm25" for plan in quality_of(context, policy, lam)[1].plans]
        )
        for lam in (0.0, 0.5, 1.0)
    ]
    assert shares[0] == 0.0 and shares[2] == 1.0 and 0.2 < shares[1] < 0.8


def test_the_hard_label_is_the_cheapest_success():
    succeeds = np.array([[True, True, False], [False, True, True], [False, False, False]])
    everywhere = np.ones((3, 3), dtype=bool)
    mean_ms = np.array([5.0, 9.0, 1.0])
    assert cheapest_success(succeeds, mean_ms, everywhere).tolist() == [0, 2, 2]
    without_last = np.array([[True, True, False]] * 3)
    assert cheapest_success(succeeds, mean_ms, without_last).tolist() == [0, 1, 0]


def test_a_relevant_result_first_is_read_from_the_measures(caplog):
    told = make_table([[0.3, 1.0]])
    assert first_hits(told)[0].tolist() == [[False, True]]
    assert "no measure of the first rank" in caplog.text
    known = replace(told, relevant_first=np.array([[True, False]]), first_measure="RR@5 = 1")
    assert first_hits(known) == (known.relevant_first, "RR@5 = 1")


def test_multi_hot_targets():
    rewards = np.array([[0.9, 0.86, 0.5], [0.2, np.nan, 0.1], [0.0, 0.0, 0.0]])
    competes = np.array([[True] * 3, [True, False, True], [True] * 3])
    assert multi_hot(rewards, competes, 0.05).tolist() == [
        [True, True, False],
        [True, False, False],
        [True, True, True],
    ]


def test_any_set_is_fused_only_where_asked_for(context):
    plans = {}
    for fuse in ("labelled", "any"):
        options = MultiLabelSettings(fuse=fuse, threshold=0.2)
        plans[fuse] = quality_of(context, fitted(context, "multi_label", multi_label=options))[
            1
        ].plans
    assert {plan.combine for plan in plans["labelled"]} == {"single"}
    assert "fuse" in {plan.combine for plan in plans["any"]}


def test_ensembles_take_members_that_were_fitted(context):
    alone = replace(context, learned={"knn": fitted(context, "knn")})
    for rule in ("confidence", "majority"):
        assert learner(f"ensemble_{rule}").fit(alone, *[rows_of(context, "val")] * 2) is None
    three = {name: fitted(context, name) for name in ("knn", "tfidf", "bandit")}
    both = replace(context, learned=three)
    options = context.settings.ensemble.model_copy(update={"members": ("absent", *three)})
    both = replace(both, settings=context.settings.model_copy(update={"ensemble": options}))
    for rule in ("confidence", "majority"):
        policy = learner(f"ensemble_{rule}").fit(
            both, rows_of(context, "train"), rows_of(context, "val")
        )
        assert [one.name for one in policy.members] == list(three)
        assert policy.lams == (0.0, 0.3)
        assert quality_of(context, policy)[0] > 0.75


def test_without_query_vectors_nothing_is_fitted(context):
    bare = replace(context, embedded=context.embedded[:, :0])
    for name in ("knn", "arabzadeh", "multi_label", "bandit"):
        assert learner(name).fit(bare, rows_of(context, "train"), rows_of(context, "val")) is None


def test_without_validation_queries_everything_is_fitted(context):
    nothing = np.zeros(0, dtype=np.intp)
    learned = {}
    for name in (*OURS[:4], "tfidf", *OURS[4:]):
        given = replace(context, learned=learned)
        learned[name] = learner(name).fit(given, rows_of(context, "train"), nothing)
        assert learned[name] is not None


@pytest.mark.parametrize("penalty", [0.001, 0.1])
def test_softmax_regression_agrees_with_scikit_learn(penalty):
    from sklearn.linear_model import LogisticRegression

    random = np.random.default_rng(0)
    features = random.normal(size=(300, 5)).astype(np.float32)
    features = (features - features.mean(axis=0)) / features.std(axis=0)
    labels = (features @ random.normal(size=(5, 3))).argmax(axis=1) + 1
    ours = fit_softmax(features, labels, 5, penalty).probabilities(features)
    theirs = LogisticRegression(C=1 / (penalty * 300), max_iter=5000, tol=1e-10)
    np.testing.assert_allclose(
        ours[:, 1:4], theirs.fit(features, labels).predict_proba(features), atol=2e-3
    )
    assert (ours[:, [0, 4]] == 0).all()


def test_sigmoid_regression_agrees_with_scikit_learn_and_skips_uncounted_cells():
    from sklearn.linear_model import LogisticRegression

    random = np.random.default_rng(1)
    features = random.normal(size=(300, 4)).astype(np.float32)
    features = (features - features.mean(axis=0)) / features.std(axis=0)
    targets = features @ random.normal(size=(4, 2)) + random.normal(size=(300, 2)) > 0
    counted = np.ones((300, 2), dtype=bool)
    counted[100:, 1] = False
    head = fit_sigmoids(features, targets, counted, 0.01)
    first = LogisticRegression(C=1 / 3.0, max_iter=5000, tol=1e-10).fit(features, targets[:, 0])
    np.testing.assert_allclose(head.weight[0], first.coef_[0], atol=2e-3)
    spoiled = targets.copy()
    spoiled[100:, 1] = ~spoiled[100:, 1]
    again = fit_sigmoids(features, spoiled, counted, 0.01)
    np.testing.assert_array_equal(again.weight, head.weight)


def test_labels_with_one_class_give_that_class():
    features = np.random.default_rng(0).normal(size=(20, 3)).astype(np.float32)
    rows = fit_softmax(features, np.full(20, 2), 4, 0.1).probabilities(features)
    np.testing.assert_array_equal(rows, np.tile([0, 0, 1.0, 0], (20, 1)))


@pytest.mark.slow
def test_every_policy_is_trained_saved_and_decided_and_a_log_adds_one(tiny_bert, tmp_path):
    labels = write_labels(tmp_path / "labels", count=80)
    settings = TrainingSettings(
        lams=(0.0, 0.5),
        encoder=str(tiny_bert),
        overhead_queries=1,
        cross_validation_folds=2,
        frozen=FrozenSettings(epochs=2),
        bandit=BanditSettings(logging="epsilon_greedy", rounds=3),
        policies=("router_conditioned", "tfidf", *OURS),
    )
    record = train_routers(labels, None, tmp_path / "router", settings)
    assert set(OURS) < set(record.policies)
    decisions = read_decisions(tmp_path / "router" / "decisions.parquet").to_pandas()
    counts = decisions[decisions["policy"].isin(OURS)].groupby(["policy", "lam"]).size()
    assert len(counts) == 12 and (counts == 160).all()
    router = Router.load(tmp_path / "router")
    queries = make_texts(80)[0]
    for name in OURS:
        told = decisions[
            (decisions["policy"] == name)
            & (decisions["lam"] == 0.5)
            & (decisions["split"] == "test")
        ]
        choices = router.select_many(
            [queries[int(one[1:])] for one in told["query_id"]], lam=0.5, policy=name
        )
        assert [str(choice.plan) for choice in choices] == told["plan"].tolist()
    lines = [f'"{text}",bm25,0.5,2.0' for text in queries[:30]]
    log = tmp_path / "log.csv"
    log.write_text("\n".join(["query,arm,quality,latency_ms", *lines]), encoding="utf-8")
    assert learn_from_log(tmp_path / "router", log).logged.tolist() == [30, 0, 0]
    assert read_router(tmp_path / "router").policies[-1] == "bandit_log"
    assert Router.load(tmp_path / "router").select("x", policy="bandit_log").arm == "bm25"
