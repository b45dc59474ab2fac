"""Tiny randomly initialised models of colpali-engine's own classes, saved as checkpoints are."""

from __future__ import annotations

from pathlib import Path

import torch

MARKS = (
    "<|endoftext|>",
    "<|im_start|>",
    "<|im_end|>",
    "<|vision_start|>",
    "<|vision_end|>",
    "<|vision_pad|>",
    "<|image_pad|>",
    "<|video_pad|>",
    "<image>",
    "<fake_token_around_image>",
    "<global-img>",
    "<end_of_utterance>",
    "<|begin_of_text|>",
    *(f"<row_{row}_col_{column}>" for row in range(1, 7) for column in range(1, 7)),
)


def byte_tokenizer():
    """A tokenizer whose vocabulary is the 256 bytes and the marks of all families."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    tokenizer = Tokenizer(
        models.BPE(vocab={letter: place for place, letter in enumerate(alphabet)}, merges=[])
    )
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        pad_token="<|endoftext|>",
        eos_token="<|im_end|>",
        additional_special_tokens=[
            mark for mark in MARKS if mark not in ("<|endoftext|>", "<|im_end|>")
        ],
    )


def save_tiny(class_name: str, folder: Path, seed: int = 0) -> Path:
    """Save a model of the class, and its processor, into ``folder``."""
    import colpali_engine.models as engine

    tokenizer = byte_tokenizer()
    ids = dict(zip(MARKS, tokenizer.convert_tokens_to_ids(list(MARKS)), strict=True))
    config, processor = (_qwen if "Qwen2_5" in class_name else _idefics)(class_name, tokenizer, ids)
    torch.manual_seed(seed)
    model = getattr(engine, class_name)(config).eval()
    model.save_pretrained(folder, save_original_format=False)
    processor.save_pretrained(folder)
    return folder


def _qwen(class_name, tokenizer, ids):
    import colpali_engine.models as engine
    from transformers import Qwen2_5_VLConfig, Qwen2VLImageProcessorFast, Qwen2VLVideoProcessor

    processor = getattr(engine, f"{class_name}_Processor")(
        image_processor=Qwen2VLImageProcessorFast(min_pixels=4 * 28 * 28, max_pixels=16 * 28 * 28),
        tokenizer=tokenizer,
        video_processor=Qwen2VLVideoProcessor(),
    )
    config = Qwen2_5_VLConfig(
        text_config={
            "vocab_size": len(tokenizer),
            "hidden_size": 32,
            "intermediate_size": 48,
            "num_hidden_layers": 2,
            "num_attention_heads": 4,
            "num_key_value_heads": 2,
            "rope_parameters": {
                "rope_type": "default",
                "mrope_section": [1, 1, 2],
                "rope_theta": 10000.0,
            },
        },
        vision_config={
            "depth": 2,
            "hidden_size": 32,
            "intermediate_size": 48,
            "num_heads": 4,
            "out_hidden_size": 32,
            "window_size": 112,
            "fullatt_block_indexes": [1],
        },
        image_token_id=ids["<|image_pad|>"],
        video_token_id=ids["<|video_pad|>"],
        vision_start_token_id=ids["<|vision_start|>"],
        vision_end_token_id=ids["<|vision_end|>"],
    )
    return config, processor


def _idefics(class_name, tokenizer, ids):
    """Idefics3, and ModernVBert, whose pictures go the same way."""
    import colpali_engine.models as engine
    from transformers import Idefics3Config, Idefics3ImageProcessorFast, ModernVBertConfig

    vision = {
        "hidden_size": 32,
        "intermediate_size": 48,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "image_size": 32,
        "patch_size": 8,
    }
    text = {
        "vocab_size": len(tokenizer),
        "hidden_size": 32,
        "intermediate_size": 48,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "pad_token_id": ids["<|endoftext|>"],
    }
    shared = {"image_token_id": ids["<image>"], "pad_token_id": ids["<|endoftext|>"]}
    if "ModernVBert" in class_name:
        config = ModernVBertConfig(
            text_config=text, vision_config=vision, pixel_shuffle_factor=2, **shared
        )
    else:
        text = {**text, "model_type": "llama", "num_key_value_heads": 2}
        config = Idefics3Config(text_config=text, vision_config=vision, scale_factor=2, **shared)
    processor = getattr(engine, f"{class_name}Processor")(
        image_processor=Idefics3ImageProcessorFast(
            size={"longest_edge": 64}, max_image_size={"longest_edge": 32}
        ),
        tokenizer=tokenizer,
        image_seq_len=4,
    )
    return config, processor
