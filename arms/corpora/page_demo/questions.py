"""Questions about facts, in the style in which their organisation is asked about."""

from __future__ import annotations

import random

from arms.corpora.page_demo.words import styles, words
from arms.corpora.page_demo.world import Fact


def ask(fact: Fact, style: int, rng: random.Random) -> list[tuple[str, int]]:
    """Return two questions for the fact, in two frames of ``style``, each with its frame's number.

    The frames are drawn without a look at what the fact is or where it stands.
    """
    frames = words()["frames"][style]
    whats = rng.sample(_of_style(_phrasings(fact), style), 2)
    subjects = _subjects(fact, style)
    asked = []
    for what, number in zip(whats, rng.sample(range(len(frames)), 2), strict=True):
        whom = rng.choice(subjects)
        asked.append((frames[number].format(what=what, whom=whom, year=fact.year), number))
    return asked


def _subjects(fact: Fact, style: int) -> list[str]:
    """Return how ``style`` may name whom or what the fact is about."""
    if fact.family != "records":
        return [fact.subject]
    return [one.format(code=fact.subject) for one in _of_style(words()["records"]["named"], style)]


def _phrasings(fact: Fact) -> list[str]:
    """Return what the fact is about in the words of all styles."""
    if fact.family == "records":
        return list(words()["records"]["asked"][fact.topic])
    topics = {topic["label"]: topic for topic in words()[fact.family]}
    return list(topics[fact.topic]["asked"])


def _of_style(phrasings: list[str], style: int) -> list[str]:
    """Return the phrasings of ``style``: every fifth one, where there are five styles."""
    return phrasings[style :: styles()]
