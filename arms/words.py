"""Words of any script: what BM25, features of queries and paragraphs count and compare.

A word is a run of letters, digits and underscores with the combining marks on them: vowel signs of
Indic scripts, points and accents that have no composed form. Scripts that are written without
spaces (Chinese, Japanese, Thai, Lao, Khmer, Burmese and relatives) have no such runs: there the
unit is a *cluster*, one letter with its marks. A search takes clusters alone and in pairs of
neighbours (unigrams and bigrams), which needs no dictionary and is the same in index and query.

Texts are taken in composed form (:func:`arms.text_form.composed`). Text of Latin, Greek and
Cyrillic letters takes a short path and gives what the pattern ``\\w\\w+`` finds.

Sources: Unicode Standard Annexes #24 and #29; Nie, Gao, Zhang and Zhou, On the use of words and
n-grams for Chinese information retrieval, 2000 (both together do better than either); Lucene's
CJKBigramFilter, CJKWidthFilter, ArabicNormalizer and HebrewNormalizer.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable
from functools import cache, cached_property
from itertools import pairwise

Block = tuple[int, int]

_EAST_ASIAN: tuple[Block, ...] = (
    (0x3005, 0x3007),  # repetition marks, zero
    (0x3021, 0x3029),
    (0x3031, 0x3035),
    (0x3041, 0x30FF),  # Hiragana, Katakana
    (0x3105, 0x312F),  # Bopomofo
    (0x31A0, 0x31BF),
    (0x31F0, 0x31FF),
    (0x3400, 0x4DBF),  # Chinese characters
    (0x4E00, 0x9FFF),
    (0xF900, 0xFAFF),
    (0x1B000, 0x1B16F),
    (0x20000, 0x323AF),
)
_SOUTH_EAST_ASIAN: tuple[Block, ...] = (
    (0x0E00, 0x0EFF),  # Thai, Lao
    (0x1000, 0x109F),  # Burmese
    (0x1780, 0x17FF),  # Khmer
    (0x1950, 0x19DF),  # Tai Le, New Tai Lue
    (0x1A20, 0x1AAF),  # Tai Tham
    (0xA9E0, 0xA9FF),  # Burmese, extended
    (0xAA60, 0xAA7F),
)
_MARK_BLOCKS: tuple[Block, ...] = ((0x0300, 0x1E94F), (0xE0100, 0xE01EF))
CLUSTERS_A_WORD = 4
"""Of Thai, Lao, Khmer and Burmese, where words are counted: about as long as a word is."""

_LARGE_BLOCK = 400
"""Code points from which on a block is taken whole: Chinese characters, all of them letters."""

_SIMPLE = re.compile(r"\w\w+")
_SIMPLE_WORDS = re.compile(r"\w+")
_SIMPLE_PARTS = re.compile(r"\w+|[^\w\s]")
_is_plain = re.compile(
    "[\x00-\u02ff\u2010-\u20cf\u0370-\u0482\u048a-\u058f\u1e00-\u200a\u200e-\u200f\u2100-\u2cee]*+"
).fullmatch
"""Finds a text that the short path takes: Latin, Greek, Cyrillic, Armenian, symbols; no marks."""

_OPTIONAL_MARKS = re.compile(
    "[\u0591-\u05bd\u05bf\u05c1\u05c2\u05c4\u05c5\u05c7"
    "\u0610-\u061a\u0640\u064b-\u065f\u0670\u06d6-\u06dc\u06df-\u06e4\u06e7\u06e8\u06ea-\u06ed]"
)
"""Hebrew points and accents, Arabic vowel signs and the stroke that lengthens a line: most writers
leave them out, so a search does."""
_WIDE_OR_NARROW = re.compile("[\uff01-\uffee]+")
_INVISIBLE = re.compile("[\u200b-\u200d\u2060]")


def search_words(text: str) -> list[str]:
    """Return the words of two characters or more of a text in lower case, in reading order.

    Args:
        text: composed and in lower case. Of scripts without spaces, each cluster comes alone and
            with its neighbour.
    """
    if text.isascii() or _is_plain(text):
        return _SIMPLE.findall(text)
    patterns = _patterns()
    found: list[str] = []
    for place, part in enumerate(patterns.runs.split(_folded(text, patterns))):
        if place % 2 == 0:  # between two runs of a script without spaces
            found += patterns.spaced.findall(part)
            continue
        clusters = patterns.clusters.findall(_INVISIBLE.sub("", part))
        found += clusters
        found += map("".join, pairwise(clusters))
    return found


def folded(text: str) -> str:
    """Return ``text`` without what a search looks past: see :func:`search_words`."""
    return text if text.isascii() or _is_plain(text) else _folded(text, _patterns())


def _folded(text: str, patterns: _Patterns) -> str:
    """Leave out optional points, and joiners inside words; wide and narrow letters become plain."""
    text = _OPTIONAL_MARKS.sub("", text)
    text = _WIDE_OR_NARROW.sub(lambda found: unicodedata.normalize("NFKC", found.group()), text)
    if "i\u0307" in text:  # the lower case of the Turkish İ
        text = text.replace("i\u0307", "i")
    return patterns.joiners.sub("", text) if "\u200c" in text or "\u200d" in text else text


def words(text: str) -> list[str]:
    """Return every word, one of a single letter too, in reading order.

    A Chinese or Japanese character is a word of its own; of Thai, Lao, Khmer and Burmese, four
    letters with their marks count as one.
    """
    if text.isascii() or _is_plain(text):
        return _SIMPLE_WORDS.findall(text)
    return _patterns().words.findall(text)


def words_and_punctuation(text: str) -> list[str]:
    """Return the words as :func:`words` does, and each mark of punctuation between them."""
    if text.isascii() or _is_plain(text):
        return _SIMPLE_PARTS.findall(text)
    return _patterns().parts.findall(text)


def long_terms(text: str) -> list[str]:
    """Return runs of three letters or more, and pairs of clusters of scripts without spaces.

    Digits and underscores end a run. ``text`` is composed and in lower case.
    """
    if text.isascii():
        return _LETTERS.findall(text)
    patterns = _patterns()
    found: list[str] = []
    for part in patterns.letters.findall(text):
        if patterns.unspaced.match(part) is None:
            found.append(part)
        else:
            clusters = patterns.clusters.findall(_INVISIBLE.sub("", part))
            found += map("".join, pairwise(clusters))
    return found


_LETTERS = re.compile(r"[^\W\d_]{3,}")


@cache
def south_east_asian() -> tuple[str, str]:
    """Return letters and digits, and marks, of Thai, Lao, Khmer, Burmese, for character classes."""
    marks = (
        code
        for first, last in _SOUTH_EAST_ASIAN
        for code in range(first, last + 1)
        if unicodedata.category(chr(code)) in ("Mn", "Mc")
    )
    return _letters(_SOUTH_EAST_ASIAN), _ranges(marks)


def is_letter(character: str) -> bool:
    """Whether a character is a letter, or a mark on one."""
    return character.isalpha() or unicodedata.category(character).startswith("M")


@cache
def token_pattern() -> str:
    """Return :func:`search_words` as one pattern, for libraries that take nothing else.

    Its one group holds the word, or the pair; the last cluster of a run also comes alone. Points
    and widths stay as they are.
    """
    unspaced, marks = _unspaced(), _marks()
    cluster = f"[{unspaced}][{marks}]*"
    word = rf"(?![{unspaced}])\w(?:(?![{unspaced}])[\w{marks}])+"
    return f"(?u)(?=({cluster}(?:{cluster})?|{word}))(?:{cluster}|{word})"


class _Patterns:
    """Each is compiled once, when the first text needs it: large classes take a while."""

    def __init__(self) -> None:
        unspaced, marks = _unspaced(), _marks()
        self._spaced = rf"(?![{unspaced}])\w(?:(?![{unspaced}])[\w{marks}])*"
        self._run = rf"[{unspaced}][{unspaced}{marks}\u200b-\u200d\u2060]*"

    @cached_property
    def runs(self) -> re.Pattern[str]:
        return re.compile(f"({self._run})")

    @cached_property
    def spaced(self) -> re.Pattern[str]:
        return re.compile(rf"\w(?:\w++|[{_marks()}]++)++")

    @cached_property
    def unspaced(self) -> re.Pattern[str]:
        return re.compile(f"[{_unspaced()}]")

    @cached_property
    def clusters(self) -> re.Pattern[str]:
        return re.compile(f"[{_unspaced()}][{_marks()}]*")

    @cached_property
    def joiners(self) -> re.Pattern[str]:
        return re.compile(f"(?<=[{_marks()}])[\u200c\u200d]+")

    @cached_property
    def words(self) -> re.Pattern[str]:
        return re.compile(self._word)

    @cached_property
    def parts(self) -> re.Pattern[str]:
        return re.compile(rf"{self._word}|[^\w\s]")

    @cached_property
    def letters(self) -> re.Pattern[str]:
        letter = rf"(?![{_unspaced()}])[^\W\d_][{_marks()}]*"
        return re.compile(rf"{self._run}|{letter}(?:{letter}){{2,}}")

    @property
    def _word(self) -> str:
        east, (south_east, _) = _letters(_EAST_ASIAN), south_east_asian()
        piece = rf"(?:[{south_east}][{_marks()}]*){{1,{CLUSTERS_A_WORD}}}"
        return rf"[{east}][{_marks()}]*|{piece}|{self._spaced}"


@cache
def _patterns() -> _Patterns:
    return _Patterns()


@cache
def _unspaced() -> str:
    return _letters((*_EAST_ASIAN, *_SOUTH_EAST_ASIAN))


@cache
def _letters(blocks: tuple[Block, ...]) -> str:
    """Return the letters and digits of some blocks as the inside of a character class."""
    large = [(first, last) for first, last in blocks if last - first >= _LARGE_BLOCK]
    small = (
        code
        for first, last in blocks
        if last - first < _LARGE_BLOCK
        for code in range(first, last + 1)
        if chr(code).isalnum()
    )
    return _ranges(small) + "".join(f"{chr(first)}-{chr(last)}" for first, last in large)


@cache
def _marks() -> str:
    """Return all combining marks as the inside of a character class."""
    category = unicodedata.category
    return _ranges(
        code
        for first, last in _MARK_BLOCKS
        for code in range(first, last + 1)
        if category(chr(code)) in ("Mn", "Mc")
    )


def _ranges(codes: Iterable[int]) -> str:
    """Return ascending code points as ranges; none of them means anything inside a class."""
    ranges: list[list[int]] = []
    for code in codes:
        if ranges and code == ranges[-1][1] + 1:
            ranges[-1][1] = code
        else:
            ranges.append([code, code])
    return "".join(chr(first) + "-" + chr(last) for first, last in ranges)
