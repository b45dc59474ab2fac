"""A query as one vector: any transformer of Hugging Face, mean-pooled over real tokens."""

from __future__ import annotations

import copy
import sys
from collections.abc import Sequence
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray

from arms.encoders.query_backend import PROBES, TORCH, QueryBackend, StatesGraph, choose_backend
from arms.encoders.query_encoding import QueryEncoding
from arms.encoders.resolve import ResolvedEncoder, resolve
from arms.errors import RouterError
from arms.extras import not_importable
from arms.out_of_memory import is_out_of_memory, out_of_memory
from router.pooling import embed_tokens, pad_tokens, parameters_of

Dtype = Literal["float32", "bfloat16"]
_DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16}
_BATCH_TOKENS = 2048
"""Tokens, padding included, of one forward pass: 16 queries of 128 tokens, 200 of ten."""


class QueryEncoder:
    """Mean of the last hidden state over real tokens; no normalisation.

    Padding goes where the tokeniser puts it (decoder-only ones pad left), and never counts.
    Safe to share between threads. On a processor a query alone runs the fastest way that is
    installed (see :mod:`arms.encoders.query_backend`); several at once run in PyTorch.

    Args:
        encoder: a Hugging Face id, a local folder, None for the offline all-MiniLM-L6-v2, or
            what one of these was resolved to.
        max_tokens: longer queries are cut, special tokens included; where the encoder takes less,
            they are cut there.
        dtype: of weights and hidden states; pooling is in float32.
        device: as torch names it.
        adapter: a folder with a LoRA adapter in peft's format, or None.

    Raises:
        MissingExtraError: transformers, or peft for an adapter, is absent.
        RouterError: the encoder can't be loaded, or the adapter doesn't fit it exactly.
    """

    dim: int
    """Length of an embedding."""

    def __init__(
        self,
        encoder: str | ResolvedEncoder | None = None,
        max_tokens: int = 128,
        dtype: Dtype = "float32",
        device: str = "cpu",
        adapter: Path | None = None,
    ) -> None:
        if max_tokens < 1:
            raise RouterError(f"max_tokens must be at least 1, got {max_tokens}")
        if dtype not in _DTYPES:
            raise RouterError(f"dtype must be {' or '.join(_DTYPES)}, got {dtype!r}")
        self.resolved = encoder if isinstance(encoder, ResolvedEncoder) else resolve(encoder)
        self.max_tokens, self.dtype, self.device = max_tokens, dtype, device
        model, tokenizer = load_encoder(self.resolved, _DTYPES[dtype])
        self._model = model.to(device).eval().requires_grad_(False)
        self._alone = TORCH
        self.token_limit = min(max_tokens, longest_input(model))
        self._tokenizer = TokenCutter(tokenizer, self.token_limit)
        self.dim = int(getattr(model.config, "hidden_size", 0)) or _probe_dim(self)
        if device == "cpu" and dtype == "float32":
            if adapter is None:
                self._alone = self._fastest()
            lay_out_for_few_tokens(self._model)
        if adapter is not None:
            self._model = _adapted(self._model, adapter, dtype)

    def with_adapter(self, adapter: Path) -> QueryEncoder:
        """Return an encoder with the LoRA adapter in ``adapter``, sharing this one's weights.

        In float32 the adapter is merged into copies of the layers it changes, which costs their
        memory and no time; in bfloat16, where merging would round, it runs beside them.
        """
        twin = copy.copy(self)
        twin._model = _adapted(self._model, adapter, self.dtype)
        twin._alone = TORCH
        return twin

    @property
    def model(self) -> Any:
        """The transformer, in evaluation mode; its weights must stay as they are."""
        return self._model

    @property
    def encoding(self) -> QueryEncoding:
        """How it makes a query's vector; not of an encoder with an adapter."""
        limit = self._tokenizer.max_tokens
        return QueryEncoding(self.resolved.revision, "mean", "", self.dtype, limit)

    @property
    def tokens(self) -> TokenCutter:
        """Texts to token ids, as :meth:`embed` makes them."""
        return self._tokenizer

    def embed(self, queries: Sequence[str]) -> NDArray[np.float32]:
        """(len(queries), dim) float32, in the order given; a query without tokens is zeros."""
        token_ids = self._tokenizer(queries)
        if len(token_ids) == 1 and token_ids[0]:
            return self._one(token_ids, self._alone.graph)
        embeddings = np.zeros((len(queries), self.dim), dtype=np.float32)
        for rows in length_buckets([len(tokens) for tokens in token_ids], _BATCH_TOKENS):
            batch = [token_ids[row] for row in rows]
            ids, mask = pad_tokens(batch, self._tokenizer.pad_id, self._tokenizer.padding_side)
            embeddings[rows] = self._forward(ids, None if mask.all() else mask)
        return embeddings

    def _one(self, token_ids: list[list[int]], graph: StatesGraph | None) -> NDArray[np.float32]:
        if graph is None:
            return self._forward(torch.tensor(token_ids), None)
        ids = np.array(token_ids, dtype=np.int64)
        mean: NDArray[np.float32] = graph.states(ids, np.ones_like(ids)).mean(axis=1)
        return mean

    def _fastest(self) -> QueryBackend:
        """What may run a query alone, compared with PyTorch; arms' encoders share its graph."""
        probes = [[tokens] for tokens in self._tokenizer(PROBES) if tokens]

        def unit(graph: StatesGraph | None) -> NDArray[np.float32]:
            rows = np.concatenate([self._one(tokens, graph) for tokens in probes])
            unit_rows: NDArray[np.float32] = rows / np.linalg.norm(rows, axis=1, keepdims=True)
            return unit_rows

        def distance(graph: StatesGraph) -> float:
            return float(np.linalg.norm(unit(graph) - unit(None), axis=1).max())

        module = SimpleNamespace(
            auto_model=self._model,
            parameters=self._model.parameters,
            model_forward_params=parameters_of(self._model),
        )
        return choose_backend("auto", "root", self.resolved.revision, module, distance)

    def _forward(self, ids: torch.Tensor, mask: torch.Tensor | None) -> NDArray[np.float32]:
        with torch.inference_mode():
            mask = None if mask is None else mask.to(self.device)
            pooled = embed_tokens(self._model, ids.to(self.device), mask)
            result: NDArray[np.float32] = pooled.cpu().numpy()
        return result


