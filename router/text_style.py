"""How a text is written, as a few numbers: its length, capitals, digits, marks, question words.

An uncased encoder sees neither letter case nor, once pooled, length; hashed n-grams that are
divided by the root of their number don't hold length either.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

_WORDS = re.compile(r"\w+|[^\w\s]")
_ASKING = re.compile(r"\b(?:who|what|which|where|when|how|why|whom|whose)\b", re.IGNORECASE)
_JOINING = frozenset({"and", "or", "both"})
_COUNTED = (",", "'", '"', "-", "(")
NUMBERS = 19
"""Of a text."""


def text_style(texts: Sequence[str]) -> NDArray[np.float32]:
    """(len(texts), NUMBERS) raw numbers, in the order given; a text without words is zeros.

    In columns: log words (marks of punctuation count as words), log characters, share and log count
    of capitalised words, runs of capitalised words and their share of words, words that begin with
    a digit, mean length of a word, ends in a question mark, ends in a full stop, begins with a
    capital, holds an underscore, question words, joining words, and counts of five marks.
    """
    return np.array([_style(text) for text in texts], dtype=np.float32).reshape(-1, NUMBERS)


def _style(text: str) -> list[float]:
    words = _WORDS.findall(text)
    if not words:
        return [0.0] * NUMBERS
    capitals = [word[0].isupper() for word in words]
    runs = sum(
        now and not before for before, now in zip([False, *capitals], capitals, strict=False)
    )
    return [
        float(np.log1p(len(words))),
        float(np.log1p(len(text))),
        sum(capitals) / len(words),
        float(np.log1p(sum(capitals))),
        runs,
        runs / len(words),
        sum(word[0].isdigit() for word in words),
        sum(map(len, words)) / len(words),
        text.endswith("?"),
        text.endswith("."),
        text[:1].isupper(),
        "_" in text,
        len(_ASKING.findall(text)),
        sum(word.lower() in _JOINING for word in words),
        *(text.count(mark) for mark in _COUNTED),
    ]
