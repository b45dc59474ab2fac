"""One JSON shape for every benchmark: ``benchmarks/results/<name>.json``."""

from __future__ import annotations

import os
import platform
import subprocess
from collections.abc import Mapping
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from arms.atomic import write_json

ROOT = Path(__file__).parent.parent
RESULTS = ROOT / "benchmarks" / "results"


def write_result(name: str, figures: Mapping[str, Any], folder: Path = RESULTS) -> Path:
    """Write ``{name, commit, hardware, date, figures}``; return the file's path.

    Figures that are no numbers say how the others were made; they go to ``settings``.

    Figures carry their unit in their name (``bm25_queries_per_s``, ``encoder_p50_ms``).
    """
    numbers = {key: value for key, value in figures.items() if isinstance(value, int | float)}
    others = {key: value for key, value in figures.items() if key not in numbers}
    path = folder / f"{name}.json"
    write_json(
        path,
        {
            "name": name,
            "commit": commit(),
            "hardware": hardware(),
            "date": datetime.now(timezone.utc).date().isoformat(),
            "figures": numbers,
            **({"settings": others} if others else {}),
        },
    )
    return path


def commit() -> str:
    """The commit that is checked out, ``unknown`` outside a repository."""
    run = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], cwd=ROOT, capture_output=True, text=True
    )
    return run.stdout.strip() or "unknown"


def hardware() -> dict[str, Any]:
    """Processor, cores that this process may use, and memory."""
    return {
        "processor": _processor(),
        "cores": len(os.sched_getaffinity(0))
        if hasattr(os, "sched_getaffinity")
        else os.cpu_count(),
        "memory_gb": _memory_gb(),
        "python": platform.python_version(),
    }


def _processor() -> str:
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.is_file():
        for line in cpuinfo.read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    return platform.processor() or platform.machine()


def _memory_gb() -> float | None:
    try:
        return round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1e9, 1)
    except (ValueError, OSError):
        return None
