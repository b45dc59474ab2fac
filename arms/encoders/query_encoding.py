"""How an encoder makes a query's one vector: equal encodings of equal weights make equal vectors.

A router that reads a frozen encoder and a dense arm over the same encoder may share a query's
vector. Whether they may is decided by everything the vector depends on; where an encoder's files
don't tell, nothing is shared.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from arms.encoders.resolve import ResolvedEncoder

Backend = Literal["auto", "torch", "onnx", "openvino"]
BACKEND_HELP = (
    "runs the query encoder on a processor: auto (the first of onnx and openvino that is "
    "installed and gives PyTorch's vectors to 1e-4, else torch), torch, onnx or openvino. No "
    "index depends on it"
)
PLAIN_QUERY_TOKENS = 128
"""Where late interaction with a plain encoder cuts a query, if nothing else is said."""
_PLAIN = ["Transformer", "Pooling"]
_CONFIGS = ("bert", "roberta", "distilbert", "camembert", "albert", "xlm-roberta", "xlnet")
_KNOWN = {"max_seq_length", "do_lower_case"}
_MODULES, _PROMPTS, _POOLING = "modules.json", "config_sentence_transformers.json", "pooling_mode"


@dataclass(frozen=True, slots=True)
class QueryEncoding:
    """All that a query's vector depends on beside its text, up to the vector's length."""

    revision: str
    """Of the weights, as :func:`arms.encoders.resolve.resolve` gives it."""
    pooling: str
    """``mean``: of the last hidden state over real tokens."""
    prompt: str
    """Put before the query."""
    dtype: str
    """Of weights and hidden states."""
    max_tokens: int
    """Queries are cut there, special tokens included."""

    def same_vector(self, other: QueryEncoding, tokens: int) -> bool:
        """Whether both give a query the same vector, which has ``tokens`` once cut as here.

        Where the two cut at different lengths, only a query that neither cuts has one vector.
        """
        whole = tokens < self.max_tokens or self.max_tokens == other.max_tokens
        return whole and 0 < tokens <= other.max_tokens and not self.differences(other)

    def differences(self, other: QueryEncoding) -> list[str]:
        """What sets the two apart whatever the query, e.g. ``dtype float32 and bfloat16``."""
        names = ("revision", "pooling", "prompt", "dtype")
        pairs = [(name, getattr(self, name), getattr(other, name)) for name in names]
        return [f"{name} {mine!r} and {its!r}" for name, mine, its in pairs if mine != its]


def text_encoding(
    encoder: ResolvedEncoder, max_tokens: int | None = None, prompt: str | None = None
) -> QueryEncoding | None:
    """How sentence-transformers encodes a query in float32, by the encoder's own files.

    Args:
        encoder: its files are read, its weights aren't.
        max_tokens: queries are cut there, or at the encoder's own limit where that is less.
        prompt: put before the query; None: the encoder's own for queries.

    Returns:
        None where it is more than the mean over a transformer's tokens, or the files don't tell.
    """
    try:
        modules = _json(encoder, _MODULES)
        pooling = "mean" if modules is None else _pooling(encoder, modules)
        limit = _limit(encoder)
        told = _json(encoder, _PROMPTS) or {}
        own = (told.get("prompts") or {}).get("query") or ""
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None
    if pooling is None or limit is None:
        return None
    return QueryEncoding(
        revision=encoder.revision,
        pooling=pooling,
        prompt=own if prompt is None else prompt,
        dtype="float32",
        max_tokens=min(limit, max_tokens or limit),
    )


def _pooling(encoder: ResolvedEncoder, modules: Any) -> str | None:
    kinds = [str(one["type"]).rpartition(".")[2] for one in modules]
    if kinds not in (_PLAIN, [*_PLAIN, "Normalize"]) or modules[0]["path"]:
        return None
    told = _json(encoder, f"{modules[1]['path']}/config.json") or {}
    on = [name for name, value in told.items() if name.startswith(_POOLING) and value]
    plain = on == [f"{_POOLING}_mean_tokens"] or (on == [_POOLING] and told[_POOLING] == "mean")
    return "mean" if plain else None


def _limit(encoder: ResolvedEncoder) -> int | None:
    found = (_json(encoder, f"sentence_{name}_config.json") for name in _CONFIGS)
    told: dict[str, Any] = next((one for one in found if one), {})
    if set(told) - _KNOWN or told.get("do_lower_case"):
        return None
    if told.get("max_seq_length"):
        return int(told["max_seq_length"])
    positions = (_json(encoder, "config.json") or {}).get("max_position_embeddings")
    if not positions:
        return None
    stated = (_json(encoder, "tokenizer_config.json") or {}).get("model_max_length")
    return int(min(positions, stated or positions))


def _json(encoder: ResolvedEncoder, name: str) -> Any:
    """The content of one of the encoder's files; None where it has none of that name.

    Raises:
        OSError: the file isn't at hand, and whether there is one isn't known.
    """
    path = Path(encoder.path, name) if encoder.is_folder else _cached(encoder, name)
    if path is None or not path.is_file():
        return None
    return json.loads(path.read_text(encoding="utf-8"))


def _cached(encoder: ResolvedEncoder, name: str) -> Path | None:
    """Where the local Hugging Face cache has the file; None where the repository lacks it."""
    try:
        from huggingface_hub import try_to_load_from_cache
    except ImportError as error:
        raise OSError(f"{name} of {encoder.encoder_id} is out of reach") from error
    found = try_to_load_from_cache(encoder.path, name, revision=encoder.revision)
    if found is None:
        raise OSError(f"{name} of {encoder.encoder_id} is not in the local cache")
    return Path(found) if isinstance(found, str) else None
