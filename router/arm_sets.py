"""Sets of arms that are run together, and which is worth most at a λ."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, pairwise
from pathlib import Path
from typing import Any, ClassVar, Generic, Protocol, TypeVar

from arms.reward import reward
from router.policies.files import POLICY, check_numbers
from router.policy import Combine

_KEYS = ("arms", "quality", "share", "latency_ms", "queries", "reads_vectors", "model")


class Ranker(Protocol):
    """Ranks anew what the arms of a set found."""

    combine: ClassVar[Combine]
    """Of the plans that are answered so."""

    def save(self, folder: Path) -> dict[str, Any]:
        """Write what doesn't go into JSON into the new ``folder``; return the rest."""
        ...


RankerT = TypeVar("RankerT", bound=Ranker)
Reader = Callable[[Path, Mapping[str, Any], tuple[str, ...], bool], RankerT]
"""Reads what :meth:`Ranker.save` wrote: its folder, what it returned, the set's arms, and whether
it reads the query's vector."""


@dataclass(frozen=True)
class ArmSet(Generic[RankerT]):
    """Arms that are run together. Means are over the same held-out queries for all arm sets."""

    arms: tuple[str, ...]
    """In the order in which they are run."""
    quality: float = 0.0
    """Mean, in [0, 1]."""
    share: float = 0.0
    """Mean of all milliseconds of a query over the sum of all arms' latencies."""
    model: RankerT | None = None
    """Orders what the arms found. None: the one arm's ranking answers as it is."""
    reads_vectors: bool = False
    """Whether the model reads the query's vector."""
    latency_ms: float = 0.0
    """Mean milliseconds of a query."""
    queries: int = 0
    """How many held-out queries the means are over."""

    def reward(self, lam: float) -> float:
        """Mean reward at λ."""
        return float(reward(self.quality, self.share, lam))

    def run(self, allowed: Collection[str] | None) -> tuple[str, ...]:
        """Return those of its arms that are run where only ``allowed`` may be; None: all."""
        return tuple(arm for arm in self.arms if allowed is None or arm in allowed)

    def describe(self, folder: Path) -> dict[str, Any]:
        """Write its model into the new ``folder``; return what :func:`read_arm_set` needs."""
        return {
            "arms": list(self.arms),
            "quality": self.quality,
            "share": self.share,
            "latency_ms": self.latency_ms,
            "queries": self.queries,
            "reads_vectors": self.reads_vectors,
            "model": None if self.model is None else self.model.save(folder),
        }


def read_arm_set(
    folder: Path, described: Mapping[str, Any], read: Reader[RankerT]
) -> ArmSet[RankerT]:
    """Read an arm set; its model, if it has one, is read by ``read`` from ``folder``.

    Raises:
        ValueError, KeyError, TypeError: it is described wrongly.
        RouterError: one of its numbers can't be, or its model's files are damaged.
    """
    if set(described) != set(_KEYS):
        raise ValueError(f"expected {', '.join(_KEYS)}, got {', '.join(described)}")
    means = ("quality", "share", "latency_ms")
    place = f"{folder.parent / POLICY} ({folder.name})"
    check_numbers(place, described, {"queries": 0}, finite=means)
    arms, reads, model = tuple(described["arms"]), bool(described["reads_vectors"]), None
    if described["model"] is not None:
        model = read(folder, described["model"], arms, reads)
    quality, share, latency_ms = (float(described[name]) for name in means)
    return ArmSet(arms, quality, share, model, reads, latency_ms, described["queries"])


def best_arm_set(
    arm_sets: Sequence[ArmSet[Any]], lam: float, allowed: Collection[str] | None = None
) -> int:
    """Return which arm set has the highest mean reward at λ: ties to less share, then first.

    Where only ``allowed`` arms may be run, a set runs those of its own that are allowed. A set
    reduced to one arm is skipped. If several sets reduce to the same arms, the smallest is taken:
    its model was trained on them.
    """

    def usable(arm_set: ArmSet[Any]) -> bool:
        run = arm_set.run(allowed)
        return len(run) == len(arm_set.arms) or len(run) > 1

    numbers = [number for number, arm_set in enumerate(arm_sets) if usable(arm_set)]
    best = max(
        numbers,
        key=lambda one: (round(arm_sets[one].reward(lam), 12), -arm_sets[one].share, -one),
    )
    if arm_sets[best].model is None or arm_sets[best].run(allowed) == arm_sets[best].arms:
        return best
    run = set(arm_sets[best].run(allowed))
    same = [
        one for one in numbers if arm_sets[one].model and set(arm_sets[one].run(allowed)) == run
    ]
    return min(same, key=lambda one: (len(arm_sets[one].arms), one))


def lams_of_arm_sets(arm_sets: Sequence[ArmSet[Any]]) -> dict[int, float]:
    """Each arm set that is the best at some λ → a λ inside its range, or at its end."""
    crossings = {0.0, 1.0}
    for one, other in combinations(arm_sets, 2):
        slope = one.quality + one.share - other.quality - other.share
        lam = (one.quality - other.quality) / slope if slope else 0.0
        crossings |= {lam} if 0.0 < lam < 1.0 else set()
    ends = sorted(crossings)
    # The widest first: crossings that are one but for rounding have nothing between them.
    widest = sorted(pairwise(ends), key=lambda pair: (pair[0] - pair[1], pair[0]))
    middles = [(a + b) / 2 for a, b in widest]
    found: dict[int, float] = {}
    for lam in [*middles, *ends]:
        found.setdefault(best_arm_set(arm_sets, lam), lam)
    return found
