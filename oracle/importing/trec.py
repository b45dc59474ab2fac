"""TREC runs, judgements and a file of latencies as labels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa

from arms.corpora.beir import parse_query
from arms.corpora.lines import decode, numbered_lines
from arms.corpora.problems import LineError
from arms.corpora.trec import read_qrels, read_run
from arms.errors import CorpusError, LabelsError
from arms.progress import Progress, SilentProgress
from arms.records import Qrels, Ranking
from arms.text_form import KnownIds, code_points, composed, is_visible
from oracle.importing.cells import KIND_OF_CODE, OK, Numbers, parse_numbers, parse_text
from oracle.importing.columns import base_columns, latency_column
from oracle.importing.grid import Grid, QueryRows, check_queries, settle_status
from oracle.importing.problems import Problems, refuse
from oracle.importing.sources import open_table
from oracle.importing.tables import check_options
from oracle.importing.write import Imported, ImportOptions, write_grid
from oracle.quality import measure_names, query_quality, relevant_grades_of, relevant_ids_of
from oracle.tables import RUN_SCHEMA

_EMPTY = Ranking((), ())


@dataclass(frozen=True)
class TrecSource:
    """The files of one dataset."""

    runs: Mapping[str, Path]
    """Arm → run; a judged query without a line found nothing, other queries are left out."""
    qrels: Path
    latencies: Path
    """A table with the columns ``query_id``, ``arm``, ``latency_ms`` and, optionally, ``status``
    (``error``, ``timeout``)."""
    queries: Path | None = None
    """Texts: ``queries.jsonl`` of BEIR, or lines of id, tab, text; a router is trained on them."""
    measures: tuple[str, ...] = ("nDCG@5", "RR@5", "R@5")
    k: int = 20
    """Documents kept of each ranking; measures without a cut-off look at these."""


@dataclass(frozen=True)
class _Latencies:
    latency_ms: Numbers
    status: np.ndarray


def import_trec(
    source: TrecSource, target: Path, options: ImportOptions, progress: Progress | None = None
) -> Imported:
    """Import runs to the labels folder ``target``; the queries are the judged ones.

    Queries of a run or of the latency file that no judgement names are counted and left out, as
    trec_eval does. Quality is computed by ir-measures from ranks by score, then document id, as
    everywhere.

    Raises:
        CorpusError: a run or the judgements can't be read; every unusable line is named.
        LabelsError: the sources have problems: all of them, by row of the latency file, or by
            query.
        SettingsError: an option that doesn't fit, or a target that holds something else.
        MissingExtraError: ir-measures isn't installed.
    """
    check_options(options, target)
    measures = measure_names(source.measures, source.k)
    qrels, runs = _read(source)
    names = list(qrels)
    problems = Problems(str(source.qrels), len(names), "query")
    judged = {name for name in names if any(grade > 0 for grade in qrels[name].values())}
    for number, name in enumerate(names, start=1):
        if name not in judged:
            problems.add("unjudged", "", number, name)
    arms = tuple(source.runs)
    timing = Problems(str(source.latencies))
    unjudged = {query_id for run in runs.values() for query_id in run if query_id not in qrels}
    bars = progress or SilentProgress()
    found = _latencies(source, arms, names, unjudged, options, timing, bars)
    for arm, run in runs.items():
        if unjudged.issuperset(run):
            first = next(iter(run), None)
            told = "it has no line" if first is None else f"{len(run):,} queries, e.g. {first}"
            problems.add("no_query_judged", f"run of {arm}", None, told)
    quality = _quality(qrels, runs, arms, [name for name in names if name in judged], measures)
    grid = _grid(source, qrels, arms, quality, found, options, problems)
    _check_timed(grid, names, problems)
    grid_columns = {"query_id": "query id", "text": "query text"}
    check_queries(grid.queries, grid_columns, problems)
    status = settle_status(grid, problems)
    files = [source.qrels, source.latencies, *source.runs.values()]
    files += [source.queries] if source.queries else []
    kept = [name for number, name in enumerate(names, 1) if number not in problems.rows]
    return write_grid(
        grid,
        status,
        target,
        [problems, timing],
        options,
        "trec",
        files,
        _runs(options.dataset or source.qrels.stem, runs, qrels, sorted(kept)),
        len(unjudged),
    )


def _read(source: TrecSource) -> tuple[Qrels, dict[str, dict[str, Ranking]]]:
    """Read judgements and runs; the problems of all files come together."""
    faults: list[str] = []
    qrels: Qrels = {}
    runs: dict[str, dict[str, Ranking]] = {}
    try:
        qrels = read_qrels(source.qrels)
    except CorpusError as error:
        faults.append(str(error))
    for arm, path in source.runs.items():
        try:
            runs[arm] = {
                query_id: Ranking(found.doc_ids[: source.k], found.scores[: source.k])
                for query_id, found in read_run(path).items()
            }
        except CorpusError as error:
            faults.append(str(error))
    faults += _ids_of_other_form(qrels, runs)
    if faults:
        raise CorpusError("\n".join(faults))
    if not runs or not qrels:
        raise LabelsError(
            "a TREC import needs judgements and at least one run: --qrels FILE --run ARM=FILE"
        )
    return qrels, runs


def _ids_of_other_form(qrels: Qrels, runs: Mapping[str, Mapping[str, Ranking]]) -> list[str]:
    """A line per run with ids that the judgements write in another Unicode form."""
    queries = KnownIds(qrels.keys())
    documents = KnownIds({doc_id for grades in qrels.values() for doc_id in grades})
    faults = []
    for arm, run in runs.items():
        named = dict.fromkeys(doc_id for found in run.values() for doc_id in found.doc_ids)
        pairs = [(one, queries.in_other_form(one)) for one in run]
        pairs += [(one, documents.in_other_form(one)) for one in named]
        alike = [(one, stored) for one, stored in pairs if stored is not None]
        if alike:
            faults.append(
                f"run of {arm}: {len(alike)} ids differ from the judgements' in Unicode form alone "
                f"(composed or decomposed), e.g. {code_points(alike[0][0])} where the judgements "
                f"have {code_points(alike[0][1])}; write them alike"
            )
    return faults


def _latencies(
    source: TrecSource,
    arms: Sequence[str],
    names: Sequence[str],
    unjudged: Set[str],
    options: ImportOptions,
    problems: Problems,
    progress: Progress,
) -> _Latencies:
    """(Q, P) latencies and statuses of the latency file; what is wrong goes by its rows.

    Rows of ``unjudged`` queries are passed over.
    """
    with open_table(source.latencies, options.sheet) as opened:
        named = options.columns or {}
        base = base_columns(opened.header, ("query_id", "arm", "status"), named, problems)
        for key in ("query_id", "arm"):
            if key not in base and key not in named:
                problems.add("missing_column", key, None)
        free = [name for name in opened.header if name and name not in base.values()]
        timed = latency_column(free, named, options.latency_unit, problems)
        if problems.found or timed is None:
            refuse([problems], source.latencies)
        table = opened.read([*base.values(), timed.name], progress)
    problems.n_rows = len(table)
    numbers = parse_numbers(table.columns[timed.name])
    place_of, query_of = (
        {composed(name): at for at, name in enumerate(one)} for one in (arms, names)
    )
    found = Numbers.missing((len(names), len(arms)))
    status = np.full(found.values.shape, None, dtype=object)
    first: dict[tuple[int, int], int] = {}
    states = table.columns[base["status"]] if "status" in base else [None] * len(table)
    columns = zip(
        table.rows, table.columns[base["query_id"]], table.columns[base["arm"]], states, strict=True
    )
    for row, (number, query_id, arm, state) in enumerate(columns):
        if parse_text(arm) is None:
            problems.add("no_arm", base["arm"], number)
            continue
        if parse_text(query_id) is None:
            problems.add("no_query_id", base["query_id"], number)
            continue
        query, place = query_of.get(parse_text(query_id) or ""), place_of.get(parse_text(arm) or "")
        if query is None:
            if parse_text(query_id) not in unjudged:
                problems.add("unknown_query", base["query_id"], number, query_id)
            continue
        if place is None:  # an arm that isn't imported
            continue
        if first.setdefault((query, place), number) != number:
            problems.add("duplicate_row", "", number, f"as row {first[query, place]}")
            continue
        status[query, place] = state
        code, value = int(numbers.codes[row]), float(numbers.values[row])
        failed = str(state).lower() in ("error", "timeout")
        if code in KIND_OF_CODE and not failed:
            problems.add(KIND_OF_CODE[code], timed.name, number, numbers.texts.get((row,), ""))
        elif code == OK and value <= 0 and not failed:
            kind = "zero_latency" if value == 0 else "negative_latency"
            problems.add(kind, timed.name, number, "" if value == 0 else f"{value:g}")
        elif code == OK:
            found.values[query, place] = value * timed.factor
            found.codes[query, place] = OK
    return _Latencies(found, status)


def _quality(
    qrels: Qrels,
    runs: Mapping[str, Mapping[str, Ranking]],
    arms: Sequence[str],
    judged: Sequence[str],
    measures: Sequence[str],
) -> dict[str, dict[str, dict[str, float]]]:
    """Arm → measure → query id → value."""
    return {
        arm: query_quality(
            {name: qrels[name] for name in judged},
            {name: runs[arm].get(name, _EMPTY) for name in judged},
            measures,
        )
        for arm in arms
    }


def _grid(
    source: TrecSource,
    qrels: Qrels,
    arms: Sequence[str],
    quality: Mapping[str, Mapping[str, Mapping[str, float]]],
    found: _Latencies,
    options: ImportOptions,
    problems: Problems,
) -> Grid:
    names = list(qrels)
    shape = (len(names), len(arms))
    numbers: dict[str, Numbers] = {}
    failed = np.isin(found.status, ("error", "timeout"))
    for measure in quality[arms[0]] if arms else ():
        values = np.array(
            [[quality[arm][measure].get(name, 0.0) for arm in arms] for name in names]
        ).reshape(shape)
        missing = Numbers.missing(shape)
        numbers[measure] = Numbers(
            np.where(failed, np.nan, values), np.where(failed, missing.codes, np.uint8(OK))
        )
    order = np.arange(1, len(names) + 1, dtype=np.int64)
    texts = _texts(source.queries, names, problems) if source.queries else None
    return Grid(
        queries=QueryRows(
            datasets=np.full(len(names), options.dataset or source.qrels.stem, dtype=object),
            query_ids=np.array(names, dtype=object),
            texts=texts,
            splits=None,
            rows=order,
            relevant_grades=np.fromiter(
                (relevant_grades_of(qrels[name]) for name in names), dtype=object
            ),
            relevant_ids=np.fromiter(
                (relevant_ids_of(qrels[name]) for name in names), dtype=object
            ),
        ),
        arms=tuple(arms),
        quality=numbers,
        latency_ms=found.latency_ms,
        status=found.status,
        rows=np.repeat(order[:, None], len(arms), axis=1),
        column_of=lambda what, arm: f"{what} of {arm}",
    )


def _check_timed(grid: Grid, names: Sequence[str], problems: Problems) -> None:
    """Mark every cell that has a quality and no latency as failed, so that it's named once."""
    failed = np.isin(grid.status, ("error", "timeout", "skipped"))
    for query, place in np.argwhere((grid.latency_ms.codes != OK) & ~failed).tolist():
        problems.add("no_latency", f"run of {grid.arms[place]}", query + 1, names[query])
        grid.latency_ms.codes[query, place] = OK
        grid.latency_ms.values[query, place] = np.nan


