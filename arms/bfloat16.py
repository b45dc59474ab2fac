"""Whether this processor multiplies bfloat16 in hardware, and a warning where it doesn't."""

from __future__ import annotations

import logging

import torch

_LOG = logging.getLogger(__name__)


def has_fast_bfloat16() -> bool:
    """Whether this processor multiplies bfloat16 matrices in hardware (AMX)."""
    return _has("_is_amx_tile_supported")


def warn_where_slow(encoder: str, dtype: str, device: str) -> None:
    """Say that an encoder is loaded in a data type which this processor only emulates."""
    emulated = dtype == "bfloat16" and torch.device(device).type == "cpu"
    if emulated and not (has_fast_bfloat16() or _has("_is_avx512_bf16_supported")):
        _LOG.warning(
            "the encoder '%s' is to run in bfloat16, which this processor doesn't multiply in "
            "hardware: it can take a hundred times as long as in float32; set dtype: float32",
            encoder,
        )


def _has(name: str) -> bool:
    check = getattr(torch.cpu, name, None)
    return bool(check and check())
