"""Tiny randomly initialised encoders with their tokenisers, saved as folders: no hub."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import torch
from tokenizers import Tokenizer, models, pre_tokenizers, processors
from transformers import BertConfig, BertModel, PreTrainedTokenizerFast, Qwen3Config, Qwen3Model

WORDS = tuple(
    "what was the operating margin in 2019 who painted ceiling how do i boil an egg list "  # noqa: SIM905
    "every river germany and its length a b c d ? ! .".split()
)
DIM = 16


def word_tokenizer(side: Literal["left", "right"], bert: bool) -> PreTrainedTokenizerFast:
    """Words of ``WORDS``; BERT's adds [CLS] and [SEP], the other has no pad token."""
    vocabulary = {token: row for row, token in enumerate(["[UNK]", "[CLS]", "[SEP]", "[PAD]"])}
    vocabulary |= {word: row + 4 for row, word in enumerate(WORDS)}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    given = {"unk_token": "[UNK]", "padding_side": side}
    if bert:
        tokenizer.post_processor = processors.BertProcessing(("[SEP]", 2), ("[CLS]", 1))
        given |= {"pad_token": "[PAD]", "cls_token": "[CLS]", "sep_token": "[SEP]"}
    else:
        given |= {"eos_token": "[SEP]"}
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, **given)


def save_tiny_bert(folder: Path, side: Literal["left", "right"] = "right", seed: int = 0) -> Path:
    torch.manual_seed(seed)
    config = BertConfig(
        vocab_size=64,
        hidden_size=DIM,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=32,
        max_position_embeddings=64,
        initializer_range=0.5,
    )
    BertModel(config).save_pretrained(folder)
    word_tokenizer(side, bert=True).save_pretrained(folder)
    return folder


def save_tiny_qwen3(folder: Path, side: Literal["left", "right"] = "left", seed: int = 0) -> Path:
    torch.manual_seed(seed)
    config = Qwen3Config(
        vocab_size=64,
        hidden_size=DIM,
        num_hidden_layers=2,
        num_attention_heads=2,
        num_key_value_heads=1,
        head_dim=8,
        intermediate_size=32,
        max_position_embeddings=64,
        initializer_range=0.5,
    )
    Qwen3Model(config).save_pretrained(folder)
    word_tokenizer(side, bert=False).save_pretrained(folder)
    return folder


def save_lora(encoder_folder: Path, folder: Path, seed: int = 1) -> Path:
    """Save an adapter whose both matrices are random, so that it changes every embedding."""
    from peft import LoraConfig, get_peft_model
    from transformers import AutoModel

    from router.adapter import save_adapter

    model = AutoModel.from_pretrained(encoder_folder)
    targets = "query|key|value" if isinstance(model, BertModel) else "q_proj|v_proj|up_proj"
    adapted = get_peft_model(model, LoraConfig(r=2, lora_alpha=4, target_modules=f".*({targets})"))
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, weight in adapted.named_parameters():
            if "lora_" in name:
                weight.copy_(torch.randn(weight.shape, generator=generator) * 0.3)
    save_adapter(adapted, folder)
    return folder
