"""A router without a neural network at selection time: a table of token vectors, pooled, and heads.

Deciding takes a fraction of a millisecond: no torch, no encoder. The tables are this policy's own
weights, so its size is theirs: about one byte per number.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from math import comb
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from arms.atomic import atomic_file
from arms.errors import RouterError
from arms.read_errors import damage
from router.policies.files import (
    ascending_lams,
    read_arrays,
    read_policy_json,
    write_arrays,
    write_policy_json,
)
from router.policies.mapped import map_arrays
from router.policy import NO_INPUTS, Embeddings, FloatArray, Policy, PolicyInputs
from router.text_views import ByteTable, NgramSpec, TextFeatures, TokenIds, View

TABLES, HEADS, TOKENIZER = "tables.safetensors", "heads.safetensors", "tokenizer.json"


def bernstein(lams: Sequence[float], degree: int) -> FloatArray:
    """(len(lams), degree + 1) Bernstein polynomials of λ; each row sums to 1.

    The reward is linear in λ, and so are the logits ``reward / τ`` of its soft targets: degree 1
    can express them. A higher degree lets confidence change with λ too.
    """
    at = np.asarray(lams, dtype=np.float64)[:, None]
    order = np.arange(degree + 1)
    binomial = np.array([comb(degree, place) for place in order], dtype=np.float64)
    basis: FloatArray = binomial * at**order * (1.0 - at) ** (degree - order)
    return basis


@dataclass(frozen=True)
class LamHeads:
    """Linear heads for one λ each, or K heads that mix to one for any λ."""

    weight: NDArray[np.float32]
    """(K, A, D)."""
    bias: NDArray[np.float32]
    """(K, A)."""
    lams: tuple[float, ...] | None
    """The λ of each head, ascending; None: Bernstein polynomials of degree K − 1 mix them."""

    def __post_init__(self) -> None:
        heads = len(self.weight)
        given = self.lams is None or len(ascending_lams(self.lams)) == heads
        if self.weight.ndim != 3 or not heads or not given:
            raise RouterError(
                f"heads must be (K, arms, numbers) with a lam each or none, got weight "
                f"{self.weight.shape} and lams {self.lams}"
            )
        if self.bias.shape != self.weight.shape[:2]:
            raise RouterError(
                f"heads of shape {self.weight.shape} need biases {self.weight.shape[:2]}, got "
                f"{self.bias.shape}"
            )

    def mixture(self, lam: float) -> FloatArray:
        """(K,) how much each head counts at ``lam``, one of ``lams`` where there are any."""
        if self.lams is None:
            return bernstein([lam], len(self.weight) - 1)[0]
        return np.eye(len(self.lams))[self.lams.index(lam)]

    def logits(self, features: NDArray[np.float32], lam: float) -> FloatArray:
        """(n, A) from features (n, D), in float64."""
        mixture = self.mixture(lam)
        used = np.flatnonzero(mixture)
        logits = np.zeros((len(features), self.weight.shape[1]))
        for head in used.tolist():
            logits += mixture[head] * (features @ self.weight[head].T + self.bias[head])
        return logits


class StaticEmbeddingPolicy(Policy):
    """A softmax over arms from a text's pooled rows; see :mod:`router.text_views`.

    Args:
        name: in reports, e.g. ``static_embedding``.
        arms: the arms to choose from, in column order.
        features: texts to vectors.
        heads: vectors to logits.
        made_from: where the tables came from, e.g. the encoder's id and revision; kept, not read.

    Raises:
        RouterError: features and heads don't fit together.
    """

    kind: ClassVar[str] = "static_embedding"

    def __init__(
        self,
        name: str,
        arms: Sequence[str],
        features: TextFeatures,
        heads: LamHeads,
        provenance: Mapping[str, Any] | None = None,
    ) -> None:
        self.name, self.arms, self.lams = name, tuple(arms), heads.lams
        self.features, self.heads = features, heads
        self.provenance = dict(provenance or {})
        if heads.weight.shape[1:] != (len(self.arms), features.dim):
            raise RouterError(
                f"policy '{name}' needs heads over {len(self.arms)} arms and {features.dim} "
                f"numbers, got {heads.weight.shape}"
            )

    def probabilities(
        self, queries: Sequence[str], lam: float, known: PolicyInputs = NO_INPUTS
    ) -> FloatArray:
        """(len(queries), len(arms)) rows that sum to 1, in float64."""
        given = known.embeddings
        features = self.features(queries) if given is None else given
        logits = self.heads.logits(features, self.nearest_lam(lam))
        exponentials = np.exp(logits - logits.max(axis=1, keepdims=True, initial=-np.inf))
        rows: FloatArray = exponentials / exponentials.sum(axis=1, keepdims=True)
        return rows

    @property
    def reads_vectors(self) -> bool:
        """Its own."""
        return True

    def embed(self, queries: Sequence[str], lam: float) -> Embeddings:
        """(len(queries), features.dim) pooled rows of the tables."""
        return self.features(queries)

    def save(self, folder: Path) -> None:
        """Write ``policy.json``, the tables, the heads and, where tokens count, their tokeniser."""
        views = self.features.views
        content = {
            "name": self.name,
            "arms": list(self.arms),
            "lams": None if self.lams is None else list(self.lams),
            "views": [_describe(view) for view in views],
            "provenance": self.provenance,
        }
        write_policy_json(folder, self.kind, content)
        arrays: dict[str, NDArray[Any]] = {}
        for place, view in enumerate(views):
            parts: dict[str, NDArray[Any]] = {
                "values": view.table.values,
                "scales": view.table.scales,
            }
            parts |= {} if view.weights is None else {"weights": view.weights}
            arrays |= {f"{place}.{part}": array for part, array in parts.items()}
            if isinstance(view.ids, TokenIds):
                with atomic_file(folder / TOKENIZER) as temporary:
                    temporary.write_text(view.ids.json, encoding="utf-8")
        write_arrays(folder / TABLES, arrays)
        write_arrays(folder / HEADS, {"weight": self.heads.weight, "bias": self.heads.bias})

    @classmethod
    def load(cls, folder: Path) -> StaticEmbeddingPolicy:
        """Read what :meth:`save` wrote; the tables are memory-mapped, read as texts need them.

        Raises:
            RouterError: a file is absent or damaged, or they don't fit together.
            MissingExtraError: tokens count, and ``tokenizers`` is not installed.
        """
        content = read_policy_json(folder, ("name", "arms", "lams", "views", "provenance"))
        views = _read_views(folder, content["views"])
        features, n_arms = TextFeatures(views), len(content["arms"])
        shapes = {"weight": (None, n_arms, features.dim), "bias": (None, n_arms)}
        heads = read_arrays(folder / HEADS, shapes)
        lams = None if content["lams"] is None else tuple(map(float, content["lams"]))
        return cls(
            content["name"],
            content["arms"],
            features,
            LamHeads(heads["weight"], heads["bias"], lams),
            content["provenance"],
        )


def _describe(view: View) -> dict[str, Any]:
    if isinstance(view.ids, TokenIds):
        return {"kind": "tokens", "max_tokens": view.ids.max_tokens, "norm": view.norm}
    return {**asdict(view.ids), "norm": view.norm}


def _read_views(folder: Path, described: Sequence[Mapping[str, Any]]) -> tuple[View, ...]:
    shapes: dict[str, tuple[str, tuple[int | None, ...]]] = {}
    for place, one in enumerate(described):
        shapes |= {
            f"{place}.values": ("int8", (None, None)),
            f"{place}.scales": ("float32", (None,)),
        }
        if one["norm"] == "l2":
            shapes[f"{place}.weights"] = ("float32", (None,))
    arrays = map_arrays(folder / TABLES, shapes)
    views = []
    for place, one in enumerate(described):
        given = {name: value for name, value in one.items() if name != "norm"}
        ids: TokenIds | NgramSpec
        if given["kind"] == "tokens":
            ids = TokenIds(_read_tokenizer(folder / TOKENIZER), given["max_tokens"])
        else:
            ids = NgramSpec(**given)
        table = ByteTable(arrays[f"{place}.values"], np.array(arrays[f"{place}.scales"]))
        weights = arrays.get(f"{place}.weights")
        views.append(View(ids, table, one["norm"], None if weights is None else np.array(weights)))
    return tuple(views)


def _read_tokenizer(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise RouterError(
            f"{damage(path, error)}; copy the whole router folder, or rerun l2r train"
        ) from error
