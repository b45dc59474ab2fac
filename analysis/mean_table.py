"""Means of policies over common queries, each with its bootstrap replicates, computed once.

Comparisons, claims, headroom and frontiers are all functions of a few means: a difference of two
policies is the difference of their means over the queries that both have, in every resample too.
So each mean is resampled once, many columns in one matrix product.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from hashlib import sha256

import numpy as np

from analysis.bootstrap import Estimate, FloatArray, Resamples, interval
from analysis.evaluation import BoolArray
from analysis.outcomes import REWARD, Outcome, Scores
from analysis.roles import role_of

_COLUMNS_AT_ONCE = 96


@dataclass(frozen=True, eq=False)
class Common:
    """Queries that several outcomes have in common."""

    members: BoolArray
    """(N,)."""
    key: bytes
    n: int


@dataclass(frozen=True, eq=False)
class Mean:
    """A mean over common queries; NaN where there are none."""

    value: float
    replicates: FloatArray
    """(B,) the same mean in every resample."""


Wanted = tuple[Outcome, str, Common]


class MeanTable:
    """Means of the outcomes of one evaluation."""

    def __init__(self, scores: Scores, resamples: Resamples, confidence: float) -> None:
        self.scores = scores
        self.confidence = confidence
        self._resamples = resamples
        self._commons: dict[bytes, Common] = {}
        self._evaluated: dict[tuple[str, float], Common] = {}
        self._drawn: dict[bytes, FloatArray] = {}
        self._means: dict[tuple[str, float, str, bytes], Mean] = {}

    def common(self, outcomes: Sequence[Outcome]) -> Common:
        """Return the queries on which all ``outcomes`` are evaluated."""
        own = [self._own(outcome) for outcome in outcomes]
        if all(one is own[0] for one in own):
            return own[0]
        return self._common(np.logical_and.reduce([one.members for one in own]))

    def _own(self, outcome: Outcome) -> Common:
        key = (outcome.policy, outcome.lam)
        if key not in self._evaluated:
            self._evaluated[key] = self._common(outcome.evaluated)
        return self._evaluated[key]

    def _common(self, members: BoolArray) -> Common:
        key = sha256(np.packbits(members).tobytes()).digest()
        if key not in self._commons:
            self._commons[key] = Common(members, key, int(members.sum()))
        return self._commons[key]

    def fill(self, wanted: Iterable[Wanted]) -> None:
        """Compute what of ``wanted`` isn't known yet, in as few passes as memory allows."""
        missing = {self._key(*one): one for one in wanted if self._key(*one) not in self._means}
        items = list(missing.items())
        for begin in range(0, len(items), _COLUMNS_AT_ONCE):
            part = items[begin : begin + _COLUMNS_AT_ONCE]
            self._compute([key for key, _ in part], [one for _, one in part])

    def mean(self, outcome: Outcome, metric: str, common: Common) -> Mean:
        """Return one mean; cheap once :meth:`fill` has seen it."""
        key = self._key(outcome, metric, common)
        if key not in self._means:
            self.fill([(outcome, metric, common)])
        return self._means[key]

    def difference(self, ours: Outcome, theirs: Outcome, metric: str) -> Estimate:
        """Estimate ours − theirs over the queries that both have."""
        common = self.common((ours, theirs))
        a, b = self.mean(ours, metric, common), self.mean(theirs, metric, common)
        return self.estimate(a.value - b.value, a.replicates - b.replicates, common.n)

    def estimate(self, value: float, replicates: FloatArray, n: int) -> Estimate:
        """Put a statistic and its replicates together; undefined where ``n`` is 0."""
        if not n:
            return Estimate(None, None, None, 0)
        return Estimate(float(value), *interval(replicates, self.confidence), n)

    @staticmethod
    def _key(outcome: Outcome, metric: str, common: Common) -> tuple[str, float, str, bytes]:
        fixed = role_of(outcome.policy) == "static" and metric != REWARD  # the same at every λ
        return (outcome.policy, -1.0 if fixed else outcome.lam, metric, common.key)

    def _compute(
        self, keys: Sequence[tuple[str, float, str, bytes]], wanted: Sequence[Wanted]
    ) -> None:
        self._count_draws([common for *_, common in wanted])
        shape = (len(self.scores.evaluation), len(wanted))
        columns = np.zeros(shape, self._resamples.precision, order="F")
        centres = np.zeros(len(wanted))
        for i, (outcome, metric, common) in enumerate(wanted):
            taken = outcome.values(metric)[common.members]
            centres[i] = taken.mean() if common.n else np.nan
            columns[common.members, i] = taken - centres[i]  # centred: float32 then loses nothing
        sums = self._resamples.sums(columns)
        for i, (key, (*_, common)) in enumerate(zip(keys, wanted, strict=True)):
            drawn = self._drawn[common.key]
            offsets = np.full(len(drawn), np.nan)
            np.divide(sums[:, i], drawn, out=offsets, where=drawn > 0)
            self._means[key] = Mean(float(centres[i]), centres[i] + offsets)

    def _count_draws(self, commons: Iterable[Common]) -> None:
        """How many queries of each set every resample drew."""
        new = {one.key: one for one in commons if one.key not in self._drawn}
        if new:
            masks = np.stack([one.members for one in new.values()], axis=1)
            drawn = self._resamples.sums(masks.astype(self._resamples.precision))
            self._drawn |= {key: drawn[:, i] for i, key in enumerate(new)}
