"""Which of the probes' documents are relevant, and what nDCG that makes expected of each list.

With ``g`` a document's share of the query's ideal gain, ``grade / IDCG@k``, a list's quality is
``nDCG@k = Σ_r g(d_r) / log2(1 + r)`` over its first k ranks r. A mean of sums is a sum of means:
the expected nDCG of every list seen follows from one model of ``E[g | what is seen]``.

Beside what the probes tell of a document (:mod:`router.candidates`) a model may read its history
(:mod:`router.history`): for which training queries it was a candidate too, how near those are, and
what it gained there. Where no candidate of a query has any, a model without history answers, if
there is one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from arms.fused_scores import missing_values, normalised_scores
from arms.reward import BoolArray, FloatArray
from router.boosters import Boosters
from router.candidates import JOINT_COLUMNS, Candidates, candidate_columns, candidates
from router.history import (
    HISTORY_COLUMNS,
    PLAIN_HISTORY_COLUMNS,
    DocumentHistory,
    History,
    history_of,
)
from router.policies.files import (
    POLICY,
    check_numbers,
    read_arrays,
    read_held,
    sha256_of,
    write_arrays,
)
from router.policy import Combine, Embeddings
from router.probe_features import LIST_FEATURES, Lists
from router.query_features import SURFACE_FEATURES
from router.query_vectors import QueryVectors

_ARRAYS = ("documents", "starts", "queries", "gains")
_PAST = "past.safetensors"
_PLAIN = "without-history"


@dataclass(frozen=True)
class Told:
    """What a model says of m candidates of n queries."""

    asked: Candidates
    gains: FloatArray
    """(m,) expected share of the query's ideal gain."""
    order: FloatArray
    """(m,) the higher, the earlier; of models that don't order: the gains."""
    with_history: BoolArray
    """(n,) whether history of a candidate was read."""


