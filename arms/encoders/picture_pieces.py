"""Long, narrow pictures cut into pieces that a text reader can take.

A detector scales a picture's short side up and its long side down, so a strip of 300 × 20,000
pixels becomes illegible, or fills the memory. Such a picture is cut across, where it is most
uniform (between lines of text, rather than through one), and narrow pieces are padded with white.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

MAX_RATIO = 3
"""Of long side to short side, beyond which a picture is treated; pages have less."""
_SHORTEST_PIECE = 960
_SOUGHT = 0.2
"""Share of a piece's length in which its border is sought."""

Pixels = NDArray[np.uint8]
"""(height, width, 3)"""


def pieces(picture: Pixels) -> Iterator[tuple[Pixels, int, int]]:
    """Yield ``(piece, left, top)`` from the first to the last; an ordinary picture comes whole."""
    height, width = picture.shape[:2]
    short, long = sorted((height, width))
    if long <= MAX_RATIO * short:
        yield picture, 0, 0
        return
    lying = width > height
    upright = picture.transpose(1, 0, 2) if lying else picture
    for begin, end in _borders(upright, max(MAX_RATIO * short, _SHORTEST_PIECE)):
        piece = _padded(upright[begin:end])
        if lying:
            yield np.ascontiguousarray(piece.transpose(1, 0, 2)), begin, 0
        else:
            yield piece, 0, begin


def _borders(upright: Pixels, longest: int) -> Iterator[tuple[int, int]]:
    begin, height = 0, len(upright)
    while height - begin > longest:
        first = begin + longest - int(_SOUGHT * longest)
        rows = upright[first : begin + longest].astype(np.float32)
        end = first + int(rows.std(axis=(1, 2)).argmin()) + 1
        yield begin, end
        begin = end
    yield begin, height


def _padded(piece: Pixels) -> Pixels:
    """Add white on the right, or below, until neither side is over three times the other."""
    height, width = piece.shape[:2]
    below = max(0, -(-width // MAX_RATIO) - height)
    right = max(0, -(-height // MAX_RATIO) - width)
    return np.pad(piece, ((0, below), (0, right), (0, 0)), constant_values=255)
