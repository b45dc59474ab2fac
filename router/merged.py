"""What an arm set's model says of the documents that its arms found, and the ranking that makes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from arms.records import Ranking
from arms.reward import BoolArray, FloatArray
from router.candidates import Candidates
from router.policy import PolicyInputs
from router.probe_features import Lists, key_of


@dataclass(frozen=True)
class ScoredCandidates:
    """What an arm set's model says of what was found for n queries."""

    lists: Mapping[str, Lists]
    asked: Candidates
    gains: FloatArray
    """(m,) expected of each candidate, a share of the query's ideal gain."""
    order: FloatArray
    """(m,) the higher, the earlier."""
    with_history: BoolArray
    """(n,) whether history of a document was read."""


def names_of(known: PolicyInputs, arms: Sequence[str], top: int) -> dict[int, str]:
    """Key of a candidate → its name."""
    found: dict[int, str] = {}
    for arm in arms:
        for ranking in (known.probed or {}).get(arm, ()):
            for name in ranking.doc_ids[:top]:
                found.setdefault(key_of(name), name)
    return found


def ranked(
    looked: ScoredCandidates, members: slice, names: Mapping[int, str], k: int
) -> tuple[Ranking, float]:
    """Order one query's candidates; return them, and the nDCG@k expected of that."""
    keys = looked.asked.documents[members].tolist()
    scores, gains = looked.order[members].tolist(), looked.gains[members]
    documents = [names[key] for key in keys]
    order = sorted(range(len(keys)), key=lambda place: (-scores[place], documents[place]))
    ranking = Ranking(
        tuple(documents[place] for place in order), tuple(scores[place] for place in order)
    )
    first = gains[order[:k]] / np.log2(np.arange(min(k, len(order))) + 2.0)
    return ranking, float(first.sum())
