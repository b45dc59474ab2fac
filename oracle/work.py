"""Doing one unit of work: rank a shard with one arm, or time all arms on it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa

from arms.arm import Arm
from arms.catalogue import open_arm
from arms.encoders.query_states import QueryStates, sharing
from oracle.hardware import fixed_threads, hardware, resolve_threads
from oracle.latency import STAGES, Timing, time_queries, warm_up
from oracle.outcome import Outcome, rank_queries
from oracle.plan import OracleJob, Unit, own_document
from oracle.tables import (
    LATENCY_UNIT_SCHEMA,
    MEMORY_BYTES,
    QUERY_BACKENDS,
    RANK_UNIT_SCHEMA,
    write_table,
)

Advance = Callable[[int], None]


def _ignore(amount: int) -> None:
    """Report progress to nobody."""


class OpenArms:
    """The arms that are open now, so that a worker opens and warms each set once."""

    def __init__(self, job: OracleJob) -> None:
        self._job = job
        self._dataset = ""
        self._arms: dict[str, Arm] = {}
        self.warm: tuple[str, ...] = ()
        """The arms that were warmed up together since they were opened."""
        self._states, self._states_of = QueryStates(()), ""

    def hold(self, dataset: str, identities: tuple[str, ...]) -> dict[str, Arm]:
        """Return the arms, opened; others are let go first, so that memory holds no more."""
        if (dataset, identities) != (self._dataset, tuple(self._arms)):
            kept = self._arms if dataset == self._dataset else {}
            self._arms = {name: arm for name, arm in kept.items() if name in identities}
            self._dataset, self.warm = dataset, ()
            corpus, root = self._job.dataset(dataset).corpus, self._job.index_root(dataset)
            for name in identities:
                if name not in self._arms:
                    self._arms[name] = open_arm(self._job.specs[name], corpus, root)
            self._arms = {name: self._arms[name] for name in identities}
        return self._arms

    def query_states(self, dataset: str) -> QueryStates:
        """Return what the arms of a dataset share while they rank; let go with the dataset."""
        if dataset != self._states_of:
            queries = self._job.dataset(dataset).queries
            self._states, self._states_of = QueryStates([one.text for one in queries]), dataset
        return self._states


def run_unit(
    unit: Unit, job: OracleJob, opened: OpenArms | None = None, advance: Advance = _ignore
) -> Path:
    """Do one unit and return its result's path; do nothing where that exists.

    Any process that sees the indexes may run it. ``opened`` keeps arms open from unit to unit.
    ``advance`` is called with the number of (query, arm) pairs done.

    Raises:
        ArmIndexError: an index is absent, or of another corpus. A failure of an arm on a query
            raises nothing: it is that query's status.
    """
    path = unit.path(job.labels_folder)
    if path.is_file():
        advance(len(unit.positions) * len(unit.arms))
    elif unit.kind == "rank":
        _run_rank(unit, job, opened or OpenArms(job), path, advance)
    else:
        _run_latency(unit, job, opened or OpenArms(job), path, advance)
    return path


def _run_rank(unit: Unit, job: OracleJob, opened: OpenArms, path: Path, advance: Advance) -> None:
    (name,) = unit.arms
    arm = opened.hold(unit.dataset, unit.arms)[name]
    queries = [job.dataset(unit.dataset).queries[position] for position in unit.positions]
    settings = job.settings
    with sharing(opened.query_states(unit.dataset)):
        outcomes = rank_queries(
            arm,
            [query.text for query in queries],
            settings.k,
            settings.batch_size,
            settings.latency.timeout_s,
            [own_document(job.dataset(unit.dataset), query) for query in queries],
        )
    write_table(path, _rank_table([one.query_id for one in queries], outcomes), RANK_UNIT_SCHEMA)
    advance(len(queries))


def _rank_table(query_ids: list[str], outcomes: list[Outcome]) -> pa.Table:
    return pa.table(
        {
            "query_id": query_ids,
            "status": [one.status for one in outcomes],
            "message": [one.message for one in outcomes],
            "doc_ids": [list(one.ranking.doc_ids) for one in outcomes],
            "scores": [list(map(float, one.ranking.scores)) for one in outcomes],
        },
        schema=RANK_UNIT_SCHEMA,
    )


def _run_latency(
    unit: Unit, job: OracleJob, opened: OpenArms, path: Path, advance: Advance
) -> None:
    arms = opened.hold(unit.dataset, unit.arms)
    dataset, protocol = job.dataset(unit.dataset), job.settings.latency
    threads = resolve_threads(protocol.threads)
    with fixed_threads(threads):
        if opened.warm != unit.arms:
            first = dataset.queries[: protocol.warm_up]
            warm_up(arms, first, job.settings.k, protocol.timeout_s)
            opened.warm = unit.arms
        timings = time_queries(
            arms,
            [dataset.queries[position] for position in unit.positions],
            k=job.settings.k,
            repeats=protocol.repeats,
            limit_s=protocol.timeout_s,
            seed=f"{job.seed}:{unit.dataset}",
            advance=advance,
        )
    made_on = json.dumps({**hardware(), "threads": threads}, sort_keys=True)
    held = json.dumps({name: arm.memory_bytes() for name, arm in arms.items()}, sort_keys=True)
    backends = json.dumps({name: arm.query_backends() for name, arm in arms.items()})
    noted = {"made_on": made_on, MEMORY_BYTES: held, QUERY_BACKENDS: backends}
    schema = LATENCY_UNIT_SCHEMA.with_metadata(noted)
    write_table(path, _latency_table(timings), schema)


def _latency_table(timings: dict[tuple[str, str], Timing]) -> pa.Table:
    every = list(timings.values())
    stages = {f"{stage}_ms": [one.stage_ms(stage) for one in every] for stage in STAGES}
    return pa.table(
        {
            "query_id": [query_id for query_id, _ in timings],
            "arm": [arm for _, arm in timings],
            "status": [one.status for one in every],
            "message": [one.message for one in every],
            "latency_ms": [one.latency_ms for one in every],
            "latency_iqr_ms": [one.iqr_ms for one in every],
            **stages,
            "stated": [one.stated_ms is not None for one in every],
            "samples_ms": [one.samples_ms for one in every],
        },
        schema=LATENCY_UNIT_SCHEMA,
    )
