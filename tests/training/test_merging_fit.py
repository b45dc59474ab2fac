"""Fitting the policy that merges: which sets, what they are worth, and what it refuses."""

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from arms.errors import LabelsError, SettingsError
from oracle.quality import query_quality
from router.policies import load_policy
from router.policies.merging import MergingPolicy
from router.policy import PolicyInputs
from tests.training.graded import graded_labels
from tests.training.synthetic import ARMS
from tests.training.tables import make_table
from tests.training.test_relevance_fit import make_shop, rows_of
from training.arm_sets import nested_sets
from training.calibrating import HeldOut, lam_ranges, realised_by
from training.decide import measured_overheads
from training.default_policy import validated
from training.learners.list_fusion import FusionLearner
from training.learners.merging import WEIGHTS, MergingLearner
from training.merged_quality import own_quality, primary
from training.policy_settings import MergingSettings


def small_shop(folder, tiny_bert):
    """As for the relevance model of probing policies, with fewer trees."""
    context = make_shop(folder, tiny_bert)
    relevance = context.settings.probing.relevance.model_copy(update={"rounds": 25})
    probing = context.settings.probing.model_copy(update={"relevance": relevance})
    merging = MergingSettings(fuse=False)
    changed = {"probing": probing, "merging": merging}
    return replace(context, settings=context.settings.model_copy(update=changed))


@pytest.fixture(scope="module")
def context(tmp_path_factory, tiny_bert):
    return small_shop(graded_labels(tmp_path_factory.mktemp("graded") / "labels"), tiny_bert)


@pytest.fixture(scope="module")
def policy(context):
    return fit(context)


def with_settings(context, **changed):
    merging = MergingSettings(**{"fuse": False, **changed})
    return replace(context, settings=context.settings.model_copy(update={"merging": merging}))


def fit(context, **changed):
    context = with_settings(context, **changed) if changed else context
    return MergingLearner().fit(context, rows_of(context, "train"), rows_of(context, "val"))


def known_of(context, policy, rows):
    probed = context.runs.probed(policy.probes, rows, context.every, policy.probe_depth)
    return PolicyInputs(
        embeddings=context.embedded[rows], probed=probed, competes=context.action.competes[rows]
    )


def decide(context, policy, lam, *splits):
    rows = rows_of(context, *splits)
    decided = policy.decide(
        context.action.texts[rows].tolist(), lam, known_of(context, policy, rows)
    )
    return decided, rows


# Which sets


def sets_of(latency_ms, arm_sets, arms=None, **more):
    latency = np.array([latency_ms, latency_ms], dtype=float)
    table = make_table(np.zeros(latency.shape), latency_ms=latency, **more)
    return nested_sets(replace(table, arms=tuple(arms or table.arms)), arm_sets)


def test_sets_are_nested_and_cut_where_latency_rises_most():
    # Ascending: b 1, d 2, a 20, c 30; it rises by factors of 2, 10 and 1.5.
    latency = [20.0, 1.0, 30.0, 2.0]
    assert sets_of(latency, 1) == (("b", "d", "a", "c"),)
    assert sets_of(latency, 2) == (("b", "d"), ("b", "d", "a", "c"))
    assert sets_of(latency, 3) == (("b",), ("b", "d"), ("b", "d", "a", "c"))
    every = (("b",), ("b", "d"), ("b", "d", "a"), ("b", "d", "a", "c"))
    assert sets_of(latency, 4) == sets_of(latency, 8) == every


def test_equal_latencies_are_cut_at_the_earlier_arm():
    assert sets_of([3.0, 3.0, 3.0], 2) == (("a",), ("a", "b", "c"))
    assert sets_of([0.0, 0.0], 2) == (("a",), ("a", "b"))


def test_one_arm_is_one_set():
    assert sets_of([3.0], 3) == (("a",),)


