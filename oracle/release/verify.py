"""Check a release that somebody downloaded; nothing in it is believed.

No name that stands inside a file is ever opened: the files are those that a release may have, and
each must be a plain file of the folder itself. Nothing of the release is executed.
"""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Mapping
from pathlib import Path, PurePosixPath
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import yaml

from arms.errors import LabelsError
from oracle.labels import MANIFEST, SCHEMA_VERSION, SPLIT
from oracle.release.checksums import parse_checksums, sha256_of
from oracle.release.faults import Fault
from oracle.release.json_schema import release_json_schema
from oracle.release.layout import (
    CARD,
    CHECKSUMS,
    EXAMPLE,
    EXAMPLE_SOURCE,
    FORMAT_VERSION,
    REQUIRED_TABLES,
    SCHEMA,
    TABLES,
    table_schemas,
)
from oracle.release.values import value_faults
from oracle.tables import RELEVANT_GRADES

_TEXT_FILES = (CARD, CHECKSUMS, EXAMPLE, MANIFEST, SCHEMA)
_REQUIRED = (*_TEXT_FILES, *(f"{table}.parquet" for table in REQUIRED_TABLES))
_ALLOWED = (*_TEXT_FILES, *(f"{table}.parquet" for table in TABLES))
_OF_THE_HUB = (".gitattributes", ".git", ".cache")
"""What downloading from a hub adds; never opened."""
_LARGEST_TEXT_BYTES = 64 << 20


def verify_release(folder: Path) -> list[Fault]:
    """Return every fault of the release in ``folder``, none where it is sound.

    A file that can't be trusted (it is a link, its checksum differs) isn't read further, so that
    one fault doesn't show as many.

    Raises:
        LabelsError: ``folder`` is no folder.
        MissingExtraError: queries have relevant grades, and ir-measures isn't installed.
    """
    if not folder.is_dir():
        raise LabelsError(f"{folder} is no folder; give the folder of a release")
    faults, present = _file_faults(folder)
    faults += (found := _checksum_faults(folder, present))
    sound = present - {one.place for one in found if one.kind == "checksum"}
    faults += _card_faults(folder, sound) + _example_faults(folder, sound)
    manifest, manifest_faults = _read_manifest(folder, sound)
    faults += manifest_faults
    if manifest is None:
        return faults
    return faults + _content_faults(folder, sound, manifest)


def _file_faults(folder: Path) -> tuple[list[Fault], set[str]]:
    """Faults of the listing, and the names of plain files that a release may have."""
    faults, present = [], set()
    for entry in sorted(folder.iterdir()):
        mode = entry.lstat().st_mode
        name = entry.name
        if name in _OF_THE_HUB and not stat.S_ISLNK(mode):
            continue
        if stat.S_ISLNK(mode):
            faults.append(
                Fault(name, "unsafe path", "a link, which may lead anywhere; a plain file expected")
            )
        elif name not in _ALLOWED:
            kind = "folder" if stat.S_ISDIR(mode) else "file"
            faults.append(Fault(name, "unexpected file", f"no release has such a {kind}"))
        elif not stat.S_ISREG(mode):
            faults.append(Fault(name, "unsafe path", "not a plain file"))
        elif name in _TEXT_FILES and entry.lstat().st_size > _LARGEST_TEXT_BYTES:
            size = entry.lstat().st_size
            faults.append(Fault(name, "unexpected file", f"{size:,} bytes, too large for it"))
        else:
            present.add(name)
    missing = [name for name in _REQUIRED if name not in present and not _named(faults, name)]
    faults += [Fault(name, "missing file", "every release has it") for name in missing]
    return faults, present


def _named(faults: list[Fault], name: str) -> bool:
    return any(fault.place == name for fault in faults)


