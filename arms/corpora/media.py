"""Files that documents name: hashed and checked once per content, and turned into pages."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from arms.corpora.pdf import MediaError, count_pages
from arms.corpora.pictures import check_picture
from arms.errors import MissingExtraError
from arms.read_errors import misnamed
from arms.records import Page

DEFAULT_DPI = 144


@dataclass(frozen=True, slots=True)
class MediaFile:
    """What is known of one file."""

    sha256: str
    n_pages: int | None
    """Of a PDF; None for a picture, and for a PDF where pypdfium2 isn't installed."""


@dataclass(frozen=True)
class PageMaker:
    """Makes the pages of documents whose metadata names files below ``root``.

    ``pdf`` with ``page`` (from 1, or a list) names pages, ``pdf`` alone every page of the file,
    ``image`` a picture file; where a document names both, the PDF is taken.
    """

    root: Path
    dpi: int = DEFAULT_DPI
    density: Callable[[Page], float | None] | None = None
    image_root: Path | None = None
    """Where picture files lie, if not below ``root``."""

    def pages(self, metadata: Mapping[str, Any]) -> tuple[Page, ...]:
        """Return the pages, none where the metadata names no such file.

        Raises:
            MediaError: the file or the page isn't there, lies outside ``root`` or is unusable.
        """
        named = metadata.get("pdf") or metadata.get("image")
        if not named:
            return ()
        if not metadata.get("pdf"):
            path = inside(self.image_root or self.root, named)
            return (self._with_density(Page(path, None, inspect_picture(path).sha256, self.dpi)),)
        path = inside(self.root, named)
        found = inspect_pdf(path)
        return tuple(
            self._with_density(Page(path, number, found.sha256, self.dpi))
            for number in _numbers(metadata.get("page"), found.n_pages)
        )

    def _with_density(self, page: Page) -> Page:
        if self.density is None:
            return page
        density = self.density(page)
        return Page(page.path, page.number, page.sha256, page.dpi, density)


def media_name(metadata: Mapping[str, Any]) -> str:
    """Return the file that the metadata names, for reports; empty where it names none."""
    return str(metadata.get("pdf") or metadata.get("image") or "")


def inside(root: Path, named: Any) -> Path:
    """Return the file ``named`` relative to ``root``.

    Raises:
        MediaError: it isn't text, leads outside ``root`` (links are followed), or isn't a file.
    """
    if not isinstance(named, str):
        raise MediaError("bad_media_reference", f"expected a file's path, got {named!r:.60}")
    try:
        path = (root / named).resolve()
        if not path.is_relative_to(root.resolve()):
            raise MediaError("media_outside_folder", f"lies outside {root.resolve()}")
        if not path.is_file():
            raise MediaError("missing_media", _why_missing(path))
    except (OSError, ValueError) as error:
        raise MediaError("bad_media_reference", f"is no usable path: {error}") from error
    return path


def _why_missing(path: Path) -> str:
    alike = misnamed(path)
    return "is not there" if alike is None else f"is not there; {alike}"


def _numbers(page: Any, n_pages: int | None) -> Sequence[int]:
    if page is None:
        return range(1, (n_pages or 0) + 1)
    numbers = page if isinstance(page, list) else [page]
    for number in numbers:
        if not isinstance(number, int) or isinstance(number, bool):
            raise MediaError("bad_media_reference", f"page should be an integer, got {page!r:.40}")
        if number < 1 or (n_pages is not None and number > n_pages):
            raise MediaError(
                "missing_page",
                f"has {n_pages or 'some'} pages, counted from 1; page {number} isn't one",
            )
    return numbers


def inspect_pdf(path: Path) -> MediaFile:
    """Hash and check a PDF; raise ``MediaError`` where it can't be used."""
    return _outcome(path, "pdf")


def inspect_picture(path: Path) -> MediaFile:
    """Hash and decode a picture; raise ``MediaError`` where it can't be used."""
    return _outcome(path, "picture")


def _outcome(path: Path, kind: str) -> MediaFile:
    """A changed file has another time or size, so what was found before isn't used for it."""
    try:
        state = path.stat()
        found = _inspect(path, kind, state.st_mtime_ns, state.st_size)
    except OSError as error:
        raise MediaError("missing_media", f"can't be read: {error.strerror or error}") from error
    if isinstance(found, MediaError):
        raise MediaError(found.kind, str(found))
    return found


@cache
def _inspect(path: Path, kind: str, time_ns: int, size_bytes: int) -> MediaFile | MediaError:
    if not size_bytes:
        return MediaError("empty_file", "has 0 bytes")
    sha256 = _hash(path)
    try:
        if kind == "pdf":
            return MediaFile(sha256, count_pages(path, sha256))
        check_picture(path, sha256)
    except MediaError as problem:
        return problem
    except MissingExtraError:  # text arms need neither package; page arms say so themselves
        pass
    return MediaFile(sha256, None)


def _hash(path: Path) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as stream:
        while block := stream.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()
