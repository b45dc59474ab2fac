"""Columns and titles that many tables share."""

from __future__ import annotations

from analysis.table import Column

LAM = Column("lam", "λ", "lam")
POLICY = Column("policy", "policy")


def measure_title(measure: str) -> str:
    """Return how reports write a measure: RR is called MRR once averaged."""
    return "M" + measure if measure.startswith("RR") else measure


def counted(n: int, noun: str, plural: str | None = None) -> str:
    """Write ``n`` with its noun: ``1 dataset``, ``1,200 datasets``."""
    return f"{n:,} {noun if n == 1 else plural or noun + 's'}"
