"""What can go wrong, as a tree:

    RoutingError
    ├── SettingsError        a setting is unknown, missing or out of range
    ├── CorpusError          a corpus, its queries or its judgements are unusable
    ├── ArmIndexError          an index is absent, half-built or of another corpus
    ├── FolderInUseError     another process is writing the same output folder
    ├── WriteError           a file or folder can't be written: no space, no right, damage
    ├── QueryError           a query that no arm accepts (empty, not text, not UTF-8)
    ├── MissingExtraError    an optional package is not installed
    ├── BrokenPackageError   a package is installed and can't be loaded
    ├── OutOfMemoryError     there isn't enough memory
    ├── ArmError             one arm failed on one query; the oracle records it as a status
    ├── LabelsError          oracle labels are absent, incomplete or of another version
    └── RouterError          a router artifact is unusable, or a wish can't be met (lam, arms)

Every message says what was expected, what came, and what to do. The console command prints the
message alone; a traceback means a defect of ours.
"""

from pathlib import Path


class RoutingError(Exception):
    """Root of every error this project raises on purpose."""


class SettingsError(RoutingError):
    """A setting is unknown, missing or out of range."""


class CorpusError(RoutingError):
    """A corpus, its queries or its judgements are unusable."""


class ArmIndexError(RoutingError):
    """An index is absent, half-built or belongs to another corpus."""


class FolderInUseError(RoutingError):
    """Another process is writing the same output folder."""


class WriteError(RoutingError):
    """A file or folder can't be written."""

    def __init__(self, message: str, path: Path, cause: str) -> None:
        super().__init__(message)
        self.path = path
        self.cause = cause


class QueryError(RoutingError):
    """A query that no arm accepts: empty, or not text."""


class MissingExtraError(RoutingError):
    """An optional package is not installed."""

    def __init__(self, package: str, extra: str) -> None:
        super().__init__(
            f"{package} is needed here and is not installed. "
            f"Run: pip install 'learning-to-route[{extra}]'"
        )
        self.package = package
        self.extra = extra


class BrokenPackageError(RoutingError):
    """A package is installed and can't be loaded."""


class OutOfMemoryError(RoutingError):
    """There isn't enough memory."""


class ArmError(RoutingError):
    """One arm failed on one query."""


class LabelsError(RoutingError):
    """Oracle labels are absent, incomplete or of another version."""


class RouterError(RoutingError):
    """A router artifact is unusable, or a wish can't be met."""
