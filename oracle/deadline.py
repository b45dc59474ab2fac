"""A limit on how long one call may take."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


class DeadlinePassed(BaseException):
    """The call took longer than it may.

    Not an ``Exception``, so that an arm that swallows those can't swallow this.
    """


def _can_interrupt() -> bool:
    in_main_thread = threading.current_thread() is threading.main_thread()
    return in_main_thread and hasattr(signal, "setitimer")


@contextmanager
def deadline(limit_s: float | None) -> Iterator[None]:
    """Raise ``DeadlinePassed`` when the body takes longer than ``limit_s`` seconds.

    The body is interrupted by a timer signal, between two Python instructions: a native call that
    never returns to the interpreter runs to its end first. Outside the main thread, and where the
    system has no such timer, nothing is interrupted. In every case a body that took too long ends
    in ``DeadlinePassed``. None: no limit.
    """
    if limit_s is None:
        yield
        return
    begin_s = time.perf_counter()
    if _can_interrupt():
        with _timer(limit_s):
            yield
    else:
        yield
    if time.perf_counter() - begin_s > limit_s:
        raise DeadlinePassed


@contextmanager
def _timer(limit_s: float) -> Iterator[None]:
    armed = True

    def passed(signal_number: int, frame: FrameType | None) -> None:
        if armed:
            raise DeadlinePassed

    previous = signal.signal(signal.SIGALRM, passed)
    try:
        signal.setitimer(signal.ITIMER_REAL, limit_s)
        yield
    finally:
        armed = False
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, previous if previous is not None else signal.SIG_DFL)
