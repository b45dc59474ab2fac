"""A data type that the processor only emulates is said, once, before hours pass."""

import logging

import pytest
import torch

from arms import bfloat16
from arms.encoders.resolve import resolve
from arms.encoders.text_encoder import load_text_encoder
from arms.encoders.token_encoder import TokenSettings, load_token_encoder
from tests.router.tiny_encoders import save_tiny_bert


@pytest.mark.parametrize(
    ("dtype", "device", "has", "told"),
    [
        ("bfloat16", "cpu", (), True),
        ("bfloat16", "cpu", ("_is_amx_tile_supported",), False),
        ("bfloat16", "cpu", ("_is_avx512_bf16_supported",), False),
        ("float32", "cpu", (), False),
        ("bfloat16", "cuda:0", (), False),
    ],
)
def test_only_where_it_is_slow(monkeypatch, caplog, dtype, device, has, told):
    for name in ("_is_amx_tile_supported", "_is_avx512_bf16_supported"):
        monkeypatch.setattr(torch.cpu, name, lambda name=name: name in has, raising=False)
    with caplog.at_level(logging.WARNING):
        bfloat16.warn_where_slow("my/encoder", dtype, device)
    assert ("'my/encoder' is to run in bfloat16" in caplog.text) == told


def test_both_kinds_of_encoder_say_it_when_they_are_loaded(monkeypatch, caplog, tmp_path):
    monkeypatch.setattr(bfloat16, "_has", lambda name: False)
    encoder = resolve(str(save_tiny_bert(tmp_path / "bert")))
    with caplog.at_level(logging.WARNING):
        first = load_text_encoder(encoder, "bfloat16", "cpu")
        assert load_text_encoder(encoder, "bfloat16", "cpu") is first
        assert caplog.text.count("set dtype: float32") == 1
        load_token_encoder(encoder, TokenSettings(), "bfloat16", "cpu")
        assert caplog.text.count("set dtype: float32") == 2
