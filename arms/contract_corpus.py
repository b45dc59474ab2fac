"""The corpus and the queries that the contract tests of every arm run on."""

from __future__ import annotations

import hashlib
import textwrap
from collections.abc import Sequence
from pathlib import Path

from arms.corpora.corpus import Corpus, MemoryCorpus
from arms.records import Document, Page

_TEXTS = {
    "d10": ("Tides", "The moon pulls the oceans, and coasts see two high tides a day."),
    "d2": ("Volcanoes", "Magma rises through the crust and erupts as lava and ash."),
    "d1": ("Bees", "Honey bees dance to tell their hive where flowers bloom."),
    "d7": ("Sourdough", "A starter of flour and water ferments and raises the bread."),
    "d3": ("Glaciers", "Ice flows downhill under its own weight and carves wide valleys."),
    "d9": ("Chess", "A knight moves in an L and jumps over other pieces."),
    "d4": ("Photosynthesis", "Leaves turn light, water and carbon dioxide into sugar."),
    "d8": ("Locks", "A canal lock lifts boats between stretches of water."),
    "d5": ("Sleep", "Dreams come mostly in the phase of rapid eye movement."),
    "d6": ("Coffee", "Hot water forced through ground beans makes an espresso."),
}
QUERIES = (
    "why do coasts have two high tides",
    "lava from a volcano",
    "how do bees tell where flowers are",
    "water",
    "a knight in chess jumps over pieces",
    "raising bread without yeast, with flour and water",
)
ODD_QUERIES = (
    "x",
    "word " * 10_000,
    "潮汐为什么每天两次？",
    "لماذا يحدث المد والجزر مرتين؟",
    "tides\x00\x01\x1b[31m\x7f and\u200b bees",
    "🐝🌊🍞",
    "?!… —;",
    "the of and is",
)


def contract_corpus(granularity: str = "document") -> Corpus:
    """Return ten short documents; as paragraphs, each has up to five units."""
    repeats = 12 if granularity == "paragraph" else 1
    documents = [
        Document(doc_id, title, " ".join([text] * (1 + place % 4 * repeats)))
        for place, (doc_id, (title, text)) in enumerate(_TEXTS.items())
    ]
    return MemoryCorpus("contract", documents)


def page_lines(title: str, text: str) -> list[list[str]]:
    """Return the lines of each page of a drawn document: the text's, and before it the title's."""
    return [lines for part in (title, text) if (lines := textwrap.wrap(part, 48))]


def drawn_document(doc_id: str, title: str, text: str, folder: Path) -> Document:
    """Return a document without text whose pages are pictures of ``title`` and of ``text``.

    Equal texts make equal files, which lie under ``folder``.
    """
    pages = tuple(_draw(lines, folder) for lines in page_lines(title, text))
    return Document(doc_id, "", "", pages=pages)


def _draw(lines: Sequence[str], folder: Path) -> Page:
    from PIL import Image, ImageDraw, ImageFont

    height = 40 * len(lines) + 200
    sheet = Image.new("RGB", (max(640, height // 2), height), "white")  # no strip
    pen = ImageDraw.Draw(sheet)
    for number, line in enumerate(lines):
        pen.text((20, 100 + 40 * number), line, fill="black", font=ImageFont.load_default(size=24))
    path = folder / f"{hashlib.sha256(chr(10).join(lines).encode()).hexdigest()[:16]}.png"
    sheet.save(path)
    return Page(path, None, hashlib.sha256(path.read_bytes()).hexdigest())
