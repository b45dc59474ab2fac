"""Released rankings: what ``arms.records.Ranking`` promises of their order."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from oracle.release.columns import numbers, repeated, row_codes, row_describer, texts
from oracle.release.faults import Fault, row_fault
from oracle.tables import RUNS

_RANKING = ("dataset", "query_id", "arm")


def order_faults(runs: pa.Table, exact_scores: bool) -> list[Fault]:
    """Return every document that stands at a rank that isn't its own, or twice in a ranking.

    Scores descend with rank, and equal ones go by ascending document id. Where scores were rounded
    after they ranked (``exact_scores`` is false), equal ones may have been unequal.
    """
    describe = row_describer(runs, (*_RANKING, "rank", "doc_id"))
    rankings, scores = row_codes(runs, _RANKING), numbers(runs, "score")
    order = np.lexsort((numbers(runs, "rank"), rankings))
    before, after = order[:-1], order[1:]
    follows = rankings[before] == rankings[after]
    higher = np.zeros(len(runs), dtype=bool)
    higher[after] = follows & (scores[after] > scores[before])  # never true of NaN
    faults = row_fault(
        RUNS, higher, "score is higher than that of the rank before; it should descend", describe
    )
    if exact_scores:
        level = np.flatnonzero(follows & (scores[after] == scores[before]))
        names = texts(runs, "doc_id")
        smaller = np.zeros(len(runs), dtype=bool)
        smaller[after[level]] = names[after[level]] < names[before[level]]
        faults += row_fault(
            RUNS,
            smaller,
            "score equals that of the rank before, whose doc_id is greater; equal scores go by "
            "ascending doc_id",
            describe,
        )
    again = repeated(runs, (*_RANKING, "doc_id"))
    return faults + row_fault(RUNS, again, "the ranking has the document already", describe)