def test_what_fuses_others_or_was_never_run_is_in_no_set():
    arms = ("bm25", "fusion", "text_dense@paragraph")
    assert sets_of([1.0, 5.0, 9.0], 3, arms) == (("bm25",), ("bm25", "text_dense@paragraph"))
    named = replace(make_table([[0.5, 0.5]], [[1.0, 5.0]]), pipelines={"a": "bm25", "b": "fusion"})
    assert nested_sets(named, 3) == (("a",),)
    competes = [[True, False], [True, False]]
    assert sets_of([9.0, 1.0], 2, competes=competes) == (("a",),)
    assert sets_of([1.0], 2, ("fusion",)) == ()


def test_sets_may_be_named(context):
    policy = fit(context, sets=(("text_dense", "bm25"), ("bm25",)))
    merged = [arm_set.arms for arm_set in policy.arm_sets if arm_set.model is not None]
    assert merged == [("text_dense", "bm25"), ("bm25",)]
    assert policy.probes == ("bm25", "text_dense")
    with pytest.raises(SettingsError, match=r"sets names text_late; .* bm25, text_dense, text_re"):
        fit(context, sets=(("bm25",), ("bm25", "text_late")))
    for wrong in (((),), (("bm25", "bm25"),)):
        with pytest.raises(ValueError, match="each set needs arms, each once"):
            MergingSettings(sets=wrong)


# What is fitted


def test_every_arm_alone_and_nested_sets(policy):
    alone = [arm_set.arms for arm_set in policy.arm_sets if arm_set.model is None]
    merged = [arm_set.arms for arm_set in policy.arm_sets if arm_set.model is not None]
    assert alone == [(arm,) for arm in ARMS]
    assert merged == [("bm25",), ("bm25", "text_dense"), ARMS]
    shares = [arm_set.share for arm_set in policy.arm_sets if arm_set.model is not None]
    assert shares == sorted(shares) and shares[0] < 0.2


def test_it_is_better_than_any_single_arm_on_queries_it_never_saw(context, policy):
    decided, rows = decide(context, policy, 0.0, "test")
    own = own_quality(context.runs, rows, decided)["nDCG@5"]
    single = np.nanmean(context.action.quality[rows], axis=0)
    assert own.mean() > single.max() + 0.15
    best = context.action.quality[rows].max(axis=1)
    assert (own > best + 0.01).any()  # as no policy that chooses one list can be
    assert {plan.combine for plan in decided.plans} == {"merge"}
    assert np.corrcoef(decided.predicted_quality, own)[0, 1] > 0.3
    assert abs(decided.predicted_quality.mean() - own.mean()) < 0.25


def test_merging_two_noisy_lists_is_better_than_either(context, policy):
    rows = rows_of(context, "test", "val")
    number = [arm_set.arms for arm_set in policy.arm_sets].index(("bm25", "text_dense"))
    texts = context.action.texts[rows].tolist()
    decided = policy.merge(number, texts, known_of(context, policy, rows))
    own = primary(context.runs, own_quality(context.runs, rows, decided))
    either = context.action.quality[rows][:, :2]
    assert own.mean() > either.mean(axis=0).max() + 0.05


def test_at_lam_1_the_cheapest_arm_answers_alone(context, policy):
    decided, _ = decide(context, policy, 1.0, "test")
    assert {str(plan) for plan in decided.plans} == {"bm25"}
    assert decided.rankings is None
    assert policy.probes_at(1.0) == ()


def test_sets_are_measured_on_validation_queries_by_hand(context, policy):
    rows = rows_of(context, "val")
    table, total_ms = context.action.rows(rows), context.action.latency_ms[rows].sum(axis=1)
    first = policy.arm_sets[0]
    assert first.quality == pytest.approx(table.quality[:, 0].mean())
    assert first.share == pytest.approx((table.latency_ms[:, 0] / total_ms).mean())
    number = len(policy.arm_sets) - 1
    last = policy.arm_sets[number]
    assert last.arms == ARMS
    decided = policy.merge(number, table.texts.tolist(), known_of(context, policy, rows))
    own = own_quality(context.runs, rows, decided)["nDCG@5"]
    assert last.quality == pytest.approx(own.mean())
    options = context.settings.merging
    extra_ms = options.deciding_ms + (options.embedding_ms if last.reads_vectors else 0.0)
    assert last.share == pytest.approx((1.0 + extra_ms / total_ms).mean())