def _texts(path: Path, names: Sequence[str], problems: Problems) -> np.ndarray:
    """(Q,) text of each query; a judged query without one, or with two, is a problem."""
    texts: dict[str, str] = {}
    first: dict[str, int] = {}
    asked = {name: number for number, name in enumerate(names, start=1)}
    for number, line in numbered_lines(path):
        try:
            if path.name.removesuffix(".gz").endswith(".jsonl"):
                query = parse_query(line)
                query_id, text = query.query_id, query.text
            else:
                query_id, _, text = decode(line).rstrip("\r\n").partition("\t")
        except LineError as error:
            raise LabelsError(f"{path}, line {number}: {error}") from error
        if first.setdefault(query_id, number) != number and query_id in asked:
            told = f"{query_id}: lines {first[query_id]} and {number} of {path.name}"
            problems.add("repeated_query", "query text", asked[query_id], told)
        texts.setdefault(query_id, composed(text))
    found = [(texts.get(name) or "").strip() for name in names]
    return np.array([text if is_visible(text) else None for text in found], dtype=object)


def _runs(
    dataset: str,
    runs: Mapping[str, Mapping[str, Ranking]],
    qrels: Qrels,
    names: Sequence[str],
) -> pa.Table:
    """``runs.parquet``: by query id, arm, rank."""
    rows = [
        (dataset, name, arm, rank, doc_id, score, int(qrels[name].get(doc_id, 0)))
        for name in names
        for arm, run in runs.items()
        for rank, (doc_id, score) in enumerate(
            zip(run.get(name, _EMPTY).doc_ids, run.get(name, _EMPTY).scores, strict=True), 1
        )
    ]
    columns = list(zip(*rows, strict=True)) or [()] * len(RUN_SCHEMA.names)
    return pa.table(dict(zip(RUN_SCHEMA.names, columns, strict=True)), schema=RUN_SCHEMA)
