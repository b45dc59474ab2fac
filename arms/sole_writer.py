"""One writer at a time for an output folder: a second one is refused, and told who holds it.

The lock is the operating system's, on ``.<name>.lock`` beside the folder, so that it ends with the
process that holds it. Who that is stands in ``.<name>.writer.json`` while it writes.
"""

from __future__ import annotations

import inspect
import json
import os
import shlex
import socket
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from datetime import datetime
from functools import wraps
from pathlib import Path
from typing import ParamSpec, TypeVar

from arms.errors import FolderInUseError
from arms.write_errors import writing_to

_LONGEST_COMMAND = 120

_P = ParamSpec("_P")
_R = TypeVar("_R")

_held: dict[Path, int] = {}
"""Folder → the thread of this process that writes it."""


@contextmanager
def sole_writer(*folders: Path) -> Iterator[None]:
    """Hold output folders, which need not exist yet, for as long as the body runs.

    Within one thread it nests: what a command holds, its steps may hold again.

    Raises:
        FolderInUseError: another process, or thread, is writing one of them; it is named.
        WriteError: nothing can be written beside one of them.
    """
    with ExitStack() as stack:
        for folder in sorted({one.resolve() for one in folders}):
            stack.enter_context(_holding(folder))
        yield


@contextmanager
def _holding(folder: Path) -> Iterator[None]:
    from filelock import FileLock, Timeout

    if _held.get(folder) == threading.get_ident():
        yield
        return
    note = folder.with_name(f".{folder.name}.writer.json")
    try:
        with writing_to(folder):
            folder.parent.mkdir(parents=True, exist_ok=True)
            lock = FileLock(folder.with_name(f".{folder.name}.lock"), timeout=0)
            lock.acquire()
    except Timeout:
        raise FolderInUseError(
            f"{folder} is being written by {_holder(note)}; wait until that ends, or stop it, then "
            "run this command again"
        ) from None
    _held[folder] = threading.get_ident()
    try:
        with suppress(OSError):  # a full disk is for whoever writes more than a name to say
            note.write_text(json.dumps(_this_process()), encoding="utf-8")
        yield
    finally:
        del _held[folder]
        note.unlink(missing_ok=True)
        lock.release()


def writes(parameter: str) -> Callable[[Callable[_P, _R]], Callable[_P, _R]]:
    """Decorate a function that writes the folder it is given as ``parameter``: it holds it."""

    def decorate(function: Callable[_P, _R]) -> Callable[_P, _R]:
        signature = inspect.signature(function)

        @wraps(function)
        def held(*given: _P.args, **named: _P.kwargs) -> _R:
            with sole_writer(signature.bind(*given, **named).arguments[parameter]):
                return function(*given, **named)

        return held

    return decorate


def _this_process() -> dict[str, object]:
    command = shlex.join([Path(sys.argv[0]).name.removesuffix(".py"), *sys.argv[1:]])
    return {
        "command": command[:_LONGEST_COMMAND],
        "pid": os.getpid(),
        "host": socket.gethostname(),
        "since": datetime.now().isoformat(" ", "seconds"),
    }


def _holder(note: Path) -> str:
    try:
        told = json.loads(note.read_text(encoding="utf-8"))
        return (
            f"'{told['command']}' (process {told['pid']} on {told['host']}, since {told['since']})"
        )
    except (OSError, ValueError, KeyError, TypeError):  # it is just beginning, or ending
        return "another process"
