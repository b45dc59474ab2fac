"""What the labels' manifest and the router say of themselves, as lines for a reader.

Both are read as JSON of any shape: a fact that is absent is left out.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from analysis.settings import ReportSettings
from analysis.storage import mapping
from arms.errors import RouterError
from oracle.tables import RUNS, SAMPLES
from router.artifact import RECORD, Defaults

_LABEL_FILES = ("labels.parquet", "queries.parquet", RUNS, SAMPLES)
_LONGEST_LIST = 12
_LONGEST_TEXT = 200
_SHOWN_ELSEWHERE = (
    "config",
    "datasets",
    "indexes",
    "measures",
    "pipelines",
    "router_arms",
)


def manifest_facts(manifest: Mapping[str, Any]) -> tuple[tuple[str, str], ...]:
    """Name and value of the manifest's entries, nested ones dotted, in the manifest's order.

    Long lists and what the report's own tables show are left out.
    """
    kept = {key: value for key, value in manifest.items() if key not in _SHOWN_ELSEWHERE}
    latency = mapping(mapping(manifest.get("config")).get("oracle")).get("latency")
    return tuple(_flatten({"latency": latency, **kept}, ""))


def latency_notes(manifest: Mapping[str, Any], modelled_share: float) -> tuple[str, ...]:
    """Say how many latencies weren't measured: modelled from a sample, or stated by a user."""
    notes = []
    if modelled_share > 0.0:
        notes.append(
            f"{modelled_share:.1%} of the arms' latencies are modelled from a timed sample, not "
            "timed themselves: their spread is too small, and P95 with it."
        )
    stated = sorted(
        {
            arm
            for dataset in mapping(manifest.get("datasets")).values()
            for arm, facts in mapping(mapping(dataset).get("arms")).items()
            if mapping(facts).get("latency_stated")
        }
    )
    if stated:
        notes.append(f"Latencies of {', '.join(stated)} were stated with the run, not measured.")
    return tuple(notes)


def read_router_record(router_folder: Path) -> Mapping[str, Any]:
    """Return what ``router.json`` says; empty where there is no file.

    Raises:
        RouterError: the file isn't JSON.
    """
    path = router_folder / RECORD
    if not path.is_file():
        return {}
    try:
        record = json.loads(path.read_text(encoding="utf-8"))
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise RouterError(f"{path} is not valid JSON ({error}); rerun l2r train") from error
    return mapping(record)


def defaults_and_policies(
    record: Mapping[str, Any],
) -> tuple[Defaults | None, frozenset[str] | None]:
    """What ``router.json`` says of both; None where it says nothing."""
    defaults, policies = mapping(record.get("defaults")), record.get("policies")
    return (
        Defaults(**defaults) if defaults else None,
        frozenset(policies) if isinstance(policies, list) else None,
    )


def router_facts(record: Mapping[str, Any]) -> tuple[tuple[str, str], ...]:
    """Facts of the router's own file: encoder, versions, hashes, settings."""
    left_out = (
        "arms",
        "calibration",
        "competes",
        "expected",
        "gates",
        "policies",
        "training_metrics",
    )
    kept = {key: value for key, value in record.items() if key not in left_out}
    return tuple((f"router.{name}", fact) for name, fact in _flatten(kept, ""))


def input_facts(
    labels_folder: Path, decisions: Path, settings: ReportSettings
) -> tuple[tuple[str, str], ...]:
    """SHA-256 of each file that was read, and the report's own settings."""
    files = [labels_folder / name for name in _LABEL_FILES] + [decisions]
    hashes = [(f"sha256 of {path.name}", _sha256(path)) for path in files if path.is_file()]
    return (*hashes, *_flatten({"report": settings.model_dump(mode="json")}, ""))


def config_text(manifest: Mapping[str, Any]) -> str:
    """The run's settings as YAML, as the manifest recorded them; empty where it has none."""
    import yaml

    config = mapping(manifest.get("config"))
    if not config:
        return ""
    return str(yaml.safe_dump(dict(config), sort_keys=False, allow_unicode=True, width=96)).strip()


def _sha256(path: Path) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()


def _flatten(node: Any, path: str) -> Iterator[tuple[str, str]]:
    if isinstance(node, Mapping):
        for key, child in node.items():
            yield from _flatten(child, f"{path}.{key}" if path else str(key))
    elif isinstance(node, list | tuple) and all(isinstance(child, Mapping) for child in node):
        for number, child in enumerate(node[:_LONGEST_LIST], start=1):
            yield from _flatten(child, path if len(node) == 1 else f"{path}.{number}")
    elif isinstance(node, list | tuple):
        plain = all(not isinstance(child, list | tuple | Mapping) for child in node)
        if node and plain and len(node) <= _LONGEST_LIST:
            yield path, ", ".join(map(_write, node))
    elif node is not None:
        yield path, _write(node)


def _write(value: Any) -> str:
    text = f"{value:g}" if isinstance(value, float) else str(value)
    return text if len(text) <= _LONGEST_TEXT else text[: _LONGEST_TEXT - 1] + "…"
