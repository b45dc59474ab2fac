import numpy as np
import pytest
import torch

from arms.errors import RouterError
from router.activations import ActivationEncoder, last_layers
from router.frozen_queries import FrozenQueries
from router.policies import load_policy
from router.policies.activations import ActivationsPolicy
from router.query_encoder import QueryEncoder
from router.text_style import NUMBERS
from router.text_views import NgramSpec
from tests.router.tiny_encoders import save_tiny_bert, save_tiny_qwen3

QUERIES = ["who painted the ceiling ?", "list every river", "a"]
NGRAMS = (NgramSpec("words", 1, 2, 32), NgramSpec("characters", 2, 3, 64))


@pytest.fixture(scope="module")
def encoder(tmp_path_factory):
    return QueryEncoder(str(save_tiny_bert(tmp_path_factory.mktemp("bert"))), max_tokens=16)


def by_hand(encoder, query):
    """Means, then maxima, of what the model's own layers compute for one query without padding."""
    model, parts = encoder.model, []
    hidden = model.embeddings(torch.tensor(encoder.tokens([query])))
    with torch.inference_mode():
        for layer in model.encoder.layer:
            attended = layer.attention(hidden)[0]
            units = layer.intermediate(attended)
            parts.append(units[0])
            hidden = layer.output(units, attended)
    return torch.cat([*(one.mean(0) for one in parts), *(one.amax(0) for one in parts)]).numpy()


def test_means_and_maxima_are_those_of_the_feed_forward_units(encoder):
    activations = ActivationEncoder(encoder)
    assert activations.dim == 2 * 2 * 32
    found = activations(QUERIES)
    for query, row in zip(QUERIES, found, strict=True):
        np.testing.assert_allclose(row, by_hand(encoder, query), atol=1e-5)


def test_the_encoder_itself_keeps_no_hook_and_its_vectors(encoder):
    before = encoder.embed(QUERIES)
    ActivationEncoder(encoder)(QUERIES)
    assert not any(one._forward_pre_hooks for one in encoder.model.modules())
    np.testing.assert_array_equal(encoder.embed(QUERIES), before)


@pytest.mark.parametrize("side", ["left", "right"])
def test_padding_on_either_side_changes_nothing(tmp_path, side):
    encoder = QueryEncoder(str(save_tiny_qwen3(tmp_path, side)), max_tokens=16)
    activations = ActivationEncoder(encoder)
    together = activations(QUERIES)
    for place, query in enumerate(QUERIES):
        np.testing.assert_allclose(together[place], activations([query])[0], atol=1e-5)


def test_a_model_without_blocks_is_refused():
    with pytest.raises(RouterError, match="no stack of blocks"):
        last_layers(torch.nn.Linear(2, 2))


def policy_over(encoder, **changed):
    random = np.random.default_rng(3)
    shapes = {"activations": (2, 128), "style": (2, NUMBERS), "bias": (2,)}
    shapes |= {"ngrams.0": (32, 2), "ngrams.1": (64, 2)} | changed
    weights = {key: random.normal(size=shape).astype(np.float32) for key, shape in shapes.items()}
    return ActivationsPolicy("r", ("a", "b"), FrozenQueries.of(encoder), NGRAMS, weights)


def test_logits_are_the_sum_of_all_parts(encoder):
    from router.text_style import text_style
    from router.text_views import ngram_ids

    policy = policy_over(encoder)
    for query in QUERIES:
        wanted = policy.weights["activations"] @ ActivationEncoder(encoder)([query])[0]
        wanted = wanted + policy.weights["style"] @ text_style([query])[0] + policy.weights["bias"]
        for place, spec in enumerate(NGRAMS):
            ids = ngram_ids(query, spec)
            wanted = wanted + policy.weights[f"ngrams.{place}"][ids].sum(0) / len(ids) ** 0.5
        np.testing.assert_allclose(policy.logits([query])[0], wanted, rtol=1e-4, atol=1e-4)
    assert policy.parameters == 2 * 128 + 2 * NUMBERS + 2 + 2 * 32 + 2 * 64


def test_a_saved_policy_decides_as_before_and_a_damaged_one_is_told(encoder, tmp_path):
    policy = policy_over(encoder)
    policy.save(tmp_path)
    again = load_policy(tmp_path)
    np.testing.assert_allclose(
        again.probabilities(QUERIES, 0.3), policy.probabilities(QUERIES, 0.3), atol=1e-6
    )
    assert again.probabilities([], 0.0).shape == (0, 2)
    (tmp_path / "weights.safetensors").unlink()
    with pytest.raises(RouterError, match=r"weights\.safetensors"):
        load_policy(tmp_path)


def test_weights_that_fit_another_encoder_are_told(encoder):
    with pytest.raises(RouterError, match="needs weights of shapes"):
        policy_over(encoder, style=(2, 3))
    with pytest.raises(RouterError, match="another model than in training"):
        policy_over(encoder, activations=(2, 20)).probabilities(["a"], 0.0)
