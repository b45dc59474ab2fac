"""Query vectors of a frozen encoder, for policies that store its identity and never its weights."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from arms.encoders.given_queries import QueryVectors
from arms.encoders.resolve import DEFAULT_ENCODER, ResolvedEncoder, resolve
from arms.errors import RouterError
from arms.extras import not_importable
from router.policy import Embeddings

if TYPE_CHECKING:
    from router.query_encoder import Dtype, QueryEncoder

ENCODER_KEYS = ("encoder", "encoder_revision", "max_tokens", "dtype")
"""What ``policy.json`` says of the encoder."""
ELSEWHERE = "elsewhere:"
"""Begins the name of an encoder that isn't at hand: its vectors come from an exported graph."""


class FrozenQueries:
    """Embeds queries as :class:`router.query_encoder.QueryEncoder` does; shared by threads.

    Args:
        resolved: the encoder.
        max_tokens: queries are cut there.
        dtype: of the encoder.
        ready: the encoder itself, where the caller has loaded it; otherwise the first call does.
    """

    def __init__(
        self,
        resolved: ResolvedEncoder,
        max_tokens: int = 128,
        dtype: Dtype = "float32",
        ready: QueryEncoder | None = None,
    ) -> None:
        self.resolved, self.max_tokens, self.dtype = resolved, max_tokens, dtype
        self._ready = ready
        self._lock = threading.Lock()

    @classmethod
    def of(cls, encoder: QueryEncoder) -> FrozenQueries:
        """Share an encoder that is loaded."""
        return cls(encoder.resolved, encoder.max_tokens, encoder.dtype, encoder)

    @classmethod
    def read(cls, content: Mapping[str, Any]) -> FrozenQueries:
        """Read what :meth:`describe` wrote; the encoder itself is loaded later.

        Raises:
            RouterError: the encoder found here has another revision than the one described.
        """
        resolved = same_encoder(content["encoder"], content["encoder_revision"])
        return cls(resolved, content["max_tokens"], content["dtype"])

    def describe(self) -> dict[str, Any]:
        """Return the entries of ``policy.json``, by ``ENCODER_KEYS``."""
        return {
            "encoder": self.resolved.encoder_id,
            "encoder_revision": self.resolved.revision,
            "max_tokens": self.max_tokens,
            "dtype": self.dtype,
        }

    def load(self, device: str = "cpu") -> QueryEncoder:
        """Return the encoder; the first call loads it onto ``device``."""
        if self._ready is None:
            with self._lock:
                if self._ready is None:
                    self._ready = self._loaded(device)
        return self._ready

    def embed(self, queries: Sequence[str], device: str = "cpu") -> Embeddings:
        """(len(queries), d) float32, mean-pooled, not normalised."""
        return self.load(device).embed(queries)

    def same_as(self, encoder: QueryEncoder) -> bool:
        """Whether ``encoder`` gives the same vectors, cut alike."""
        mine = (self.resolved.revision, self.max_tokens, self.dtype)
        return mine == (encoder.resolved.revision, encoder.max_tokens, encoder.dtype)

    def to_share(
        self, queries: Sequence[str], vectors: Embeddings, device: str = "cpu"
    ) -> QueryVectors:
        """Return ``vectors`` (len(queries), d), made by :meth:`embed`, for arms to take."""
        encoder = self.load(device)
        tokens = [len(token_ids) for token_ids in encoder.tokens(queries)]
        return QueryVectors(encoder.encoding, queries, vectors, tokens)

    def _loaded(self, device: str) -> QueryEncoder:
        try:
            from router.query_encoder import QueryEncoder
        except ImportError as error:
            raise not_importable(error, "torch", "serve") from error
        return QueryEncoder(self.resolved, self.max_tokens, self.dtype, device)


def same_encoder(encoder: str, trained_with: str) -> ResolvedEncoder:
    """Find the encoder trained with: of a Hugging Face id its very commit, of a folder its hash.

    Raises:
        RouterError: the folder or the offline encoder found here has another revision.
    """
    is_folder = encoder.startswith((".", "/", "~")) or Path(encoder).is_dir()
    if encoder.startswith(ELSEWHERE) or (encoder != DEFAULT_ENCODER and not is_folder):
        return ResolvedEncoder(encoder, encoder, trained_with)
    found = resolve(encoder)
    if found.revision != trained_with:
        raise RouterError(
            f"this router was trained with revision {trained_with} of the encoder '{encoder}'; "
            f"found here is {found.revision}. Its heads fit that revision only: install it, "
            "or rerun l2r train"
        )
    return found