@dataclass(frozen=True)
class RelevanceModel:
    """Expects each candidate's gain, and from it each probe's nDCG@k; may order them too."""

    combine: ClassVar[Combine] = "merge"

    booster: Boosters
    """A model of the gain; where candidates are to be ordered, another whose scores do that."""
    past: DocumentHistory | None
    """None: history isn't read."""
    k: int
    """Of nDCG@k."""
    top: int
    """How many documents of each list are candidates: at least k."""
    order_weight: float = 0.0
    """Of the second model's scores beside the log odds of the gain, see :meth:`order`."""
    fusion: tuple[float, ...] = ()
    """Weight of each probe in the linear fusion that the models start from; see
    :func:`fused_columns`. Empty: there is none."""
    fusion_weight: float = 0.0
    """Of that fusion's scores, likewise."""
    plain: RelevanceModel | None = None
    """Reads no history, and answers where no candidate of a query has any."""
    history_weight: float = 1.0
    """In [0, 1], of this model where one has, beside ``plain``."""

    @property
    def learns_documents(self) -> bool:
        """Whether it has a past to look documents up in."""
        return self.past is not None and len(self.past.documents) > 0

    def expected(
        self,
        probes: Sequence[str],
        lists: Mapping[str, Lists],
        of_query: FloatArray,
        vectors: QueryVectors,
        embeddings: Embeddings,
    ) -> FloatArray:
        """(n, probes) expected nDCG@k of each probe's list; see :meth:`expected_of`.

        Arguments as for :meth:`tell`.
        """
        told = self.tell(probes, lists, of_query, vectors, embeddings)
        return self.expected_of(probes, lists, told.asked, told.gains)

    def expected_of(
        self,
        probes: Sequence[str],
        lists: Mapping[str, Lists],
        asked: Candidates,
        gains: FloatArray,
    ) -> FloatArray:
        """(n, probes) nDCG@k of each list where (m,) candidates gain this much; 0 of an empty one.

        A sum of estimates may lie a little above 1; cut there, lists would tie.
        """
        known = np.append(gains, 0.0)
        discounts = 1.0 / np.log2(np.arange(self.k) + 2.0)
        found = [
            (known[asked.at(lists[probe].documents[:, : self.k])] * discounts).sum(axis=1)
            for probe in probes
        ]
        return np.column_stack(found)

    def tell(
        self,
        probes: Sequence[str],
        lists: Mapping[str, Lists],
        of_query: FloatArray,
        vectors: QueryVectors | None,
        embeddings: Embeddings | None,
    ) -> Told:
        """Return the candidates, and what the models say of each.

        Where no candidate of a query has any history, ``plain`` alone answers; where one has, its
        and this model's answers are averaged by ``history_weight``.

        Args:
            probes: in the order of the columns.
            lists: what they found for n queries.
            of_query: (n, features) :func:`router.quality_model.query_columns`.
            vectors: of the training queries; None where no query vector is read.
            embeddings: (n, d) the queries' vectors; likewise.
        """
        asked = candidates(probes, lists, self.top)
        fused = fused_columns(probes, lists, asked, self.fusion)
        return self.tell_of(asked, of_query, fused, vectors, embeddings)

    def tell_of(
        self,
        asked: Candidates,
        of_query: FloatArray,
        fused: FloatArray | None,
        vectors: QueryVectors | None,
        embeddings: Embeddings | None,
    ) -> Told:
        """As :meth:`tell`, of candidates and their :func:`fused_columns`."""
        n = len(of_query)
        if self.past is None:
            gains, order = self._answers(relevance_columns(asked, of_query, fused), fused)
            return Told(asked, gains, order, np.zeros(n, dtype=bool))
        history = history_of(self.past, asked, leading(asked, fused), vectors, embeddings)
        seen = np.bincount(asked.rows, history.told, minlength=n) > 0
        if self.plain is None:
            columns = relevance_columns(asked, of_query, fused, history)
            gains, order = self._answers(columns, fused)
            return Told(asked, gains, order, seen)
        without = self.plain.tell_of(asked, of_query, fused, vectors, embeddings)
        mine = seen[asked.rows]
        if self.history_weight == 0.0 or not mine.any():
            return replace(without, with_history=seen & (self.history_weight > 0.0))
        columns = relevance_columns(asked, of_query, fused, history)[mine]
        answers = self._answers(columns, None if fused is None else fused[mine])
        blended = []
        for before, now in zip((without.gains, without.order), answers, strict=True):
            both = before.copy()
            both[mine] = (1.0 - self.history_weight) * before[mine] + self.history_weight * now
            blended.append(both)
        return Told(asked, blended[0], blended[1], seen)

    def _answers(
        self, columns: FloatArray, fused: FloatArray | None
    ) -> tuple[FloatArray, FloatArray]:
        """(m,) gains and (m,) order."""
        predicted = self.booster.predict(columns)
        start = None if fused is None else fused[:, -1]
        return predicted[:, 0], self.order(predicted, start)

    def order(self, predicted: FloatArray, fused: FloatArray | None = None) -> FloatArray:
        """(m,) scores that put candidates in order, from (m, models) of the boosters.

        Log odds of the gain, which is fitted point by point, the scores of the model that is
        trained to rank, and the (m,) scores of linear fusion, added: together they order better
        than each. With one model alone: its gains.
        """
        if predicted.shape[1] < 2:
            return predicted[:, 0]
        gain = predicted[:, 0].clip(1e-9, 1.0 - 1e-9)
        found = np.log(gain / (1.0 - gain)) + self.order_weight * predicted[:, 1]
        return np.asarray(found if fused is None else found + self.fusion_weight * fused)

    def without_history(self) -> RelevanceModel:
        """Return the model that reads no history; itself where it reads none."""
        return self if self.plain is None else self.plain

    def models(self) -> tuple[RelevanceModel, ...]:
        """Return itself, then the one without history if it has one."""
        return (self,) if self.plain is None else (self, self.plain)

    def load(self) -> None:
        """Load LightGBM and its models."""
        for one in self.models():
            one.booster.load()

    def save(self, folder: Path) -> dict[str, Any]:
        """Write arrays and the booster into the new ``folder``; return what :meth:`read` needs."""
        folder.mkdir()
        held = None
        if self.past is not None:
            past = {name: getattr(self.past, name) for name in _ARRAYS}
            write_arrays(folder / _PAST, past)
            held = sha256_of((folder / _PAST).read_bytes())
        return {
            "boosters": self.booster.save(folder),
            "past": held,
            "k": self.k,
            "top": self.top,
            "order_weight": self.order_weight,
            "fusion": list(self.fusion),
            "fusion_weight": self.fusion_weight,
            "plain": None if self.plain is None else self.plain.save(folder / _PLAIN),
            "history_weight": self.history_weight,
        }

    @classmethod
    def read(
        cls,
        folder: Path,
        described: Mapping[str, Any],
        probes: Sequence[str],
        components: int,
        with_vectors: bool = True,
    ) -> RelevanceModel:
        """Read what :meth:`save` wrote; raise ``RouterError`` where it is damaged.

        ``probes``, ``components`` and ``with_vectors`` as for :func:`relevance_count`.
        """
        place = f"{folder.parent / POLICY} ({folder.name})"
        weights = ("order_weight", "fusion_weight", "history_weight")
        check_numbers(place, described, {"k": 1, "top": 1}, finite=weights)
        check_numbers(place, described, {"top": described["k"]})
        fusion = tuple(float(one) for one in described["fusion"])
        if len(fusion) not in (0, len(probes)) or not np.isfinite(fusion).all():
            raise ValueError(f"expected a weight for each of {', '.join(probes)}, got {fusion}")
        if not 0.0 <= described["history_weight"] <= 1.0:
            raise ValueError(f"expected a share, got {described['history_weight']}")
        past, plain = None, None
        if described["past"] is not None:
            read_held(folder / _PAST, described["past"])
            past = DocumentHistory(**read_arrays(folder / _PAST, dict.fromkeys(_ARRAYS, (None,))))
        if described["plain"] is not None:
            plain = cls.read(folder / _PLAIN, described["plain"], probes, components, with_vectors)
        count = relevance_count(components, probes, with_vectors, bool(fusion), past is not None)
        return cls(
            Boosters.read(folder, described["boosters"], count),
            past,
            described["k"],
            described["top"],
            float(described["order_weight"]),
            fusion,
            float(described["fusion_weight"]),
            plain,
            float(described["history_weight"]),
        )


