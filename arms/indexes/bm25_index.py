"""BM25 over word stems: bm25s builds the index, we read it memory-mapped.

bm25s scores every (term, document) pair when it indexes (arXiv 2407.03618), so a query's scores
are sums of stored columns. We sum them in bm25s's order of addition, in float32, and so get its
scores to the last bit; what differs is the selection: bm25s fills ``k`` places with documents of
score 0, raises when ``k`` exceeds the corpus, and breaks ties arbitrarily.
"""

from __future__ import annotations

import json
import re
import threading
from array import array
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import bm25s
import numpy as np
import Stemmer
from bm25s.tokenization import _infer_stopwords
from numpy.typing import NDArray

from arms.errors import SettingsError
from arms.text_form import composed
from arms.words import folded, search_words

_INDEX_FOLDER = "bm25s"
_MATRIX = ("data", "indices", "indptr")


@dataclass(frozen=True)
class Analyzer:
    """How a text becomes terms. Equal wordings make equal terms."""

    language: str
    stemmer: str | None
    """A Snowball algorithm, None for whole words."""
    stop_words: tuple[str, ...]
    token_pattern: str | None
    """A regular expression whose matches are the words; None: :func:`arms.words.search_words`."""


def check_token_pattern(pattern: str | None) -> str | None:
    """Return ``pattern``, composed; raise ``ValueError`` unless each of its matches is a word.

    Groups are refused, since of a pattern with one only what the group holds would be taken.
    """
    if pattern is None:
        return None
    try:
        compiled = re.compile(composed(pattern))
    except (re.error, OverflowError, RecursionError) as error:
        raise ValueError(f"{pattern!r} is no regular expression: {error}") from error
    if compiled.groups:
        raise ValueError(
            f"{pattern!r} has {compiled.groups} group{'s' * (compiled.groups > 1)} and the whole "
            "match is the word; write (?:…) for each (…)"
        )
    if any(not found for found in compiled.findall("a b ä1, 中.")):
        raise ValueError(
            f"{pattern!r} matches the empty text, which is no word; ask for a character"
        )
    return compiled.pattern


def snowball_algorithm(language: str, wanted: bool | None) -> str | None:
    """Return the language's stemmer; ``wanted=None`` accepts that there is none.

    Raises:
        SettingsError: a stemmer is wanted and Snowball has none for the language.
    """
    known = Stemmer.algorithms()
    if wanted is False:
        return None
    if language in known:
        return language
    if wanted is None:
        return None
    raise SettingsError(
        f"no stemmer for the language '{language}'; known: {', '.join(known)}; "
        "or set stemmer: false"
    )


def stop_words_of(language: str, wanted: bool | Sequence[str] | None) -> tuple[str, ...]:
    """Return stop words: bm25s's list for the language, the words given, or none.

    ``wanted=None`` accepts that there is no list for the language.

    Raises:
        SettingsError: a list is wanted and bm25s has none for the language.
    """
    if wanted is False:
        return ()
    if wanted is not None and wanted is not True:
        return tuple(wanted)
    try:
        return tuple(_infer_stopwords(language))
    except ValueError as error:
        if wanted is None:
            return ()
        raise SettingsError(
            f"no stop words for the language '{language}'; list them, or set stop_words: false"
        ) from error


class TermReader:
    """Turns texts into terms: lower case, words, stop words out, stems."""

    def __init__(self, analyzer: Analyzer) -> None:
        pattern, stop_words = analyzer.token_pattern, map(composed, analyzer.stop_words)
        self._words_of: Callable[[str], list[str]] = search_words
        if pattern is None:
            stop_words = map(folded, stop_words)
        else:
            self._words_of = re.compile(pattern).findall
        self._stop_words = frozenset(stop_words)
        self._algorithm = analyzer.stemmer
        self._own = threading.local()  # a PyStemmer object isn't safe to share between threads

    def terms(self, text: str) -> list[str]:
        """Return the terms of ``text`` in reading order, repeats included."""
        stop_words = self._stop_words
        words = [word for word in self._words_of(text.lower()) if word not in stop_words]
        return self._stemmer().stemWords(words) if self._algorithm else words

    def _stemmer(self) -> Any:
        stemmer = getattr(self._own, "stemmer", None)
        if stemmer is None:
            stemmer = self._own.stemmer = Stemmer.Stemmer(self._algorithm)
        return stemmer


def write_bm25(
    folder: Path, texts: Iterable[str], analyzer: Analyzer, parameters: dict[str, Any]
) -> None:
    """Index ``texts`` into ``folder``; ``parameters`` are bm25s's ``k1, b, delta, method``.

    Terms are numbered in order of appearance, so the same corpus gives the same bytes. In memory
    stand four bytes per term of the corpus, then bm25s's matrix.
    """
    reader = TermReader(analyzer)
    vocabulary: dict[str, int] = {}
    documents = []
    for text in texts:
        terms = reader.terms(text)
        documents.append(
            array("i", [vocabulary.setdefault(term, len(vocabulary)) for term in terms])
        )
    target = folder / _INDEX_FOLDER
    if not vocabulary:  # nothing but stop words and punctuation; bm25s refuses to index that
        target.mkdir()
        (target / "vocab.index.json").write_text("{}", encoding="utf-8")
        return
    index = bm25s.BM25(**parameters)
    index.index((documents, vocabulary), create_empty_token=False, show_progress=False)
    index.save(target, show_progress=False)


class Bm25Index:
    """An opened index: the term columns stay on disk until a query needs them."""

    def __init__(self, folder: Path, analyzer: Analyzer, n_units: int) -> None:
        source = folder / _INDEX_FOLDER
        self._reader = TermReader(analyzer)
        self._n_units = n_units
        text = (source / "vocab.index.json").read_text(encoding="utf-8")
        self._vocabulary: dict[str, int] = json.loads(text)
        self.size_bytes = len(text)
        self._data: NDArray[Any] = np.zeros(0, dtype=np.float32)
        self._indices = self._indptr = np.zeros(0, dtype=np.int64)
        self._absent: NDArray[np.float32] | None = None
        if self._vocabulary:
            self._data, self._indices, self._indptr = (self._open(source, part) for part in _MATRIX)
            nonoccurrence = source / "nonoccurrence_array.index.npy"
            if nonoccurrence.is_file():
                self._absent = np.load(nonoccurrence, allow_pickle=False)

    def _open(self, source: Path, part: str) -> NDArray:
        mapped = np.load(source / f"{part}.csc.index.npy", mmap_mode="r", allow_pickle=False)
        self.size_bytes += mapped.nbytes
        return np.asarray(mapped)  # still mapped; a plain array slices faster than a memmap

    def term_ids(self, query: str) -> list[int]:
        """Return the query's terms that the corpus has, in order, repeats included."""
        known = self._vocabulary
        return [known[term] for term in self._reader.terms(query) if term in known]

    def scores(self, term_ids: Sequence[int]) -> NDArray[np.float32]:
        """(units,) float32 scores: the sum of the terms' columns, 0 where no term occurs.

        For BM25L and BM25+ a unit that holds some of the terms also gets the scores of the others
        in a unit without them, as in bm25s; a unit that holds none stays at 0.
        """
        scores = np.zeros(self._n_units, dtype=np.float32)
        columns = np.array(term_ids)
        begin, end = self._indptr[columns].tolist(), self._indptr[columns + 1].tolist()
        data, indices = self._data, self._indices
        for low, high in zip(begin, end, strict=True):
            np.add.at(scores, indices[low:high], data[low:high])
        if self._absent is not None:
            scores[scores > 0] += self._absent[columns].sum()
        return scores
