"""What a newcomer waits for: installing, the demo, help, imports, tests; and how much source.

    PYTHONPATH=. .venv/bin/python benchmarks/first_minute.py demo start source
    PYTHONPATH=. .venv/bin/python benchmarks/first_minute.py install test fast   # minutes each

Each part writes its figures; those of other parts stay as they were. ``demo`` runs with an
empty home, so that nothing is cached. The machine should have nothing else to do.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from benchmarks.results_file import RESULTS, ROOT, write_result

NAME = "first_minute"
REPEATS = 5


def seconds(command: list[str], folder: Path, **environment: str) -> float:
    """Run a command in ``folder``; return its wall-clock seconds, or stop where it fails."""
    begin = time.perf_counter()
    subprocess.run(
        command, cwd=folder, env={**os.environ, **environment}, check=True, capture_output=True
    )
    return time.perf_counter() - begin


def demo() -> dict[str, float]:
    """The demo with an empty home, and again over what it left."""
    with tempfile.TemporaryDirectory() as made:
        home = Path(made)
        given = {"HOME": made, "XDG_CACHE_HOME": str(home / "cache"), "PYTHONPATH": str(ROOT)}
        command = [sys.executable, str(ROOT / "l2r.py"), "demo"]
        return {
            "demo_s": round(seconds(command, home, **given), 1),
            "demo_again_s": round(seconds(command, home, **given), 1),
        }


def install() -> dict[str, float]:
    """``make install`` in a copy of the committed files."""
    with tempfile.TemporaryDirectory() as made:
        subprocess.run(["git", "clone", "--quiet", str(ROOT), made], check=True)
        return {"install_s": round(seconds(["make", "install"], Path(made)), 1)}


def start() -> dict[str, float]:
    """Medians of importing ``router`` and of ``l2r --help``, in milliseconds."""
    commands = {
        "import_router_ms": [sys.executable, "-c", "import router"],
        "help_ms": [sys.executable, str(ROOT / "l2r.py"), "--help"],
    }
    return {
        name: round(1000 * statistics.median(seconds(one, ROOT) for _ in range(REPEATS)))
        for name, one in commands.items()
    }


def source() -> dict[str, float]:
    """Committed Python files without tests and benchmarks, and their lines."""
    told = subprocess.run(
        ["git", "ls-files", "*.py"], cwd=ROOT, check=True, capture_output=True, text=True
    )
    files = [one for one in told.stdout.split() if not one.startswith(("tests/", "benchmarks/"))]
    lines = sum(len((ROOT / one).read_text(encoding="utf-8").splitlines()) for one in files)
    return {"source_files": len(files), "source_lines": lines}


def test() -> dict[str, float]:
    """``make test``."""
    return {"test_s": round(seconds(["make", "test"], ROOT), 1)}


def fast() -> dict[str, float]:
    """``make fast``."""
    return {"fast_s": round(seconds(["make", "fast"], ROOT), 1)}


PARTS: dict[str, Callable[[], dict[str, float]]] = {
    one.__name__: one for one in (demo, install, start, source, test, fast)
}


def main() -> None:
    """Run the parts that were named."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("parts", nargs="+", choices=PARTS)
    wanted = parser.parse_args().parts
    path = RESULTS / f"{NAME}.json"
    figures = json.loads(path.read_text(encoding="utf-8"))["figures"] if path.is_file() else {}
    for part in wanted:
        found = PARTS[part]()
        print(part, found, flush=True)
        figures |= found
    print(write_result(NAME, figures))


if __name__ == "__main__":
    main()
