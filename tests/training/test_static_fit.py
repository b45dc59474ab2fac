import json

import numpy as np
import pytest
import torch

from arms.encoders.resolve import resolve
from router import Router
from router.policies import load_policy
from router.policies.static_embedding import bernstein
from router.text_views import NgramSpec, TokenIds
from tests.training.synthetic import write_labels
from training.data import Supervision
from training.learners.static_embedding import damped
from training.losses import kl_per_query
from training.policy_settings import StaticEmbeddingSettings
from training.settings import TrainingSettings
from training.static_fit import FitOptions, LamTargets, StartView, fit_static, mixing, random_rows
from training.static_table import inverse_frequency, reduced, start_table
from training.train_routers import train_routers

ARMS = ("bm25", "text_dense", "text_rerank")
TEXTS = [
    "what was the operating margin in 2019",
    "who painted the ceiling",
    "list every river in germany",
    "how do i boil an egg",
] * 6
LAMS = (0.0, 0.5, 1.0)
OPTIONS = FitOptions(epochs=30, batch_size=8, table_learning_rate=0.03, head_learning_rate=0.03)


@pytest.fixture(autouse=True)
def _own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("L2R_CACHE", str(tmp_path / "cache"))


def supervised(columns, lam=0.0):
    """Targets that put .8 on each text's arm, moving to bm25 as λ grows."""
    rows = np.full((len(columns), 3), 0.1, dtype=np.float32)
    rows[np.arange(len(columns)), columns] = 0.8
    rows = (1 - lam) * rows + lam * np.array([0.8, 0.1, 0.1], dtype=np.float32)
    everything = torch.ones(len(columns), 3, dtype=torch.bool)
    return Supervision(torch.tensor(rows), torch.tensor(rows), everything, torch.ones(len(columns)))


def at_lams(columns):
    return {lam: supervised(columns, lam) for lam in LAMS}


def views(encoder, ngrams=(), **given):
    start = start_table(resolve(str(encoder)), "distilled", 8)
    found = [StartView(TokenIds(start.tokenizer_json, 16), start.rows, **given)]
    found += [
        StartView(spec, random_rows(spec.buckets, 4, 1.0, place))
        for place, spec in enumerate(ngrams)
    ]
    return found


COLUMNS = np.array([0, 1, 2, 1] * 6)


# Tables


@pytest.mark.parametrize("encoder", ["tiny_bert", "tiny_qwen3"])
def test_distilled_rows_are_the_encoders_outputs(request, encoder):
    from router.query_encoder import QueryEncoder

    folder = request.getfixturevalue(encoder)
    start = start_table(resolve(str(folder)), "distilled", 64)
    assert start.rows.shape == (64, 16)
    assert (start.rows**2).sum(axis=1).mean() == pytest.approx(1.0, rel=1e-3)
    words = ["river", "egg", "margin", "who"]
    ids = [int(one[0]) for one in TokenIds(start.tokenizer_json, 4)(words)]
    weighted = start.rows[ids] / inverse_frequency(64)[ids][:, None]
    vectors = QueryEncoder(str(folder)).embed(words)
    # PCA keeps distances where no dimension is cut.
    ours = np.linalg.norm(weighted[:, None] - weighted[None], axis=2)
    theirs = np.linalg.norm(vectors[:, None] - vectors[None], axis=2)
    off = ~np.eye(4, dtype=bool)
    assert ours[off] / theirs[off] == pytest.approx(
        np.full(12, ours[0, 1] / theirs[0, 1]), rel=1e-3
    )


def test_own_embeddings_and_the_cache(tiny_bert, tmp_path):
    first = start_table(resolve(str(tiny_bert)), "embeddings", 6)
    assert first.rows.shape == (64, 6)
    again = start_table(resolve(str(tiny_bert)), "embeddings", 6)
    assert (first.rows == again.rows).all()
    assert len(list((tmp_path / "cache" / "static-tables").iterdir())) == 1
    assert first.provenance["start_from"] == "embeddings"


