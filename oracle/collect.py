"""Finished units of work, put together as arrays per dataset."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from arms.corpora.corpus import Dataset
from arms.errors import LabelsError
from arms.records import Ranking
from oracle.latency_model import predict_latency_ms
from oracle.plan import OracleJob, Unit
from oracle.quality import query_quality
from oracle.tables import (
    LATENCY_UNIT_SCHEMA,
    MEMORY_BYTES,
    QUERY_BACKENDS,
    RANK_UNIT_SCHEMA,
    damage_of,
)

FloatArray = NDArray[np.float64]
TIMES = ("latency_ms", "latency_iqr_ms", "encode_ms", "search_ms", "rerank_ms")
_FAILED = ("error", "timeout")


@dataclass
class Collected:
    """All that was found on one dataset: Q queries ordered by id × P pipelines."""

    dataset: Dataset
    query_ids: list[str]
    pipelines: tuple[str, ...]
    status: NDArray[np.object_]
    """(Q, P); ``skipped`` where the dataset lacks the arm."""
    quality: dict[str, FloatArray]
    """Measure → (Q, P); NaN where null."""
    times: dict[str, FloatArray]
    """``TIMES`` → (Q, P); NaN where null."""
    modelled: NDArray[np.bool_]
    repeats: NDArray[np.int32]
    """(Q, P) timings taken; 0 of a stated or modelled latency."""
    stated: dict[str, int] = field(default_factory=dict)
    """Arm → queries whose latency was stated, not measured."""
    runs: list[pa.Table] = field(default_factory=list)
    """Per arm with a ranking: ``query`` (position), ``arm`` (column), ``rank, doc_id, score,
    grade``."""
    samples: list[tuple[int, int, list[float]]] = field(default_factory=list)
    """(query, arm, milliseconds per repeat), ordered by query, then arm."""
    failures: list[tuple[int, int, str, str, str]] = field(default_factory=list)
    """(query, arm, while doing what, status, message)."""


def collect(
    job: OracleJob, dataset: Dataset, units: Sequence[Unit], measures: Sequence[str]
) -> Collected:
    """Read the finished units of ``dataset``.

    Raises:
        LabelsError: a unit isn't finished.
    """
    query_ids = sorted(query.query_id for query in dataset.queries)
    pipelines = tuple(job.specs)
    shape = (len(query_ids), len(pipelines))
    found = Collected(
        dataset=dataset,
        query_ids=query_ids,
        pipelines=pipelines,
        status=np.full(shape, "skipped", dtype=object),
        quality={measure: np.full(shape, np.nan) for measure in measures},
        times={name: np.full(shape, np.nan) for name in TIMES},
        modelled=np.zeros(shape, dtype=bool),
        repeats=np.zeros(shape, dtype=np.int32),
    )
    position = {query_id: row for row, query_id in enumerate(query_ids)}
    for column, arm in enumerate(pipelines):
        of_arm = [one for one in units if one.kind == "rank" and one.arms == (arm,)]
        if of_arm:
            _add_rankings(found, column, _read(job, of_arm, RANK_UNIT_SCHEMA), position, measures)
    timed = [unit for unit in units if unit.kind == "latency"]
    if timed:
        rows = _add_times(found, _read(job, timed, LATENCY_UNIT_SCHEMA), position)
        _model_the_rest(found, rows)
    _blank_failures(found)
    found.failures.sort()
    return found


def made_on(job: OracleJob, units: Sequence[Unit]) -> list[str]:
    """Return, as JSON, every hardware and thread count that latencies were measured with."""
    return sorted({_noted(job, unit, "made_on") for unit in units if unit.kind == "latency"})


def memory_bytes(job: OracleJob, units: Sequence[Unit], dataset: str) -> dict[str, int]:
    """Return the bytes of memory that each opened arm held while it was timed, where noted."""
    held: dict[str, int] = {}
    for unit in units:
        if unit.kind == "latency" and unit.dataset == dataset:
            held |= json.loads(_noted(job, unit, MEMORY_BYTES))
    return held


def query_backends(
    job: OracleJob, units: Sequence[Unit], dataset: str
) -> dict[str, dict[str, list[str]]]:
    """Return what ran the query encoders while arms were timed, where noted.

    Arm → itself or a part of it → the back ends; more than one where the work was continued on
    another machine.
    """
    found: dict[str, dict[str, list[str]]] = {}
    for unit in units:
        if unit.kind == "latency" and unit.dataset == dataset:
            for arm, told in json.loads(_noted(job, unit, QUERY_BACKENDS)).items():
                for part, name in told.items():
                    names = found.setdefault(arm, {}).setdefault(part, [])
                    names += [] if name in names else [name]
    return found


def _noted(job: OracleJob, unit: Unit, key: str) -> str:
    metadata = pq.read_schema(unit.path(job.labels_folder)).metadata or {}
    return metadata.get(key.encode(), b"{}").decode("utf-8")


def _read(job: OracleJob, units: Sequence[Unit], schema: pa.Schema) -> pa.Table:
    paths = [unit.path(job.labels_folder) for unit in units]
    absent = [path for path in paths if not path.is_file()]
    if absent:
        raise LabelsError(
            f"{len(absent)} of {len(paths)} units of work aren't done, e.g. {absent[0].name}; "
            "run (or rerun) l2r oracle"
        )
    damaged = [path for path in paths if damage_of(path)]
    if damaged:
        raise LabelsError(
            f"{len(damaged)} of {len(paths)} units of work are damaged; delete them and rerun l2r "
            f"oracle, which does them again: {', '.join(map(str, damaged))}"
        )
    return pa.concat_tables([pq.read_table(path).cast(schema) for path in paths])


def _add_rankings(
    found: Collected,
    column: int,
    table: pa.Table,
    position: dict[str, int],
    measures: Sequence[str],
) -> None:
    rows = np.array([position[one] for one in table["query_id"].to_pylist()], dtype=np.intp)
    table = table.take(np.argsort(rows, kind="stable")).combine_chunks()
    found.status[np.sort(rows), column] = table["status"].to_pylist()
    for row, one in enumerate(table.select(["status", "message"]).to_pylist()):
        if one["status"] in _FAILED:
            found.failures.append((row, column, "ranking", one["status"], one["message"]))
    _add_quality(found, column, table, measures)
    qrels = found.dataset.qrels
    found.runs.append(_flat_runs(table, column, [qrels[one] for one in found.query_ids]))


def _add_quality(found: Collected, column: int, table: pa.Table, measures: Sequence[str]) -> None:
    doc_ids = table["doc_ids"].to_pylist()
    rankings = {
        query_id: Ranking(tuple(documents), (0.0,) * len(documents))
        for query_id, documents, status in zip(
            found.query_ids, doc_ids, found.status[:, column], strict=True
        )
        if status not in _FAILED
    }
    row_of = {query_id: row for row, query_id in enumerate(found.query_ids)}
    for measure, values in query_quality(found.dataset.qrels, rankings, measures).items():
        for query_id, value in values.items():
            found.quality[measure][row_of[query_id], column] = value


def _flat_runs(table: pa.Table, column: int, judged: Sequence[Mapping[str, int]]) -> pa.Table:
    """One row per query and document; ``judged`` holds each query's grades, unjudged ones are 0."""
    lists = table["doc_ids"].combine_chunks()
    lengths = np.diff(lists.offsets.to_numpy())
    queries = np.repeat(np.arange(len(lengths)), lengths)
    starts = np.repeat(np.cumsum(lengths) - lengths, lengths)
    doc_ids = lists.flatten()
    return pa.table(
        {
            "query": queries,
            "arm": np.full(len(queries), column),
            "rank": np.arange(len(queries)) - starts + 1,
            "doc_id": doc_ids,
            "score": table["scores"].combine_chunks().flatten(),
            "grade": pa.array(
                [
                    int(judged[query].get(doc_id, 0))
                    for query, doc_id in zip(queries.tolist(), doc_ids.to_pylist(), strict=True)
                ],
                pa.int32(),
            ),
        }
    )


