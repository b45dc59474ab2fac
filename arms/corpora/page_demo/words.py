"""The words of the generated corpus, read from ``words.yaml``."""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from typing import Any

import yaml


@cache
def words() -> dict[str, Any]:
    """Return the content of ``words.yaml``; folded lines are joined by one space."""
    text = files(__package__).joinpath("words.yaml").read_text(encoding="utf-8")
    content: dict[str, Any] = yaml.safe_load(text)
    return content


def styles() -> int:
    """Return in how many styles questions are asked."""
    return len(words()["frames"])
