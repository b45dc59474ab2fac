"""A whole corpus through a unit encoder, chunk by chunk, for the indexes of one build."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from arms.atomic import write_json
from arms.corpora.granularity import units
from arms.encoders.chunks import Arrays, encode_in_chunks
from arms.encoders.unit_encoder import FloatArray, UnitEncoder
from arms.errors import CorpusError
from arms.indexes.folder import Build, Source
from arms.progress import Progress
from arms.records import Unit

WITHOUT_VECTORS = "without_vectors.json"
"""Beside an index that leaves units out: how many, and why those that could not be read."""
_MOST_NAMED = 5

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class EncodedChunk:
    """Some consecutive units with their vectors."""

    units: tuple[Unit, ...]
    vectors: NDArray
    """(Σ lengths, d) of all of them, one unit after another."""
    lengths: NDArray[np.int64]
    """(units,) vectors per unit."""


def count_units(source: Source) -> int:
    """Return how many units the arm indexes.

    Raises:
        CorpusError: none.
    """
    spec, corpus = source.spec, source.corpus
    n_units = sum(1 for _ in units(corpus, spec.granularity))
    if n_units == 0:
        raise CorpusError(
            f"no document of the corpus '{corpus.name}' has a picture of a page, which "
            f"'{spec.identity}' reads; name the datasets that have pages under the arm, "
            "e.g. only: [reports], or give the corpus pages"
        )
    return n_units


def encode_corpus(
    source: Source,
    build: Build,
    encoder: UnitEncoder,
    n_units: int,
    progress: Progress,
    *,
    batch_size: int,
    dtype: type[np.floating] = np.float32,
    reduce: Callable[[FloatArray], FloatArray] = lambda vectors: vectors,
) -> Iterator[EncodedChunk]:
    """Yield the corpus's units with their vectors; a killed build continues after the last chunk.

    Units that could not be read are named in one warning and in ``without_vectors.json``; they
    have no vector, and the build goes on.

    Args:
        reduce: applied to each unit's (n, d) vectors before they are kept.
        dtype: in which vectors are kept and come.
    """
    spec, corpus = source.spec, source.corpus

    def encode(chunk: Sequence[Unit]) -> Arrays:
        encoded = encoder.encode_units(chunk, batch_size)
        kept = [reduce(one) if len(one) else one for one in encoded.vectors]
        flat = np.concatenate([np.empty((0, encoder.dimension), dtype=dtype), *kept])
        problems = json.dumps(dict(encoded.problems)).encode("utf-8")
        return {
            "vectors": flat.astype(dtype),
            "lengths": np.array([len(one) for one in kept], dtype=np.int64),
            "problems": np.frombuffer(problems, dtype=np.uint8),
        }

    encoder.prepare(lambda: units(corpus, spec.granularity), n_units, spec.identity, progress)
    fingerprint = _fingerprint(source)
    problems: dict[str, str] = {}
    n_empty = 0
    with progress.task(f"{spec.identity}: encoding", n_units) as task:
        walk = units(corpus, spec.granularity)
        for chunk in encode_in_chunks(
            walk, encode, build.folder, fingerprint, task, encoder.chunk_units
        ):
            problems |= json.loads(chunk.arrays["problems"].tobytes())
            n_empty += int((chunk.arrays["lengths"] == 0).sum())
            yield EncodedChunk(chunk.units, chunk.arrays["vectors"], chunk.arrays["lengths"])
    if n_empty:
        _report(source, build, n_units, n_empty, problems)


def _fingerprint(source: Source) -> str:
    record = source.record()
    parts = (record.name, record.encoder_revision, record.encoder_dtype, record.options)
    return json.dumps(parts, sort_keys=True)


def _report(
    source: Source, build: Build, n_units: int, n_empty: int, problems: dict[str, str]
) -> None:
    content = {"n_units": n_units, "n_without_vectors": n_empty, "unreadable": problems}
    write_json(build.folder / WITHOUT_VECTORS, content)
    if not problems:
        return
    named = "\n".join(f"  {unit}: {why}" for unit, why in list(problems.items())[:_MOST_NAMED])
    more = f"\n  … and {len(problems) - _MOST_NAMED} more" if len(problems) > _MOST_NAMED else ""
    _log.warning(
        "%s, dataset '%s': %d of %d pages can't be read and will not be found (%s lists them):\n%s",
        source.spec.identity,
        source.corpus.name,
        len(problems),
        n_units,
        build.folder / WITHOUT_VECTORS,
        named + more,
    )
