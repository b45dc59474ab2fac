"""What an arm needs of an encoder, whether it reads texts or page pictures."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from arms.encoders.query_encoding import QueryEncoding
from arms.progress import Progress
from arms.records import Unit

FloatArray = NDArray[np.float32]
Walk = Callable[[], Iterator[Unit]]
"""Starts a new walk over the units of a corpus."""


@dataclass(frozen=True, slots=True)
class Encoded:
    """Vectors of some units."""

    vectors: Sequence[FloatArray]
    """One (n, d) array per unit, in order; n may be 0: nothing can be said of that unit."""
    problems: Mapping[str, str] = field(default_factory=dict)
    """Unit id → why it could not be read; such a unit has no vector."""


class UnitEncoder(ABC):
    """A loaded encoder: units and queries to vectors whose inner product says how well they fit.

    A dense encoder gives one vector per query and at most one per unit; one for late interaction
    gives any number of either.
    """

    query_encoding: QueryEncoding | None = None
    """How it makes a query's vector, where one that was made elsewhere may stand in for it."""
    query_backend: str = ""
    """What runs its transformer for queries, and why where that isn't what was asked for."""
    chunk_units: int = 512
    """How many units are encoded between two points from which a killed build continues."""

    @property
    @abstractmethod
    def dimension(self) -> int:
        """Length of a vector."""

    @abstractmethod
    def encode_units(self, units: Sequence[Unit], batch_size: int = 32) -> Encoded:
        """Encode units, in order, each as if it were alone."""

    @abstractmethod
    def encode_queries(self, queries: Sequence[str], batch_size: int = 32) -> list[FloatArray]:
        """One (n, d) float32 array per query, in order, at least one vector each."""

    def prepare(  # noqa: B027 (an encoder that has nothing to do ahead leaves it as it is)
        self, walk: Walk, n_units: int, identity: str, progress: Progress
    ) -> None:
        """Do ahead, with a bar of its own, what takes long and is kept elsewhere."""