def _checksum_faults(folder: Path, present: set[str]) -> list[Fault]:
    if CHECKSUMS not in present:
        return []
    content = (folder / CHECKSUMS).read_bytes().decode("utf-8", "replace")
    entries, unreadable = parse_checksums(content)
    faults = [
        Fault(CHECKSUMS, "checksum", f"line {number} isn't 'digest, two spaces, file name'")
        for number in unreadable
    ]
    listed: set[str] = set()
    for name, digest in entries:
        if name in listed:
            faults.append(Fault(CHECKSUMS, "checksum", f"{_shown(name)} is listed twice"))
        listed.add(name)
        problem = _path_problem(name)
        if problem:
            faults.append(Fault(CHECKSUMS, "unsafe path", f"{_shown(name)} {problem}"))
        elif name not in _ALLOWED or name == CHECKSUMS:
            faults.append(Fault(CHECKSUMS, "unexpected file", f"lists {_shown(name)}"))
        elif name not in present:
            if name not in _REQUIRED:  # a required one was named already
                faults.append(Fault(name, "missing file", f"{CHECKSUMS} lists it"))
        elif (got := sha256_of(folder / name)) != digest:
            message = f"SHA-256 should be {digest[:16]}…, is {got[:16]}…: the file was changed"
            faults.append(Fault(name, "checksum", message))
    unlisted = sorted(present - listed - {CHECKSUMS})
    faults += [Fault(name, "checksum", f"{CHECKSUMS} doesn't list it") for name in unlisted]
    return faults


def _path_problem(name: str) -> str | None:
    parts = name.replace("\\", "/").split("/")
    if ".." in parts:
        return "leads out of the release"
    if PurePosixPath(name).is_absolute() or ":" in parts[0]:
        return "is no path inside the release"
    if len(parts) > 1 or not name.isprintable():
        return "is no plain file name"
    return None


def _shown(name: str) -> str:
    return ascii(name[:80])


def _card_faults(folder: Path, sound: set[str]) -> list[Fault]:
    if CARD not in sound:
        return []
    text = (folder / CARD).read_bytes().decode("utf-8", "replace")
    parts = text.split("---\n", 2)
    try:
        header = yaml.safe_load(parts[1]) if len(parts) == 3 and not parts[0] else None
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        return [Fault(CARD, "card", f"its YAML header can't be read: {str(error)[:120]}")]
    if not isinstance(header, dict):
        return [Fault(CARD, "card", "it doesn't begin with a YAML header between lines of ---")]
    faults = []
    if not isinstance(header.get("license"), str):
        faults.append(Fault(CARD, "card", "it states no license"))
    for path in _data_files(header.get("configs")):
        problem = _path_problem(path) if isinstance(path, str) else "is no path"
        if problem:
            faults.append(
                Fault(CARD, "unsafe path", f"configs: data file {_shown(str(path))} {problem}")
            )
        elif path not in _ALLOWED or not path.endswith(".parquet"):
            message = f"configs: {_shown(path)} is no table of a release"
            faults.append(Fault(CARD, "card", message))
        elif path not in _REQUIRED and not os.path.lexists(folder / path):
            faults.append(Fault(CARD, "card", f"configs: {_shown(path)} isn't there"))
    return faults


def _data_files(configs: Any) -> list[Any]:
    """Every path that the card's configs would make a loader open, and ``data_dir``."""
    paths: list[Any] = []
    for config in configs if isinstance(configs, list) else []:
        if not isinstance(config, dict):
            continue
        paths += [config["data_dir"]] if "data_dir" in config else []
        files = config.get("data_files")
        for one in files if isinstance(files, list) else [files]:
            path = one.get("path") if isinstance(one, dict) else one
            paths += path if isinstance(path, list) else [path]
    return paths


def _example_faults(folder: Path, sound: set[str]) -> list[Fault]:
    if EXAMPLE not in sound:
        return []
    if (folder / EXAMPLE).read_bytes() != EXAMPLE_SOURCE.read_bytes():
        message = "isn't the loader that a release carries: read it before you run it"
        return [Fault(EXAMPLE, "unexpected file", message)]
    return []


def _read_json(path: Path) -> Any:
    return json.loads(path.read_bytes().decode("utf-8"))


def _read_manifest(folder: Path, sound: set[str]) -> tuple[dict[str, Any] | None, list[Fault]]:
    """The manifest, or None where the rest can't be judged by it."""
    if MANIFEST not in sound:
        return None, []
    try:
        manifest = _read_json(folder / MANIFEST)
    except (ValueError, RecursionError) as error:
        return None, [Fault(MANIFEST, "manifest", f"isn't JSON: {str(error)[:120]}")]
    if not isinstance(manifest, dict) or not isinstance(manifest.get("release"), dict):
        return None, [Fault(MANIFEST, "manifest", "isn't the manifest of a release")]
    faults = []
    for what, got, known in (
        ("schema_version", manifest.get("schema_version"), SCHEMA_VERSION),
        ("release.format_version", manifest["release"].get("format_version"), FORMAT_VERSION),
    ):
        if got != known or isinstance(got, bool):
            newer = isinstance(got, int) and not isinstance(got, bool) and got > known
            advice = "; install a newer learning-to-route" if newer else ""
            faults.append(
                Fault(MANIFEST, "version", f"{what} is {got!r}, this reads {known}{advice}")
            )
    if faults:
        return None, faults
    for key in ("pipelines", "router_arms", "measures"):
        names = manifest.get(key)
        if (
            not isinstance(names, list)
            or not all(isinstance(one, str) for one in names)
            or len(set(names)) != len(names)
            or (not names and key != "router_arms")
        ):
            faults.append(Fault(MANIFEST, "manifest", f"{key} should be a list of distinct names"))
    if faults:
        return None, faults
    unknown = [arm for arm in manifest["router_arms"] if arm not in manifest["pipelines"]]
    if unknown:
        message = f"router_arms names {', '.join(unknown)}, which isn't in pipelines"
        faults.append(Fault(MANIFEST, "manifest", message))
    return manifest, faults