def length_buckets(lengths: Sequence[int], batch_tokens: int) -> list[list[int]]:
    """Split row numbers into batches of similar length, longest first; empty rows are left out.

    A batch holds at most ``batch_tokens`` tokens once padded, and at least one row.
    """
    rows = sorted((row for row, n in enumerate(lengths) if n), key=lambda row: -lengths[row])
    batches: list[list[int]] = []
    for row in rows:
        if batches and lengths[batches[-1][0]] * (len(batches[-1]) + 1) <= batch_tokens:
            batches[-1].append(row)
        else:
            batches.append([row])
    return batches


class TokenCutter:
    """Token ids of texts, special tokens included, cut at ``max_tokens``, not padded.

    They are cut earlier where the tokeniser states a smaller limit.

    It keeps its own copy of a fast tokeniser, whose settings never change: Hugging Face's call
    sets truncation anew each time, which fails when threads share it.
    """

    def __init__(self, tokenizer: Any, max_tokens: int) -> None:
        self.padding_side: Literal["left", "right"] = tokenizer.padding_side
        ids = (tokenizer.pad_token_id, tokenizer.eos_token_id, 0)
        self.pad_id = next(int(token_id) for token_id in ids if token_id is not None)
        self.max_tokens = min(max_tokens, int(tokenizer.model_max_length))
        self._slow, self._fast = tokenizer, None
        if getattr(tokenizer, "is_fast", False):
            self._fast = copy.deepcopy(tokenizer.backend_tokenizer)
            self._fast.no_padding()
            side = getattr(tokenizer, "truncation_side", "right")
            self._fast.enable_truncation(self.max_tokens, direction=side)

    @property
    def json(self) -> str | None:
        """The fast tokeniser with its truncation, as ``tokenizer.json``; None for a slow one."""
        return None if self._fast is None else str(self._fast.to_str())

    def __call__(self, texts: Sequence[str]) -> list[list[int]]:
        """Return one list of token ids per text; it may be empty."""
        clean = [_encodable(text) for text in texts]
        if self._fast is None:
            given = {"truncation": True, "max_length": self.max_tokens}
            return [list(self._slow(text, **given)["input_ids"]) for text in clean]
        if len(clean) == 1:
            return [self._fast.encode(clean[0]).ids]
        return [encoding.ids for encoding in self._fast.encode_batch(clean)]


