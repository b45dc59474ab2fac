"""New .npy files that are written through memory."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import DTypeLike

_UNSUPPORTED = (errno.EOPNOTSUPP, errno.EINVAL, errno.ENOSYS)


def create_mapped(path: Path, dtype: DTypeLike, shape: tuple[int, ...]) -> np.memmap[Any, Any]:
    """Create ``path`` and map it, its space reserved: writing to it can't meet a full disk.

    Where it could, the process would be killed (SIGBUS), with nobody to say why.

    Raises:
        OSError: there is no space for it.
    """
    mapped = np.lib.format.open_memmap(path, "w+", np.dtype(dtype), shape)
    if hasattr(os, "posix_fallocate"):
        with path.open("rb+") as stream:
            n_bytes = os.fstat(stream.fileno()).st_size
            try:
                os.posix_fallocate(stream.fileno(), 0, n_bytes)
            except OSError as error:
                if error.errno not in _UNSUPPORTED:
                    raise OSError(error.errno, error.strerror, str(path)) from error
    return mapped
