"""PDF files: opened one at a time, checked, and their text layer taken, all with pypdfium2."""

from __future__ import annotations

import atexit
import json
import re
import threading
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

from arms.atomic import write_json
from arms.cache import cache_folder
from arms.errors import CorpusError
from arms.extras import not_importable

DRAWING = threading.Lock()
"""PDFium may be entered by one thread at a time: hold it while a document is open or used."""

_HEADER_BYTES = 1024
_END_MARK_BYTES = 1024
"""Where readers look for ``%PDF-`` and ``%%EOF`` (PDF reference 1.7, appendix H, notes 13, 18)."""

_EMPTY_TREE = re.compile(rb"/Count\s+0\b")
_A_PAGE = re.compile(rb"/Type\s*/Page\b")

_TEXT_METHOD = "pdfium-text-2"
"""Raised when the same page's text would be taken differently."""
_UNPRINTABLE = re.compile("[\ud800-\udfff\x00\x01\x03-\x08\x0b-\x1f\x7f\ufffe\uffff]")
_DIVIDED = re.compile(r"(\w[\w-]*)\x02(\w[\w-]*)")


class MediaError(CorpusError):
    """A file that can't be used; ``kind`` is a key of ``PROBLEM_KINDS``, the message the reason."""

    def __init__(self, kind: str, reason: str) -> None:
        super().__init__(reason)
        self.kind = kind


def pdfium() -> Any:
    """Return pypdfium2; raise ``MissingExtraError`` where it isn't installed."""
    try:
        import pypdfium2
    except ImportError as error:
        raise not_importable(error, "pypdfium2", "pages") from error
    return pypdfium2


@lru_cache(maxsize=4)
def open_pdf(path: str, sha256: str) -> Any:
    """Return the open document; call it, and use what it returns, while holding ``DRAWING``."""
    document = pdfium().PdfDocument(path)
    _close_at_exit()
    return document


@lru_cache(maxsize=1)
def _close_at_exit() -> None:
    """Close documents before pypdfium2 does, which would tell the user about it."""
    atexit.register(open_pdf.cache_clear)


def count_pages(path: Path, sha256: str) -> int:
    """Return the number of pages, at least 1.

    Raises:
        MediaError: the file is no PDF, truncated, encrypted, damaged or without pages.
    """
    _look_at_bytes(path)
    module = pdfium()
    with DRAWING:
        try:
            n_pages = len(open_pdf(str(path), sha256))
        except module.PdfiumError as error:
            raise _problem(error, path) from error
    if n_pages < 1:
        raise MediaError("pdf_without_pages", "has no page")
    return n_pages


def _look_at_bytes(path: Path) -> None:
    with path.open("rb") as stream:
        head = stream.read(_HEADER_BYTES)
        size = stream.seek(0, 2)
        stream.seek(max(0, size - _END_MARK_BYTES))
        tail = stream.read()
    if not size:
        raise MediaError("empty_file", "has 0 bytes")
    if b"%PDF-" not in head:
        raise MediaError("not_a_pdf", f"is no PDF: it begins with {head[:8]!r}")
    if b"%%EOF" not in tail:
        raise MediaError("truncated_pdf", f"stops after {size:,} bytes without PDF's end mark")


def _problem(error: Any, path: Path) -> MediaError:
    """PDFium refuses a file without pages and leaves its last error's code as it was before."""
    content = path.read_bytes()
    if _EMPTY_TREE.search(content) and not _A_PAGE.search(content):
        return MediaError("pdf_without_pages", "has no page")
    raw = pdfium().raw
    locked = error.err_code in (raw.FPDF_ERR_PASSWORD, raw.FPDF_ERR_SECURITY)
    if locked and b"/Encrypt" in content:
        return MediaError("encrypted_pdf", "is encrypted; save it without a password")
    return MediaError("damaged_pdf", str(error))


def text_layers(path: Path, sha256: str) -> tuple[str | MediaError, ...]:
    """Return the text of each page, lines ended by ``\\n``; empty where there is no text layer.

    Words that were divided at a line's end are whole (:func:`without_line_breaks`). In place of a
    page that can't be loaded stands why. What was found is kept by content.
    """
    remembered = cache_folder("text") / sha256[:2] / f"{sha256}.json"
    try:
        content = json.loads(remembered.read_text(encoding="utf-8"))
        if content["method"] == _TEXT_METHOD:
            return tuple(
                one if isinstance(one, str) else MediaError("unreadable_page", one["problem"])
                for one in content["pages"]
            )
    except (OSError, ValueError, KeyError, TypeError):
        pass
    with DRAWING:
        document = open_pdf(str(path), sha256)
        found = tuple(_text_layer(document, number) for number in range(1, len(document) + 1))
    found = tuple(without_line_breaks(found))
    pages = [one if isinstance(one, str) else {"problem": str(one)} for one in found]
    write_json(remembered, {"method": _TEXT_METHOD, "pages": pages})
    return found


def _text_layer(document: Any, number: int) -> str | MediaError:
    try:
        sheet = document[number - 1]
        text: str = sheet.get_textpage().get_text_bounded()
        sheet.close()
    except pdfium().PdfiumError as error:
        return MediaError("unreadable_page", f"page {number}: {error}")
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    return _UNPRINTABLE.sub("", text)


def without_line_breaks(texts: Sequence[str | MediaError]) -> list[str | MediaError]:
    """Join words at U+0002, which is what PDFium gives for a hyphen at a line's end.

    The hyphen stays where the file has the same word with a hyphen elsewhere (``well-being``), and
    in words of three parts (``state-of-the-art``).
    """
    everything = "\n".join(text for text in texts if isinstance(text, str)).casefold()

    def joined(match: re.Match[str]) -> str:
        before, after = match.groups()
        hyphenated = f"{before}-{after}"
        keep = "-" in before + after or hyphenated.casefold() in everything
        return hyphenated if keep else before + after

    return [
        _DIVIDED.sub(joined, one).replace("\x02", "") if isinstance(one, str) else one
        for one in texts
    ]
