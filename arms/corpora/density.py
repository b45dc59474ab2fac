"""Visual density of pages, kept by content: from PDF objects, or from a layout model.

Visual density is the share of a page's area under images, tables and charts, in [0, 1].
"""

from __future__ import annotations

import hashlib
import importlib
import json
from collections.abc import Callable, Iterable
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from arms.atomic import write_json
from arms.cache import cache_folder
from arms.corpora.areas import Box, covered_share
from arms.corpora.page_objects import METHOD, page_density
from arms.corpora.pdf import DRAWING, MediaError, open_pdf, pdfium
from arms.corpora.pictures import PictureError, load_picture
from arms.errors import MissingExtraError, SettingsError
from arms.records import Page

if TYPE_CHECKING:
    from PIL.Image import Image

PAGE_OBJECTS = "page-objects"
NO_DENSITY = "none"

Density = Callable[[Page], float | None]


class LayoutModel(Protocol):
    """Finds images, tables and charts on a page's picture."""

    name: str
    """Model and version: what was found is kept under it."""

    def regions(self, picture: Image) -> Iterable[Box]:
        """Return ``(left, top, right, bottom)`` in pixels of an RGB picture, in any order."""


def density_of(setting: str) -> Density | None:
    """Return what measures pages: ``page-objects``, ``none``, or a layout model's import path.

    ``package.module:attribute`` names a :class:`LayoutModel`, or a class or function that gives one
    when called without arguments.

    Raises:
        SettingsError: the import path leads to no such thing.
    """
    if setting == NO_DENSITY:
        return None
    if setting == PAGE_OBJECTS:
        return object_density
    return LayoutDensity(_imported(setting))


def object_density(page: Page) -> float | None:
    """Return a PDF page's density from its own objects; a picture file has 1.0.

    None where pypdfium2 isn't installed.

    Raises:
        MediaError: the page can't be loaded.
    """
    if page.number is None:
        return 1.0
    try:
        found = _densities(page.path, page.sha256)[page.number - 1]
    except MissingExtraError:
        return None
    if isinstance(found, str):
        raise MediaError("unreadable_page", f"page {page.number}: {found}")
    return found


@lru_cache(maxsize=4096)
def _densities(path: Path, sha256: str) -> tuple[float | str, ...]:
    """Density of each page of a PDF, or why it can't be loaded."""
    remembered = cache_folder("density") / sha256[:2] / f"{sha256}.json"
    try:
        content = json.loads(remembered.read_text(encoding="utf-8"))
        if content["method"] == METHOD:
            return tuple(content["pages"])
    except (OSError, ValueError, KeyError, TypeError):
        pass
    module = pdfium()
    with DRAWING:
        document = open_pdf(str(path), sha256)
        found = tuple(_density_or_reason(document, n, module) for n in range(len(document)))
    write_json(remembered, {"method": METHOD, "pages": found})
    return found


def _density_or_reason(document: Any, number: int, module: Any) -> float | str:
    try:
        sheet = document[number]
        density = round(page_density(sheet), 6)
        sheet.close()
    except module.PdfiumError as error:
        return str(error)
    return density


class LayoutDensity:
    """Density from the regions that a layout model finds; one small file is kept per page."""

    def __init__(self, model: LayoutModel) -> None:
        self.model = model

    def __call__(self, page: Page) -> float | None:
        """Return the share of the picture under the model's regions.

        Raises:
            MediaError: the page can't be drawn.
        """
        key = hashlib.sha256(f"{self.model.name}\n{page.key}".encode()).hexdigest()
        remembered = cache_folder("layout") / key[:2] / f"{key}.json"
        try:
            return float(json.loads(remembered.read_text(encoding="utf-8"))["density"])
        except (OSError, ValueError, KeyError, TypeError):
            pass
        try:
            picture = load_picture(page)
        except PictureError as error:
            raise MediaError("unreadable_page", str(error)) from error
        whole = (0.0, 0.0, float(picture.width), float(picture.height))
        density = round(covered_share(self.model.regions(picture), whole), 6)
        write_json(remembered, {"model": self.model.name, "page": page.key, "density": density})
        return density


def _imported(named: str) -> Any:
    module_name, _, attribute = named.partition(":")
    try:
        model = getattr(importlib.import_module(module_name), attribute or "")
        model = model() if isinstance(model, type) or not hasattr(model, "regions") else model
        if not (isinstance(model.name, str) and callable(model.regions)):
            raise TypeError("its name should be text and its regions a method")
    except Exception as error:  # importing and calling others' code may raise anything
        raise SettingsError(
            f"density '{named}' should be {PAGE_OBJECTS}, {NO_DENSITY}, or the "
            "package.module:attribute of a layout model with 'name' and 'regions(picture)'; "
            f"{type(error).__name__}: {error}"
        ) from error
    return model
