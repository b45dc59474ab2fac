"""Pictures of texts, and an engine that knows what was drawn: OCR without its models."""

from __future__ import annotations

import hashlib
from types import SimpleNamespace
from typing import ClassVar

import numpy as np

from arms.contract_corpus import drawn_document, page_lines
from arms.corpora.pictures import load_picture

DRAWN: dict[str, list[str]] = {}
"""Hash of a picture's pixels → the lines that were drawn on it."""


def document(doc_id, title, text, folder):
    made = drawn_document(doc_id, title, text, folder)
    for page, lines in zip(made.pages, page_lines(title, text), strict=True):
        DRAWN[_pixels(np.asarray(load_picture(page)))] = lines
    return made


class KnowingEngine:
    """Called like RapidOCR. It finds nothing on a picture that isn't one of ours."""

    read: ClassVar[list[str]] = []

    def __call__(self, blue_green_red):
        seen = _pixels(blue_green_red[:, :, ::-1])
        self.read.append(seen)
        lines = DRAWN.get(seen)
        if not lines:
            return SimpleNamespace(txts=None, scores=None, boxes=None)
        boxes = [
            [[0, 40 * n], [640, 40 * n], [640, 40 * n + 30], [0, 40 * n + 30]]
            for n, _ in enumerate(lines)
        ]
        return SimpleNamespace(txts=tuple(lines), scores=(0.99,) * len(lines), boxes=boxes)


def _pixels(picture):
    return hashlib.sha256(
        repr(picture.shape).encode() + np.ascontiguousarray(picture).tobytes()
    ).hexdigest()
