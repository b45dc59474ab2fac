"""The corpus and the queries that the contract tests of every arm run on."""

from __future__ import annotations

from arms.corpora.corpus import Corpus, MemoryCorpus
from arms.records import Document

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
    repeats = 1 if granularity == "document" else 12
    documents = [
        Document(doc_id, title, " ".join([text] * (1 + place % 4 * repeats)))
        for place, (doc_id, (title, text)) in enumerate(_TEXTS.items())
    ]
    return MemoryCorpus("contract", documents)
