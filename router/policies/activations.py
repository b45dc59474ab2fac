"""A linear router over a frozen encoder's feed-forward activations, hashed n-grams and style.

Activations say what kind of text it is, see :mod:`router.activations`; n-grams of cased words,
characters and word shapes, and a few numbers on style, add what an uncased encoder can't see. One
pass of the encoder decides; the policy stores its own weights and never the encoder's.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from arms.errors import RouterError
from router.frozen_queries import ENCODER_KEYS, FrozenQueries
from router.policies.files import (
    read_arrays,
    read_policy_json,
    well_described,
    write_arrays,
    write_policy_json,
)
from router.policy import NO_INPUTS, FloatArray, Policy, PolicyInputs
from router.text_style import NUMBERS, text_style
from router.text_views import NgramSpec, encodable, ngram_ids

if TYPE_CHECKING:
    from router.activations import ActivationEncoder

WEIGHTS = "weights.safetensors"
_KEYS = ("name", "arms", "ngrams", "provenance", *ENCODER_KEYS)
Weights = NDArray[np.float32]


class ActivationsPolicy(Policy):
    """A softmax over arms from the query's text, at any λ the same.

    Args:
        name: in reports, e.g. ``router``.
        arms: the arms to choose from, in column order.
        encoder: the frozen encoder; its query vectors aren't read, its layers are.
        ngrams: views of n-grams.
        weights: ``activations`` (A, d), ``style`` (A, NUMBERS), ``bias`` (A,) and, for the n-grams
            at place i, ``ngrams.i`` (buckets, A): what one of them adds to each arm, their sum
            being divided by the root of their number.
        made_from: how the weights were fitted; kept, not read.

    Raises:
        RouterError: the weights' shapes don't fit together.
    """

    kind: ClassVar[str] = "activations"
    lams: tuple[float, ...] | None = None

    def __init__(
        self,
        name: str,
        arms: Sequence[str],
        encoder: FrozenQueries,
        ngrams: Sequence[NgramSpec],
        weights: Mapping[str, Weights],
        provenance: Mapping[str, Any] | None = None,
    ) -> None:
        self.name, self.arms, self.ngrams = name, tuple(arms), tuple(ngrams)
        self.weights, self.provenance = dict(weights), dict(provenance or {})
        self._encoder = encoder
        self._activations: ActivationEncoder | None = None
        self._lock = threading.Lock()
        wanted = weight_shapes(len(self.arms), self.ngrams)
        got = {key: array.shape for key, array in self.weights.items()}
        fits = set(got) == set(wanted) and all(
            len(got[key]) == len(shape)
            and all(size in (None, here) for size, here in zip(shape, got[key], strict=True))
            for key, shape in wanted.items()
        )
        if not fits:
            raise RouterError(f"policy '{name}' needs weights of shapes {wanted}, got {got}")

    @property
    def parameters(self) -> int:
        """How many numbers it stores; the encoder's come on top."""
        return sum(array.size for array in self.weights.values())

    def prepare(self, lam: float) -> None:
        """Load torch and the encoder."""
        self._loaded()

    def probabilities(
        self, queries: Sequence[str], lam: float, known: PolicyInputs = NO_INPUTS
    ) -> FloatArray:
        """(len(queries), len(arms)) rows that sum to 1; nothing that is known is used."""
        logits = self.logits(queries)
        exponentials = np.exp(logits - logits.max(axis=1, keepdims=True, initial=-np.inf))
        rows: FloatArray = exponentials / exponentials.sum(axis=1, keepdims=True)
        return rows

    def logits(self, queries: Sequence[str]) -> FloatArray:
        """(len(queries), len(arms)) in float64."""
        texts = [encodable(text) for text in queries]
        wide = {key: array.astype(np.float64) for key, array in self._dense().items()}
        logits: FloatArray = self._loaded()(texts).astype(np.float64) @ wide["activations"].T
        logits += text_style(texts).astype(np.float64) @ wide["style"].T + wide["bias"]
        for place, spec in enumerate(self.ngrams):
            table = self.weights[f"ngrams.{place}"]
            for row, text in enumerate(texts):
                ids = ngram_ids(text, spec)
                if len(ids):
                    logits[row] += table[ids].sum(axis=0, dtype=np.float64) / np.sqrt(len(ids))
        return logits

    def save(self, folder: Path) -> None:
        """Write ``policy.json`` and the weights."""
        content = {
            "name": self.name,
            "arms": list(self.arms),
            "ngrams": [asdict(spec) for spec in self.ngrams],
            "provenance": self.provenance,
            **self._encoder.describe(),
        }
        write_policy_json(folder, self.kind, content)
        write_arrays(folder / WEIGHTS, self.weights)

    @classmethod
    def load(cls, folder: Path) -> ActivationsPolicy:
        """Read what :meth:`save` wrote; the encoder is loaded by :meth:`prepare`.

        Raises:
            RouterError: a file is absent or damaged, weights don't fit together, or the encoder
                found here has another revision than the one trained with.
        """
        content = read_policy_json(folder, _KEYS)
        with well_described(folder, "n-grams"):
            ngrams = tuple(NgramSpec(**given) for given in content["ngrams"])
        weights = read_arrays(folder / WEIGHTS, weight_shapes(len(content["arms"]), ngrams))
        encoder = FrozenQueries.read(content)
        return cls(
            content["name"], content["arms"], encoder, ngrams, weights, content["provenance"]
        )

    def _dense(self) -> dict[str, Weights]:
        return {key: self.weights[key] for key in ("activations", "style", "bias")}

    def _loaded(self) -> ActivationEncoder:
        if self._activations is None:
            with self._lock:
                if self._activations is None:
                    self._activations = self._made()
        return self._activations

    def _made(self) -> ActivationEncoder:
        base = self._encoder.load(self.device)
        from router.activations import ActivationEncoder

        made, wanted = ActivationEncoder(base), self.weights["activations"].shape[1]
        if made.dim != wanted:
            raise RouterError(
                f"policy '{self.name}' has weights for {wanted} activations; the encoder "
                f"'{self._encoder.resolved.encoder_id}' gives {made.dim}: it is another model than "
                "in training"
            )
        return made


def weight_shapes(arms: int, ngrams: Sequence[NgramSpec]) -> dict[str, tuple[int | None, ...]]:
    """Name → shape of each array of weights; None fits any length."""
    return {
        "activations": (arms, None),
        "style": (arms, NUMBERS),
        "bias": (arms,),
        **{f"ngrams.{place}": (spec.buckets, arms) for place, spec in enumerate(ngrams)},
    }