def test_fits_repeat_and_saved_it_decides_alike(context, policy, tmp_path):
    folders = [tmp_path / name for name in ("once", "again")]
    for folder, one in zip(folders, (policy, fit(context)), strict=True):
        folder.mkdir()
        one.save(folder)
    files = sorted(one.relative_to(folders[0]) for one in folders[0].rglob("*") if one.is_file())
    # Of each set two models and their past, and two models without, unless history gained nothing.
    models = [one.model for one in policy.arm_sets if one.model is not None]
    count = sum(2 if model.plain is None else 5 for model in models)
    assert len(files) == 1 + count + (policy.vectors is not None)
    for name in files:
        assert (folders[0] / name).read_bytes() == (folders[1] / name).read_bytes(), name
    loaded = load_policy(folders[0])
    for lam in (0.0, 0.3, 1.0):
        before, after = (decide(context, one, lam, "test")[0] for one in (policy, loaded))
        assert before.plans == after.plans and before.rankings == after.rankings
        np.testing.assert_array_equal(before.probabilities, after.probabilities)


def test_without_history_it_is_the_models_that_answer_where_there_is_none(context, policy):
    """Fitted alone, taken from the other policy, or asked of documents that nobody knows."""
    learner = MergingLearner(with_history=False)
    rows = rows_of(context, "train"), rows_of(context, "val")
    alone = learner.fit(context, *rows)
    taken = learner.fit(replace(context, learned={"merging": policy}), *rows)
    assert (policy.learns_documents, alone.learns_documents) == (True, False)
    assert alone.name == taken.name == "merging_no_history"
    number = len(policy.arm_sets) - 1
    assert alone.arm_sets[number].quality == pytest.approx(taken.arm_sets[number].quality)
    assert taken.arm_sets[number].quality == policy.foreign[number]
    asked = rows_of(context, "test")
    known, texts = known_of(context, policy, asked), context.action.texts[asked].tolist()
    renamed = {
        arm: [replace(one, doc_ids=tuple(f"new/{doc}" for doc in one.doc_ids)) for one in found]
        for arm, found in known.probed.items()
    }
    unknown = replace(known, probed=renamed)
    answers = [one.merge(number, texts, unknown) for one in (policy, alone, taken)]
    for other in answers[1:]:
        assert other.rankings == answers[0].rankings and other.plans == answers[0].plans
        np.testing.assert_array_equal(other.predicted_quality, answers[0].predicted_quality)
    before = [one.merge(number, texts, known) for one in (alone, taken)]
    assert before[0].rankings == before[1].rankings


