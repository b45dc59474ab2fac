"""Optional packages that can't be imported: absent, broken, or too large for the memory."""

from __future__ import annotations

from importlib.util import find_spec

from arms.errors import BrokenPackageError, MissingExtraError, RoutingError
from arms.out_of_memory import is_out_of_memory, out_of_memory

_MODULES = {"pillow": "PIL", "scikit-learn": "sklearn"}
"""Package → what it is imported as, where that is another name."""


def not_importable(error: ImportError, package: str, extra: str) -> RoutingError:
    """Return the error to raise where importing ``package``, of the extra ``extra``, failed."""
    if is_out_of_memory(error):
        return out_of_memory(error, f"load {package}")
    module = _MODULES.get(package, package.replace("-", "_"))
    name = (error.name or module).partition(".")[0]
    if not _is_installed(name):
        return MissingExtraError(package if name == module else name, extra)
    return BrokenPackageError(
        f"{package} is installed and can't be loaded: {error}. Mend it: pip install "
        f"--force-reinstall 'learning-to-route[{extra}]'"
    )


def _is_installed(module: str) -> bool:
    """Whether there is more of it than a folder that happens to have its name."""
    try:
        found = find_spec(module)
    except (ImportError, ValueError):
        return False
    return found is not None and found.origin is not None
