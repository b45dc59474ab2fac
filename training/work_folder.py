"""Finished heads on disk, by a hash of all that they depend on: training that was killed goes on.

The folder lies beside the router, as ``<router>.work``. Deleting it costs time, never results.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from arms.atomic import atomic_file, atomic_folder
from router.policies.encoder import LinearHead
from training.table import RoutingTable

_REVISION = 2
"""Raised when the same settings and data lead to another head than before."""


def fingerprint(table: RoutingTable) -> str:
    """Hash of everything training reads of a table."""
    digest = hashlib.sha256(json.dumps([table.arms, len(table)]).encode())
    for column in (table.texts, table.split_groups):
        digest.update(json.dumps(column.tolist()).encode())
    for array in (table.quality, table.latency_ms, table.competes):
        digest.update(np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()


def key_of(*parts: Any) -> str:
    """Hash of JSON values, of the training code's revision and of torch's version."""
    written = json.dumps([_REVISION, version("torch"), *parts], sort_keys=True)
    return hashlib.sha256(written.encode()).hexdigest()[:32]


@dataclass(frozen=True)
class WorkFolder:
    """Where finished heads and adapters wait for the whole router to be written."""

    path: Path

    @classmethod
    def beside(cls, router_folder: Path) -> WorkFolder:
        """Return the work folder of a router."""
        return cls(router_folder.with_name(f"{router_folder.name}.work"))

    @property
    def embeddings(self) -> Path:
        """Where query embeddings are cached."""
        return self.path / "embeddings"

    def adapter(self, key: str) -> Path:
        """Where the adapter of a finished LoRA head lies."""
        return self.path / "heads" / key / "adapter"

    def load(self, key: str) -> tuple[LinearHead, dict[str, float]] | None:
        """Return a finished head and its metrics, or None."""
        from safetensors import SafetensorError
        from safetensors.numpy import load_file

        folder = self.path / "heads" / key
        try:
            arrays = load_file(folder / "head.safetensors")
            metrics = json.loads((folder / "metrics.json").read_text(encoding="utf-8"))
        except PermissionError:
            raise
        except (OSError, SafetensorError, ValueError):  # absent, or damaged: it is fitted again
            return None
        return LinearHead(arrays["weight"], arrays["bias"]), metrics

    def save(
        self,
        key: str,
        head: LinearHead,
        metrics: Mapping[str, float],
        adapter: Path | None = None,
    ) -> None:
        """Keep a finished head, all at once; the folder ``adapter`` is moved in beside it."""
        from safetensors.numpy import save_file

        with atomic_folder(self.path / "heads" / key) as folder:
            if adapter is not None:
                adapter.rename(folder / "adapter")
            save_file({"weight": head.weight, "bias": head.bias}, folder / "head.safetensors")
            with atomic_file(folder / "metrics.json") as temporary:
                temporary.write_text(json.dumps(dict(metrics)), encoding="utf-8")