def test_sets_of_tuned_fusion_stand_beside_those_of_trees(context, tmp_path):
    rows = rows_of(context, "train"), rows_of(context, "val")
    fused = FusionLearner("tuned_fusion").fit(context, *rows)
    policy = fit(context, fuse=True)
    taken = MergingLearner().fit(
        replace(with_settings(context, fuse=True), learned={"tuned_fusion": fused}), *rows
    )
    asked = rows_of(context, "test")
    known, texts = known_of(context, policy, asked), context.action.texts[asked].tolist()
    kinds = [one.model.combine for one in policy.arm_sets if one.model is not None]
    wanted = [number for number, one in enumerate(fused.arm_sets) if one.model is not None]
    assert kinds == ["merge"] * 3 + ["fuse"] * len(wanted)
    (tmp_path / "saved").mkdir()
    policy.save(tmp_path / "saved")
    for other in (policy, taken, policy.without_history("plain"), load_policy(tmp_path / "saved")):
        for number, at in zip(
            wanted, range(len(other.arm_sets) - len(wanted), len(other.arm_sets)), strict=True
        ):
            ours, theirs = other.arm_sets[at], fused.arm_sets[number]
            assert (ours.arms, ours.model.method) == (theirs.arms, theirs.model.method)
            assert (ours.quality, ours.share) == (theirs.quality, theirs.share)
            answers = [other.merge(at, texts, known), fused.merge(number, texts, known)]
            assert answers[0].rankings == answers[1].rankings
            assert answers[0].plans == answers[1].plans
    # Where nothing but a fused set is worth anything, it answers, and its means are told.
    at = len(policy.arm_sets) - 1
    only = policy.with_arm_sets(
        [replace(one, quality=float(n == at)) for n, one in enumerate(policy.arm_sets)]
    )
    decided = only.decide(texts, 0.0, known)
    assert {plan.combine for plan in decided.plans} == {"fuse"}
    assert only.means_of(decided.plans[0]).quality == 1.0
    rows_told = only.probabilities(texts, 0.0, known)
    np.testing.assert_allclose(rows_told.sum(axis=1), 1.0)


def test_history_that_gains_nothing_is_left_out(context, policy):
    weights = [one.model.history_weight for one in policy.arm_sets if one.model is not None]
    assert set(weights) <= set(WEIGHTS)
    rows, number = rows_of(context, "val"), len(policy.arm_sets) - 1
    texts, known = context.action.texts[rows].tolist(), known_of(context, policy, rows)
    reached = {}
    for weight in WEIGHTS:
        arm_sets = list(policy.arm_sets)
        model = replace(arm_sets[number].model, history_weight=weight)
        arm_sets[number] = replace(arm_sets[number], model=model)
        decided = policy.with_arm_sets(arm_sets).merge(number, texts, known)
        reached[weight] = primary(context.runs, own_quality(context.runs, rows, decided)).mean()
    best = max(WEIGHTS, key=lambda weight: (round(reached[weight], 9), -weight))
    assert weights[-1] == best
    assert policy.arm_sets[number].quality == pytest.approx(reached[best])


def test_a_set_reads_vectors_where_its_arms_take_long(context):
    sets = (("bm25",), ("bm25", "text_dense"))

    def reading(**changed):
        policy = fit(context, sets=sets, **changed)
        return [
            arm_set.reads_vectors for arm_set in policy.arm_sets if arm_set.model is not None
        ], policy

    # The sets take about 2 and 12 ms.
    assert reading(vectors_from_ms=7.0)[0] == [False, True]
    none, policy = reading(vectors_from_ms=1e6)
    assert none == [False] * 2 and policy.vectors is None and policy.queries is None
    shared = np.zeros(context.every.latency_ms.shape)
    shared[:, context.every.arms.index("text_dense")] = 5.0
    saving = replace(with_settings(context, sets=sets, vectors_from_ms=1e6), reusable_ms=shared)
    assert [one.reads_vectors for one in fit(saving).arm_sets[3:]] == [False, True]


