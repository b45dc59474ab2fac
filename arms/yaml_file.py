"""YAML files without repeated keys: PyYAML would keep the last of them in silence."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from arms.errors import SettingsError


def read_yaml(path: Path) -> Any:
    """Read one YAML document.

    Raises:
        SettingsError: the file is no YAML, or a mapping of it has a key twice; every such key is
            named with its lines.
    """
    try:
        text = path.read_text(encoding="utf-8")
        repeated = list(_repeated_keys(yaml.compose(text, Loader=yaml.SafeLoader), "", set()))
        if repeated:
            raise SettingsError("\n".join([f"{path} has keys that stand twice:", *repeated]))
        return yaml.safe_load(text)
    except UnicodeDecodeError as error:
        line = error.object[: error.start].count(b"\n") + 1
        raise SettingsError(
            f"{path}, line {line}: byte {error.object[error.start]:#04x} is not UTF-8 text; save "
            "the file as UTF-8"
        ) from error
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise SettingsError(f"{path} is not valid YAML: {error}") from error


def _repeated_keys(node: yaml.Node | None, place: str, seen: set[int]) -> Iterator[str]:
    """Walk the document; an alias leads to the node it names, which is walked once."""
    if node is None or id(node) in seen:
        return
    seen.add(id(node))
    if isinstance(node, yaml.SequenceNode):
        for number, item in enumerate(node.value):
            yield from _repeated_keys(item, f"{place}{number}.", seen)
    elif isinstance(node, yaml.MappingNode):
        first_line: dict[tuple[str, str], int] = {}
        for key, value in node.value:
            if isinstance(key, yaml.ScalarNode):
                line, name = key.start_mark.line + 1, (key.tag, key.value)
                if name in first_line:
                    yield f"  {place}{key.value}: lines {first_line[name]} and {line}; keep one"
                first_line.setdefault(name, line)
                yield from _repeated_keys(value, f"{place}{key.value}.", seen)
