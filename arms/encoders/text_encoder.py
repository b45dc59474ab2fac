"""Texts to unit vectors, with any sentence-transformers model or plain Hugging Face encoder."""

from __future__ import annotations

import logging
import threading
import weakref
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from sentence_transformers import SentenceTransformer

from arms.bfloat16 import warn_where_slow
from arms.encoders.chunks import length_sorted_batches
from arms.encoders.query_backend import (
    PROBES,
    TORCH,
    QueryBackend,
    StatesGraph,
    choose_backend,
)
from arms.encoders.query_encoding import Backend, text_encoding
from arms.encoders.query_states import (
    Features,
    TransformerPass,
    passed_features,
    shared_features,
)
from arms.encoders.resolve import ResolvedEncoder
from arms.errors import SettingsError
from arms.out_of_memory import is_out_of_memory, out_of_memory

Dtype = Literal["float32", "bfloat16"]
Role = Literal["query", "document"]

_loaded: weakref.WeakValueDictionary[tuple[Any, ...], TextEncoder] = weakref.WeakValueDictionary()
_loading = threading.Lock()


def load_text_encoder(
    encoder: ResolvedEncoder,
    dtype: Dtype = "float32",
    device: str = "auto",
    max_tokens: int | None = None,
) -> TextEncoder:
    """Load an encoder, or return the one that another opened arm of this process holds."""
    place = pick_device(device)
    key = (encoder, dtype, place, max_tokens)
    with _loading:
        found = _loaded.get(key)
        if found is None:
            warn_where_slow(encoder.encoder_id, dtype, place)
            found = _loaded[key] = TextEncoder(encoder, dtype, place, max_tokens)
        return found


def pick_device(device: str) -> str:
    """Return ``device``; for ``auto``, the GPU where there is one, else the processor."""
    if device != "auto":
        return device
    return "cuda" if torch.cuda.is_available() else "cpu"