def _encodable(text: str) -> str:
    """Replace lone surrogates, which no tokeniser takes, by the replacement character."""
    return (
        text
        if text.isascii()
        else text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    )


def load_encoder(resolved: ResolvedEncoder, dtype: torch.dtype) -> tuple[Any, Any]:
    """Load model and tokeniser; raise ``RouterError`` naming what is wrong.

    A weight that the files lack is an error: it would be a silently random layer. BERT's pooler is
    exempt (``add_pooling_layer=False`` where the model has one), since it isn't used.
    """
    try:
        from transformers import AutoConfig, AutoModel, AutoTokenizer
    except ImportError as error:
        raise not_importable(error, "transformers", "serve") from error
    path, revision = resolved.path, {"revision": resolved.hub_revision}
    try:
        with _quiet_transformers():
            config = AutoConfig.from_pretrained(path, **revision)
            tokenizer = AutoTokenizer.from_pretrained(path, **revision)
            model, info = AutoModel.from_pretrained(
                path, config=config, dtype=dtype, output_loading_info=True, **revision
            )
    except (OSError, ValueError, KeyError, RuntimeError, MemoryError) as error:
        if is_out_of_memory(error):
            raise out_of_memory(error, f"load the encoder '{resolved.encoder_id}'") from error
        raise RouterError(
            f"the encoder '{resolved.encoder_id}' can't be loaded from {path}: {error}"
        ) from error
    _check_loading(resolved.encoder_id, info)
    if hasattr(model, "pooler"):
        model.pooler = None
    return model, tokenizer


def longest_input(model: Any) -> int:
    """Return how many tokens the model has positions for; RoBERTa-like ones skip the first few."""
    positions = getattr(model.config, "max_position_embeddings", None)
    padding = getattr(getattr(model, "embeddings", None), "padding_idx", None)
    skipped = 0 if padding is None else int(padding) + 1
    return sys.maxsize if not positions or positions < 1 else int(positions) - skipped


def lay_out_for_few_tokens(model: Any) -> None:
    """Store the weights of linear layers column by column; their shapes and values stay.

    BLAS then reads them as they lie instead of packing them anew in each call, which a short query
    feels: 7 to 13 % less processor time on all-MiniLM-L6-v2, one thread; a full batch loses 2 %.
    """
    for layer in model.modules():
        if isinstance(layer, torch.nn.Linear):
            columns = layer.weight.detach().t().contiguous().t()
            layer.weight = torch.nn.Parameter(columns, requires_grad=False)


def _check_loading(encoder_id: str, info: dict[str, Any]) -> None:
    lost = [key for key in info["missing_keys"] if "pooler" not in key.split(".")]
    lost += [str(key) for key in info.get("mismatched_keys", ())]
    if lost:
        raise RouterError(
            f"the encoder '{encoder_id}' lacks the weights {', '.join(sorted(lost)[:5])} "
            f"({len(lost)} in all): its folder is damaged or of another architecture"
        )


@contextmanager
def _quiet_transformers() -> Any:
    """Silence loading reports and bars for the length of the block."""
    from transformers.utils import logging as transformers_logging

    level = transformers_logging.get_verbosity()
    bars = transformers_logging.is_progress_bar_enabled()
    transformers_logging.set_verbosity_error()
    transformers_logging.disable_progress_bar()
    try:
        yield
    finally:
        transformers_logging.set_verbosity(level)
        if bars:
            transformers_logging.enable_progress_bar()


def _probe_dim(encoder: QueryEncoder) -> int:
    return int(encoder._forward(torch.tensor([[encoder._tokenizer.pad_id]]), None).shape[1])


def _adapted(model: Any, adapter: Path, dtype: Dtype) -> Any:
    from router.adapter import load_adapter

    return load_adapter(model, adapter, merge=dtype == "float32")
