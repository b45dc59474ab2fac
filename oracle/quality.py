"""Quality of rankings, per query, through ir-measures.

ir-measures breaks ties of score differently per measure (nDCG and R put the later document id
first, RR the earlier), so it is never shown an arm's scores: each ranking goes in with the
distinct scores 0, −1, −2, … of its own order (score, then document id).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from arms.errors import LabelsError, SettingsError
from arms.extras import not_importable
from arms.records import Qrels, Ranking

if TYPE_CHECKING:
    from ir_measures import Measure

_GRADED = {"nDCG", "RR", "R", "P", "AP", "Success"}
_PROBE_QRELS = {"1": {"1": 1, "2": 2, "3": 0, "4": 1}, "2": {"1": 1, "2": 1, "3": 1}}
_PROBE_RUN = {"1": {"1": 3.0, "3": 2.0, "2": 1.0}, "2": {"1": 3.0, "2": 2.0, "3": 1.0}}


def measure_names(names: Sequence[str], k: int) -> tuple[str, ...]:
    """Return the names as ir-measures writes them, e.g. ``RR@5`` for ``MRR@5``.

    Measures without a cut-off look at the ``k`` documents that are kept.

    Raises:
        SettingsError: with every problem: a name that ir-measures doesn't know or can't compute
            here, a cut-off beyond ``k``, values that leave [0, 1], a name given twice.
        MissingExtraError: ir-measures isn't installed.
    """
    problems: list[str] = []
    known: list[str] = []
    for name in names:
        try:
            known.append(_check_measure(name, k))
        except SettingsError as error:
            problems.append(str(error))
    problems += [f"measure {name} is given twice" for name in set(known) if known.count(name) > 1]
    if problems:
        raise SettingsError("\n".join(problems))
    return tuple(known)


def query_quality(
    qrels: Qrels, rankings: Mapping[str, Ranking], measures: Sequence[str]
) -> dict[str, dict[str, float]]:
    """Return measure → query id → value in [0, 1], for every query of ``rankings``.

    An empty ranking has 0. A query that ``rankings`` lacks is absent from the result: whether it
    counts as 0 or as nothing is its status' business. A grade below 0 (spam, in some TREC tracks)
    counts as not relevant; as it is, trec_eval may crash or never return.

    Raises:
        SettingsError: a query has no judgement, or a value leaves [0, 1].
    """
    unjudged = [query_id for query_id in rankings if not qrels.get(query_id)]
    if unjudged:
        raise SettingsError(
            f"{len(unjudged)} queries have no judgement and so no quality, e.g. "
            f"{', '.join(unjudged[:3])}; drop them (strict: false) or judge them"
        )
    # Some of ir-measures' back ends are programs of their own and take no id with a space in it.
    numbered = {str(number): query_id for number, query_id in enumerate(rankings, start=1)}
    documents: dict[str, str] = {}
    judged = {
        number: {
            _number(documents, doc_id): max(int(grade), 0) for doc_id, grade in qrels[one].items()
        }
        for number, one in numbered.items()
    }
    run = {
        number: {
            _number(documents, doc_id): -float(rank)
            for rank, doc_id in enumerate(rankings[query_id].doc_ids)
        }
        for number, query_id in numbered.items()
    }
    return {
        name: {numbered[number]: value for number, value in values.items()}
        for name, values in _calculate(judged, run, measures).items()
    }


def follows_from_grades(measure: str) -> bool:
    """Whether :func:`quality_of_grades` can compute a measure.

    It can't where documents judged not relevant count otherwise than unjudged ones (``Judged@5``,
    ``nDCG(judged_only=True)@5``, ``P(rel=0)@5``, ``nDCG(gains={0:1})@5``).

    Raises:
        SettingsError: ir-measures doesn't know the measure.
        MissingExtraError: ir-measures isn't installed.
    """
    parsed = _parse(measure)
    gains = parsed.params.get("gains", {})
    return (
        parsed.NAME in _GRADED
        and not parsed.params.get("judged_only")
        and isinstance(gains, dict)
        and all(isinstance(one, int) and one >= 1 for one in (parsed.params.get("rel", 1), *gains))
    )


def relevant_grades_of(judged: Mapping[str, int]) -> list[int]:
    """Return the grades above 0 of one query's judgements (document id → grade), descending."""
    return sorted((int(grade) for grade in judged.values() if grade > 0), reverse=True)


def relevant_ids_of(judged: Mapping[str, int]) -> list[str]:
    """Return the documents that a query's judgements grade above 0: by grade, then by id."""
    found = [(-grade, doc_id) for doc_id, grade in judged.items() if grade > 0]
    return [doc_id for _, doc_id in sorted(found)]