class TextEncoder:
    """A loaded encoder. Read-only after loading, so threads may share it."""

    def __init__(
        self,
        encoder: ResolvedEncoder,
        dtype: Dtype = "float32",
        device: str = "cpu",
        max_tokens: int | None = None,
    ) -> None:
        """Load the encoder; texts are cut at ``max_tokens``, or at the encoder's own limit.

        Raises:
            SettingsError: the encoder can't be loaded.
        """
        try:
            with quiet_loading():
                self._encoder = SentenceTransformer(
                    encoder.path,
                    device=device,
                    revision=encoder.hub_revision,
                    local_files_only=encoder.is_folder,
                    model_kwargs={"dtype": getattr(torch, dtype)},
                )
        except (OSError, ValueError, KeyError, RuntimeError) as error:
            if is_out_of_memory(error):
                raise out_of_memory(error, f"load the encoder '{encoder.encoder_id}'") from error
            raise SettingsError(
                f"the encoder '{encoder.encoder_id}' can't be loaded as a text encoder: {error}"
            ) from error
        self._encoder.eval()
        limits = [limit for limit in (max_tokens, self._encoder.max_seq_length) if limit]
        self._limit = min(limits, default=1 << 30)
        if limits:
            self._encoder.max_seq_length = self._limit
        # A late-interaction encoder over the same files reads the same transformer, where they
        # hold it at their root.
        place = "text" if text_encoding(encoder) is None else "root"
        self._weights = (place, encoder, dtype, str(self._encoder.device))
        self._place, self._revision = place, encoder.revision

    @property
    def dimension(self) -> int:
        """Length of a vector."""
        return int(self._encoder.get_sentence_embedding_dimension() or 0)

    def prompt(self, role: Role, given: str | None) -> str:
        """Return the text put before each text: the one given, else the encoder's own."""
        return (self._encoder.prompts.get(role) or "") if given is None else given

    def backend(self, wanted: Backend, prompt: str = "") -> QueryBackend:
        """Return what may run the transformer in :meth:`embed`, compared with PyTorch."""

        def distance(graph: StatesGraph) -> float:
            given = QueryBackend(graph)
            alone = [self.embed([text], prompt, backend=given)[0] for text in PROBES]
            rows = np.stack([np.stack(alone), self.embed(PROBES, prompt, backend=given)])
            return float(np.linalg.norm(rows - self.embed(PROBES, prompt), axis=-1).max())

        first = self._encoder[0]
        return choose_backend(wanted, self._place, self._revision, first, distance)

    def embed(
        self,
        texts: Sequence[str],
        prompt: str = "",
        batch_size: int = 32,
        few_shapes: bool = False,
        backend: QueryBackend = TORCH,
    ) -> NDArray[np.float32]:
        """Encode texts to (n, dimension) float32 vectors of length 1, in the order given.

        This is ``SentenceTransformer.encode(normalize_embeddings=True)`` without what that spends
        around the model, which matters for single queries. Equal texts get equal vectors; batches
        hold texts of like length.

        Args:
            few_shapes: pad to whole multiples of 8 tokens. On a processor torch keeps memory for
                every shape of input it has met (over a gigabyte for a few hundred), so this is
                what bounds memory while a corpus is encoded.
            backend: what runs the transformer, from :meth:`backend`.
        """
        places: dict[str, list[int]] = {}
        for position, text in enumerate(texts):
            places.setdefault(text, []).append(position)
        unique = list(places)
        vectors = np.empty((len(texts), self.dimension), dtype=np.float32)
        for batch in length_sorted_batches([len(text) for text in unique], batch_size):
            texts_of_batch = [unique[position] for position in batch]
            multiple = 8 if few_shapes else 1
            encoded = self._embed_batch(texts_of_batch, prompt, multiple, backend)
            for position, vector in zip(batch, encoded, strict=True):
                vectors[places[unique[position]]] = vector
        return vectors

    def _embed_batch(
        self, texts: list[str], prompt: str, multiple: int, backend: QueryBackend
    ) -> NDArray[np.float32]:
        with torch.inference_mode():
            transformer = self._pass(prompt, backend)
            features = shared_features(transformer, texts)
            if features is None:
                features = self._tokenized([prompt + text for text in texts], multiple)
                features = passed_features(transformer, features)
            features = self._on_device(features)
            for module in list(self._encoder)[1:]:
                features = module(features)
            pooled = features["sentence_embedding"].float()
            return torch.nn.functional.normalize(pooled, dim=1).cpu().numpy()

    def _pass(self, prompt: str, backend: QueryBackend) -> TransformerPass:
        """The encoder's first part, whose states arms may share."""
        return TransformerPass(
            (*self._weights, backend.name),
            ("text", prompt, self._limit),
            lambda texts: self._tokenized([prompt + text for text in texts]),
            lambda features: backend.run(features, self._torch_states),
        )

    def _torch_states(self, features: Features) -> Features:
        found: Features = self._encoder[0](self._on_device(features))
        return found

    def _tokenized(self, texts: list[str], multiple: int = 1) -> Features:
        return {
            name: self._padded(name, value, multiple) if isinstance(value, torch.Tensor) else value
            for name, value in self._encoder.tokenize(texts).items()
        }

    def _on_device(self, features: Features) -> Features:
        return on_device(features, self._encoder.device)

    def _padded(self, name: str, value: torch.Tensor, multiple: int) -> torch.Tensor:
        """Widen (batch, tokens) to a multiple, on the tokenizer's side, up to the limit."""
        width = min(-(-value.shape[-1] // multiple) * multiple, self._limit)
        missing = width - value.shape[-1]
        if value.dim() != 2 or missing <= 0:
            return value
        tokenizer = self._encoder.tokenizer
        sides = (missing, 0) if tokenizer.padding_side == "left" else (0, missing)
        filling = tokenizer.pad_token_id if name == "input_ids" else 0
        return torch.nn.functional.pad(value, sides, value=filling or 0)


def on_device(features: Features, device: torch.device) -> Features:
    """Return the features with their tensors there."""
    return {
        name: value.to(device) if isinstance(value, torch.Tensor) else value
        for name, value in features.items()
    }


@contextmanager
def quiet_loading() -> Iterator[None]:
    """Silence the bars and reports that transformers prints while weights load."""
    from transformers.utils import logging as reports

    names = ("transformers", "sentence_transformers")
    levels = {name: logging.getLogger(name).level for name in names}
    had_bars = reports.is_progress_bar_enabled()
    reports.disable_progress_bar()
    for name in names:
        logging.getLogger(name).setLevel(logging.ERROR)
    try:
        yield
    finally:
        for name, level in levels.items():
            logging.getLogger(name).setLevel(level)
        if had_bars:
            reports.enable_progress_bar()
