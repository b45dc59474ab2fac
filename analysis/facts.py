"""What the labels' manifest and the router say of themselves, as lines for a reader.

Both are read as JSON of any shape: a fact that is absent is left out.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from arms.errors import RouterError

ROUTER_RECORD = "router.json"
_LONGEST_LIST = 12
_LONGEST_TEXT = 200
_SHOWN_ELSEWHERE = (
    "arms",
    "counts",
    "counts_by_status",
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
    kept.pop("config", None)
    oracle = manifest.get("config", {})
    oracle = oracle.get("oracle", oracle) if isinstance(oracle, Mapping) else {}
    latency = oracle.get("latency") if isinstance(oracle, Mapping) else None
    if isinstance(latency, Mapping) and "latency" not in kept:
        kept["latency"] = latency
    return tuple(_flatten(kept, ""))


def router_facts(router_folder: Path) -> tuple[tuple[str, str], ...]:
    """Facts of ``router.json``: encoder, arms, training metrics; none where there is no file.

    Raises:
        RouterError: the file isn't JSON.
    """
    path = router_folder / ROUTER_RECORD
    if not path.is_file():
        return ()
    try:
        record = json.loads(path.read_text(encoding="utf-8"))
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise RouterError(f"{path} is not valid JSON ({error}); rerun l2r train") from error
    if not isinstance(record, Mapping):
        return ()
    left_out = ("arms", "calibration", "competes", "expected", "policies")
    return tuple(_flatten({k: v for k, v in record.items() if k not in left_out}, ""))


def _flatten(node: Any, path: str) -> Iterator[tuple[str, str]]:
    if isinstance(node, Mapping):
        for key, child in node.items():
            yield from _flatten(child, f"{path}.{key}" if path else str(key))
    elif isinstance(node, list | tuple):
        plain = all(not isinstance(child, list | tuple | Mapping) for child in node)
        if node and plain and len(node) <= _LONGEST_LIST:
            yield path, ", ".join(map(_write, node))
    elif node is not None:
        yield path, _write(node)


def _write(value: Any) -> str:
    text = f"{value:g}" if isinstance(value, float) else str(value)
    return text if len(text) <= _LONGEST_TEXT else text[: _LONGEST_TEXT - 1] + "…"
