"""Stage times of one call to an arm."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Literal

Stage = Literal["encode", "search", "rerank"]


class StageClock:
    """Adds up the wall-clock milliseconds an arm spends in each stage of one call.

    An arm that composes others hands its own clock down, so that the stages of the parts add up.
    """

    def __init__(self) -> None:
        self.stage_ms: dict[str, float] = {"encode": 0.0, "search": 0.0, "rerank": 0.0}

    @contextmanager
    def stage(self, name: Stage) -> Iterator[None]:
        """Time the body of the ``with`` block into the stage ``name``."""
        begin = time.perf_counter_ns()
        try:
            yield
        finally:
            self.stage_ms[name] += (time.perf_counter_ns() - begin) / 1e6
