"""Which labels a router was trained or calibrated on."""

from __future__ import annotations

import hashlib
from pathlib import Path


def labels_hash(labels_folder: Path) -> str:
    """SHA-256 of ``labels.parquet``."""
    return hashlib.sha256((labels_folder / "labels.parquet").read_bytes()).hexdigest()
