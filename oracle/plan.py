"""What the oracle has to do, as data: units of work that are independent and idempotent.

A unit's name holds a hash of everything its result depends on, so a result that exists never needs
to be made again, whoever made it, and a result of other settings is never taken for this one.
Rankings depend on neither the judgements nor the measures, so changing a measure reruns no arm.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

from arms.arm import ArmSpec
from arms.catalogue import spec_of
from arms.corpora.corpus import Dataset
from arms.indexes.folder import RECORD
from arms.records import Query
from arms.settings import ArmSettings
from oracle.hardware import hardware_name, resolve_threads
from oracle.labels import SCHEMA_VERSION
from oracle.settings import OracleSettings
from oracle.split import SPLIT_GROUP

UNIT_FOLDER = ".units"
_MEASURED = ("files", "size_bytes", "build_seconds", "build_peak_rss_mb", "library_versions")


@dataclass(frozen=True)
class OracleJob:
    """A suite of datasets, the arms to run on them, and where indexes and labels lie."""

    datasets: tuple[Dataset, ...]
    arms: tuple[ArmSettings, ...]
    index_folder: Path
    """Holds one index root per dataset, named like it."""
    labels_folder: Path
    settings: OracleSettings
    seed: int

    @cached_property
    def specs(self) -> dict[str, ArmSpec]:
        """P: identity → spec, in the order given."""
        return {spec.identity: spec for spec in map(spec_of, self.arms)}

    def arms_of(self, dataset: str) -> tuple[str, ...]:
        """Return the identities of the arms that ``dataset`` has, in P's order."""
        return tuple(
            spec_of(one).identity for one in self.arms if one.only is None or dataset in one.only
        )

    def dataset(self, name: str) -> Dataset:
        """Return the dataset called ``name``."""
        return self._by_name[name]

    @cached_property
    def _by_name(self) -> dict[str, Dataset]:
        return {dataset.name: dataset for dataset in self.datasets}

    def index_root(self, dataset: str) -> Path:
        """Return the folder that holds the indexes of ``dataset``."""
        return self.index_folder / dataset

    def index_record(self, dataset: str, arm: str) -> dict[str, Any] | None:
        """Return the arm's ``arm.json``; None while it has no finished index there."""
        path = self.index_root(dataset) / self.specs[arm].folder_name / RECORD
        if not path.is_file():
            return None
        try:
            record: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        except ValueError:  # damaged: as good as unfinished
            return None
        return record


@dataclass(frozen=True, slots=True)
class Unit:
    """One piece of work. ``rank``: one arm ranks a shard; ``latency``: all arms are timed on it."""

    kind: Literal["rank", "latency"]
    dataset: str
    arms: tuple[str, ...]
    shard: int
    positions: tuple[int, ...]
    """Of its queries in ``Dataset.queries``, ascending."""
    digest: str

    @property
    def file_name(self) -> str:
        """Name of its result under ``labels/.units/``."""
        subject = self.arms[0] if self.kind == "rank" else "arms"
        readable = re.sub(r"[^\w@.-]+", "-", f"{self.dataset}-{subject}")[-80:]
        return f"{self.kind}-{readable}-{self.shard:05d}-{self.digest}.parquet"

    def path(self, labels_folder: Path) -> Path:
        """Return where its result lies."""
        return labels_folder / UNIT_FOLDER / self.file_name


def plan_units(job: OracleJob) -> list[Unit]:
    """Return every unit of work, rank before latency, grouped by dataset and arm.

    Plan after the indexes are built: an index records which weights made it, and rankings of
    other weights are other rankings.
    """
    units: list[Unit] = []
    for dataset in job.datasets:
        units += _rank_units(job, dataset)
    for dataset in job.datasets:
        units += _latency_units(job, dataset)
    return units


def timed_positions(job: OracleJob, dataset: Dataset) -> tuple[int, ...]:
    """Return the positions of the queries that are timed: all, or a seeded sample."""
    everything = range(len(dataset.queries))
    wanted = job.settings.latency.sample
    if wanted is None or wanted >= len(everything):
        return tuple(everything)

    def order(position: int) -> str:
        key = f"{job.seed}:{dataset.name}:{dataset.queries[position].query_id}"
        return hashlib.sha256(key.encode("utf-8", "surrogatepass")).hexdigest()

    return tuple(sorted(sorted(everything, key=order)[:wanted]))


