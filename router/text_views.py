"""A text as a vector with no neural network: rows of tables by its tokens and n-grams, pooled.

Needs numpy, and the ``tokenizers`` package where tokens are looked at. Tables hold one signed byte
per number and one scale per row, and may be memory-mapped.

Sources: Minishlab's model2vec (a table of token vectors distilled from an encoder); Joulin et al.,
Bag of Tricks for Efficient Text Classification, 2017 (hashed n-grams).
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from arms.errors import RouterError
from arms.extras import not_importable
from arms.words import words_and_punctuation

Ids = NDArray[np.int64]
Floats = NDArray[np.float32]
_MAX_WORDS, _MAX_BYTES = 256, 2048
"""What lies beyond is not looked at, so that a long text doesn't take long."""
_SHORT_WORD = 4
_LARGEST = 127


@dataclass(frozen=True, slots=True)
class NgramSpec:
    """Runs of neighbouring parts of a text, case kept, each hashed to a row of a table.

    ``characters``: bytes of UTF-8. ``words``: runs of letters and digits, or single marks of
    punctuation. ``shapes``: the same, with a longer word replaced by its kind: capitalised, with a
    digit in front, or other. The text's beginning and end count as parts, so that how it begins
    and ends is seen.
    """

    kind: Literal["characters", "words", "shapes"]
    shortest: int
    longest: int
    buckets: int
    """Rows of the table; two runs may share one."""

    def __post_init__(self) -> None:
        known = self.kind in ("characters", "words", "shapes")
        if not (known and 1 <= self.shortest <= self.longest and self.buckets >= 1):
            raise RouterError(
                "n-grams need a kind of characters, words or shapes, 1 ≤ shortest ≤ longest and "
                f"at least one bucket, got {self}"
            )


def ngram_ids(text: str, spec: NgramSpec) -> Ids:
    """Rows of the n-grams of ``text``, repeats kept; never empty where ``shortest`` is 1 or 2."""
    if spec.kind == "characters":
        return _byte_ngrams(text, spec)
    words = words_and_punctuation(text)[:_MAX_WORDS]
    parts = [shape(word) for word in words] if spec.kind == "shapes" else words
    return _word_ngrams(parts, spec)


def shape(word: str) -> str:
    """Return a word of at most four characters in lower case, of a longer one its kind."""
    if word[0].isdigit():
        return "#digit"
    if word[0].isupper():
        return "#capital"
    return word.lower() if len(word) <= _SHORT_WORD else "#word"


def _word_ngrams(words: Sequence[str], spec: NgramSpec) -> Ids:
    """By CRC-32 of their UTF-8."""
    crc, buckets, shortest = zlib.crc32, spec.buckets, spec.shortest
    parts = [b"\x02", *(word.encode("utf-8", "replace") for word in words), b"\x03"]
    hashed = []
    for begin in range(len(parts)):
        value = 0
        for length, part in enumerate(parts[begin : begin + spec.longest], 1):
            value = crc(b"\x1f" + part, value)
            if length >= shortest:
                hashed.append(value % buckets)
    return np.array(hashed, dtype=np.int64)


def _byte_ngrams(text: str, spec: NgramSpec) -> Ids:
    """By a polynomial of their bytes modulo 2^64, mixed, all of one length at once."""
    encoded = b"\x02" + text.encode("utf-8", "replace")[:_MAX_BYTES] + b"\x03"
    values = np.frombuffer(encoded, dtype=np.uint8).astype(np.uint64)
    rolling, found = values, []
    for length in range(1, min(spec.longest, len(values)) + 1):
        if length > 1:
            rolling = rolling[:-1] * np.uint64(0x100000001B3) + values[length - 1 :]
        if length >= spec.shortest:
            mixed = (rolling + np.uint64(length)) * np.uint64(0x9E3779B97F4A7C15)
            found.append((mixed >> np.uint64(32)) % np.uint64(spec.buckets))
    return np.concatenate(found).astype(np.int64) if found else np.zeros(0, dtype=np.int64)


class TokenIds:
    """Token ids of texts by a tokeniser of the ``tokenizers`` package, without special ones.

    Args:
        tokenizer_json: as ``tokenizer.json`` holds it.
        max_tokens: later tokens are cut.

    Raises:
        MissingExtraError: ``tokenizers`` is absent.
        RouterError: the text is no tokeniser.
    """

    def __init__(self, tokenizer_json: str, max_tokens: int) -> None:
        try:
            from tokenizers import Tokenizer
        except ImportError as error:
            raise not_importable(error, "tokenizers", "static") from error
        try:
            self._tokenizer: Any = Tokenizer.from_str(tokenizer_json)
        except Exception as error:  # the package raises no narrower one
            raise RouterError(f"the tokeniser can't be read: {error}; rerun l2r train") from error
        self._tokenizer.no_padding()
        self._tokenizer.enable_truncation(max_tokens)
        self.json, self.max_tokens = tokenizer_json, max_tokens

    @property
    def largest(self) -> int:
        """The largest id; −1 where there is none."""
        return max(self._tokenizer.get_vocab().values(), default=-1)

    def __call__(self, texts: Sequence[str]) -> list[Ids]:
        """One array of ids per text; it may be empty."""
        encoded = self._tokenizer.encode_batch_fast(list(texts), add_special_tokens=False)
        return [np.array(one.ids, dtype=np.int64) for one in encoded]


