"""Quality of rankings, per query, through ir-measures.

ir-measures breaks ties of score differently per measure (nDCG and R put the later document id
first, RR the earlier), so it is never shown an arm's scores: each ranking goes in with the
distinct scores 0, −1, −2, … of its own order (score, then document id).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from arms.errors import MissingExtraError, SettingsError
from arms.records import Qrels, Ranking

if TYPE_CHECKING:
    from ir_measures import Measure

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
    counts as 0 or as nothing is its status' business.

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
        number: {_number(documents, doc_id): int(grade) for doc_id, grade in qrels[one].items()}
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
        raise MissingExtraError("ir_measures", "oracle") from error
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
