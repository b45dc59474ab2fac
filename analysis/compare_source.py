"""Where the labels and decisions of a run or of its report lie."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from analysis.compare import Side
from analysis.write_report import RECORD as REPORT_RECORD
from arms.errors import SettingsError
from arms.read_errors import damage
from oracle.labels import MANIFEST, read_labels
from router.artifact import DECISIONS
from router.decisions import read_decisions

REPORT = "report"


def open_side(folder: Path) -> Side:
    """Read one side of a comparison.

    ``folder`` is a run's output (``labels/`` and ``router/`` in it), its report (``report.json``
    names them, or they lie beside it), or one that holds labels and ``decisions.parquet`` itself.

    Raises:
        SettingsError: none of these, or the labels changed after the report was made.
        LabelsError, RouterError: labels or decisions can't be read.
    """
    labels, decisions, record = _places(folder)
    side = read_side(str(folder), labels, decisions)
    told = record.get("test_queries"), record.get("test_queries_left_out")
    if all(isinstance(one, int) for one in told):
        is_test = side.labels.splits == "test"
        failed = int((~side.labels.comparable(side.labels.pipelines) & is_test).sum())
        now = int(is_test.sum()) - failed, failed
        if now != told:
            raise SettingsError(
                f"{folder} reports on {told[0]} test queries ({told[1]} left out), its labels "
                f"{labels} now hold {now[0]} ({now[1]}); they changed since: rerun l2r report"
            )
    return side


def read_side(name: str, labels_folder: Path, decisions: Path) -> Side:
    """Read one side whose files are known; ``name`` is how the comparison calls it."""
    return Side(name, read_labels(labels_folder), read_decisions(decisions))


def _places(folder: Path) -> tuple[Path, Path, Mapping[str, Any]]:
    """Labels folder, decisions file, and the report's record (empty where there is none)."""
    if not folder.is_dir():
        raise SettingsError(f"{folder} is no folder; give a run's output folder, or its report")
    if (folder / REPORT_RECORD).is_file():
        record = _record(folder / REPORT_RECORD)
        labels, decisions = record.get("labels"), record.get("decisions")
        if isinstance(labels, str) and isinstance(decisions, str):
            return folder / labels, folder / decisions, record
        return _in_run(folder.resolve().parent, folder), _decided(folder.resolve().parent), record
    if (folder / MANIFEST).is_file() and (folder / DECISIONS).is_file():
        return folder, folder / DECISIONS, {}
    if not (folder / "labels" / MANIFEST).is_file() and (folder / REPORT / REPORT_RECORD).is_file():
        return _places(folder / REPORT)  # labels made elsewhere: the report says where
    return _in_run(folder, folder), _decided(folder), {}


def _in_run(run: Path, given: Path) -> Path:
    labels = run / "labels"
    if not (labels / MANIFEST).is_file() or not _decided(run).is_file():
        raise SettingsError(
            f"{given}: expected a run's output folder, with finished labels/ and a trained "
            f"router/, or a report beside these; {labels} or {_decided(run)} is missing"
        )
    return labels


def _decided(run: Path) -> Path:
    return run / "router" / DECISIONS


def _record(path: Path) -> Mapping[str, Any]:
    try:
        record = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, OSError) as error:
        raise SettingsError(f"{damage(path, error)}; rerun l2r report") from error
    return record if isinstance(record, dict) else {}
