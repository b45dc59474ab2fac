"""The policy contract: a query in, a distribution over arms out."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from arms.reward import check_lam

FloatArray = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Plan:
    """The arms to run for a query, in order, and how their results combine.

    ``single``: the one arm's ranking. ``fuse``: reciprocal-rank fusion of all of them.
    ``cascade``: the first, then perhaps the next.
    """

    arms: tuple[str, ...]
    combine: Literal["single", "fuse", "cascade"] = "single"

    def __str__(self) -> str:
        """As written in ``decisions.parquet``: arms joined by ``+`` (fuse) or ``>`` (cascade)."""
        return (">" if self.combine == "cascade" else "+").join(self.arms)


class Policy(ABC):
    """Maps queries to distributions over ``arms``. Read-only once made; shared by threads."""

    kind: ClassVar[str]
    """Names the class in ``policy.json``; ``router.policies`` maps it to a module."""
    name: str
    """Names the policy in reports; its folder under ``policies/``."""
    arms: tuple[str, ...]
    """The arms it chooses from, in column order."""
    lams: tuple[float, ...] | None
    """The λ it was trained for, ascending; None when it takes any λ."""
    device: str = "cpu"
    """Where its encoder runs, if it has one; set it before the first call."""

    @abstractmethod
    def probabilities(self, queries: Sequence[str], lam: float) -> FloatArray:
        """(len(queries), len(arms)) rows that sum to 1. ``lam`` is one of ``lams`` where given."""

    @abstractmethod
    def save(self, folder: Path) -> None:
        """Write ``policy.json`` and weights (safetensors) into the existing empty ``folder``."""

    @classmethod
    @abstractmethod
    def load(cls, folder: Path) -> Policy:
        """Read what :meth:`save` wrote; raise ``RouterError`` on a missing or unexpected key."""

    def prepare(self, lam: float) -> None:  # noqa: B027 - most policies have nothing to load
        """Load now what the first call at ``lam`` would load; many policies have nothing."""

    def nearest_lam(self, lam: float) -> float:
        """Return the λ whose model answers for ``lam``: the nearest trained one, ties downwards.

        A policy that takes any λ answers for ``lam`` itself.
        """
        value = check_lam(lam)
        if self.lams is None:
            return value
        # Rounded, so that 0.2 lies as far from 0.1 as from 0.3 in spite of binary fractions.
        return min(self.lams, key=lambda trained: (round(abs(trained - value), 12), trained))
