"""Datasets from the Hugging Face hub, downloaded once into the cache."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from arms.atomic import write_json
from arms.cache import cache_folder
from arms.errors import CorpusError
from arms.extras import not_importable

TABLES = ("*.parquet", "*.jsonl", "*.jsonl.gz", "*.tsv", "*.tsv.gz")
MEDIA = ("*.pdf", "*.png", "*.jpg", "*.jpeg", "*.webp", "*.tif", "*.tiff")

_DONE = "downloaded.json"


def download(named: str, patterns: Sequence[str]) -> Path:
    """Return the local folder of dataset ``owner/name[@revision]``.

    Only files that match one of the patterns are fetched, and only once: afterwards no network is
    needed. A download that was stopped goes on where it was.

    Raises:
        CorpusError: it isn't there yet and can't be fetched; the message says how to do without.
        MissingExtraError: huggingface_hub isn't installed.
    """
    name, _, revision = named.partition("@")
    wanted = set(patterns)
    folder = cache_folder("hub") / f"{name.replace('/', '--')}@{revision.replace('/', '-')}"
    fetched = _read(folder / _DONE)
    if wanted <= fetched:
        return folder
    try:
        _hub().snapshot_download(
            name,
            repo_type="dataset",
            revision=revision or None,
            allow_patterns=sorted(wanted),
            local_dir=folder,
        )
    except Exception as error:  # the hub, requests and the operating system raise what they like
        reason = str(error).strip().splitlines() or [type(error).__name__]
        raise CorpusError(
            f"dataset {named} can't be fetched from {_endpoint()}: {reason[0]}\n"
            f"Fetch it where that can be reached: hf download {name} --repo-type dataset "
            "--local-dir FOLDER; then give 'path: FOLDER' in place of 'hub:'."
        ) from error
    write_json(folder / _DONE, sorted(fetched | wanted))
    return folder


def _read(path: Path) -> set[str]:
    """Return the patterns whose files are there."""
    try:
        return set(json.loads(path.read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError):
        return set()


def _endpoint() -> str:
    return os.environ.get("HF_ENDPOINT", "the Hugging Face hub")


def _hub() -> Any:
    try:
        import huggingface_hub
    except ImportError as error:
        raise not_importable(error, "huggingface_hub", "hub") from error
    return huggingface_hub
