import re

import numpy as np
import pytest
import torch
from transformers import AutoModel, DistilBertConfig, DistilBertModel

from arms.encoders.resolve import resolve
from arms.errors import SettingsError
from router.policies.encoder import EncoderPolicy, LinearHead
from tests.training.tables import make_table
from training.data import supervision
from training.lora import Tokens, add_adapters, fit_lora, projection_pattern
from training.settings import LoraSettings, TrainingSettings

BERT_LAYERS = {
    "attention.self.query",
    "attention.self.key",
    "attention.self.value",
    "attention.output.dense",
    "intermediate.dense",
    "output.dense",
}
QWEN_LAYERS = {
    *(f"self_attn.{name}_proj" for name in "qkvo"),
    *(f"mlp.{name}_proj" for name in ("gate", "up", "down")),
}


def adapted_modules(encoder):
    add_adapters(encoder, LoraSettings(rank=2))
    return {name.removesuffix(".lora_A") for name, _ in encoder.named_modules() if _is_a(name)}


def _is_a(name):
    return name.endswith(".lora_A")


def test_every_projection_of_bert_and_not_its_pooler(tiny_bert):
    encoder = AutoModel.from_pretrained(tiny_bert)
    assert encoder.pooler is not None  # the trap is there
    expected = {f"encoder.layer.{n}.{layer}" for n in range(2) for layer in BERT_LAYERS}
    assert adapted_modules(encoder) == expected


def test_every_projection_of_a_decoder(tiny_qwen3):
    encoder = AutoModel.from_pretrained(tiny_qwen3)
    expected = {f"layers.{n}.{layer}" for n in range(2) for layer in QWEN_LAYERS}
    assert adapted_modules(encoder) == expected


def test_other_names_for_the_same_things():
    encoder = DistilBertModel(DistilBertConfig(dim=16, n_heads=2, n_layers=1, hidden_dim=32))
    pattern = projection_pattern(encoder)
    matched = {name for name, _ in encoder.named_modules() if re.fullmatch(pattern, name)}
    layers = ("attention.q_lin", "attention.k_lin", "attention.v_lin", "attention.out_lin")
    layers += ("ffn.lin1", "ffn.lin2")
    assert matched == {f"transformer.layer.0.{layer}" for layer in layers}


def test_an_encoder_without_blocks_is_refused():
    with pytest.raises(SettingsError, match="no stack of blocks with linear layers"):
        projection_pattern(torch.nn.Sequential(torch.nn.Embedding(3, 4)))


def test_fresh_adapters_change_nothing(tiny_qwen3):
    encoder = AutoModel.from_pretrained(tiny_qwen3).eval()
    ids = torch.tensor([[4, 5, 6]])
    before = encoder(input_ids=ids).last_hidden_state
    add_adapters(encoder, LoraSettings(dropout=0.0))
    torch.testing.assert_close(encoder(input_ids=ids).last_hidden_state, before)


TEXTS = [
    "what was the margin",
    "who painted the ceiling ?",
    "how do i boil an egg",
    "list every river",
]


def fit(encoder_folder, folder, start=None, **lora):
    table = make_table(np.random.default_rng(0).random((16, 3)), texts=TEXTS * 4)
    settings = TrainingSettings(
        lora=LoraSettings(rank=2, alpha=4, learning_rate=0.05, batch_size=8, **lora)
    )
    encoder = resolve(str(encoder_folder))
    tokens = Tokens.of(encoder, table.texts.tolist(), settings.max_tokens)
    sides = [
        tokens.supervised(rows, supervision(table.rows(rows), 0.1, 0.1))
        for rows in (np.arange(12), np.arange(12, 16))
    ]
    return fit_lora(table.arms, encoder, *sides, settings, start, folder)


@pytest.mark.parametrize("kind", ["tiny_bert", "tiny_qwen3"])
def test_the_saved_adapter_serves_what_was_trained(kind, request, tmp_path):
    encoder_folder = request.getfixturevalue(kind)
    head, metrics = fit(encoder_folder, tmp_path / "adapter")
    assert {"val_reward", "val_regret", "val_loss", "train_loss", "share/a"} <= set(metrics)
    policy = EncoderPolicy(
        "router_lora",
        ("a", "b", "c"),
        {0.1: head},
        str(encoder_folder),
        {0.1: tmp_path / "adapter"},
    )
    bare = EncoderPolicy("bare", ("a", "b", "c"), {0.1: head}, str(encoder_folder))
    served = policy.probabilities(TEXTS, 0.1)
    assert np.abs(served - bare.probabilities(TEXTS, 0.1)).max() > 1e-3
    # The kept epoch's validation reward is reproduced by what serves.
    table = make_table(np.random.default_rng(0).random((16, 3)), texts=TEXTS * 4)
    validation = table.rows(np.arange(12, 16))
    chosen = policy.probabilities(validation.texts.tolist(), 0.1).argmax(axis=1)
    reward = validation.rewards(0.1)[np.arange(4), chosen].mean()
    assert reward == pytest.approx(metrics["val_reward"], abs=1e-6)


def test_the_same_seed_gives_the_same_adapter(tiny_bert, tmp_path):
    first, _ = fit(tiny_bert, tmp_path / "one")
    second, _ = fit(tiny_bert, tmp_path / "two")
    np.testing.assert_array_equal(first.weight, second.weight)
    for name in ("adapter_model.safetensors", "adapter_config.json"):
        assert (tmp_path / "one" / name).read_bytes() == (tmp_path / "two" / name).read_bytes()


def test_accumulated_batches_and_a_given_start(tiny_bert, tmp_path):
    start = LinearHead(np.full((3, 16), 7.0, np.float32), np.full(3, 5.0, np.float32))
    head, _ = fit(tiny_bert, tmp_path / "adapter", start=start, accumulate=2)
    # Two steps of at most the learning rate, per epoch of two, away from the start.
    assert np.abs(head.weight - 7.0).max() < 0.5
    assert np.abs(head.weight - 7.0).max() > 0
