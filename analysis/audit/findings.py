"""What an audit says: objections, remarks, and the tables behind them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from analysis.table import Table

Check = Literal["measures", "splits", "latency", "baselines", "documents"]


@dataclass(frozen=True, slots=True)
class Objection:
    """One thing that a reviewer would object to."""

    check: Check
    sentence: str


@dataclass(frozen=True, slots=True)
class Findings:
    """What one check came to."""

    objections: tuple[Objection, ...] = ()
    remarks: tuple[str, ...] = ()
    """What was checked, and what couldn't be."""
    tables: tuple[Table, ...] = ()


def joined(parts: list[Findings]) -> Findings:
    """Return all of them in one, in order."""
    return Findings(
        tuple(one for part in parts for one in part.objections),
        tuple(one for part in parts for one in part.remarks),
        tuple(one for part in parts for one in part.tables),
    )