def test_principal_components_by_hand():
    rows = np.array([[0, 0, 5], [2, 0, 5], [4, 0, 5], [0, 1, 5]], dtype=np.float32)
    found = reduced(rows, 2)
    assert found.shape == (4, 2)
    assert found.mean(axis=0) == pytest.approx([0, 0], abs=1e-6)
    centred = rows - rows.mean(axis=0)
    assert (found**2).sum() == pytest.approx((centred**2).sum(), rel=1e-5)


def test_frequent_tokens_weigh_less():
    weights = inverse_frequency(1000)
    assert (np.diff(weights) > 0).all()
    assert weights[0] < 0.02 < 0.8 < weights[-1]


# Fitting


@pytest.mark.parametrize("degree", [None, 2])
@pytest.mark.parametrize("ngrams", [(), (NgramSpec("words", 1, 2, 64),)])
def test_it_learns_which_text_goes_where(tiny_bert, tmp_path, degree, ngrams):
    policy = fit_static(
        "static", ARMS, views(tiny_bert, ngrams), TEXTS, LamTargets.of(at_lams(COLUMNS)), None,
        degree, OPTIONS,
    )  # fmt: skip
    assert policy.lams == (LAMS if degree is None else None)
    assert policy.probabilities(TEXTS[:4], 0.0).argmax(axis=1).tolist() == [0, 1, 2, 1]
    assert policy.probabilities(TEXTS[:4], 1.0).argmax(axis=1).tolist() == [0, 0, 0, 0]
    policy.save(tmp_path)
    assert (
        load_policy(tmp_path).probabilities(TEXTS, 0.5) == policy.probabilities(TEXTS, 0.5)
    ).all()


def test_the_same_seed_gives_the_same_policy(tiny_bert):
    def fitted(seed):
        options = FitOptions(epochs=2, batch_size=8, id_dropout=0.2, seed=seed)
        targets = LamTargets.of(at_lams(COLUMNS))
        return fit_static("s", ARMS, views(tiny_bert), TEXTS, targets, None, 2, options)

    first, again, other = fitted(1), fitted(1), fitted(2)
    assert (first.heads.weight == again.heads.weight).all()
    assert not (first.heads.weight == other.heads.weight).all()


def test_rows_that_training_never_saw_stay(tiny_bert):
    start = views(tiny_bert)
    policy = fit_static("s", ARMS, start, TEXTS, LamTargets.of(at_lams(COLUMNS)), None, 2, OPTIONS)
    table = policy.features.views[0].table
    rows = table.values * table.scales[:, None]
    seen = np.unique(np.concatenate(start[0].ids(TEXTS)))
    moved = np.abs(rows - start[0].rows).max(axis=1) > 0.02
    assert moved[seen].all()
    assert not np.delete(moved, seen).any()


def test_a_table_that_is_not_tuned_stays_and_decay_pulls_back(tiny_bert):
    targets = LamTargets.of(at_lams(COLUMNS))

    def change(**given):
        start = views(tiny_bert, **given)
        table = (
            fit_static("s", ARMS, start, TEXTS, targets, None, 2, OPTIONS).features.views[0].table
        )
        return np.abs(table.values * table.scales[:, None] - start[0].rows).max()

    assert change(tuned=False) < 0.02
    assert change(decay=20.0) < 0.8 * change()


def test_no_epoch_is_the_constant_head(tiny_bert):
    bias = {lam: np.array([lam, 0.0, -lam], dtype=np.float32) for lam in LAMS}
    policy = fit_static(
        "s", ARMS, views(tiny_bert), TEXTS, LamTargets.of(at_lams(COLUMNS)), bias, 2,
        FitOptions(epochs=0),
    )  # fmt: skip
    for lam in (0.0, 0.3, 1.0):
        expected = np.exp([lam, 0.0, -lam]) / np.exp([lam, 0.0, -lam]).sum()
        assert policy.probabilities(["egg", "new"], lam) == pytest.approx(
            np.tile(expected, (2, 1)), abs=1e-5
        )


