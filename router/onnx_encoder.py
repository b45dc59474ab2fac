"""An encoder as an ONNX graph: query vectors by ONNX Runtime, without torch or transformers."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from arms.encoders.onnx_graph import INPUT_IDS, MASK, open_session
from arms.errors import MissingExtraError, RouterError
from arms.extras import not_importable
from arms.out_of_memory import is_out_of_memory, out_of_memory
from router.text_views import encodable

VECTOR = "vector"
"""Name of the graph's output, (n, d) float32."""
_BATCH_TOKENS = 2048


@dataclass(frozen=True, slots=True)
class OnnxSettings:
    """How a graph is fed and run."""

    pad_id: int
    padding_side: Literal["left", "right"]
    batched: bool
    """Whether queries may share a pass. Not for int8: activations are scaled by the greatest of
    the whole batch, so that a query's vector would depend on its neighbours."""
    threads: int = 1

    def __post_init__(self) -> None:
        if self.threads < 1 or self.padding_side not in ("left", "right"):
            raise RouterError(
                f"an ONNX encoder needs threads ≥ 1 and a padding side, got {asdict(self)}"
            )


class OnnxEncoder:
    """Mean-pooled query vectors from a graph made by :mod:`router.onnx_export`.

    Safe to share between threads; the graph is loaded by :meth:`load` or the first call.

    Args:
        graph: the ``.onnx`` file.
        tokenizer_json: with its truncation set.
        settings: see there.
    """

    def __init__(self, graph: Path, tokenizer_json: str, settings: OnnxSettings) -> None:
        self.graph, self.tokenizer_json, self.settings = graph, tokenizer_json, settings
        self._loaded: tuple[Any, Any] | None = None
        self._lock = threading.Lock()

    def load(self) -> tuple[Any, Any]:
        """Return the session and the tokeniser.

        Raises:
            MissingExtraError: onnxruntime or tokenizers is absent.
            RouterError: the graph or the tokeniser can't be read.
        """
        if self._loaded is None:
            with self._lock:
                if self._loaded is None:
                    self._loaded = (_session(self.graph, self.settings.threads), self._tokenizer())
        return self._loaded

    def _tokenizer(self) -> Any:
        try:
            from tokenizers import Tokenizer
        except ImportError as error:
            raise not_importable(error, "tokenizers", "onnx") from error
        try:
            return Tokenizer.from_str(self.tokenizer_json)
        except Exception as error:  # the package raises no narrower one
            raise RouterError(
                f"the tokeniser beside {self.graph} can't be read: {error}; export it again"
            ) from error

    def embed(self, queries: Sequence[str]) -> NDArray[np.float32]:
        """(len(queries), d) float32, in the order given; a query without tokens is zeros."""
        session, tokenizer = self.load()
        dim = int(session.get_outputs()[0].shape[1])
        vectors = np.zeros((len(queries), dim), dtype=np.float32)
        clean = [encodable(query) for query in queries]
        token_ids = [one.ids for one in tokenizer.encode_batch_fast(clean)]
        for rows in self._batches([len(ids) for ids in token_ids]):
            ids, mask = self._padded([token_ids[row] for row in rows])
            vectors[rows] = session.run([VECTOR], {INPUT_IDS: ids, MASK: mask})[0]
        return vectors

    def _batches(self, lengths: Sequence[int]) -> list[list[int]]:
        """Rows of texts with tokens, longest first; batches hold ``_BATCH_TOKENS`` once padded."""
        rows = sorted((row for row, n in enumerate(lengths) if n), key=lambda row: -lengths[row])
        if not self.settings.batched:
            return [[row] for row in rows]
        batches: list[list[int]] = []
        for row in rows:
            if batches and lengths[batches[-1][0]] * (len(batches[-1]) + 1) <= _BATCH_TOKENS:
                batches[-1].append(row)
            else:
                batches.append([row])
        return batches

    def _padded(
        self, token_ids: Sequence[Sequence[int]]
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        longest = max(map(len, token_ids))
        ids = np.full((len(token_ids), longest), self.settings.pad_id, dtype=np.int64)
        mask = np.zeros_like(ids)
        for row, tokens in enumerate(token_ids):
            right = self.settings.padding_side == "right"
            where = slice(0, len(tokens)) if right else slice(longest - len(tokens), longest)
            ids[row, where], mask[row, where] = tokens, 1
        return ids, mask


def _session(graph: Path, threads: int) -> Any:
    try:
        return open_session(graph, threads)
    except MissingExtraError:
        raise
    except Exception as error:  # ONNX Runtime's errors share no class of their own
        if is_out_of_memory(error):
            raise out_of_memory(error, f"load {graph}") from error
        raise RouterError(
            f"{graph} can't be run ({error}); copy the whole router folder, or export it again"
        ) from error
