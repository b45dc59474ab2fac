"""One seam for progress: long work reports to it, a console draws bars or writes lines."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from typing import Any, Protocol, TextIO


class Task(Protocol):
    """One bar."""

    def advance(self, amount: int = 1) -> None:
        """Move the bar on by ``amount`` units of work."""


class Progress(Protocol):
    """A place where bars are shown."""

    def task(self, description: str, total: int | None = None) -> AbstractContextManager[Task]:
        """Open a bar for the length of a ``with`` block."""


class _SilentTask:
    def advance(self, amount: int = 1) -> None:
        """Do nothing."""


class SilentProgress:
    """Shows nothing; the default of every library call."""

    @contextmanager
    def task(self, description: str, total: int | None = None) -> Iterator[Task]:
        """Open a bar that isn't drawn."""
        yield _SilentTask()


class ConsoleProgress:
    """Draws bars with rich on a terminal; elsewhere writes lines (:class:`PlainProgress`)."""

    def task(self, description: str, total: int | None = None) -> AbstractContextManager[Task]:
        """Open a bar on standard error."""
        if on_terminal(sys.stderr):
            return _draw(description, total)
        return _lines.task(description, total)


def on_terminal(stream: TextIO) -> bool:
    """Whether a stream is a terminal that can draw."""
    return stream.isatty() and os.environ.get("TERM") not in ("dumb", "unknown")


@contextmanager
def watched(command: str) -> Iterator[None]:
    """While the body runs, say at least every 30 s what is being done, where nothing draws bars."""
    if on_terminal(sys.stderr):
        yield
    else:
        with _lines.watched(command):
            yield


class PlainProgress:
    """Writes lines to standard error: what a step has done, of how much, and the time left.

    A step is told when it has lasted two seconds, from then on every thirty, and when it ends.
    """

    first_s = 2.0
    every_s = 30.0

    def __init__(self) -> None:
        self._open: list[_PlainTask] = []
        self._told_s = time.monotonic()

    @contextmanager
    def task(self, description: str, total: int | None = None) -> Iterator[Task]:
        """Open a step."""
        task = _PlainTask(description, total, self.tell_if_due)
        self._open.append(task)
        try:
            yield task
            self._tell(task.finished())
        finally:
            self._open.remove(task)

    @contextmanager
    def watched(self, command: str) -> Iterator[None]:
        """Tell of open steps, or of ``command``, also where none of them moves on."""
        ended = threading.Event()
        begin_s = self._told_s = time.monotonic()

        def watch() -> None:
            while not ended.wait(self.first_s):  # seldom, so that timings aren't disturbed
                self.tell_if_due()
                now_s = time.monotonic()
                if now_s - self._told_s >= self.every_s - self.first_s:  # no step is open
                    self._tell(f"{command}: working, {duration(now_s - begin_s)}")

        watcher = threading.Thread(target=watch, name="progress", daemon=True)
        watcher.start()
        try:
            yield
        finally:
            ended.set()
            watcher.join()

    def tell_if_due(self) -> None:
        """Write a line on the innermost step if it has long not been told of."""
        if not self._open:
            return
        task, now_s = self._open[-1], time.monotonic()
        wait_s = self.every_s - self.first_s if task.told else self.first_s
        if now_s - (self._told_s if task.told else task.begin_s) >= wait_s:
            task.told = True
            self._tell(task.state())

    def _tell(self, line: str) -> None:
        self._told_s = time.monotonic()
        with suppress(OSError, ValueError):  # nobody reads it any more
            sys.stderr.write(f"{line}\n")
            sys.stderr.flush()


class _PlainTask:
    def __init__(self, description: str, total: int | None, moved: Callable[[], None]) -> None:
        self.begin_s = time.monotonic()
        self.told = False
        self._description, self._total, self._moved = description, total, moved
        self._done = 0

    def advance(self, amount: int = 1) -> None:
        """Count, and tell if it is time."""
        self._done += amount
        self._moved()

    def state(self) -> str:
        """Say how far it is, and how long the rest takes at this pace."""
        took_s = time.monotonic() - self.begin_s
        said = f"{self._count()}, {duration(took_s)}"
        if self._total and 0 < self._done < self._total:
            said += f", about {duration(took_s * (self._total - self._done) / self._done)} left"
        return said

    def finished(self) -> str:
        """Say what was done in which time."""
        return f"{self._count()} in {duration(time.monotonic() - self.begin_s)}"

    def _count(self) -> str:
        of = "" if self._total is None else f" of {self._total:,}"
        return f"{self._description}: {self._done:,}{of} done"


_lines = PlainProgress()


def duration(seconds: float) -> str:
    """Write a time: ``7 s``, ``3 min 20 s``, ``2 h 5 min``."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 3600} h {whole % 3600 // 60} min"


@contextmanager
def _draw(description: str, total: int | None) -> Iterator[Task]:
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )
    from rich.progress import (
        Progress as RichProgress,
    )

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
    )
    # Drawn by whoever advances, never by a thread of its own, which would disturb timings.
    console = Console(stderr=True)
    with RichProgress(*columns, console=console, auto_refresh=False) as bars:
        yield _RichTask(bars, bars.add_task(description, total=total))


_REDRAW_S = 0.1


class _RichTask:
    def __init__(self, bars: Any, task_id: Any) -> None:
        self._bars = bars
        self._task_id = task_id
        self._drawn_s = time.monotonic()

    def advance(self, amount: int = 1) -> None:
        """Move the bar; draw it if it was last drawn a while ago."""
        self._bars.advance(self._task_id, amount)
        now_s = time.monotonic()
        if now_s - self._drawn_s >= _REDRAW_S:
            self._drawn_s = now_s
            self._bars.refresh()