def test_nothing_is_reused_where_the_query_is_not_embedded(context):
    """An arm can take a vector only from a policy that makes one at this λ."""
    shared = np.zeros(context.every.latency_ms.shape)
    dense = context.every.arms.index("text_dense")
    shared[:, dense] = 4.0
    saving = replace(with_settings(context, sets=(("bm25", "text_dense"),)), reusable_ms=shared)
    fitted = fit(saving)
    # At λ = 0 the set, at λ = 1 text_dense alone, which then encodes the query itself.
    numbers = {("bm25",): (0.1, 0.9), ("text_dense",): (0.5, 0.1), ("text_rerank",): (0.1, 0.9)}
    arm_sets = [
        replace(arm_set, quality=numbers[arm_set.arms][0], share=numbers[arm_set.arms][1])
        if arm_set.model is None
        else replace(arm_set, quality=0.9, share=0.9)
        for arm_set in fitted.arm_sets
    ]
    policy = MergingPolicy("m", ARMS, arm_sets, fitted.vectors, fitted.queries, fitted.probe_depth)
    assert (policy.embeds_at(0.0), policy.embeds_at(1.0)) == (True, False)
    rows = rows_of(saving, "val")
    every = saving.every.rows(rows)
    held_out = HeldOut(
        "val", saving.action.rows(rows), every, "hash", shared[rows], saving.runs, rows
    )
    costs = {cost: 1.0 for cost in policy.overhead_keys()}
    realised = realised_by(policy, held_out, costs, known_of(saving, policy, rows))
    alone, both = every.latency_ms[:, dense], every.latency_ms[:, :2].sum(axis=1)
    np.testing.assert_allclose(realised(1.0).latency_ms, alone + 1.0)
    np.testing.assert_allclose(realised(0.0).latency_ms, both + 1.0 - 4.0)
    free = {cost: np.zeros(len(saving.action)) for cost in costs}
    lam_1 = replace(saving, settings=saving.settings.model_copy(update={"lams": (1.0,)}))
    total_ms = saving.action.latency_ms[rows].sum(axis=1)
    reward = validated(lam_1, policy, rows, free).rewards.mean()
    assert reward == pytest.approx(1.0 - (alone / total_ms).mean())


def test_deciding_is_timed_for_each_set_as_a_fold_may_take_another(context):
    policy = fit(context, vectors_from_ms=1e6)  # the shop's vectors are made up
    costs = measured_overheads(context, {"merging": policy})["merging"]
    assert set(costs) == set(range(len(policy.arm_sets)))
    assert 2 <= len(policy.overhead_keys()) < len(costs)
    others = policy.other_costs()
    assert set(others) == set(costs) - set(policy.overhead_keys())
    for number, other in others.items():
        assert {other.overhead_key(lam) for lam in (0.0, 0.5, 1.0)} == {number}
    assert all((taken > 0).all() for taken in costs.values())
    assert lam_ranges(policy) == tuple(policy.overhead_keys().values())


# Answers whose quality is known


def test_the_quality_of_answers_is_that_of_ir_measures(context, policy):
    decided, rows = decide(context, policy, 0.0, "test", "val")
    own = own_quality(context.runs, rows, decided)
    grades = {}
    for arm in ARMS:
        for row, ranking in enumerate(context.runs.rankings(arm)):
            told = zip(ranking.doc_ids, context.runs.grades(arm)[row], strict=True)
            grades.setdefault(str(row), {}).update(told)
    qrels = {}
    for row in map(str, rows.tolist()):
        known = {one for one in grades[row].values() if one}
        qrels[row] = {**grades[row], **{f"unseen {grade}": grade for grade in {1, 2} - known}}
    answers = {str(row): one for row, one in zip(rows.tolist(), decided.rankings, strict=True)}
    expected = query_quality(qrels, answers, ["nDCG@5", "RR@5"])
    for measure, values in expected.items():
        np.testing.assert_allclose(own[measure], list(values.values()), atol=1e-9)
    assert 0.3 < own["nDCG@5"].mean() < 1.0


def test_a_dataset_without_an_arm_is_merged_too(tmp_path, tiny_bert):
    folder = graded_labels(tmp_path / "l", count=300, lacking={"beta": ("text_dense",)})
    context = small_shop(folder, tiny_bert)
    policy = fit(context)
    decided, rows = decide(context, policy, 0.0, "test", "val")
    written = {str(plan) for plan in decided.plans}
    by_dataset = {
        dataset: {
            frozenset(plan.arms)
            for plan, one in zip(decided.plans, context.action.datasets[rows], strict=True)
            if one == dataset
        }
        for dataset in ("alpha", "beta")
    }
    assert all("&" in one for one in written)
    assert by_dataset == {
        "alpha": {frozenset(ARMS)},
        "beta": {frozenset({"bm25", "text_rerank"})},
    }
    own = own_quality(context.runs, rows, decided)["nDCG@5"]
    assert np.isfinite(own).all()


