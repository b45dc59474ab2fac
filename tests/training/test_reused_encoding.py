"""A query vector that policy and arm share counts once: in decisions, calibration and default."""

import json
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from oracle.labels import read_labels
from router.artifact import read_router
from router.decisions import read_decisions
from router.policies import load_policy
from router.policies.encoder import EncoderPolicy, LinearHead
from router.policy import Plan
from router.query_encoder import QueryEncoder
from tests.training.synthetic import write_labels
from tests.training.tables import make_table
from training.calibrate_router import open_held_out
from training.decide import reusable_ms
from training.default_policy import validated
from training.fitting import FitContext
from training.plan_outcomes import plan_outcomes
from training.reused_encoding import reusable_encode_ms, saved_ms, shared_parts
from training.settings import FrozenSettings, TrainingSettings
from training.table import routing_table
from training.train_routers import train_routers

ENCODE_MS = {"bm25": 0.0, "text_dense": 6.0, "text_rerank": 13.0, "text_late": 7.0}
SAVED = {"bm25": 0.0, "text_dense": 6.0, "text_rerank": 0.0, "text_late": 0.0}
"""Nothing of reranking, which passes the query through the encoder for its tokens' states."""


@pytest.fixture(scope="module")
def encoder(tiny_bert):
    return QueryEncoder(str(tiny_bert))


def labels_of(folder, encoder, options=None, revision=None, modelled=0):
    """Labels that say what encoding took, and of which encoder; the first few are modelled."""
    write_labels(folder, count=200)
    path = folder / "labels.parquet"
    table = pq.read_table(path)
    arms = table["arm"].to_pylist()
    guessed = [row < modelled * 4 for row in range(len(arms))]
    encode = [None if one else ENCODE_MS[arm] for arm, one in zip(arms, guessed, strict=True)]
    table = table.append_column("encode_ms", pa.array(encode, pa.float64()))
    pq.write_table(table.append_column("latency_modelled", pa.array(guessed)), path)
    index = {"encoder_revision": revision or encoder.resolved.revision}
    indexes = {arm: {"index": index} for arm in ("text_dense", "text_late")}
    manifest = json.loads((folder / "manifest.json").read_text())
    manifest["datasets"] = {"alpha": {"arms": indexes}, "beta": {"arms": {"text_late": {}}}}
    manifest["config"] = {
        "arms": [{"arm": arm, "options": (options or {}).get(arm, {})} for arm in ENCODE_MS]
    }
    (folder / "manifest.json").write_text(json.dumps(manifest))
    return folder


def reusable(folder, encoder, texts=None):
    labels = read_labels(folder)
    every = routing_table(labels, labels.pipelines)
    if texts is not None:
        every = replace(every, texts=np.array([texts] * len(every), dtype=object))
    return reusable_encode_ms(folder, labels, every, encoder), every


@pytest.mark.parametrize("modelled", [0, 150])
def test_arms_save_what_their_dense_arm_takes_to_encode(tmp_path, encoder, modelled):
    saved, every = reusable(labels_of(tmp_path / "l", encoder, modelled=modelled), encoder)
    assert saved.shape == every.latency_ms.shape
    np.testing.assert_allclose(saved, np.tile([SAVED[arm] for arm in every.arms], (200, 1)))


PARAGRAPHS = {"arm": "text_dense", "granularity": "paragraph"}
BY_TORCH = {**PARAGRAPHS, "options": {"backend": "torch"}}


