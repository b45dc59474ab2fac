"""Latency of arms on queries: serial, warm, interleaved (DESIGN: "Measuring latency").

One process and one query at a time. Every repeat visits all arms in a random order of its own, so
that drift of the machine hits all alike. The collector is off while the clock runs, the device is
synchronised before it starts and before it stops, and no arm sees another's results.
"""

from __future__ import annotations

import gc
import random
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

import numpy as np

from arms.arm import Arm
from arms.clock import StageClock
from arms.records import Query, Status
from oracle.deadline import DeadlinePassed, deadline
from oracle.outcome import failure_message, timeout_message

STAGES = ("encode", "search", "rerank")


@dataclass
class Timing:
    """What was timed of one query on one arm."""

    samples_ms: list[float] = field(default_factory=list)
    """One per repeat, in the order taken; empty where a latency was stated, not measured."""
    stages_ms: list[Mapping[str, float]] = field(default_factory=list)
    """Stage → milliseconds, one per sample."""
    stated_ms: float | None = None
    """The latency that came with a ready-made run."""
    status: Status = "ok"
    """``ok``, or ``error`` or ``timeout`` of the first repeat that failed."""
    message: str = ""

    @property
    def latency_ms(self) -> float:
        """Median of the samples, or the stated latency; NaN after a failure."""
        if self.status != "ok":
            return float("nan")
        return float(np.median(self.samples_ms)) if self.stated_ms is None else self.stated_ms

    @property
    def iqr_ms(self) -> float:
        """Distance from the 25th to the 75th percentile of the samples; 0 of a stated latency."""
        if self.status != "ok":
            return float("nan")
        if self.stated_ms is not None:
            return 0.0
        low, high = np.percentile(self.samples_ms, (25, 75))
        return float(high - low)

    def stage_ms(self, stage: str) -> float:
        """Mean over the one or two middle repeats, so that stages add up to the median call."""
        if self.status != "ok" or not self.samples_ms:
            return float("nan")
        order = np.argsort(self.samples_ms, kind="stable")
        middle = order[(len(order) - 1) // 2 : len(order) // 2 + 1]
        return float(np.mean([self.stages_ms[repeat][stage] for repeat in middle]))


def warm_up(
    arms: Mapping[str, Arm], queries: Sequence[Query], k: int, limit_s: float | None
) -> None:
    """Run every query on every arm and discard the outcome, failures included."""
    for query in queries:
        for arm in arms.values():
            try:
                with deadline(limit_s):
                    arm.rank([query.text], k, StageClock())
            except (Exception, DeadlinePassed):
                continue  # the timed call meets the same failure and records it


def time_queries(
    arms: Mapping[str, Arm],
    queries: Sequence[Query],
    *,
    k: int,
    repeats: int,
    limit_s: float | None,
    seed: str,
    advance: Callable[[int], None] = lambda amount: None,
) -> dict[tuple[str, str], Timing]:
    """Return (query id, arm) → timing. ``advance`` is called with the arms done, per query.

    The order of arms is drawn from ``seed`` and the query id, so the same unit of work visits them
    in the same order again. An arm that failed on a query isn't tried again on that query.
    """
    timings: dict[tuple[str, str], Timing] = {}
    with _quiet_collector():
        for query in queries:
            of_query = {name: _begin(arm, query.text) for name, arm in arms.items()}
            measured = [name for name, timing in of_query.items() if timing.stated_ms is None]
            draw = random.Random(f"{seed}:{query.query_id}")
            for _ in range(repeats):
                draw.shuffle(measured)
                for name in measured:
                    if of_query[name].status == "ok":
                        _take_sample(of_query[name], arms[name], query.text, k, limit_s)
            timings.update({(query.query_id, name): one for name, one in of_query.items()})
            gc.collect(0)
            advance(len(arms))
    return timings


def _begin(arm: Arm, text: str) -> Timing:
    stated = getattr(arm, "stated_latency_ms", None)
    try:
        return Timing(stated_ms=None if stated is None else stated(text))
    except Exception as error:
        return Timing(status="error", message=failure_message(error))


def _take_sample(timing: Timing, arm: Arm, text: str, k: int, limit_s: float | None) -> None:
    try:
        elapsed_ms, stage_ms = _timed_call(arm, text, k, limit_s)
    except DeadlinePassed:
        timing.status, timing.message = "timeout", timeout_message(limit_s)
    except Exception as error:
        timing.status, timing.message = "error", failure_message(error)
    else:
        timing.samples_ms.append(elapsed_ms)
        timing.stages_ms.append(stage_ms)


def _timed_call(
    arm: Arm, text: str, k: int, limit_s: float | None
) -> tuple[float, Mapping[str, float]]:
    clock = StageClock()
    synchronise = _synchroniser()
    with deadline(limit_s):
        synchronise()
        begin_ns = time.perf_counter_ns()
        arm.rank([text], k, clock)
        synchronise()
        elapsed_ns = time.perf_counter_ns() - begin_ns
    return elapsed_ns / 1e6, clock.stage_ms


def _synchroniser() -> Callable[[], None]:
    torch = sys.modules.get("torch")
    if torch is None or not torch.cuda.is_available():
        return lambda: None
    synchronise: Callable[[], None] = torch.cuda.synchronize
    return synchronise


@contextmanager
def _quiet_collector() -> Iterator[None]:
    was_enabled = gc.isenabled()
    gc.collect()
    gc.freeze()
    gc.disable()
    try:
        yield
    finally:
        gc.unfreeze()
        if was_enabled:
            gc.enable()
