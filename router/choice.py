"""What a router is asked, and what it answers."""

from __future__ import annotations

import math
import numbers
from collections.abc import Mapping
from dataclasses import dataclass

from arms.errors import RouterError
from arms.html_table import html_table
from arms.records import Ranking
from router.calibration import CalibratedPoint
from router.policy import Expected, Plan

DEFAULT_LAM = 0.1
"""Used where neither λ nor a wish is given."""


@dataclass(frozen=True, slots=True)
class Choice:
    """The plan chosen for one query."""

    arm: str
    """Whose ranking answers; of fused arms the most probable, of merged ones the one that would
    have answered alone."""
    probabilities: Mapping[str, float]
    """Allowed arm → probability, in the router's order; sums to 1."""
    expected: Expected | None
    """Quality and latency_ms to expect from the arm where this policy chooses it, or from the plan
    (see ``expects_plan``), from held-out labels; None where unknown."""
    lam: float
    """As asked for, or what a wish came to."""
    lam_used: float
    """Whose model answered: the trained λ nearest to ``lam``, the smaller of two equally near."""
    policy: str
    overhead_ms: float
    """Wall-clock milliseconds of deciding, without the probes; of a batch, the whole batch's."""
    plan: Plan
    """The arms to run, in order: ``arm`` alone, after its probes, fused or merged with others."""
    predicted_quality: float | None = None
    """What the policy expects of this query's answer; None where it doesn't say."""
    reason: str | None = None
    """Why, where the plan is not the policy's plain preference."""
    expects_plan: bool = False
    """Whether ``expected`` is of the whole plan, deciding included: where the policy ranks what
    its arms found."""
    policy_kind: str = ""
    """What the policy is: ``encoder``, ``quality``, ``guarded encoder``, …"""
    promised: CalibratedPoint | None = None
    """Of a wish: mean latency, quality and shares at ``lam``, with intervals, over held-out
    queries of the labels' mixture of datasets. A mean, not a bound on this query."""

    def __repr__(self) -> str:
        return f"Choice: {self.told}"

    def _repr_html_(self) -> str:
        return html_table(repr(self), ("arm", "probability"), self.ranked_arms)

    @property
    def told(self) -> str:
        """One line: the arm, λ, the policy, and what to expect."""
        expected = "" if self.expected is None else f"; expected {self.expected.told}"
        return f"{self.arm} at λ = {self.lam:g}, by {self.policy}{expected}"

    @property
    def ranked_arms(self) -> list[tuple[str, str]]:
        """Arms and probabilities, the most probable first."""
        ranked = sorted(self.probabilities.items(), key=lambda one: -one[1])
        return [(arm, f"{probability:.3f}") for arm, probability in ranked]


@dataclass(frozen=True, slots=True)
class Target:
    """How much latency a caller accepts: one of the three at most; none is λ = 0.1."""

    lam: float | None = None
    max_latency_ms: float | None = None
    """Mean milliseconds of a query, deciding and probes included."""
    max_quality_loss: float | None = None
    """Mean quality given up against the best calibrated quality of the policy."""


@dataclass(frozen=True, slots=True)
class SearchResult:
    """What :meth:`Router.search` found."""

    choice: Choice
    ranking: Ranking
    latency_ms: float
    """Wall-clock milliseconds of probing, choosing and searching; without opening the arms."""
    reused_vectors: int = 0
    """How many of the arms run, parts of arms included, took the policy's query vector instead of
    encoding the query again: those whose encoder would have made the same one."""

    def __repr__(self) -> str:
        hits = ", ".join(self.ranking.doc_ids) or "no document matches"
        return f"{hits} ({self.latency_ms:.1f} ms, {self.choice.told})"

    def _repr_html_(self) -> str:
        title = f"{self.latency_ms:.1f} ms, {self.choice.told}"
        scored = zip(self.ranking.doc_ids, self.ranking.scores, strict=True)
        rows = [(rank, doc_id, f"{score:.4f}") for rank, (doc_id, score) in enumerate(scored, 1)]
        return html_table(title, ("rank", "document", "score"), rows)


def check_one_target(wish: Target, arms_given: bool) -> None:
    """Raise ``RouterError`` where λ and wishes are given together, or a wish beside ``arms``."""
    names = ("lam", "max_latency_ms", "max_quality_loss")
    given = [name for name in names if getattr(wish, name) is not None]
    if len(given) > 1:
        raise RouterError(f"give one of {', '.join(names)}, got {' and '.join(given)}")
    if arms_given and given and given != ["lam"]:
        raise RouterError(
            f"{given[0]} is calibrated with all arms allowed; beside arms, give lam instead"
        )


def known_quality(predicted: float | None) -> float | None:
    """Return a number; None for a missing one, which a policy may give for some queries."""
    return None if predicted is None or math.isnan(predicted) else float(predicted)


def check_lam_number(lam: float) -> float:
    """Return ``lam`` as a float; raise ``RouterError`` unless it is a number in [0, 1]."""
    is_number = isinstance(lam, numbers.Real) and not isinstance(lam, bool)
    try:
        value = float(lam) if is_number else math.nan
    except OverflowError:  # a whole number of hundreds of digits
        value = math.inf
    if not 0.0 <= value <= 1.0:  # also false for NaN
        shown = repr(lam) if isinstance(lam, float | str) or not is_number else f"{value:g}"
        raise RouterError(
            f"lam must be a number in [0, 1] (0 = quality only, 1 = latency only), got {shown}"
        )
    return value
