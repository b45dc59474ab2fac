"""What the oracle runs on: processor, memory, threads, library versions."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

_LIBRARIES = (
    "bm25s",
    "faiss-cpu",
    "faiss-gpu-cu12",
    "fast-plaid",
    "ir-measures",
    "learning-to-route",
    "numpy",
    "onnxruntime",
    "openvino",
    "pyarrow",
    "pylate",
    "sentence-transformers",
    "torch",
    "transformers",
)


def available_cores() -> int:
    """Return how many cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def resolve_threads(threads: int | None) -> int:
    """Return ``threads``, or else OMP_NUM_THREADS, or else the number of cores."""
    if threads is not None:
        return threads
    wished = os.environ.get("OMP_NUM_THREADS", "")
    return int(wished) if wished.isdigit() and int(wished) > 0 else available_cores()


@cache
def hardware_name() -> str:
    """Return processor and core count as one line: latencies of two such lines don't compare."""
    return f"{_cpu_model()}, {available_cores()} cores"


def hardware() -> dict[str, Any]:
    """Return processor, cores, memory in bytes, graphics processors and system."""
    return {
        "cpu": _cpu_model(),
        "cores": available_cores(),
        "memory_bytes": _memory_bytes(),
        "gpus": _gpu_names(),
        "system": f"{platform.system()} {platform.machine()}",
    }


def library_versions() -> dict[str, str]:
    """Return the versions of Python and of the libraries that labels may depend on."""
    versions = {"python": platform.python_version()}
    for name in _LIBRARIES:
        try:
            versions[name] = version(name)
        except PackageNotFoundError:
            continue
    return versions


def source_commit() -> str | None:
    """Return the commit of the checkout this code runs from; None for an installed copy."""
    root = Path(__file__).parent.parent
    if not (root / ".git").exists():
        return None
    try:
        found = subprocess.run(
            ["git", "-C", str(root), "rev-parse", "HEAD"], capture_output=True, text=True, timeout=5
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return found.stdout.strip() or None


@contextmanager
def fixed_threads(threads: int) -> Iterator[None]:
    """Hold every loaded back end to ``threads`` threads for the length of the block."""
    with ExitStack() as limits:
        for module, read, write in (
            ("torch", "get_num_threads", "set_num_threads"),
            ("faiss", "omp_get_max_threads", "omp_set_num_threads"),
        ):
            library = sys.modules.get(module)
            if library is not None and hasattr(library, write):
                limits.callback(getattr(library, write), getattr(library, read)())
                getattr(library, write)(threads)
        _limit_numba(threads, limits)
        try:
            from threadpoolctl import threadpool_limits
        except ImportError:  # the libraries above are what the arms compute with
            pass
        else:
            limits.enter_context(threadpool_limits(threads))
        yield


def _limit_numba(threads: int, limits: ExitStack) -> None:
    numba = sys.modules.get("numba")
    if numba is None or not hasattr(numba, "set_num_threads"):
        return
    limits.callback(numba.set_num_threads, numba.get_num_threads())
    numba.set_num_threads(min(threads, numba.config.NUMBA_NUM_THREADS))


def _cpu_model() -> str:
    listing = Path("/proc/cpuinfo")
    if listing.is_file():
        for line in listing.read_text(encoding="utf-8", errors="replace").splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    return platform.processor() or platform.machine()


def _memory_bytes() -> int | None:
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return None


def _gpu_names() -> list[str]:
    torch = sys.modules.get("torch")
    if torch is None or not torch.cuda.is_available():
        return []
    return [torch.cuda.get_device_name(number) for number in range(torch.cuda.device_count())]