# What it refuses


def refused(caplog, context):
    assert fit(context) is None
    told = caplog.text
    assert "no merging policy" in told
    return told


def test_labels_without_rankings_fit_none(caplog, context):
    assert "hold no rankings (runs.parquet)" in refused(caplog, replace(context, runs=None))


@pytest.mark.parametrize("given", [{"grades": False}, {"relevant": False}])
def test_labels_without_grades_fit_none(caplog, tmp_path, tiny_bert, given):
    context = small_shop(graded_labels(tmp_path / "labels", count=100, **given), tiny_bert)
    told = refused(caplog, context)
    assert "how every document was judged (l2r oracle adds that" in told
    queries, rankings = (
        f"{what} is missing for 50 of 50 queries of alpha (q0000, q0001, q0002, …), 50 of 50"
        for what in ("relevant_grades in queries.parquet", "a grade in runs.parquet")
    )
    assert (queries in told, rankings in told) == (
        not given.get("relevant", True),
        not given.get("grades", True),
    )


def test_one_query_without_its_grades_is_enough(caplog, tmp_path, tiny_bert):
    folder = graded_labels(tmp_path / "labels", count=100)
    queries = pq.read_table(folder / "queries.parquet")
    lists = [None, *queries["relevant_grades"].to_pylist()[1:]]
    place = queries.column_names.index("relevant_grades")
    queries = queries.set_column(place, "relevant_grades", pa.array(lists, pa.list_(pa.int32())))
    pq.write_table(queries, folder / "queries.parquet")
    first = queries.select(["dataset", "query_id"]).slice(0, 1).to_pylist()[0]
    members = queries["dataset"].to_pylist().count(first["dataset"])
    told = refused(caplog, small_shop(folder, tiny_bert))
    assert "how every document was judged" in told
    assert (
        f"; relevant_grades in queries.parquet is missing for 1 of {members} queries of "
        f"{first['dataset']} ({first['query_id']})\n"
    ) in told


def test_rows_without_a_grade_are_counted_by_query(caplog, tmp_path, tiny_bert):
    folder = graded_labels(tmp_path / "labels", count=100)
    runs = pq.read_table(folder / "runs.parquet").to_pylist()
    of_alpha = sorted({one["query_id"] for one in runs if one["dataset"] == "alpha"})
    blank = {(of_alpha[0], "bm25"), *((one, "text_dense") for one in of_alpha[:2])}
    for one in runs:
        if (one["query_id"], one["arm"]) in blank and one["rank"] > 10:
            one["grade"] = None
        if one["arm"] == "text_late":  # no router may run it
            one["grade"] = None
    pq.write_table(pa.Table.from_pylist(runs), folder / "runs.parquet")
    told = refused(caplog, small_shop(folder, tiny_bert))
    wanted = f"2 of {len(of_alpha)} queries of alpha ({', '.join(of_alpha[:2])})\n"
    assert f"; a grade in runs.parquet is missing for {wanted}" in told


def test_another_measure_fits_none(caplog, context, monkeypatch):
    monkeypatch.setattr(context.runs, "measure", "RR@5")
    assert "it ranks for nDCG@k, and quality is RR@5" in refused(caplog, context)


def test_no_training_query_fits_none(caplog, context):
    nothing = np.zeros(0, dtype=np.intp)
    assert MergingLearner().fit(with_settings(context, sets=(("bm25",),)), nothing, nothing) is None
    assert "no training queries" in caplog.text


def test_a_ranking_without_grades_has_no_quality(tmp_path, tiny_bert, context, policy):
    bare = small_shop(graded_labels(tmp_path / "labels", relevant=False), tiny_bert)
    decided, rows = decide(context, policy, 0.0, "test")
    with pytest.raises(LabelsError, match="rerun l2r oracle, which adds them"):
        own_quality(bare.runs, rows, decided)
