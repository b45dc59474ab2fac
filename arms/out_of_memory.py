"""Too little memory, whoever meets it and however it is worded."""

from __future__ import annotations

import errno
import re

from arms.errors import OutOfMemoryError

_WORDS = re.compile(
    r"out of memory|(?:can(?:'t|not)|unable to|failed to|could not) allocate|bad_?alloc"
    r"|failed to map segment|cannot allocate memory|not enough memory|insufficient memory",
    re.IGNORECASE,
)
"""How torch, ONNX Runtime, Arrow, faiss, the C++ library and the loader of libraries word it."""
_LONGEST = 200


def is_out_of_memory(error: BaseException | None) -> bool:
    """Whether memory ran out, in this error or in one that it was raised from."""
    while error is not None:
        if isinstance(error, MemoryError) or (
            isinstance(error, OSError) and error.errno == errno.ENOMEM
        ):
            return True
        if isinstance(error, RuntimeError | ImportError | OSError) and _WORDS.search(str(error)):
            return True
        error = error.__cause__
    return False


def out_of_memory(error: BaseException, doing: str = "") -> OutOfMemoryError:
    """Return the error that says so, and what to do."""
    said = next((line.strip() for line in str(error).splitlines() if line.strip()), "")
    told = f" ({said[:_LONGEST]})" if said else ""
    what = f" to {doing}" if doing else ""
    return OutOfMemoryError(
        f"there is not enough memory{what}{told}; give the process more, end what else uses it, or "
        "make the batches, the corpus or the encoder smaller"
    )