def _add_times(found: Collected, table: pa.Table, position: dict[str, int]) -> NDArray[np.intp]:
    """Fill in what was measured; return the rows of the timed queries."""
    column_of = {arm: column for column, arm in enumerate(found.pipelines)}
    rows = np.array([position[one] for one in table["query_id"].to_pylist()], dtype=np.intp)
    columns = np.array([column_of[one] for one in table["arm"].to_pylist()], dtype=np.intp)
    for name in TIMES:
        found.times[name][rows, columns] = table[name].to_numpy()
    for row, column, one in zip(rows.tolist(), columns.tolist(), _details(table), strict=True):
        found.repeats[row, column] = len(one["samples_ms"])
        if one["samples_ms"]:
            found.samples.append((row, column, one["samples_ms"]))
        if one["stated"]:
            arm = found.pipelines[column]
            found.stated[arm] = found.stated.get(arm, 0) + 1
        if one["status"] in _FAILED:
            found.failures.append((row, column, "timing", one["status"], one["message"]))
            if found.status[row, column] not in _FAILED:
                found.status[row, column] = one["status"]
    found.samples.sort(key=lambda sample: sample[:2])
    return np.unique(rows)


def _details(table: pa.Table) -> list[dict[str, Any]]:
    details: list[dict[str, Any]] = table.select(
        ["samples_ms", "stated", "status", "message"]
    ).to_pylist()
    return details


def _model_the_rest(found: Collected, timed: NDArray[np.intp]) -> None:
    """Model the latency of queries outside the sample from the same arm's timed ones."""
    rest = np.setdiff1d(np.arange(len(found.query_ids)), timed)
    if not len(rest):
        return
    texts = {query.query_id: query.text for query in found.dataset.queries}
    lengths = np.array([len(texts[query_id]) for query_id in found.query_ids], dtype=np.float64)
    latency = found.times["latency_ms"]
    for column in range(len(found.pipelines)):
        known = timed[~np.isnan(latency[timed, column])]
        wanted = rest[found.status[rest, column] != "skipped"]
        latency[wanted, column] = predict_latency_ms(
            lengths[wanted], lengths[known], latency[known, column]
        )
        found.modelled[wanted, column] = True
        for row in wanted[np.isnan(latency[wanted, column])].tolist():
            message = "none of the sampled queries could be timed, so there is no latency model"
            found.failures.append((row, column, "timing", "error", message))
            found.status[row, column] = "error"


def _blank_failures(found: Collected) -> None:
    failed = np.isin(found.status, _FAILED)
    for values in (*found.quality.values(), *found.times.values()):
        values[failed] = np.nan
    found.modelled[failed] = False
    found.repeats[failed] = 0