@dataclass(frozen=True)
class ByteTable:
    """Rows of d numbers, each stored as a signed byte times its row's scale."""

    values: NDArray[np.int8]
    """(rows, d)."""
    scales: Floats
    """(rows,)."""

    def __post_init__(self) -> None:
        if self.values.ndim != 2 or self.scales.shape != self.values.shape[:1]:
            raise RouterError(
                "a table needs a scale per row, got values "
                f"{self.values.shape} and scales {self.scales.shape}"
            )
        if not np.isfinite(self.scales).all():
            raise RouterError("a table's scales are not all finite; rerun l2r train")

    @classmethod
    def of(cls, rows: Floats) -> ByteTable:
        """Round (rows, d) numbers: each is off by at most half of its row's largest / 127."""
        largest = np.abs(rows).max(axis=1, initial=0.0)
        scales = (largest / _LARGEST).astype(np.float32)
        divisor = np.where(scales > 0, scales, 1.0)[:, None]
        rounded = np.rint(rows / divisor).clip(-_LARGEST, _LARGEST)
        return cls(rounded.astype(np.int8), scales)

    def sum(self, ids: Ids) -> Floats:
        """(d,) the sum of the rows at ``ids``, repeats counted; zeros where there are none."""
        total: Floats = self.scales[ids] @ self.values[ids].astype(np.float32)
        return total


@dataclass(frozen=True)
class View:
    """One way of looking at a text: its rows of one table, summed and divided by their norm."""

    ids: TokenIds | NgramSpec
    table: ByteTable
    """Row weights, such as inverse frequencies, are multiplied in."""
    norm: Literal["mean", "l2"] = "mean"
    """``mean``: by the number of rows. ``l2``: by the root of the sum of squared ``weights``."""
    weights: Floats | None = None
    """(rows,) for ``l2``."""

    def __post_init__(self) -> None:
        rows = len(self.table.scales)
        needed = self.ids.buckets if isinstance(self.ids, NgramSpec) else self.ids.largest + 1
        if rows < needed or (isinstance(self.ids, NgramSpec) and rows != needed):
            raise RouterError(f"a view's table needs {needed} rows, got {rows}; rerun l2r train")
        weighted = self.weights is not None and self.weights.shape == (rows,)
        if self.norm not in ("mean", "l2") or (self.norm == "l2") != weighted:
            raise RouterError(
                f"a view is pooled by 'mean', or by 'l2' with {rows} weights; got '{self.norm}'"
            )

    @property
    def dim(self) -> int:
        """Length of a text's vector."""
        return int(self.table.values.shape[1])

    def all_ids(self, texts: Sequence[str]) -> list[Ids]:
        """Ids of each text, which must be encodable as UTF-8."""
        return ids_of(self.ids, texts)

    def pooled(self, ids: Ids) -> Floats:
        """(dim,) from the ids of one text; zeros where there are none."""
        total = self.table.sum(ids)
        if not len(ids):
            return total
        if self.weights is None:
            return total / np.float32(len(ids))
        length = float(np.sqrt((self.weights[ids].astype(np.float64) ** 2).sum()))
        return total / np.float32(length) if length > 0 else total


def ids_of(source: TokenIds | NgramSpec, texts: Sequence[str]) -> list[Ids]:
    """Ids of each text, which must be encodable as UTF-8: see :func:`encodable`."""
    if isinstance(source, NgramSpec):
        return [ngram_ids(text, source) for text in texts]
    return source(texts)


@dataclass(frozen=True)
class TextFeatures:
    """Maps texts to vectors: those of its views, one after another."""

    views: tuple[View, ...]

    def __post_init__(self) -> None:
        if not self.views:
            raise RouterError("text features need at least one view")

    @property
    def dim(self) -> int:
        """Length of a text's vector."""
        return sum(view.dim for view in self.views)

    def __call__(self, texts: Sequence[str]) -> Floats:
        """(len(texts), dim) float32, in the order given."""
        clean = [encodable(text) for text in texts]
        features = np.empty((len(clean), self.dim), dtype=np.float32)
        begin = 0
        for view in self.views:
            for row, ids in enumerate(view.all_ids(clean)):
                features[row, begin : begin + view.dim] = view.pooled(ids)
            begin += view.dim
        return features


def encodable(text: str) -> str:
    """Replace lone surrogates, which no tokeniser takes, by the replacement character."""
    if text.isascii():
        return text
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
