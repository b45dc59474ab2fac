"""How one arm did on one query in the quality pass, and how failures are worded."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from arms.arm import Arm
from arms.errors import ArmError
from arms.records import Ranking, Status, without
from oracle.deadline import DeadlinePassed, deadline

_LONGEST_MESSAGE = 2000


@dataclass(frozen=True, slots=True)
class Outcome:
    """The ranking of one query, or why there is none."""

    status: Status
    ranking: Ranking
    message: str = ""


_NOTHING = Ranking((), ())


def failure_message(error: BaseException) -> str:
    """Return the error's class and message, cut to 2,000 characters."""
    return f"{type(error).__name__}: {error}"[:_LONGEST_MESSAGE]


def timeout_message(limit_s: float | None) -> str:
    """Say which limit was passed."""
    return f"took longer than {limit_s:g} s"


def rank_queries(
    arm: Arm,
    texts: Sequence[str],
    k: int,
    batch_size: int,
    limit_s: float | None,
    left_out: Sequence[str | None] | None = None,
) -> list[Outcome]:
    """Return one outcome per text, in order, ranking ``batch_size`` of them per call.

    A batch that fails, or takes longer than ``limit_s`` per query, is tried query by query, so
    that one poisoned query costs itself alone. ``left_out`` names a document for each text that
    its ranking goes without; such a text is ranked one deeper.
    """
    outcomes: list[Outcome] = []
    unwanted = left_out or [None] * len(texts)
    depth = k + any(one is not None for one in unwanted)
    for start in range(0, len(texts), batch_size):
        outcomes += _rank_batch(arm, texts[start : start + batch_size], depth, limit_s)
    return [_without(one, doc_id, k) for one, doc_id in zip(outcomes, unwanted, strict=True)]


def _without(outcome: Outcome, doc_id: str | None, k: int) -> Outcome:
    """Return the outcome cut to ``k`` documents, without one of them; failures stay as they are."""
    if outcome.status != "ok":
        return outcome
    kept = without(outcome.ranking, () if doc_id is None else (doc_id,), k)
    return Outcome("ok" if kept.doc_ids else "empty", kept)


def _rank_batch(arm: Arm, texts: Sequence[str], k: int, limit_s: float | None) -> list[Outcome]:
    try:
        with deadline(None if limit_s is None else limit_s * len(texts)):
            rankings = arm.rank(texts, k)
        _check_rankings(rankings, len(texts), k)
    except DeadlinePassed:
        if len(texts) == 1:
            return [Outcome("timeout", _NOTHING, timeout_message(limit_s))]
    except Exception as error:
        if len(texts) == 1:
            return [Outcome("error", _NOTHING, failure_message(error))]
    else:
        return [Outcome("ok" if one.doc_ids else "empty", one) for one in rankings]
    return [_rank_batch(arm, [text], k, limit_s)[0] for text in texts]


def _check_rankings(rankings: Sequence[Ranking], n_queries: int, k: int) -> None:
    if len(rankings) != n_queries:
        raise ArmError(f"expected a ranking for each of {n_queries} queries, got {len(rankings)}")
    for ranking in rankings:
        if len(ranking.doc_ids) > k:
            raise ArmError(f"expected at most {k} documents, got {len(ranking.doc_ids)}")
        if len(set(ranking.doc_ids)) != len(ranking.doc_ids):
            raise ArmError("expected distinct documents, got one document twice")
