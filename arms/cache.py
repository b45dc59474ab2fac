"""Where costly results that depend on content alone are kept between runs."""

from __future__ import annotations

import os
from pathlib import Path

VARIABLE = "L2R_CACHE"


def cache_folder(kind: str) -> Path:
    """Return the folder for results of one kind, not yet made.

    It lies under ``$L2R_CACHE``, by default ``~/.cache/learning-to-route``. Everything in it is
    named by the hash of what it was made from, so it never goes stale and may be deleted.
    """
    given = os.environ.get(VARIABLE)
    root = Path(given).expanduser() if given else Path.home() / ".cache" / "learning-to-route"
    return root / kind