def list_columns(
    probes: Sequence[str], lists: Mapping[str, Lists], asked: Candidates
) -> FloatArray:
    """(m, probes) each candidate's score over the best of its list.

    Where a list lacks the document: the list's lowest. See :mod:`arms.fused_scores`.
    """
    found = []
    for probe in probes:
        values = normalised_scores(lists[probe].scores, "top_score")
        same = lists[probe].documents[asked.rows] == asked.documents[:, None]
        own = values[asked.rows, same.argmax(axis=1)]
        found.append(np.where(same.any(axis=1), own, missing_values(values)[asked.rows]))
    return np.column_stack(found)


def fused_columns(
    probes: Sequence[str], lists: Mapping[str, Lists], asked: Candidates, fusion: Sequence[float]
) -> FloatArray | None:
    """(m, probes + 1) :func:`list_columns`, and behind the query's best: their weighted sum.

    None where ``fusion`` is empty.
    """
    if not len(fusion):
        return None
    values = list_columns(probes, lists, asked)
    return np.column_stack([values, behind_best(values @ np.asarray(fusion), asked.rows)])


def leading(asked: Candidates, fused: FloatArray | None) -> FloatArray:
    """(m,) what orders candidates before history is looked at: linear, else rank fusion."""
    if fused is not None:
        return fused[:, -1]
    return asked.features[:, asked.features.shape[1] - len(JOINT_COLUMNS)]


def behind_best(scores: FloatArray, rows: NDArray[np.intp]) -> FloatArray:
    """(m,) minus the best of each candidate's query; ``rows`` (m,) ascending."""
    if not len(rows):
        return scores
    starts = np.flatnonzero(np.append(True, rows[1:] != rows[:-1]))
    best = np.maximum.reduceat(scores, starts)
    return np.asarray(scores - np.repeat(best, np.diff(np.append(starts, len(rows)))))


def relevance_columns(
    asked: Candidates,
    of_query: FloatArray,
    fused: FloatArray | None = None,
    history: History | None = None,
) -> FloatArray:
    """(m, features) what a :class:`RelevanceModel` reads of the candidates ``asked``.

    ``of_query`` (n, features) :func:`router.quality_model.query_columns`, ``fused`` as of
    :func:`fused_columns`; history stands last.
    """
    parts = [asked.features, of_query[asked.rows]]
    parts += [] if fused is None else [fused]
    return np.hstack([*parts, *([] if history is None else [history.columns])])


def relevance_count(
    components: int,
    probes: Sequence[str],
    with_vectors: bool = True,
    with_fusion: bool = False,
    with_history: bool = True,
) -> int:
    """Columns that a :class:`RelevanceModel` reads."""
    of_query = len(LIST_FEATURES) * len(probes) + len(SURFACE_FEATURES) + components
    fused = len(probes) + 1 if with_fusion else 0
    history = len(HISTORY_COLUMNS if with_vectors else PLAIN_HISTORY_COLUMNS) if with_history else 0
    return len(candidate_columns(probes)) + of_query + fused + history


def counted(model: RelevanceModel, components: int, probes: Sequence[str], reads: bool) -> bool:
    """Whether each of its models reads as many columns as it gets; arguments as above."""
    return all(
        one.booster.features
        == relevance_count(components, probes, reads, bool(one.fusion), one.past is not None)
        for one in model.models()
    )
