import numpy as np
import pytest
import torch

from tests.training.tables import make_table
from training.data import supervision
from training.frozen import Split, Standardisation, fit_frozen_head
from training.lightning_module import Optimisation, RouterModule
from training.settings import FrozenSettings, TrainingSettings


def made_split(rows, table, features, lam=0.0):
    return Split(features[rows], supervision(table.rows(rows), lam, 0.1))


@pytest.fixture(scope="module")
def problem():
    """Features on very different scales, of which two decide the best of three arms."""
    random = np.random.default_rng(0)
    features = random.normal(size=(600, 8)).astype(np.float32)
    best = np.where(features[:, 0] > 0.3, 0, np.where(features[:, 1] > 0, 1, 2))
    quality = np.full((600, 3), 0.2)
    quality[np.arange(600), best] = 0.9
    scale = np.array([0.01, 5, 1, 1, 100, 1, 1, 1], dtype=np.float32)
    return features * scale + 3.0, make_table(quality), best


def test_it_learns_and_the_folded_head_reads_raw_features(problem):
    features, table, best = problem
    train, held_out = np.arange(500), np.arange(500, 600)
    head, metrics = fit_frozen_head(
        table.arms,
        made_split(train, table, features),
        made_split(held_out, table, features),
        TrainingSettings(frozen=FrozenSettings(learning_rate=0.05)),
    )
    chosen = head.probabilities(features[held_out]).argmax(axis=1)
    assert (chosen == best[held_out]).mean() > 0.85
    reward = table.rewards(0.0)[held_out, chosen].mean()
    assert reward == pytest.approx(metrics["val_reward"], abs=1e-6)
    assert metrics["val_regret"] == pytest.approx(0.9 - reward, abs=1e-6)


def test_the_same_seed_gives_the_same_bytes(problem):
    features, table, _ = problem
    settings = TrainingSettings(frozen=FrozenSettings(epochs=2))
    heads = [
        fit_frozen_head(table.arms, made_split(np.arange(300), table, features), None, settings)[0]
        for _ in range(2)
    ]
    assert heads[0].weight.tobytes() == heads[1].weight.tobytes()
    other = TrainingSettings(frozen=FrozenSettings(epochs=2), seed=1)
    head, _ = fit_frozen_head(table.arms, made_split(np.arange(300), table, features), None, other)
    assert head.weight.tobytes() != heads[0].weight.tobytes()


def test_one_query_and_a_constant_dimension():
    table = make_table([[0.2, 0.8]])
    split = made_split(np.arange(1), table, np.ones((1, 4), dtype=np.float32))
    head, _ = fit_frozen_head(table.arms, split, None, TrainingSettings())
    assert np.isfinite(head.weight).all()
    assert head.probabilities(split.features).argmax() == 1


def test_queries_that_every_arm_fails_leave_the_head_at_zero():
    table = make_table(np.zeros((5, 2)))
    features = np.random.default_rng(0).normal(size=(5, 3)).astype(np.float32)
    head, metrics = fit_frozen_head(
        table.arms, made_split(np.arange(5), table, features), None, TrainingSettings()
    )
    assert not head.weight.any()
    assert metrics["train_loss"] == 0.0


def test_a_masked_arm_is_never_learned():
    table = make_table(
        np.tile([[0.9, 0.5, 0.1]], (50, 1)), competes=np.tile([[False, True, True]], (50, 1))
    )
    features = np.random.default_rng(0).normal(size=(50, 3)).astype(np.float32)
    head, _ = fit_frozen_head(
        table.arms, made_split(np.arange(50), table, features), None, TrainingSettings()
    )
    assert not head.weight[0].any()
    assert head.bias[1] > head.bias[2]


def test_standardisation_folds_exactly():
    random = np.random.default_rng(1)
    features = (random.normal(size=(40, 5)) * 7 + 2).astype(np.float32)
    standard = Standardisation.of(features)
    scaled = standard.apply(features)
    np.testing.assert_allclose(scaled.mean(0), 0, atol=1e-5)
    np.testing.assert_allclose(scaled.std(0, correction=0), 1, atol=1e-5)
    linear = torch.nn.Linear(5, 3)
    folded = standard.fold_into(linear)
    logits = features @ folded.weight.T + folded.bias
    np.testing.assert_allclose(logits, linear(scaled).detach().numpy(), atol=1e-4)


def test_only_trainable_weights_are_kept_and_restored_strictly():
    encoder = torch.nn.Linear(4, 4).requires_grad_(False)
    module = RouterModule(("a", "b"), 4, Optimisation(0.1, 0.0, 0.1), 0.1, encoder)
    state = module.trainable_state()
    assert set(state) == {"head.weight", "head.bias"}
    module.restore({name: torch.zeros_like(tensor) for name, tensor in state.items()})
    assert not module.head.weight.any()
    with pytest.raises(ValueError, match=r"odd: \['head.bias'\]"):
        module.restore({"head.weight": state["head.weight"]})


def test_noise_leaves_the_constant_head_and_a_gain_replaces_it(problem):
    features, table, _ = problem
    shuffled = make_table(np.random.default_rng(5).permutation(table.quality))
    train, held_out = np.arange(500), np.arange(500, 600)

    def kept(labels, **options):
        settings = TrainingSettings(frozen=FrozenSettings(learning_rate=0.05, **options))
        sides = (made_split(rows, labels, features) for rows in (train, held_out))
        return fit_frozen_head(labels.arms, *sides, settings)

    head, metrics = kept(shuffled)
    assert metrics["constant"] == 1.0
    assert not head.weight.any()
    best = shuffled.rows(train).rewards(0.0).mean(axis=0).argmax()
    assert (head.probabilities(features).argmax(axis=1) == best).all()
    assert kept(table)[1]["constant"] == 0.0
    assert kept(shuffled, allow_constant=False, weight_decays=(0.01,))[1]["weight_decay"] == 0.01
