"""Several lists fused into one: reciprocal ranks, or a weighted sum of their normalised scores.

Reciprocal-rank fusion: Cormack, Clarke and Büttcher, SIGIR 2009. Linear combination of normalised
scores: :mod:`arms.fused_scores`. A document prior, ``c / (c + 1)`` of a document that was relevant
to ``c`` training queries of its dataset, may stand beside the lists with a weight of its own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from arms.fused_scores import NORMALISATIONS, Normalisation, missing_values, normalised_scores
from arms.records import Ranking
from arms.reward import FloatArray
from router.policy import Combine
from router.probe_features import key_of

Method = Literal["reciprocal_ranks", Normalisation]
METHODS: tuple[Method, ...] = ("reciprocal_ranks", *NORMALISATIONS)
RRF_K = 60
"""Added to every rank, which begins at 1; the value that the paper's authors chose."""
assert set(METHODS) == {"reciprocal_ranks", *get_args(Normalisation)}


def list_values(scores: FloatArray, method: Method) -> tuple[FloatArray, FloatArray]:
    """What each place of a list counts, and what a document counts that the list lacks.

    Args:
        scores: (n, depth) of n lists, best first, NaN where a list is shorter.
        method: ``reciprocal_ranks``: ``1 / (60 + rank)``, 0 where it lacks the document; or a
            normalisation, with :func:`arms.fused_scores.missing_values`.

    Returns:
        (n, depth), NaN where ``scores`` is, and (n,).
    """
    if method != "reciprocal_ranks":
        values = normalised_scores(scores, method)
        return values, missing_values(values)
    ranks = RRF_K + 1.0 + np.arange(scores.shape[1])
    return np.where(np.isnan(scores), np.nan, 1.0 / ranks), np.zeros(len(scores))


@dataclass(frozen=True)
class DocumentPrior:
    """How often each document was relevant to a training query of its dataset."""

    documents: NDArray[np.int64]
    """(D,) keys (:func:`router.probe_features.key_of`), ascending."""
    counts: NDArray[np.int64]
    """(D,) at least 1."""

    def of(self, names: Sequence[str]) -> FloatArray:
        """(len(names),) :func:`prior_values` of documents by name; 0 of those without a count."""
        keys = np.array([key_of(name) for name in names], dtype=np.int64)
        if not len(self.documents) or not len(keys):
            return np.zeros(len(keys))
        place = np.minimum(np.searchsorted(self.documents, keys), len(self.documents) - 1)
        return prior_values(np.where(self.documents[place] == keys, self.counts[place], 0))


def prior_values(counts: NDArray[np.integer]) -> FloatArray:
    """Turn counts into ``c / (c + 1)``, in [0, 1): a document's first question tells most."""
    return np.asarray(counts / (counts + 1.0))


@dataclass(frozen=True)
class ListFusion:
    """Fuses the lists of a set of arms; implements :class:`router.arm_sets.Ranker`."""

    combine: ClassVar[Combine] = "fuse"

    arms: tuple[str, ...]
    method: Method
    weights: FloatArray
    """(A,) of the lists, at least 0; with a prior (A + 1,), the prior's last."""
    of_datasets: Mapping[str, FloatArray] = field(default_factory=dict)
    """Dataset → weights of its own; the others have ``weights``."""

    @property
    def reads_prior(self) -> bool:
        """Whether documents have a prior beside what the lists say."""
        return len(self.weights) > len(self.arms)

    def fuse(
        self,
        rankings: Sequence[Ranking],
        dataset: str | None = None,
        prior: DocumentPrior | None = None,
    ) -> Ranking:
        """Return all documents found, by descending weighted sum, ties by name.

        Args:
            rankings: one for each of ``arms``, empty where the arm found nothing or wasn't run.
            dataset: that the query is asked of; None where a caller doesn't say.
            prior: needed where :attr:`reads_prior`.
        """
        weights = self.of_datasets.get(dataset, self.weights) if dataset else self.weights
        depth = max((len(one.doc_ids) for one in rankings), default=0)
        scores = np.full((len(rankings), depth), np.nan)
        for row, one in enumerate(rankings):
            scores[row, : len(one.scores)] = one.scores
        values, absent = list_values(scores, self.method)
        names = sorted({name for one in rankings for name in one.doc_ids})
        place_of = {name: place for place, name in enumerate(names)}
        found = np.tile(absent[:, None], (1, len(names)))
        for row, one in enumerate(rankings):
            found[row, [place_of[name] for name in one.doc_ids]] = values[row, : len(one.doc_ids)]
        if self.reads_prior:
            beside = np.zeros(len(names)) if prior is None else prior.of(names)
            found = np.vstack([found, beside])
        fused = weights @ found
        order = np.argsort(-fused, kind="stable").tolist()  # names are sorted: ties by name
        return Ranking(tuple(names[at] for at in order), tuple(fused[order].tolist()))

    def save(self, folder: Path) -> dict[str, Any]:
        """Return all there is, as JSON values; ``folder`` isn't made."""
        return {
            "method": self.method,
            "weights": self.weights.tolist(),
            "of_datasets": {name: one.tolist() for name, one in self.of_datasets.items()},
        }

    @classmethod
    def read(cls, described: Mapping[str, Any], arms: Sequence[str], prior: bool) -> ListFusion:
        """Read what :meth:`save` returned.

        Raises:
            ValueError, KeyError, TypeError, AttributeError: it is described wrongly.
        """
        if set(described) != {"method", "weights", "of_datasets"}:
            raise ValueError(f"expected method, weights, of_datasets, got {', '.join(described)}")
        method = described["method"]
        if method not in METHODS:
            raise ValueError(f"expected one of {', '.join(METHODS)}, got {method!r}")
        count = len(arms) + prior
        weights = _read_weights(described["weights"], count)
        of_datasets = {
            str(name): _read_weights(one, count) for name, one in described["of_datasets"].items()
        }
        return cls(tuple(arms), method, weights, of_datasets)


def _read_weights(given: Any, count: int) -> FloatArray:
    numbers = [one for one in given if type(one) in (int, float)]
    found = np.array(numbers, dtype=np.float64)
    if len(given) != count or len(numbers) != count:
        raise ValueError(f"expected {count} weights, got {given!r}")
    if not (np.isfinite(found).all() and (found >= 0).all()):
        raise ValueError(f"expected finite weights of at least 0, got {given!r}")
    return found
