"""The trained router: an encoder's query vector, and one linear layer per λ.

Source: RetrievalRouter (arXiv 2608.25625), section 4.2. With LoRA, each λ has its adapter; with a
frozen encoder, all λ share one embedding.
"""

from __future__ import annotations

import shutil
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from numpy.typing import NDArray

from arms.encoders.resolve import ResolvedEncoder, resolve
from arms.errors import RouterError
from arms.reward import FloatArray
from router.frozen_queries import FrozenQueries, same_encoder
from router.policies.files import (
    ascending_lams,
    lam_folder_name,
    read_arrays,
    read_policy_json,
    write_arrays,
    write_policy_json,
)
from router.policy import NO_INPUTS, Policy, PolicyInputs

if TYPE_CHECKING:
    from router.query_encoder import Dtype, QueryEncoder

ADAPTER_FILES = ("adapter_config.json", "adapter_model.safetensors")


@dataclass(frozen=True)
class LinearHead:
    """Logits of A arms from a query vector of length d."""

    weight: NDArray[np.float32]
    """(A, d)."""
    bias: NDArray[np.float32]
    """(A,)."""

    def probabilities(self, embeddings: NDArray[np.float32]) -> FloatArray:
        """(n, A) softmax over the arms, in float64, from embeddings (n, d)."""
        logits = embeddings.astype(np.float64) @ self.weight.T.astype(np.float64) + self.bias
        exponentials = np.exp(logits - logits.max(axis=1, keepdims=True, initial=-np.inf))
        rows: FloatArray = exponentials / exponentials.sum(axis=1, keepdims=True)
        return rows


def interpolated_head(heads: Mapping[float, LinearHead], lam: float) -> LinearHead:
    """Return the head at ``lam``, linear between the two neighbours; beyond the ends the last."""
    knots = sorted(heads)
    right = next((place for place, knot in enumerate(knots) if knot >= lam), len(knots) - 1)
    if right == 0 or knots[right] <= lam:
        return heads[knots[right]]
    left, after = heads[knots[right - 1]], heads[knots[right]]
    share = np.float32((lam - knots[right - 1]) / (knots[right] - knots[right - 1]))
    return LinearHead(
        left.weight + share * (after.weight - left.weight),
        left.bias + share * (after.bias - left.bias),
    )