def quality_of_grades(
    grades: Sequence[Sequence[int]],
    relevant_grades: Sequence[Sequence[int]],
    measures: Sequence[str],
) -> dict[str, NDArray[np.float64]]:
    """Return measure → (n,): the quality of n rankings of which only grades are known.

    It is what :func:`query_quality` says of the same rankings and their judgements: ir-measures is
    given one made-up document per grade. An empty ranking has 0, as has a query without relevant
    documents.

    Args:
        grades: n rankings, each the grades of its documents by rank; 0 = unjudged or not relevant.
            They may be of different length, and shorter than a measure's cut-off.
        relevant_grades: n lists of the grades above 0 of *all* documents judged for the ranking's
            query, whether the ranking holds them or not, in any order.
        measures: as ir-measures writes them; see :func:`follows_from_grades`.

    Raises:
        LabelsError: the lists run not parallel, a relevant grade isn't above 0, or a ranking holds
            grades above 0 that its query doesn't have (or not as often).
        SettingsError: a measure doesn't follow from grades.
    """
    ungraded = [name for name in measures if not follows_from_grades(name)]
    if ungraded:
        raise SettingsError(
            f"{', '.join(ungraded)}: can't be computed from grades, where 0 stands for unjudged "
            f"as well as for not relevant; known are {', '.join(sorted(_GRADED))}"
        )
    if len(grades) != len(relevant_grades):
        raise LabelsError(
            f"each ranking needs its query's relevant grades: got {len(grades):,} rankings and "
            f"{len(relevant_grades):,} lists of relevant grades"
        )
    cases = [
        (tuple(map(int, ranked)), tuple(map(int, relevant)))
        for ranked, relevant in zip(grades, relevant_grades, strict=True)
    ]
    number_of = {case: number for number, case in enumerate(dict.fromkeys(cases))}
    _check_grades(cases)
    qrels: dict[str, dict[str, int]] = {}
    rankings: dict[str, Ranking] = {}
    for (ranked, relevant), number in number_of.items():
        doc_ids = tuple(map(str, range(len(ranked))))
        unseen = sorted((Counter(relevant) - Counter(ranked)).elements(), reverse=True)
        rankings[str(number)] = Ranking(doc_ids, (0.0,) * len(doc_ids))
        qrels[str(number)] = {
            **dict(zip(doc_ids, ranked, strict=True)),
            **{f"unseen {place}": grade for place, grade in enumerate(unseen)},
            "judged": 0,  # a query without any judgement has no quality
        }
    places = np.array([number_of[case] for case in cases], dtype=np.intp)
    found = query_quality(qrels, rankings, measures)
    return {
        name: np.array([values[one] for one in rankings], dtype=np.float64)[places]
        for name, values in found.items()
    }


def _check_grades(cases: Sequence[tuple[tuple[int, ...], tuple[int, ...]]]) -> None:
    """Raise ``LabelsError`` with every kind of fault in (grades by rank, relevant grades)."""
    odd = [row for row, (_, relevant) in enumerate(cases) if any(one <= 0 for one in relevant)]
    torn = [
        row
        for row, (ranked, relevant) in enumerate(cases)
        if Counter(one for one in ranked if one > 0) - Counter(relevant)
    ]
    problems = []
    if odd:
        problems.append(
            f"relevant grades are above 0; in {len(odd):,} of {len(cases):,} rankings' lists some "
            f"aren't, e.g. in list {odd[0]}: {list(cases[odd[0]][1])}"
        )
    if torn:
        ranked, relevant = cases[torn[0]]
        problems.append(
            f"{len(torn):,} of {len(cases):,} rankings hold grades above 0 that their query "
            f"doesn't have, or not as often, e.g. ranking {torn[0]}: {list(ranked)} where the "
            f"relevant grades are {list(relevant)}; are the grades of one set of judgements?"
        )
    if problems:
        raise LabelsError("\n".join(problems))


def _number(known: dict[str, str], doc_id: str) -> str:
    return known.setdefault(doc_id, str(len(known) + 1))


def _calculate(
    qrels: dict[str, dict[str, int]], run: dict[str, dict[str, float]], measures: Sequence[str]
) -> dict[str, dict[str, float]]:
    import ir_measures

    parsed = {_parse(name): name for name in measures}
    values: dict[str, dict[str, float]] = {name: {} for name in measures}
    if not run:
        return values
    for metric in ir_measures.iter_calc(list(parsed), qrels, run):
        name, value = parsed[metric.measure], float(metric.value)
        if not 0.0 <= value <= 1.0:
            raise SettingsError(
                f"quality must lie in [0, 1]; {name} has the value {value:g} on one query"
            )
        values[name][metric.query_id] = value
    return values


def _parse(name: str) -> Measure:
    try:
        import ir_measures
    except ImportError as error:
        raise not_importable(error, "ir_measures", "oracle") from error
    try:
        return ir_measures.parse_measure(name)
    except (NameError, ValueError, SyntaxError, KeyError, AssertionError, TypeError) as error:
        raise SettingsError(
            f"ir-measures knows no measure '{name}'; known are e.g. nDCG@5, RR@5, R@5, P@5, AP, "
            "Success@5"
        ) from error


def _check_measure(name: str, k: int) -> str:
    measure = _parse(name)
    written = str(measure)
    cutoff = measure.params.get("cutoff")
    if isinstance(cutoff, int) and cutoff < 1:  # trec_eval would end the process
        raise SettingsError(f"measure {written} looks at no document; its cut-off is at least 1")
    if isinstance(cutoff, int) and cutoff > k:
        raise SettingsError(
            f"measure {written} looks at {cutoff} documents, {k} are kept; set k: {cutoff}"
        )
    try:
        found = _calculate(_PROBE_QRELS, _PROBE_RUN, [written])[written]
    except SettingsError:
        raise
    except Exception as error:  # a back end of ir-measures may raise anything
        raise SettingsError(f"measure {written} can't be computed here: {error}") from error
    if set(found) != set(_PROBE_QRELS):
        raise SettingsError(f"measure {written} has no value per query, so it is no quality")
    return written
