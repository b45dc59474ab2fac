"""Numbers out of cells, and what is wrong with those that hold none."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from arms.text_form import composed, is_visible

OK, MISSING, TEXT, NAN, INFINITE = range(5)
KIND_OF_CODE = {TEXT: "text", NAN: "nan", INFINITE: "infinite"}


@dataclass(eq=False)
class Numbers:
    """Any shape; where ``codes`` isn't ``OK``, ``values`` is NaN."""

    values: NDArray[np.float64]
    codes: NDArray[np.uint8]
    texts: dict[tuple[int, ...], str] = field(default_factory=dict)
    """Index → what stands there, for cells of text."""

    @classmethod
    def missing(cls, shape: tuple[int, ...]) -> Numbers:
        """Return numbers of which none is there."""
        return cls(np.full(shape, np.nan), np.full(shape, MISSING, dtype=np.uint8))


def parse_numbers(cells: Sequence[Any]) -> Numbers:
    """Return (N,) numbers of (N,) cells: numbers as they are, text by Python's syntax of floats."""
    found = Numbers.missing((len(cells),))
    for row, cell in enumerate(cells):
        if cell is None:
            continue
        value = _number(cell)
        if value is None:
            found.codes[row] = TEXT
            found.texts[row,] = str(cell)
        elif math.isnan(value):
            found.codes[row] = NAN
        elif math.isinf(value):
            found.codes[row] = INFINITE
        else:
            found.codes[row] = OK
            found.values[row] = value
    return found


def _number(cell: Any) -> float | None:
    if isinstance(cell, bool):
        return None
    if isinstance(cell, int | float):
        return float(cell)
    if isinstance(cell, str) and "_" in cell:  # Python reads 1_000 as a thousand
        return None
    try:
        return float(cell)
    except (TypeError, ValueError):
        return None


def parse_text(cell: Any) -> str | None:
    """Return a cell as text; a whole number is written without a decimal point.

    None where the cell is empty, NaN, or has nothing to be seen.
    """
    if cell is None or (isinstance(cell, float) and math.isnan(cell)):
        return None
    if isinstance(cell, float) and cell.is_integer():
        return str(int(cell))
    text = composed(str(cell)).strip()
    return text if is_visible(text) else None
