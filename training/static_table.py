"""Tables of token vectors to start a static-embedding router from, made of an encoder once.

``embeddings`` are the encoder's own input embeddings. ``distilled`` are its mean-pooled outputs for
every token of its vocabulary alone, as in Minishlab's model2vec: PCA, then smooth inverse frequency
(Arora et al., A Simple but Tough-to-Beat Baseline for Sentence Embeddings, 2017), with frequencies
by Zipf's law from the rank in the vocabulary, which tokenisers sort by frequency.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray

from arms.atomic import atomic_file
from arms.cache import cache_folder
from arms.encoders.resolve import ResolvedEncoder
from arms.errors import SettingsError
from arms.progress import Progress, SilentProgress
from router.pooling import embed_tokens
from router.query_encoder import load_encoder

FloatRows = NDArray[np.float32]
StartFrom = Literal["embeddings", "distilled"]
_BATCH = 512
_SIF = 1e-3
_TREATMENT = 1
"""Raised when the same encoder would give other rows."""


@dataclass(frozen=True)
class StartTable:
    """Token vectors and the tokeniser they belong to."""

    rows: FloatRows
    """(vocabulary, d), scaled so that the mean squared length of a row is 1."""
    tokenizer_json: str
    provenance: dict[str, Any]


def start_table(
    encoder: ResolvedEncoder,
    start_from: StartFrom,
    dimension: int,
    progress: Progress | None = None,
) -> StartTable:
    """Make the table, or read it from the cache of what was made of this encoder before.

    A cached table is named by the encoder's revision, ``start_from`` and ``dimension``. The wider
    of the encoder's own dimension and ``dimension`` is never exceeded.

    Raises:
        SettingsError: the encoder's tokeniser is not one of the ``tokenizers`` package.
        RouterError: the encoder can't be loaded.
    """
    provenance = {
        "encoder": encoder.encoder_id,
        "encoder_revision": encoder.revision,
        "start_from": start_from,
        "dimension": dimension,
    }
    name = hashlib.sha256(f"{_TREATMENT} {sorted(provenance.items())}".encode()).hexdigest()[:40]
    path = cache_folder("static-tables") / f"{name}.safetensors"
    if not path.is_file():
        _write(path, *_make(encoder, start_from, dimension, progress or SilentProgress()))
    return _read(path, provenance)


def reduced(rows: FloatRows, dimension: int) -> FloatRows:
    """(n, min(dimension, d)) principal components of (n, d) rows, largest first, centred."""
    centred = rows - rows.mean(axis=0, dtype=np.float64)
    _, directions = np.linalg.eigh(centred.T @ centred)
    wanted = directions[:, ::-1][:, :dimension]
    signs = np.sign(wanted[np.abs(wanted).argmax(axis=0), np.arange(wanted.shape[1])])
    return np.asarray(centred @ (wanted * signs), dtype=np.float32)


def inverse_frequency(vocabulary: int) -> FloatRows:
    """(vocabulary,) ``a / (a + p)``, p by Zipf's law from the row's number, a = 0.001."""
    frequency = 1.0 / np.arange(2, vocabulary + 2)
    frequency /= frequency.sum()
    return np.asarray(_SIF / (_SIF + frequency), dtype=np.float32)


def _make(
    encoder: ResolvedEncoder, start_from: StartFrom, dimension: int, progress: Progress
) -> tuple[FloatRows, str]:
    model, tokenizer = load_encoder(encoder, torch.float32)
    if not getattr(tokenizer, "is_fast", False):
        raise SettingsError(
            f"the encoder '{encoder.encoder_id}' has no fast tokeniser, which a static-embedding "
            "router needs; choose another encoder, or leave it out of 'policies'"
        )
    if start_from == "embeddings":
        rows = model.get_input_embeddings().weight.detach().numpy().astype(np.float32)
        rows = rows if rows.shape[1] <= dimension else reduced(rows, dimension)
    else:
        rows = reduced(_outputs(model.eval(), tokenizer, progress), dimension)
        rows = rows * inverse_frequency(len(rows))[:, None]
    length = np.sqrt((rows.astype(np.float64) ** 2).sum(axis=1).mean())
    return np.asarray(rows / max(length, 1e-12), np.float32), tokenizer.backend_tokenizer.to_str()


def _outputs(model: Any, tokenizer: Any, progress: Progress) -> FloatRows:
    """(vocabulary, d) the mean-pooled output for each token between the special ones."""
    vocabulary = int(model.get_input_embeddings().weight.shape[0])
    before, after = _special_tokens(tokenizer.backend_tokenizer)
    parts = []
    with progress.task("distilling token vectors", total=vocabulary) as task:
        for begin in range(0, vocabulary, _BATCH):
            ids = range(begin, min(begin + _BATCH, vocabulary))
            batch = torch.tensor([[*before, token, *after] for token in ids])
            with torch.inference_mode():
                parts.append(embed_tokens(model, batch).numpy())
            task.advance(len(ids))
    return np.concatenate(parts)


def _special_tokens(tokenizer: Any) -> tuple[list[int], list[int]]:
    """Return the ids that the tokeniser puts before and after a text."""
    bare = tokenizer.encode("a", add_special_tokens=False).ids
    whole = tokenizer.encode("a").ids
    before = (len(whole) - len(bare)) and next(
        start for start in range(len(whole)) if whole[start : start + len(bare)] == bare
    )
    return whole[:before], whole[before + len(bare) :]


def _write(path: Path, rows: FloatRows, tokenizer_json: str) -> None:
    from safetensors.numpy import save_file

    with atomic_file(path) as temporary:
        save_file({"rows": rows}, temporary, {"tokenizer": tokenizer_json})


def _read(path: Path, provenance: dict[str, Any]) -> StartTable:
    from safetensors import safe_open

    with safe_open(path, framework="numpy") as opened:
        return StartTable(opened.get_tensor("rows"), opened.metadata()["tokenizer"], provenance)
