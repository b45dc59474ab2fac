"""One Unicode form for every text: composed (NFC), so that equal texts are equal strings.

"é" is one code point or two (e, combining acute): macOS file names, PDF text layers and some input
methods write two. Documents, queries, split groups and caches keyed by text all take the composed
form. Source: Unicode Standard Annex #15.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Collection


def composed(text: str) -> str:
    """Return ``text`` in form NFC; a text that is composed already is returned as it is."""
    if text.isascii() or unicodedata.is_normalized("NFC", text):
        return text
    return unicodedata.normalize("NFC", text)


def normalised_text(text: str) -> str:
    """Return ``text`` composed, with case folded and every run of white space as one space."""
    return " ".join(composed(text).casefold().split())


class KnownIds:
    """Ids of which one may be asked for in another Unicode form.

    Args:
        ids: looked at when first asked, and not again.
    """

    def __init__(self, ids: Collection[str]) -> None:
        self._ids = ids
        self._by_form: dict[str, str] | None = None

    def in_other_form(self, wanted: str) -> str | None:
        """Return the id that equals ``wanted`` once both are composed, where only that differs."""
        if wanted.isascii() or wanted in self._ids:
            return None
        if self._by_form is None:
            self._by_form = {composed(one): one for one in sorted(self._ids) if not one.isascii()}
        return self._by_form.get(composed(wanted))


def code_points(text: str) -> str:
    """Return ``text`` quoted, with all but ASCII escaped: two forms of a letter look different."""
    return ascii(text)


def is_visible(text: str) -> bool:
    """Whether ``text`` has a character that can be seen: no white space, control or zero width."""
    return any(_is_visible(character) for character in text)


_UNSEEN = frozenset(("Cc", "Cf", "Zs", "Zl", "Zp"))
"""General categories without a glyph: controls, formats such as U+200B, spaces."""
_FILLERS = frozenset("\u034f\u115f\u1160\u17b4\u17b5\u2800\u3164\uffa0")
"""Letters, marks and symbols that are drawn as nothing."""


def _is_visible(character: str) -> bool:
    if character.isalnum() and character not in _FILLERS:
        return True
    if character in _FILLERS or "\ufe00" <= character <= "\ufe0f":
        return False
    return unicodedata.category(character) not in _UNSEEN and not (
        "\U000e0100" <= character <= "\U000e01ef" or "\u180b" <= character <= "\u180f"
    )
