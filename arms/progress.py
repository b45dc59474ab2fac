"""One seam for progress bars: long work reports to it, a console draws it."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any, Protocol


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
    """Draws bars with rich: description, count, elapsed and remaining time."""

    @contextmanager
    def task(self, description: str, total: int | None = None) -> Iterator[Task]:
        """Open a bar on standard error."""
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