def test_a_teacher_is_mixed_in_where_it_speaks():
    tables = at_lams(COLUMNS)
    taught = np.tile([0.0, 0.0, 1.0], (len(COLUMNS), 1))
    mixed = LamTargets.of(tables, {0.5: taught}, 0.25)
    assert mixed.targets[:, 0] == pytest.approx(tables[0.0].targets)
    expected = 0.75 * tables[0.5].targets.numpy() + 0.25 * taught
    assert mixed.targets[:, 1].numpy() == pytest.approx(expected)
    assert mixed.targets.sum(dim=-1).numpy() == pytest.approx(np.ones((24, 3)), abs=1e-6)


def test_queries_without_weight_and_masked_arms_leave_the_loss(tiny_bert):
    one = supervised(COLUMNS)
    competes = one.competes.clone()
    competes[:, 2] = False
    targets = torch.tensor([[0.9, 0.1, 0.0]]).repeat(24, 1)
    weight = torch.ones(24)
    weight[1::2] = 0.0
    targets[1::2] = torch.tensor([0.0, 1.0, 0.0])
    kept = LamTargets.of({0.0: Supervision(targets, targets, competes, weight)})
    policy = fit_static("s", ARMS, views(tiny_bert), TEXTS, kept, None, None, OPTIONS)
    assert (policy.heads.weight[:, 2] == 0).all()
    rows = policy.probabilities(TEXTS[:2], 0.0)[:, :2]
    shares = rows[:, 0] / rows.sum(axis=1)
    assert shares[0] == pytest.approx(0.9, abs=0.06)
    assert shares[1] > 0.5


def test_one_head_per_lam_is_the_identity_and_the_loss_is_the_paper():
    assert (mixing(LAMS, None) == np.eye(3)).all()
    assert (mixing(LAMS, 2) == bernstein(LAMS, 2)).all()
    logits, one = torch.randn(24, 3), supervised(COLUMNS)
    loss = kl_per_query(logits, one.targets, one.competes)
    by_hand = (one.targets * (one.targets.log() - logits.log_softmax(-1))).sum(-1)
    assert loss.numpy() == pytest.approx(by_hand.numpy(), abs=1e-6)


def test_damped_heads_share_tables(tiny_bert):
    targets = LamTargets.of(at_lams(COLUMNS))
    policy = fit_static("s", ARMS, views(tiny_bert), TEXTS, targets, None, 2, FitOptions(epochs=1))
    found = damped(policy)
    assert len(found) == 3**3 - 1
    assert all(one.features is policy.features for one in found)
    assert any((one.heads.weight == policy.heads.weight).all() for one in found)
    assert all((one.heads.weight != 0).any() for one in found)


# The learner


def test_the_whole_command_trains_it_and_it_can_be_the_router(tiny_bert, tmp_path):
    labels = write_labels(tmp_path / "labels", count=240, lacking={"beta": ("text_rerank",)})
    settings = TrainingSettings(
        lams=(0.0, 0.3),
        encoder=str(tiny_bert),
        cross_validation_folds=0,
        overhead_queries=2,
        policies=("router_conditioned", "static_embedding"),
        router="static_embedding",
        static_embedding=StaticEmbeddingSettings(epochs=30, ngrams=("words",), buckets=512),
    )
    record = train_routers(labels, None, tmp_path / "router", settings)
    router = Router.load(tmp_path / "router")
    assert router.select("what", lam=0.2).lam_used == 0.2
    kinds = [
        json.loads((tmp_path / "router/policies/router" / inner / "policy.json").read_text())[
            "kind"
        ]
        for inner in ("", "inner")
    ]
    assert kinds == ["gated", "static_embedding"]
    found, best = (
        record.training_metrics[name]["0"]["test"]["reward"]
        for name in ("router", "router_per_lam")
    )
    # The tiny encoder is random; cased words tell which arm is best.
    assert found > best + 0.05
