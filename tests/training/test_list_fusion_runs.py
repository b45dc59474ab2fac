"""Whole commands with the policies that fuse lists: decisions, record, folds, reports, serving."""

from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from arms.records import Ranking
from oracle.labels import read_labels
from router.policies import load_policy
from router.policy import PolicyInputs
from router.probe_features import document_name
from tests.training.graded import graded_labels
from tests.training.test_merging_runs import decisions_of
from training.learners.list_fusion import fused_sets
from training.policy_settings import FusionSettings
from training.settings import FrozenSettings, TrainingSettings
from training.train_routers import train_routers

FUSING = ("reciprocal_ranks", "tuned_fusion", "tuned_fusion_prior", "strongest_simple")
LAMS = (0.0, 0.1, 1.0)


@pytest.fixture(scope="module")
def trained(tmp_path_factory, tiny_bert):
    root = tmp_path_factory.mktemp("fusing")
    labels = graded_labels(root / "labels", count=300, lacking={"beta": ("text_rerank",)})
    settings = TrainingSettings(
        lams=LAMS,
        encoder=str(tiny_bert),
        overhead_queries=3,
        policies=FUSING,
        cross_validation_folds=2,
        frozen=FrozenSettings(weight_decays=(0.01,), epochs=2),
        fusion=FusionSettings(normalisations=("top_score", "min_max")),
    )
    record = train_routers(labels, None, root / "router", settings)
    return labels, root / "router", record


def test_every_fusing_policy_is_in_the_artifact_and_decides_every_query(trained):
    _, folder, record = trained
    assert set(FUSING) <= set(record.policies)
    decisions = decisions_of(folder)
    for name in FUSING:
        own = decisions[decisions["policy"] == name]
        assert set(own["split"]) == {"train", "val", "test", "cv0", "cv1"}
        fused = own["plan"].str.contains("+", regex=False)
        np.testing.assert_array_equal(own["answer:nDCG@5"].notna(), fused)
        assert set(own[own["lam"] == 1.0]["plan"]) == {"bm25"}  # the cheapest arm, alone
        assert fused.any()
    learns = {name: load_policy(folder / "policies" / name).learns_documents for name in FUSING}
    assert [name for name, one in learns.items() if one] == ["tuned_fusion_prior"]


def test_the_strongest_simple_one_is_the_best_of_them_on_validation(trained):
    folder = trained[1] / "policies"
    simple, *parts = (
        load_policy(folder / name)
        for name in ("strongest_simple", "reciprocal_ranks", "tuned_fusion")
    )

    def reward(policy, lam):
        return policy.arm_sets[policy.arm_set_at(lam)].reward(lam)

    for lam in (0.0, 0.1, 0.3, 0.6, 1.0):
        assert reward(simple, lam) == pytest.approx(max(reward(one, lam) for one in parts))
    arms = [one.arms for one in simple.arm_sets]
    assert len(set(arms)) == len(arms)


def rankings_of(labels: Path):
    runs = pq.read_table(labels / "runs.parquet").to_pandas()
    return {
        key: Ranking(
            tuple(document_name(key[0], one) for one in part["doc_id"]), tuple(part["score"])
        )
        for key, part in runs.sort_values("rank").groupby(["dataset", "query_id", "arm"])
    }


def test_what_is_served_is_what_was_decided(trained):
    """Nothing of training is used here but the policies on disk: one query at a time."""
    labels, folder, record = trained
    found, opened = rankings_of(labels), read_labels(labels)
    texts = dict(zip(opened.query_ids.tolist(), opened.texts.tolist(), strict=True))
    for name in FUSING:
        policy = load_policy(folder / "policies" / name)
        told = decisions_of(folder, policy=name, lam=0.0, split="test")
        assert len(told) == 30
        fused = 0
        for row in told.to_dict("records"):
            has = [arm in record.datasets[row["dataset"]] for arm in record.arms]
            competes = np.array([has])
            allowed = [arm for arm, may in zip(record.arms, has, strict=True) if may]
            probed = {
                arm: [found.get((row["dataset"], row["query_id"], arm), Ranking((), ()))]
                for arm in policy.probes_at(0.0, allowed)
            }
            known = PolicyInputs(probed=probed, competes=competes, datasets=[row["dataset"]])
            decided = policy.decide([texts[row["query_id"]]], 0.0, known)
            assert str(decided.plans[0]) == row["plan"]
            fused += "+" in row["plan"]
        assert fused


def test_labels_without_grades_have_none_and_it_says_why(tmp_path, tiny_bert, caplog):
    labels = graded_labels(tmp_path / "labels", count=60)
    runs = pq.read_table(labels / "runs.parquet")
    pq.write_table(runs.drop_columns(["grade"]), labels / "runs.parquet")
    settings = TrainingSettings(
        lams=(0.0,),
        encoder=str(tiny_bert),
        overhead_queries=1,
        policies=("tuned_fusion", "strongest_simple"),
        cross_validation_folds=0,
        frozen=FrozenSettings(weight_decays=(0.01,), epochs=1),
    )
    with caplog.at_level("WARNING"):
        record = train_routers(labels, None, tmp_path / "router", settings)
    assert not {"tuned_fusion", "strongest_simple"} & set(record.policies)
    assert "no tuned_fusion policy: the labels don't tell how every document was judged" in (
        caplog.text
    )


def test_sets_are_nested_and_pairs_of_sparse_and_rerank():
    from dataclasses import replace

    from tests.training.tables import make_table

    arms = ("bm25@paragraph", "text_rerank", "bm25", "text_dense", "mm_rerank", "fusion")
    latency = np.array([[2.0, 50.0, 1.0, 20.0, 70.0, 5.0]] * 2)
    table = replace(make_table(np.zeros(latency.shape), latency_ms=latency), arms=arms)
    assert fused_sets(table, 2) == (
        ("bm25", "bm25@paragraph"),
        ("bm25", "bm25@paragraph", "text_dense", "text_rerank", "mm_rerank"),
        ("bm25", "text_rerank"),
        ("bm25", "mm_rerank"),
    )


def test_a_set_needs_two_arms_each_once():
    for wrong in ((("bm25",),), (("bm25", "bm25"),)):
        with pytest.raises(ValueError, match="each set needs two arms or more, each once"):
            FusionSettings(sets=wrong)
