"""Query embeddings of a frozen encoder: computed once, shared by every λ, fold and epoch."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from arms.encoders.chunks import encode_in_chunks
from arms.progress import Progress
from arms.records import Unit
from router.query_encoder import QueryEncoder


def embed_queries(
    texts: Sequence[str], encoder: QueryEncoder, cache_folder: Path, progress: Progress
) -> NDArray[np.float32]:
    """(len(texts), d), in the order given; each distinct text is embedded once.

    Embeddings lie under ``cache_folder`` by a hash of the texts and of the encoder, a chunk at a
    time: a killed run continues, and the next run on the same queries embeds nothing.
    """
    distinct = sorted(set(texts))
    fingerprint = f"{encoder.resolved.revision} {encoder.max_tokens} {encoder.dtype} mean"
    units = (Unit("", "", text) for text in distinct)
    parts = [np.zeros((0, encoder.dim), dtype=np.float32)]
    with progress.task("embedding queries", total=len(distinct)) as task:
        for chunk in encode_in_chunks(
            units,
            lambda batch: {"rows": encoder.embed([unit.text for unit in batch])},
            cache_folder,
            fingerprint,
            task,
        ):
            parts.append(chunk.arrays["rows"])
    row_of = {text: row for row, text in enumerate(distinct)}
    rows: NDArray[np.float32] = np.concatenate(parts)[[row_of[text] for text in texts]]
    return rows
