"""One thing that is wrong with a release."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

FaultKind = Literal[
    "missing file",
    "unexpected file",
    "unsafe path",
    "checksum",
    "version",
    "manifest",
    "schema",
    "card",
    "value",
]
_EXAMPLES = 3


@dataclass(frozen=True, slots=True)
class Fault:
    """Where, what kind, and what was expected and came."""

    place: str
    """File of the release, or the name that stands in one."""
    kind: FaultKind
    message: str

    def __str__(self) -> str:
        return f"{self.place}: {self.kind}: {self.message}"


def row_fault(
    file: str, wrong: NDArray[np.bool_], message: str, row_name: Callable[[int], str]
) -> list[Fault]:
    """Return one fault for all rows where ``wrong`` (N,) holds, with the first rows by number.

    Rows are counted from 1. ``row_name`` says what a row (from 0) is about.
    """
    rows = np.flatnonzero(wrong)
    if not len(rows):
        return []
    shown = ", ".join(f"row {row + 1} ({row_name(int(row))})" for row in rows[:_EXAMPLES])
    more = f" and {len(rows) - _EXAMPLES:,} more" if len(rows) > _EXAMPLES else ""
    return [Fault(file, "value", f"{message}: {shown}{more}")]
