"""The user's home and cache folders, also for a user whom the system doesn't know.

In a container that runs as any number (``docker run -u 12345``) there may be no user name, no home
folder, or one that can't be written.
"""

from __future__ import annotations

import getpass
import logging
import os
import tempfile
from contextlib import suppress
from functools import lru_cache
from pathlib import Path

from arms.errors import SettingsError

CACHE_VARIABLE = "L2R_CACHE"
_NAME = "learning-to-route"

_log = logging.getLogger(__name__)


def expanded(path: Path | str, named: str) -> Path:
    """Return ``path`` with a leading ``~`` replaced; ``named`` says where it was given.

    Raises:
        SettingsError: nothing says where that user's home is.
    """
    try:
        return Path(path).expanduser()
    except RuntimeError as error:
        raise SettingsError(
            f"{named}: {path} begins in a home folder that isn't known here; write the whole path"
        ) from error


def cache_root() -> Path:
    """Return the folder of all caches: ``$L2R_CACHE``, or the user's usual one.

    Where that can't be made or written, a folder of this user's among the temporary files serves,
    and a warning says so.
    """
    given = os.environ.get(CACHE_VARIABLE)
    return expanded(given, f"the variable {CACHE_VARIABLE}") if given else _usual_cache()


def name_the_user() -> None:
    """Give a user without a name one, in the environment: libraries ask for it on import.

    PyTorch names a temporary folder by it. Where even the home folder is unknown, the Hugging Face
    cache lies beside ours, since it would be put into a folder called ``~``.
    """
    try:
        getpass.getuser()
    except (KeyError, OSError, ImportError):  # which one depends on Python's version
        os.environ["LOGNAME"] = f"user{_user_number()}"
    if "HF_HOME" not in os.environ and _usual_home() is None:
        os.environ["HF_HOME"] = str(cache_root() / "huggingface")


def _user_number() -> int:
    return os.getuid() if hasattr(os, "getuid") else 0


def _usual_home() -> Path | None:
    try:
        return Path.home()
    except RuntimeError:
        return None


@lru_cache(maxsize=1)
def _usual_cache() -> Path:
    from platformdirs import user_cache_path

    shown = "a cache folder (no home folder is known)"
    with suppress(RuntimeError):  # platformdirs, of a home that it can't find
        usual = user_cache_path(_NAME)
        if usual.is_absolute() and _can_be_written(usual):
            return usual
        if usual.is_absolute():
            shown = str(usual)
    fallback = _private_temporary()
    _log.warning(
        "%s can't be written; results are kept in %s instead. Name a lasting folder in the "
        "environment variable %s.",
        shown,
        fallback,
        CACHE_VARIABLE,
    )
    return fallback


def _can_be_written(folder: Path) -> bool:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError:
        return False
    return os.access(folder, os.W_OK | os.X_OK)


def _private_temporary() -> Path:
    """Return a folder that nobody else can have put anything into."""
    folder = Path(tempfile.gettempdir()) / f"{_NAME}-{_user_number()}"
    try:
        folder.mkdir(mode=0o700, exist_ok=True)
        state = folder.lstat()
        if state.st_uid == _user_number() and folder.is_dir() and not folder.is_symlink():
            folder.chmod(0o700)
            return folder
    except OSError:
        pass
    return Path(tempfile.mkdtemp(prefix=f"{_NAME}-"))
