"""Where costly results that depend on content alone are kept between runs."""

from __future__ import annotations

from pathlib import Path

from arms.home import cache_root


def cache_folder(kind: str) -> Path:
    """Return the folder for results of one kind, not yet made.

    It lies under ``$L2R_CACHE``, by default the user's cache folder (``~/.cache/learning-to-route``
    on Linux, or under ``$XDG_CACHE_HOME``). Everything in it is named by the hash of what it was
    made from, so it never goes stale and may be deleted.
    """
    return cache_root() / kind
