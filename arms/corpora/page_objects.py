"""A PDF page's own objects: where its pictures lie and what its paths draw."""

from __future__ import annotations

import ctypes
import math
from collections.abc import Iterator
from typing import Any

from arms.corpora.areas import Box, Mark, area, clip, covered_share, drawings
from arms.corpora.pdf import pdfium

METHOD = "page-objects-2"
"""Raised when the same page would be measured differently."""

BACKGROUND = 0.9
"""A path over this share of the page is a background, whatever its colour."""
_WHITE = 250
_MAX_DEPTH = 8


def page_density(sheet: Any) -> float:
    """Return the share of the page under pictures and drawings, overlaps counted once, in [0, 1].

    Pictures are image objects, as far as their clip paths show them. Charts and tables are found
    among the visible paths (:func:`arms.corpora.areas.drawings`); one white and unstroked, or one
    that covers nearly the whole page, is background. Text is not looked at: it takes nothing away.
    A scanned page, one picture of the whole sheet, has 1.0. Hold ``pdf.DRAWING``.
    """
    page = _page_box(sheet)
    if area(page) <= 0:
        return 0.0
    pictures: list[Box] = []
    marks: list[Mark] = []
    raw = pdfium().raw
    wanted = [raw.FPDF_PAGEOBJ_IMAGE, raw.FPDF_PAGEOBJ_PATH]
    for found in sheet.get_objects(filter=wanted, max_depth=_MAX_DEPTH):
        box = _shown(found, page)
        if box is None:
            continue
        if found.type == raw.FPDF_PAGEOBJ_IMAGE:
            pictures.append(box)
        elif area(box) < BACKGROUND * area(page) and _is_visible(found):
            marks.append(Mark(box, raw.FPDFPath_CountSegments(found)))
    return covered_share([*pictures, *drawings(marks, page)], page)


def _page_box(sheet: Any) -> Box:
    """The part of the sheet that is shown, in the page's own coordinates."""
    media, crop = sheet.get_mediabox(), sheet.get_cropbox()
    return clip(_upright(crop), _upright(media)) or _upright(media)


def _upright(box: Box) -> Box:
    left, bottom, right, top = box
    return min(left, right), min(bottom, top), max(left, right), max(bottom, top)


def _shown(found: Any, page: Box) -> Box | None:
    """Bounds of an object in the page's coordinates, cut to its clip paths and to the page.

    A line has no area: it is widened to a hundredth of a point.
    """
    try:
        box: Box | None = found.get_bounds()
    except pdfium().PdfiumError:
        return None
    for limit in _clip_boxes(found):
        box = clip(_widened(box), _widened(limit)) if box else None
    holder = found.container
    while holder is not None and box is not None:
        box = holder.get_matrix().on_rect(*box)
        for limit in _clip_boxes(holder):
            box = clip(_widened(box), _widened(limit)) if box else None
        holder = holder.container
    if box is None or not all(math.isfinite(side) for side in box):
        return None
    return clip(_widened(box), page)


def _widened(box: Box, by: float = 0.005) -> Box:
    left, bottom, right, top = box
    return left - by, bottom - by, right + by, top + by


def _clip_boxes(found: Any) -> Iterator[Box]:
    """Bounds of each path that the object is clipped to."""
    raw = pdfium().raw
    limits = raw.FPDFPageObj_GetClipPath(found)
    x, y = ctypes.c_float(), ctypes.c_float()
    for number in range(max(0, raw.FPDFClipPath_CountPaths(limits)) if limits else 0):
        xs, ys = [], []
        for place in range(max(0, raw.FPDFClipPath_CountPathSegments(limits, number))):
            segment = raw.FPDFClipPath_GetPathSegment(limits, number, place)
            if segment and raw.FPDFPathSegment_GetPoint(segment, x, y):
                xs.append(x.value)
                ys.append(y.value)
        if xs:
            yield min(xs), min(ys), max(xs), max(ys)


def _is_visible(path: Any) -> bool:
    raw = pdfium().raw
    fill, stroke = ctypes.c_int(), ctypes.c_int()
    if not raw.FPDFPath_GetDrawMode(path, fill, stroke):
        return False
    if stroke.value:
        return True
    if fill.value == raw.FPDF_FILLMODE_NONE:
        return False
    channels = [ctypes.c_uint() for _ in range(4)]
    if not raw.FPDFPageObj_GetFillColor(path, *channels):
        return True
    *colour, alpha = (channel.value for channel in channels)
    return alpha > 0 and min(colour) < _WHITE
