"""From a labels folder to a release: a dataset repository that is whole or absent."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from arms.atomic import atomic_folder, write_json
from arms.errors import LabelsError, SettingsError
from arms.sole_writer import writes
from oracle.best_arm import best_arms
from oracle.labels import MANIFEST, Labels, read_labels
from oracle.redact import OPAQUE_GROUPS, withhold_texts, without_paths
from oracle.release.card import CardContent, write_card
from oracle.release.checksums import sha256_of, write_checksums
from oracle.release.json_schema import release_json_schema
from oracle.release.layout import (
    CARD,
    CHECKSUMS,
    EXAMPLE,
    EXAMPLE_SOURCE,
    FORMAT_VERSION,
    SCHEMA,
    TEXT_MODES,
    TextMode,
    table_schemas,
)
from oracle.release.licences import Licence
from oracle.release.statistics import arm_statistics, dataset_statistics
from oracle.release.verify import verify_release
from oracle.settings import OracleSettings
from oracle.tables import GRADE, PAGE_FIELDS, RELEVANT_GRADES, write_table


@dataclass(frozen=True, slots=True)
class Released:
    """What was written."""

    folder: Path
    files: tuple[str, ...]
    digest: str
    """SHA-256 of SHA256SUMS: publish it elsewhere, and nobody can exchange the whole folder."""


@writes("target")
def release_labels(
    labels_folder: Path,
    target: Path,
    licence: Licence,
    text: TextMode = "omit",
    name: str | None = None,
    with_runs: bool = True,
) -> Released:
    """Write the release of complete labels; an earlier release at ``target`` is replaced.

    Failure messages are never released (they may quote a text), and absolute paths of the
    manifest are cut down to file names.

    Args:
        labels_folder: what ``l2r oracle`` or ``l2r import`` wrote.
        target: made or replaced; an existing folder must be a release, or empty.
        licence: what the user states.
        text: ``keep``, ``omit`` or ``hash`` (:func:`oracle.redact.withhold_texts`).
        name: heading of the card; default: the name of ``target``.
        with_runs: also release the rankings, where the labels have them.

    Raises:
        LabelsError: the labels are absent, incomplete, or hold what no release may hold; every
            fault is named.
        SettingsError: ``target`` holds something else, or texts to keep or hash aren't there.
    """
    check_release_target(target)
    labels = read_labels(labels_folder)
    _check_text_mode(labels, text)
    lams = tuple(labels.manifest.get("lams") or OracleSettings().lams)
    tables = _tables(labels_folder, labels, text, lams, with_runs)
    with_pages = all(field.name in tables["queries"].column_names for field in PAGE_FIELDS)
    with_grades = "runs" in tables and GRADE in tables["runs"].column_names
    with_relevant = RELEVANT_GRADES in tables["queries"].column_names
    known = table_schemas(
        tuple(labels.quality), text == "keep", with_pages, with_grades, with_relevant
    )
    schemas = {table: schema for table, schema in known.items() if table in tables}
    rows = {table: len(content) for table, content in tables.items()}
    manifest = _manifest(labels, text, licence, rows, with_runs)
    manifest["release"] |= {
        "pages": with_pages,
        "grades": with_grades,
        RELEVANT_GRADES: with_relevant,
    }
    with atomic_folder(target) as folder:
        for table, content in tables.items():
            write_table(
                folder / f"{table}.parquet", _fitted(content, schemas[table]), schemas[table]
            )
        write_json(
            folder / SCHEMA,
            release_json_schema(schemas, labels.pipelines, tuple(labels.quality)),
        )
        card = CardContent(
            name=name or target.resolve().name,
            licence=licence,
            text=text,
            labels=labels,
            schemas=schemas,
            rows=rows,
            arms=arm_statistics(labels, tables["best_arms"], lams),
            datasets=dataset_statistics(labels),
        )
        (folder / CARD).write_text(write_card(card), encoding="utf-8")
        shutil.copyfile(EXAMPLE_SOURCE, folder / EXAMPLE)
        write_json(folder / MANIFEST, manifest)
        write_checksums(folder, [path.name for path in folder.iterdir()])
        faults = verify_release(folder)
        if faults:
            raise LabelsError(
                "\n".join(
                    [
                        f"{labels_folder} can't be released: its labels have {len(faults)} faults:",
                        *(f"  {fault}" for fault in faults),
                        "Mend the labels (l2r oracle, l2r import), then release them again.",
                    ]
                )
            )
        digest = sha256_of(folder / CHECKSUMS)
        files = tuple(sorted(path.name for path in folder.iterdir()))
    return Released(target, files, digest)


def check_release_target(target: Path) -> None:
    """Raise ``SettingsError`` if a release to ``target`` would delete something else."""
    if target.is_dir():
        if any(target.iterdir()) and not (target / CHECKSUMS).is_file():
            raise SettingsError(
                f"{target} holds files but no {CHECKSUMS}, so it isn't an earlier release; a "
                "release replaces its folder: name a new one, or empty this"
            )
    elif target.exists():
        raise SettingsError(f"{target} is a file; name a folder for the release")


def _check_text_mode(labels: Labels, text: TextMode) -> None:
    if text not in TEXT_MODES:
        raise SettingsError(f"--text must be one of {', '.join(TEXT_MODES)}, got {text!r}")
    if text == "keep" and labels.texts is None:
        raise SettingsError(
            "--text keep: these labels hold no query text; release them with --text hash or omit"
        )
    if text == "hash" and OPAQUE_GROUPS in labels.manifest.get("withheld", ()):
        raise SettingsError(
            "--text hash: these labels hold neither text nor hashes of it; release them with "
            "--text omit"
        )


def _tables(
    labels_folder: Path, labels: Labels, text: TextMode, lams: tuple[float, ...], with_runs: bool
) -> dict[str, pa.Table]:
    tables = {
        "labels": pq.read_table(labels_folder / "labels.parquet"),
        "queries": withhold_texts(pq.read_table(labels_folder / "queries.parquet"), text),
        "best_arms": best_arms(labels, lams),
    }
    for table in ("runs", "latency_samples"):
        path = labels_folder / f"{table}.parquet"
        if path.is_file() and (with_runs or table != "runs"):
            tables[table] = pq.read_table(path)
    return tables


def _fitted(table: pa.Table, schema: pa.Schema) -> pa.Table:
    """Return the table with the schema's columns; raise ``LabelsError`` if any is missing."""
    missing = [name for name in schema.names if name not in table.column_names]
    if missing:
        raise LabelsError(
            f"the labels lack the columns {', '.join(missing)}; rerun l2r oracle or l2r import"
        )
    return table


def _manifest(
    labels: Labels, text: TextMode, licence: Licence, rows: dict[str, int], with_runs: bool
) -> dict[str, Any]:
    withheld = {*labels.manifest.get("withheld", ()), "failures"} - {"best_arms"}
    withheld |= {"text"} if text != "keep" else set()
    withheld |= {OPAQUE_GROUPS} if text == "omit" else set()
    withheld |= set() if with_runs else {"runs"}
    manifest: dict[str, Any] = without_paths(dict(labels.manifest))
    return {
        **manifest,
        "withheld": sorted(withheld),
        "release": {
            "format_version": FORMAT_VERSION,
            "license": licence.name,
            "text": text,
            "rows": rows,
        },
    }
