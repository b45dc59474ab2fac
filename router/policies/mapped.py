"""Safetensors as memory-mapped numpy arrays: pages are read when rows are, and shared."""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from arms.errors import RouterError
from arms.read_errors import damage

_NUMPY = {"I8": "int8", "F16": "float16", "F32": "float32", "F64": "float64", "I64": "int64"}
"""safetensors' name of a type → numpy's."""
Shape = tuple[int | None, ...]


def map_arrays(path: Path, expected: Mapping[str, tuple[str, Shape]]) -> dict[str, NDArray[Any]]:
    """Map a safetensors file that must hold exactly the keys of ``expected``, read-only.

    Args:
        expected: name → (numpy's name of the type, shape); None fits any length.

    Raises:
        RouterError: the file is absent or damaged, a key is missing or unexpected, or a type or
            shape is another. Values aren't looked at.
    """
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, framework="numpy") as opened:  # checks offsets against the file's size
            found = sorted(opened.keys())
        with open(path, "rb") as stream:
            (length,) = struct.unpack("<Q", stream.read(8))
            header = json.loads(stream.read(length))
    except (OSError, SafetensorError, ValueError, struct.error) as error:
        raise RouterError(
            f"{damage(path, error)}; copy the whole router folder, or rerun l2r train"
        ) from error
    if found != sorted(expected):
        raise RouterError(
            f"{path} must hold {', '.join(sorted(expected))}, got {', '.join(found)}; "
            "rerun l2r train"
        )
    return {
        name: _mapped(path, name, header[name], 8 + length, *expected[name]) for name in expected
    }


def _mapped(
    path: Path, name: str, entry: dict[str, Any], begin: int, dtype: str, shape: Shape
) -> NDArray[Any]:
    got = (_NUMPY.get(entry["dtype"], entry["dtype"]), tuple(entry["shape"]))
    fits = len(got[1]) == len(shape) and all(
        wanted in (None, length) for wanted, length in zip(shape, got[1], strict=True)
    )
    if got[0] != dtype or not fits:
        wanted = "×".join("any" if length is None else str(length) for length in shape)
        raise RouterError(
            f"{path} must hold '{name}' as {dtype} of shape {wanted}, got {got[0]} of "
            f"{'×'.join(map(str, got[1]))}; rerun l2r train"
        )
    if 0 in got[1]:
        return np.zeros(got[1], dtype=dtype)
    offset = begin + int(entry["data_offsets"][0])
    return np.memmap(path, dtype=dtype, mode="r", offset=offset, shape=got[1])