def _content_faults(folder: Path, sound: set[str], manifest: Mapping[str, Any]) -> list[Fault]:
    pipelines, measures = manifest["pipelines"], manifest["measures"]
    release = manifest["release"]
    schemas = table_schemas(
        measures,
        with_text=release.get("text") == "keep",
        with_pages=release.get("pages") is True,
        with_grades=release.get("grades") is True,
        with_relevant_grades=release.get(RELEVANT_GRADES) is True,
    )
    faults: list[Fault] = []
    tables: dict[str, pa.Table] = {}
    for name in TABLES:
        if f"{name}.parquet" in sound:
            table, found = _read_table(folder / f"{name}.parquet", schemas[name])
            faults += found
            if table is not None:
                tables[name] = table
    stated = manifest["release"].get("rows")
    rows = stated if isinstance(stated, dict) else {}
    faults += _count_faults(tables, rows)
    if SCHEMA in sound:
        there = {name: schemas[name] for name in TABLES if name in rows}
        faults += _schema_file_faults(
            folder / SCHEMA, release_json_schema(there, pipelines, measures)
        )
    whole = not rankings_were_cut(manifest)
    return faults + value_faults(tables, pipelines, measures, whole, manifest.get(SPLIT))


def rankings_were_cut(manifest: Mapping[str, Any]) -> bool:
    """Whether rankings were cut, or their scores rounded, after their quality was computed."""
    withheld = manifest.get("withheld")
    return isinstance(withheld, list) and any(str(one).startswith("runs") for one in withheld)


def _read_table(path: Path, expected: pa.Schema) -> tuple[pa.Table | None, list[Fault]]:
    """Read one table; None where its columns aren't the expected ones."""
    try:
        got = pq.read_schema(path)
        faults = _column_faults(path.name, got, expected)
        if faults:
            return None, faults
        table = pq.read_table(path, partitioning=None)
        table.validate(full=True)  # text that isn't UTF-8 would fail only where it is looked at
        return table, []
    except (OSError, pa.ArrowException, UnicodeDecodeError) as error:
        message = f"no readable parquet file: {str(error)[:120]!a}"
        return None, [Fault(path.name, "schema", message)]


def _column_faults(file: str, got: pa.Schema, expected: pa.Schema) -> list[Fault]:
    faults = []
    for name in sorted({one for one in got.names if got.names.count(one) > 1}):
        faults.append(Fault(file, "schema", f"column {_shown(name)} stands in it twice"))
    for field in expected:
        if field.name not in got.names:
            faults.append(Fault(file, "schema", f"column {field.name} is missing"))
        elif got.names.count(field.name) == 1 and got.field(field.name).type != field.type:
            message = f"column {field.name} should be {field.type}, is {got.field(field.name).type}"
            faults.append(Fault(file, "schema", message))
    for name in got.names:
        if name not in expected.names:
            faults.append(Fault(file, "schema", f"column {_shown(name)} doesn't belong there"))
    return faults


def _count_faults(tables: Mapping[str, pa.Table], stated: Mapping[str, Any]) -> list[Fault]:
    return [
        Fault(
            f"{name}.parquet",
            "value",
            f"has {len(table):,} rows, the manifest says {stated.get(name)}",
        )
        for name, table in tables.items()
        if stated.get(name) != len(table)
    ]


def _schema_file_faults(path: Path, expected: dict[str, Any]) -> list[Fault]:
    try:
        same = _read_json(path) == expected
    except (ValueError, RecursionError):
        same = False
    if same:
        return []
    return [Fault(SCHEMA, "schema", "isn't the schema of these tables, arms and measures")]
