"""What the manifest says of the indexes: bytes on disk, time to build."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class IndexEntry:
    """One arm's index over one dataset; a fact that the manifest lacks is None."""

    dataset: str
    arm: str
    encoder: str | None
    n_documents: int | None
    n_units: int | None
    size_bytes: int | None
    memory_bytes: int | None
    build_seconds: float | None
    build_peak_rss_mb: float | None
    units_per_second: float | None


def index_entries(manifest: Mapping[str, Any], pipelines: tuple[str, ...]) -> list[IndexEntry]:
    """Return the index records of ``manifest``, by dataset, then arm in P.

    The oracle writes them at ``datasets.<name>.arms.<arm>.index``; ``indexes.<name>.<arm>``, as
    labels made elsewhere may have it, comes first where both are there. Imported labels often have
    neither.
    """
    found = dict(_nested(manifest)) | dict(_flat(manifest))
    return [
        _entry(dataset, arm, found[dataset, arm])
        for dataset in sorted({dataset for dataset, _ in found})
        for arm in pipelines
        if (dataset, arm) in found
    ]


def _entry(dataset: str, arm: str, record: Mapping[str, Any]) -> IndexEntry:
    n_units, seconds = _number(record, "n_units"), _number(record, "build_seconds")
    rate = _number(record, "units_per_second")
    if rate is None and n_units and seconds:
        rate = n_units / seconds
    encoder = record.get("encoder_id")
    return IndexEntry(
        dataset=dataset,
        arm=arm,
        encoder=encoder if isinstance(encoder, str) else None,
        n_documents=_count(record, "n_documents"),
        n_units=_count(record, "n_units"),
        size_bytes=_count(record, "size_bytes"),
        memory_bytes=_count(record, "memory_bytes"),
        build_seconds=seconds,
        build_peak_rss_mb=_number(record, "build_peak_rss_mb"),
        units_per_second=rate,
    )


def _number(record: Mapping[str, Any], key: str) -> float | None:
    value = record.get(key)
    return float(value) if isinstance(value, int | float) else None


def _count(record: Mapping[str, Any], key: str) -> int | None:
    value = _number(record, key)
    return None if value is None else int(value)


Record = tuple[tuple[str, str], Mapping[str, Any]]


def _nested(manifest: Mapping[str, Any]) -> Iterator[Record]:
    for dataset, entry in mapping(manifest.get("datasets")).items():
        for arm, facts in mapping(mapping(entry).get("arms")).items():
            record = mapping(mapping(facts).get("index"))
            if "size_bytes" in record:
                yield (dataset, arm), record


def _flat(manifest: Mapping[str, Any]) -> Iterator[Record]:
    for dataset, arms in mapping(manifest.get("indexes")).items():
        for arm, record in mapping(arms).items():
            if isinstance(record, Mapping):
                yield (dataset, arm), record


def mapping(node: Any) -> Mapping[str, Any]:
    """Return ``node`` if it is a mapping, else an empty one: a manifest may lack any part."""
    return node if isinstance(node, Mapping) else {}
