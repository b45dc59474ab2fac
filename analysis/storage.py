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
    size_bytes: int
    build_seconds: float | None
    build_peak_rss_mb: float | None


def index_entries(manifest: Mapping[str, Any], pipelines: tuple[str, ...]) -> list[IndexEntry]:
    """Return the index records of ``manifest``, by dataset, then arm in P.

    They stand at ``datasets.<name>.arms.<arm>.index``; imported labels have none.
    """
    found = {(dataset, arm): record for dataset, arm, record in _records(manifest)}
    return [
        IndexEntry(
            dataset=dataset,
            arm=arm,
            encoder=found[dataset, arm].get("encoder_id"),
            n_documents=found[dataset, arm].get("n_documents"),
            n_units=found[dataset, arm].get("n_units"),
            size_bytes=int(found[dataset, arm]["size_bytes"]),
            build_seconds=found[dataset, arm].get("build_seconds"),
            build_peak_rss_mb=found[dataset, arm].get("build_peak_rss_mb"),
        )
        for dataset in sorted({dataset for dataset, _ in found})
        for arm in pipelines
        if (dataset, arm) in found
    ]


def _records(manifest: Mapping[str, Any]) -> Iterator[tuple[str, str, Mapping[str, Any]]]:
    for dataset, entry in mapping(manifest.get("datasets")).items():
        for arm, facts in mapping(mapping(entry).get("arms")).items():
            record = mapping(mapping(facts).get("index"))
            if "size_bytes" in record:
                yield dataset, arm, record


def mapping(node: Any) -> Mapping[str, Any]:
    """Return ``node`` if it is a mapping, else an empty one: a manifest may lack any part."""
    return node if isinstance(node, Mapping) else {}