class EncoderPolicy(Policy):
    """A softmax over arms from the query's text.

    Args:
        name: in reports, e.g. ``router``.
        arms: the arms to choose from, in column order.
        heads: λ → linear head.
        encoder: a Hugging Face id, a local folder, None for the offline all-MiniLM-L6-v2, or
            what one of these was resolved to (ignored beside ``query_encoder``).
            Only its id and revision are stored, never its weights.
        adapters: λ → folder of a LoRA adapter; all λ of ``heads``, or None for a frozen encoder.
        max_tokens: queries are cut there.
        dtype: of the encoder.
        query_encoder: the frozen base encoder, where the caller has loaded it already.
        interpolated: take any λ, with a head between those of the two neighbouring λ given.

    Raises:
        RouterError: heads or adapters don't fit together, or adapters are to be interpolated.
    """

    kind: ClassVar[str] = "encoder"

    def __init__(
        self,
        name: str,
        arms: Sequence[str],
        heads: Mapping[float, LinearHead],
        encoder: str | ResolvedEncoder | None = None,
        adapters: Mapping[float, Path] | None = None,
        max_tokens: int = 128,
        dtype: Dtype = "float32",
        query_encoder: QueryEncoder | None = None,
        interpolated: bool = False,
    ) -> None:
        self.name = name
        self.arms = tuple(arms)
        self.knots = ascending_lams(heads)
        self.lams = None if interpolated else self.knots
        self.interpolated = interpolated
        given = query_encoder.resolved if query_encoder else encoder
        resolved = given if isinstance(given, ResolvedEncoder) else resolve(given)
        self._base = FrozenQueries(resolved, max_tokens, dtype, query_encoder)
        self._heads = {float(lam): head for lam, head in heads.items()}
        self._adapters = {float(lam): Path(path) for lam, path in (adapters or {}).items()}
        self.queries = None if self._adapters else self._base
        self._adapted: dict[float, QueryEncoder] = {}
        self._lock = threading.Lock()
        self._check()

    def _check(self) -> None:
        if self._adapters and self.interpolated:
            raise RouterError(f"policy '{self.name}' can't interpolate between adapters")
        if self._adapters and set(self._adapters) != set(self._heads):
            raise RouterError(
                f"policy '{self.name}' needs an adapter for every lam or none: heads for "
                f"{sorted(self._heads)}, adapters for {sorted(self._adapters)}"
            )
        dims = {head.weight.shape[1:] for head in self._heads.values()}
        n_arms = len(self.arms)
        fits = all(
            head.weight.ndim == 2 and len(head.weight) == n_arms and head.bias.shape == (n_arms,)
            for head in self._heads.values()
        )
        if not fits or len(dims) != 1:
            shapes = {lam: head.weight.shape for lam, head in self._heads.items()}
            raise RouterError(
                f"policy '{self.name}' needs heads of one shape over {n_arms} arms, got {shapes}"
            )

    @property
    def encoder_id(self) -> str:
        """The encoder's id, as stored."""
        return self._base.resolved.encoder_id

    @property
    def encoder_revision(self) -> str:
        """The encoder's revision: a commit, or the hash of a local folder's weights."""
        return self._base.resolved.revision

    def prepare(self, lam: float) -> None:
        """Load torch, the encoder and, with LoRA, the adapter of the nearest λ."""
        self._encoder_for(self.nearest_lam(lam))

    def embed(self, queries: Sequence[str], lam: float) -> NDArray[np.float32]:
        """(len(queries), d): what the head of the nearest λ sees."""
        return self._encoder_for(self.nearest_lam(lam)).embed(queries)

    def probabilities(
        self, queries: Sequence[str], lam: float, known: PolicyInputs = NO_INPUTS
    ) -> FloatArray:
        """(len(queries), len(arms)) rows that sum to 1; one batch through the encoder.

        With adapters, vectors given are those of :meth:`embed` at the same λ.
        """
        given = known.embeddings
        vectors = self.embed(queries, lam) if given is None else given
        return self._head(lam).probabilities(vectors)

    def _head(self, lam: float) -> LinearHead:
        if self.interpolated:
            return interpolated_head(self._heads, lam)
        return self._heads[self.nearest_lam(lam)]

    def _encoder_for(self, trained: float) -> QueryEncoder:
        ready = self._adapted.get(trained)
        if ready is not None:
            return ready
        base = self._loaded_base()
        if not self._adapters:
            return base
        with self._lock:
            if trained not in self._adapted:
                self._adapted[trained] = base.with_adapter(self._adapters[trained])
            return self._adapted[trained]

    def _loaded_base(self) -> QueryEncoder:
        base = self._base.load(self.device)
        wanted = next(iter(self._heads.values())).weight.shape[1]
        if base.dim != wanted:
            raise RouterError(
                f"policy '{self.name}' has heads for vectors of length {wanted}; the encoder "
                f"'{self.encoder_id}' gives {base.dim}: it is another model than in training"
            )
        return base

    def save(self, folder: Path) -> None:
        """Write ``policy.json`` and, per λ, ``head.safetensors`` and perhaps ``adapter/``."""
        content = {
            "name": self.name,
            "arms": list(self.arms),
            "lams": list(self.knots),
            "interpolated": self.interpolated,
            **self._base.describe(),
            "adapters": bool(self._adapters),
        }
        write_policy_json(folder, self.kind, content)
        for lam, head in self._heads.items():
            target = folder / lam_folder_name(lam)
            write_arrays(target / "head.safetensors", {"weight": head.weight, "bias": head.bias})
            if self._adapters:
                (target / "adapter").mkdir()
                for name in ADAPTER_FILES:
                    shutil.copyfile(self._adapters[lam] / name, target / "adapter" / name)

    @classmethod
    def load(cls, folder: Path) -> EncoderPolicy:
        """Read what :meth:`save` wrote; the encoder itself is loaded by :meth:`prepare`.

        Raises:
            RouterError: weights are missing, unexpected or of another shape, or the encoder found
                here has another revision than the one trained with.
        """
        keys = ("name", "arms", "lams", "encoder", "encoder_revision", "max_tokens", "dtype")
        content = read_policy_json(folder, (*keys, "adapters", "interpolated"))
        n_arms = len(content["arms"])
        folders = {float(lam): folder / lam_folder_name(lam) for lam in content["lams"]}
        heads = {
            lam: LinearHead(
                **read_arrays(
                    path / "head.safetensors", {"weight": (n_arms, None), "bias": (n_arms,)}
                )
            )
            for lam, path in folders.items()
        }
        adapters = {lam: path / "adapter" for lam, path in folders.items()}
        return cls(
            content["name"],
            content["arms"],
            heads,
            same_encoder(content["encoder"], content["encoder_revision"]),
            adapters if content["adapters"] else None,
            content["max_tokens"],
            content["dtype"],
            interpolated=content["interpolated"],
        )
