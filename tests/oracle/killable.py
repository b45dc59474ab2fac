"""Run a small oracle and tell each phase as it begins; the test beside kills it. See test_kills."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from arms.progress import Task
from arms.settings import ArmSettings
from oracle.runner import run_oracle
from oracle.settings import LatencySettings, OracleSettings
from tests.oracle import fakes

SLOW = {"build_delay_s": 0.01, "delay_s": 0.003}
ARMS = (
    ArmSettings(arm="bm25"),
    ArmSettings(arm="bm25", granularity="paragraph"),
    ArmSettings(arm="fake", options=SLOW),
    ArmSettings(arm="fake_b", options={**SLOW, "fail_on": "query 4 "}),
)
SETTINGS = OracleSettings(
    k=5, shard_size=4, batch_size=2, latency=LatencySettings(repeats=3, warm_up=2, threads=1)
)


class TellingProgress:
    """Prints the phase when a bar opens; writing is slowed down so that it can be hit."""

    @contextmanager
    def task(self, description: str, total: int | None = None) -> Iterator[Task]:
        word = description.split()[0]
        phase = {"rank": "quality", "time": "latency", "write": "writing"}.get(word, "indexing")
        print(phase, flush=True)
        yield _Bar(0.03 if phase == "writing" else 0.0)


class _Bar:
    def __init__(self, delay_s: float) -> None:
        self._delay_s = delay_s

    def advance(self, amount: int = 1) -> None:
        time.sleep(self._delay_s)


def main(folder: Path) -> None:
    """Run the oracle in ``folder``, or finish the run that is there."""
    fakes.register()
    suite = [fakes.dataset("one", 14), fakes.dataset("two", 10)]
    run_oracle(suite, ARMS, folder / "index", folder / "labels", SETTINGS, 7, TellingProgress())
    print("done", flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
