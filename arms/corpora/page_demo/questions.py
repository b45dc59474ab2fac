"""Questions about facts, in the style in which their organisation is asked about."""

from __future__ import annotations

import random

from arms.corpora.page_demo.words import words
from arms.corpora.page_demo.world import Fact


def ask(fact: Fact, style: int, rng: random.Random) -> tuple[str, int]:
    """Return a question for the fact in one frame of ``style``, and the number of the frame.

    The frame is drawn without a look at what the fact is or where it stands.
    """
    frames = words()["frames"][style]
    number = rng.randrange(len(frames))
    whom = fact.subject
    if fact.family == "records":
        whom = words()["records"]["named"][style].format(code=fact.subject)
    return frames[number].format(what=_phrasing(fact, style), whom=whom, year=fact.year), number


def _phrasing(fact: Fact, style: int) -> str:
    """Return what the fact is about in the words of ``style``."""
    if fact.family == "records":
        return str(words()["records"]["asked"][fact.topic][style])
    topics = {topic["label"]: topic for topic in words()[fact.family]}
    return str(topics[fact.topic]["asked"][style])