@pytest.mark.parametrize(
    ("arm", "options", "saved"),
    [
        # a vector's pass is made for the tokens anyway, up to where late interaction cuts
        ("text_rerank", {}, [0.0, 0.0, 6.0]),
        ("text_rerank", {"backend": "torch"}, [0.0, 0.0, 6.0]),
        ("text_rerank", {"late": {"tokens": {"max_query_tokens": 9}}}, [0.0, 6.0, 6.0]),
        # tokens of their own, or another back end, take a pass of their own
        ("text_rerank", {"late": {"tokens": {"query_expansion": True}}}, [6.0, 6.0, 6.0]),
        ("text_rerank", {"late": {"tokens": {"query_prefix": "x"}}}, [6.0, 6.0, 6.0]),
        ("text_rerank", {"late": {"backend": "torch"}}, [6.0, 6.0, 6.0]),
        ("fusion", {"arms": ["bm25", "text_dense"]}, [6.0, 6.0, 6.0]),
        ("fusion", {"arms": ["bm25", "text_rerank"]}, [0.0, 0.0, 6.0]),
        ("fusion", {"arms": ["text_late", "text_dense"]}, [0.0, 0.0, 6.0]),
        # one pass serves all parts that make the vector
        ("fusion", {"arms": ["text_dense", PARAGRAPHS]}, [6.0, 6.0, 6.0]),
        ("fusion", {"arms": ["text_dense", BY_TORCH]}, [10.0, 10.0, 10.0]),
        ("fusion", {"arms": ["text_dense", PARAGRAPHS, "text_rerank"]}, [0.0, 0.0, 6.0]),
    ],
)
def test_an_arm_saves_a_pass_that_is_not_made_otherwise(encoder, arm, options, saved):
    record = {"index": {"encoder_revision": encoder.resolved.revision}}
    arms = ("text_dense", "text_dense@paragraph", "text_late")
    manifest = {
        "config": {"arms": [{"arm": arm, "name": "mine", "options": options}]},
        "pipelines": ["mine"],
        "datasets": {"d": {"arms": dict.fromkeys(arms, record)}},
    }
    shared = shared_parts(manifest, encoder)
    long = replace(encoder.encoding, max_tokens=500)
    parts = [replace(one, encoding=long) for one in shared.parts["mine"]]
    taken = {"text_dense": np.full(3, 6.0), "text_dense@paragraph": np.full(3, 4.0)}
    found = saved_ms(parts, shared.states["mine"], long, np.array([8, 100, 200]), taken)
    assert found.tolist() == saved


def test_no_arm_saves_more_than_it_takes(tmp_path, encoder, monkeypatch):
    monkeypatch.setitem(ENCODE_MS, "text_dense", 20.0)  # more than its 10 ms
    saved, every = reusable(labels_of(tmp_path / "l", encoder), encoder)
    column = every.arms.index("text_dense")
    np.testing.assert_array_equal(saved[:, column], every.latency_ms[:, column])


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"query_prompt": "query: "}, "prompt '' and 'query: '"),
        ({"max_tokens": 4}, None),
    ],
)
def test_other_vectors_save_nothing(tmp_path, encoder, options, said):
    options = {"text_dense": options, "text_rerank": {"dense": options}}
    folder = labels_of(tmp_path / "l", encoder, options)
    assert not reusable(folder, encoder)[0].any()
    told = shared_parts(read_labels(folder).manifest, encoder).apart
    assert any(said in one for one in told) if said else not told  # only cut: it depends


def test_another_encoder_saves_nothing(tmp_path, encoder):
    folder = labels_of(tmp_path / "l", encoder, revision="other")
    assert not reusable(folder, encoder)[0].any()
    shared = shared_parts(read_labels(folder).manifest, encoder)
    assert not any(shared.parts.values()) and not shared.apart
    bare = write_labels(tmp_path / "bare", count=20)  # labels that say nothing of encoders
    assert not reusable(bare, encoder)[0].any()


@pytest.mark.parametrize(("text", "any_saved"), [("code", True), (" code", False)])
def test_a_query_with_outer_white_space_is_encoded_again(tmp_path, encoder, text, any_saved):
    saved = reusable(labels_of(tmp_path / "l", encoder), encoder, text)[0]
    assert saved.any() == any_saved


def test_a_plan_is_charged_once_by_hand():
    table = make_table([[1.0, 0.5], [0.2, 0.9]], latency_ms=[[1.0, 10.0], [1.0, 10.0]])
    plans = [Plan(("a",)), Plan(("a", "b"), "cascade")]
    saves = np.array([[0.25, 8.0], [0.25, 8.0]])
    found = plan_outcomes(plans, table, 2.0, saves)
    assert found.latency_ms.tolist() == [2.75, 4.75]  # 1 + 2 − 0.25; 11 + 2 − 8.25
    assert plan_outcomes(plans, table, 2.0).latency_ms.tolist() == [3.0, 13.0]