def digest_of(content: Any) -> str:
    """Return 32 hexadecimal digits over ``content`` written as JSON with sorted keys."""
    written = json.dumps(content, sort_keys=True, default=str)
    return hashlib.sha256(written.encode("utf-8")).hexdigest()[:32]


def index_source(job: OracleJob, dataset: str, arm: str) -> dict[str, Any] | None:
    """Return what the arm's index was made from; None while there is no finished index."""
    record = job.index_record(dataset, arm)
    return record and {key: value for key, value in record.items() if key not in _MEASURED}


def job_digest(job: OracleJob) -> str:
    """Return a hash of everything the labels depend on, but for indexes and hardware."""
    return digest_of(
        {
            "schema_version": SCHEMA_VERSION,
            "settings": job.settings.model_dump(mode="json"),
            "arms": [one.model_dump(mode="json") for one in job.arms],
            "seed": job.seed,
            "datasets": {
                dataset.name: {
                    "corpus": dataset.corpus.fingerprint,
                    "queries": [_query_source(query) for query in dataset.queries],
                    "without_own": sorted(dataset.without_own),
                    "qrels": {key: dict(grades) for key, grades in dataset.qrels.items()},
                }
                for dataset in job.datasets
            },
        }
    )


def _query_source(query: Query) -> tuple[str, ...]:
    group = query.metadata.get(SPLIT_GROUP)
    return (query.query_id, query.text, *([] if group is None else [str(group)]))


def _arm_source(job: OracleJob, dataset: Dataset, arm: str) -> dict[str, Any]:
    return {
        "arm": arm,
        "options": dict(job.specs[arm].options),
        "index": index_source(job, dataset.name, arm),
    }


def _shards(positions: Sequence[int], size: int) -> list[tuple[int, ...]]:
    return [tuple(positions[start : start + size]) for start in range(0, len(positions), size)]


def own_document(dataset: Dataset, query: Query) -> str | None:
    """Return the id of the document that is left out of the query's ranking; None: none is."""
    return query.query_id if query.query_id in dataset.without_own else None


def _queries(dataset: Dataset, positions: Sequence[int]) -> list[tuple[str, ...]]:
    picked: list[Query] = [dataset.queries[position] for position in positions]
    return [
        (query.query_id, query.text, *(["without its own"] if own_document(dataset, query) else []))
        for query in picked
    ]


def _rank_units(job: OracleJob, dataset: Dataset) -> list[Unit]:
    settings = job.settings
    shards = _shards(range(len(dataset.queries)), settings.shard_size)
    units: list[Unit] = []
    for arm in job.arms_of(dataset.name):
        shared = {
            "schema_version": SCHEMA_VERSION,
            "dataset": dataset.name,
            "corpus": dataset.corpus.fingerprint,
            "arm": _arm_source(job, dataset, arm),
            "k": settings.k,
            "batch_size": settings.batch_size,
        }
        for shard, positions in enumerate(shards):
            digest = digest_of({**shared, "queries": _queries(dataset, positions)})
            units.append(Unit("rank", dataset.name, (arm,), shard, positions, digest))
    return units


def _latency_units(job: OracleJob, dataset: Dataset) -> list[Unit]:
    arms = job.arms_of(dataset.name)
    if not arms:
        return []
    protocol = job.settings.latency
    shared = {
        "schema_version": SCHEMA_VERSION,
        "dataset": dataset.name,
        "corpus": dataset.corpus.fingerprint,
        "arms": [_arm_source(job, dataset, arm) for arm in arms],
        "k": job.settings.k,
        "repeats": protocol.repeats,
        "warm_up": protocol.warm_up,
        "timeout_s": protocol.timeout_s,
        "threads": resolve_threads(protocol.threads),
        "hardware": hardware_name(),
        "seed": job.seed,
    }
    units: list[Unit] = []
    shards = _shards(timed_positions(job, dataset), job.settings.shard_size)
    for shard, positions in enumerate(shards):
        digest = digest_of({**shared, "queries": _queries(dataset, positions)})
        units.append(Unit("latency", dataset.name, arms, shard, positions, digest))
    return units
