"""What a query's text shows at a glance: lengths, digits, capitals, the word it begins with."""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np

from arms.reward import FloatArray
from arms.words import words as words_of

_YEARS = re.compile(r"\b(?:1[89]|20)\d\d\b")
_OPENINGS = ("how", "how many", "what", "when", "where", "which", "who", "why", "does")
SURFACE_FEATURES = (
    "characters",
    "words",
    "distinct_words",
    "mean_word_length",
    "longest_word",
    "digits",
    "years",
    "capitalised_words",
    "capitals",
    "not_ascii",
    "quotation_marks",
    "punctuation",
    "question_mark",
    *(f"begins_{opening.replace(' ', '_')}" for opening in _OPENINGS),
)
"""Names of the columns of :func:`surface_features`; words of queries in English are among them."""


def surface_features(queries: Sequence[str]) -> FloatArray:
    """(len(queries), len(SURFACE_FEATURES)) counts and flags of each text."""
    rows = [_of(query) for query in queries]
    return np.array(rows, dtype=np.float64).reshape(len(queries), len(SURFACE_FEATURES))


def _of(query: str) -> list[float]:
    lowered = query.lower()
    words = words_of(query)
    lengths = [len(word) for word in words]
    return [
        len(query),
        len(words),
        len({word.lower() for word in words}),
        sum(lengths) / len(lengths) if lengths else 0.0,
        max(lengths, default=0),
        sum(map(str.isdigit, query)),
        len(_YEARS.findall(query)),
        sum(word[0].isupper() for word in words[1:]),
        sum(map(str.isupper, query)),
        0 if query.isascii() else sum(ord(character) > 127 for character in query),
        query.count('"') + query.count("“"),
        sum(query.count(mark) for mark in ",;:()-/"),
        query.rstrip().endswith("?"),
        *(lowered.startswith(opening) for opening in _OPENINGS),
    ]