@pytest.fixture(scope="module")
def trained(tmp_path_factory, encoder, tiny_bert):
    root = tmp_path_factory.mktemp("trained")
    labels = labels_of(root / "labels", encoder)
    settings = TrainingSettings(
        lams=(0.0, 0.3),
        encoder=str(tiny_bert),
        overhead_queries=5,
        cross_validation_folds=2,
        policies=("router_conditioned", "tfidf"),
        frozen=FrozenSettings(epochs=20),
        router="router_conditioned",
        gate={"enabled": False},
    )
    train_routers(labels, None, root / "router", settings)
    return labels, root / "router", settings


def test_decisions_say_what_was_reused(trained):
    decisions = read_decisions(trained[1] / "decisions.parquet").to_pandas()
    heads = decisions[decisions["policy"].isin(["router", "router_per_lam"])]
    assert (heads["reused_encode_ms"] == heads["plan"].map(SAVED)).all()
    assert heads["reused_encode_ms"].max() == 6.0
    others = decisions[~decisions["policy"].isin(["router", "router_per_lam"])]
    assert {"tfidf", "best_static", "static:text_dense"} <= set(others["policy"])
    assert (others["reused_encode_ms"] == 0).all()


def test_calibration_counts_as_decisions_do(trained):
    labels_folder, router_folder, _ = trained
    record = read_router(router_folder)
    decisions = read_decisions(router_folder / "decisions.parquet").to_pandas()
    labels = read_labels(labels_folder)
    every = routing_table(labels, labels.pipelines)
    row_of = {query: row for row, query in enumerate(every.query_ids)}
    mine = decisions[
        (decisions["policy"] == "router")
        & (decisions["split"] == "val")
        & (decisions["lam"] == 0.3)
    ]
    arms_ms = [
        every.latency_ms[row_of[query], every.arms.index(plan)]
        for query, plan in zip(mine["query_id"], mine["plan"], strict=True)
    ]
    expected = np.mean(arms_ms) + record.overhead_ms["router"] - mine["reused_encode_ms"].mean()
    points = {point.lam: point for point in record.calibration["router"].points}
    assert points[0.3].latency_ms.value == pytest.approx(expected)


def test_calibrating_later_saves_the_same(trained, encoder):
    labels_folder, router_folder, _ = trained
    policy = load_policy(router_folder / "policies" / "router")
    held_out, _ = open_held_out(policy, labels_folder, "val")
    assert held_out.reusable_ms.shape == held_out.every.latency_ms.shape
    assert held_out.reusable_ms.max() == 6.0
    other = load_policy(router_folder / "policies" / "tfidf")
    assert open_held_out(other, labels_folder, "val")[0].reusable_ms is None


def test_the_default_is_chosen_by_the_same_sum(trained, encoder):
    labels_folder, _, settings = trained
    labels = read_labels(labels_folder)
    action, every = (routing_table(labels, arms) for arms in (labels.router_arms, labels.pipelines))
    saves = reusable_encode_ms(labels_folder, labels, every, encoder)

    embedded = encoder.embed(action.texts.tolist())
    context = FitContext(settings, encoder, embedded, action, every, None, None, reusable_ms=saves)
    rows = np.flatnonzero(action.splits == "val")
    head = LinearHead(np.zeros((3, encoder.dim), np.float32), np.array([0, 9, 0], np.float32))
    policy = EncoderPolicy("p", action.arms, {0.0: head, 0.3: head}, query_encoder=encoder)
    assert reusable_ms(context, policy, rows).shape == (len(rows), 4)
    overhead = {0: np.full(len(action), 0.5)}
    once = validated(context, policy, rows, overhead).rewards.mean()
    twice = validated(replace(context, reusable_ms=None), policy, rows, overhead).rewards.mean()
    total_ms = action.latency_ms[rows].sum(axis=1)
    assert once - twice == pytest.approx(np.mean([0.0, np.mean(0.3 * 6.0 / total_ms)]))
    cut_elsewhere = EncoderPolicy("q", action.arms, {0.0: head}, encoder.resolved, max_tokens=9)
    assert reusable_ms(context, cut_elsewhere, rows) is None
