"""Labels with less text in them: small enough to keep beside code, and nobody's documents."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from arms.atomic import write_json
from arms.errors import LabelsError
from oracle.labels import MANIFEST, Labels, read_manifest
from oracle.split import QueryKey, is_text_group, text_group
from oracle.tables import GROUP_COLUMNS, write_small_table, write_table

_LEFT_OUT = ("latency_samples", "failures", "best_arms")
_SMALL = pa.float32()
"""Of scores in rankings: half the bytes, and the order of a list is in its ranks."""
OPAQUE_GROUPS = "text_group"
"""Stands among a manifest's ``withheld`` where text groups are numbers instead of hashes."""


def export_without_text(
    labels_folder: Path, target: Path, rankings_of: Sequence[str] = (), depth: int = 10
) -> None:
    """Copy complete labels to ``target`` without text; existing files there are replaced.

    Query ids, splits, groups, statuses, qualities and latencies stay. Texts and failure
    messages (which may quote a text) go; rankings, single samples and derived best arms go too,
    for size. The manifest lists what is ``withheld``.

    Args:
        labels_folder: what to copy.
        target: created if absent.
        rankings_of: arms whose rankings stay, so that policies that look at results can be trained.
        depth: documents of each ranking that stay; scores are kept in single precision.

    Raises:
        LabelsError: the labels are absent or incomplete, or have no ranking of such an arm.
    """
    manifest = read_manifest(labels_folder)
    rankings = _rankings(labels_folder, rankings_of, depth) if rankings_of else None
    target.mkdir(parents=True, exist_ok=True)
    (target / MANIFEST).unlink(missing_ok=True)
    labels = pq.read_table(labels_folder / "labels.parquet")
    write_table(target / "labels.parquet", labels, labels.schema)
    kept = withhold_texts(pq.read_table(labels_folder / "queries.parquet"), "hash")
    write_table(target / "queries.parquet", kept, kept.schema)
    runs = "runs"
    (target / "runs.parquet").unlink(missing_ok=True)
    if rankings is not None:
        write_small_table(target / "runs.parquet", rankings)
        runs = f"runs of other arms than {', '.join(rankings_of)}, and below rank {depth}"
    write_json(target / MANIFEST, {**manifest, "withheld": ["text", runs, *_LEFT_OUT]})


def _rankings(labels_folder: Path, arms: Sequence[str], depth: int) -> pa.Table:
    path = labels_folder / "runs.parquet"
    if not path.is_file():
        raise LabelsError(f"{labels_folder} has no runs.parquet, so no rankings can be kept")
    held = pq.read_table(path, filters=[("arm", "in", list(arms)), ("rank", "<=", depth)])
    absent = sorted(set(arms) - set(held["arm"].unique().to_pylist()))
    if absent:
        raise LabelsError(f"{path} has no ranking of {', '.join(absent)}")
    place = held.column_names.index("score")
    return held.set_column(place, "score", held["score"].cast(_SMALL))


def withhold_texts(queries: pa.Table, mode: Literal["keep", "omit", "hash"]) -> pa.Table:
    """Return ``queries.parquet`` with as much of the texts as ``mode`` allows.

    ``keep``: all. ``hash``: no text; ``text_group`` stays the hash of the normalised text, so
    that whoever holds the texts can check that they are the ones that were labelled. It has no
    salt on purpose: one that is published doesn't hinder guessing, and a secret one would take
    that check away. ``omit``: no text, and groups become numbers in order of appearance, from
    which no guess at a text can be confirmed.
    """
    if mode == "keep":
        return queries
    bare = queries.select([name for name in queries.column_names if name != "text"])
    if mode == "hash":
        return bare
    for name in GROUP_COLUMNS:
        codes = bare[name].combine_chunks().dictionary_encode().indices
        numbers = [None if code is None else f"g{code}" for code in codes.to_pylist()]
        place = bare.column_names.index(name)
        bare = bare.set_column(place, name, pa.array(numbers, pa.string()))
    return bare


def without_paths(content: Any) -> Any:
    """Return JSON content in which every absolute path is cut down to its last part."""
    if isinstance(content, Mapping):
        return {key: without_paths(child) for key, child in content.items()}
    if isinstance(content, list | tuple):
        return [without_paths(child) for child in content]
    if isinstance(content, str):
        for kind in (PurePosixPath, PureWindowsPath):
            path = kind(content)
            if path.is_absolute():
                return path.name
        if content.startswith("~"):
            return PurePosixPath(content).name
    return content


def attach_texts(labels: Labels, texts: Mapping[QueryKey, str]) -> Labels:
    """Return ``labels`` with the text of every query, looked up by (dataset, query id).

    Where the labels were released without hashes of the texts, a text can't be checked; nor can
    the texts of queries in a named group.

    Raises:
        LabelsError: a query has no text, or one whose hash isn't the labelled text's.
    """
    keys = list(zip(labels.datasets.tolist(), labels.query_ids.tolist(), strict=True))
    absent = [key for key in keys if key not in texts]
    if absent:
        raise LabelsError(
            f"{len(absent)} of {len(keys)} labelled queries have no text, e.g. "
            f"{absent[0][1]} of {absent[0][0]}; give the datasets that were labelled"
        )
    hashed = OPAQUE_GROUPS not in labels.manifest.get("withheld", ())
    other = [
        key
        for key, group in zip(keys, labels.text_groups.tolist(), strict=True)
        if hashed and is_text_group(group) and text_group(texts[key]) != group
    ]
    if other:
        raise LabelsError(
            f"{len(other)} of {len(keys)} queries have another text than when they were labelled, "
            f"e.g. {other[0][1]} of {other[0][0]}; give the datasets that were labelled"
        )
    return replace(labels, texts=np.array([texts[key] for key in keys], dtype=object))
