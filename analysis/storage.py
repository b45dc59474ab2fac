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
    """Find the index records in ``manifest``, wherever they stand, by dataset, then arm in P.

    A record is a mapping with ``size_bytes`` and the arm's ``identity`` (or its key is the arm).
    """
    found = {(entry.dataset, entry.arm): entry for entry in _walk(manifest, (), pipelines)}

    def place(key: tuple[str, str]) -> tuple[str, int]:
        return key[0], pipelines.index(key[1])

    return [found[key] for key in sorted(found, key=place)]


def _walk(node: Any, path: tuple[str, ...], pipelines: tuple[str, ...]) -> Iterator[IndexEntry]:
    if isinstance(node, Mapping):
        arm = node.get("identity", node.get("arm", path[-1] if path else None))
        if "size_bytes" in node and arm in pipelines:
            yield _entry(node, str(arm), path)
            return
        for key, child in node.items():
            yield from _walk(child, (*path, str(key)), pipelines)
    elif isinstance(node, list):
        for child in node:
            yield from _walk(child, path, pipelines)


def _entry(record: Mapping[str, Any], arm: str, path: tuple[str, ...]) -> IndexEntry:
    dataset = record.get("dataset") or next((part for part in path[::-1] if part != arm), "")
    return IndexEntry(
        dataset=str(dataset),
        arm=arm,
        encoder=record.get("encoder_id"),
        n_documents=record.get("n_documents"),
        n_units=record.get("n_units"),
        size_bytes=int(record["size_bytes"]),
        build_seconds=record.get("build_seconds"),
        build_peak_rss_mb=record.get("build_peak_rss_mb"),
    )
