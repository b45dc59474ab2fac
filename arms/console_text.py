"""Text on a console that can't write every character: something readable in its place."""

from __future__ import annotations

import codecs
import io
import unicodedata
from collections.abc import Iterable
from typing import Any

_ERRORS = "plain_text"
_ASCII = "plain-ascii"
_PLAIN = {
    "λ": "lambda",
    "Σ": "sum",
    "π": "pi",
    "τ": "tau",
    "α": "alpha",
    "Δ": "delta",
    "→": "->",
    "←": "<-",
    "↔": "<->",
    "−": "-",
    "–": "-",
    "—": "-",
    "×": "x",
    "·": "*",
    "•": "*",
    "…": "...",
    "≥": ">=",
    "≤": "<=",
    "≈": "~",
    "≠": "!=",
    "±": "+-",
    "∞": "inf",
    "∈": "in",
    "‘": "'",
    "’": "'",
    "“": '"',
    "”": '"',
    "█": "#",
    "━": "-",
    "─": "-",
    "│": "|",
    "┃": "|",
}


def plain(character: str) -> str:
    """Return ASCII in place of one character: a word, its base letter, or its escape."""
    if character in _PLAIN:
        return _PLAIN[character]
    if 0xDC80 <= ord(character) <= 0xDCFF:  # a byte of a name that isn't UTF-8
        return f"\\x{ord(character) - 0xDC00:02x}"
    if 0x2500 <= ord(character) <= 0x257F:  # parts of drawn frames
        return "+"
    base = unicodedata.normalize("NFKD", character).encode("ascii", "ignore").decode()
    return base or character.encode("ascii", "backslashreplace").decode()


def _replace(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeEncodeError):
        raise error
    return "".join(map(plain, error.object[error.start : error.end])), error.end


def _find_codec(name: str) -> codecs.CodecInfo | None:
    """ASCII by another name: what prints takes a console called ASCII for one that is set wrongly.

    Typer would write UTF-8 there.
    """
    if name.replace("_", "-") != _ASCII:
        return None
    known = codecs.lookup("ascii")
    return codecs.CodecInfo(
        known.encode,
        known.decode,
        incrementalencoder=known.incrementalencoder,
        incrementaldecoder=known.incrementaldecoder,
        name=_ASCII,
    )


codecs.register_error(_ERRORS, _replace)
codecs.register(_find_codec)


def write_any_text(streams: Iterable[Any]) -> None:
    """Let each stream write any text, whatever its encoding; streams that can't be set stay."""
    for stream in streams:
        if isinstance(stream, io.TextIOWrapper):
            is_ascii = codecs.lookup(stream.encoding).name == "ascii"
            stream.reconfigure(encoding=_ASCII if is_ascii else None, errors=_ERRORS)
