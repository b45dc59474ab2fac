import numpy as np
import pytest

from router.query_encoder import QueryEncoder
from tests.router.tiny_encoders import WORDS
from training.routes import ridge
from training.routes.activation_fit import Standardised, fit_activations


def test_columns_have_one_spread_and_raw_weights_give_the_same_scores():
    random = np.random.default_rng(5)
    raw = (random.normal(size=(30, 4)) * [1, 5, 0.2, 0] + [0, 3, -1, 7]).astype(np.float32)
    made = Standardised.of(raw, 0.25)
    assert (made.rows.astype(float) ** 2).sum(axis=1).mean() == pytest.approx(0.25, rel=1e-6)
    np.testing.assert_allclose(made.rows[:, :3].std(axis=0), made.rows[:, 0].std(), rtol=1e-4)
    assert (made.rows[:, 3] == 0).all()
    dual = random.normal(size=(30, 2))
    weight, bias = made.weights(dual)
    wanted = made.rows @ (made.rows.T @ dual)
    np.testing.assert_allclose(raw @ weight.T + bias, wanted, rtol=1e-3, atol=1e-4)


def test_scores_are_those_of_ridge_regression_on_all_parts(tiny_bert):
    """On its own training queries the router says dual · K, which is signs − strength · dual."""
    random = np.random.default_rng(6)
    texts = [" ".join(random.choice(WORDS, size=5)) for _ in range(40)]
    needed = np.eye(2, dtype=bool)[[int("who" in text or "how" in text) for text in texts]]
    calls = []
    encoder = QueryEncoder(str(tiny_bert))
    fit = fit_activations("r", ("a", "b"), encoder, texts, needed, [0.3], lambda: calls.append(1))
    assert len(calls) == 1 + ridge.solves(40)
    signs = np.where(needed, 1.0, -1.0)
    wanted = fit.ridge.temperature * (signs - 0.3 * fit.ridge.dual)
    np.testing.assert_allclose(fit.policy.logits(texts), wanted, rtol=1e-3, atol=2e-3)
    assert fit.policy.provenance["left_out"] == 40
