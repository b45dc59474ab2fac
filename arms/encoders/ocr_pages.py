"""Page pictures to vectors by reading them: OCR, then a text encoder on what was read.

For dense retrieval a page has one vector: the mean of the unit vectors of its text's windows of at
most 100 words, scaled to length 1. So all of a long page counts, where cutting its text at the
encoder's limit (256 tokens of MiniLM) would leave most of it out; a page of one window has exactly
the vector of its text. For late interaction each line that was read has one vector, and so has the
query: MaxSim is then the best line's inner product. A page on which nothing was read has none.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from arms.corpora.granularity import windows
from arms.corpora.pictures import PictureError
from arms.encoders.ocr import OCR, PageReader
from arms.encoders.query_backend import TORCH, QueryBackend
from arms.encoders.text_encoder import TextEncoder
from arms.encoders.unit_encoder import Encoded, FloatArray, UnitEncoder, Walk
from arms.progress import Progress
from arms.records import Unit


@dataclass(frozen=True)
class OcrPages(UnitEncoder):
    """Reads pages, and encodes what it reads; loads RapidOCR when it meets the first page."""

    reader: PageReader
    text_encoder: TextEncoder
    one_vector_each: bool
    """Whether a page gets one vector, or one for each line."""
    workers: int | None = None
    """Threads that read; None: one for each core."""
    backend: QueryBackend = TORCH
    """Runs the text encoder for queries."""

    @property
    def query_backend(self) -> str:  # type: ignore[override]
        """See :attr:`UnitEncoder.query_backend`."""
        return self.backend.told

    @property
    def dimension(self) -> int:
        """Length of a vector."""
        return self.text_encoder.dimension

    def prepare(self, walk: Walk, n_units: int, identity: str, progress: Progress) -> None:
        """Read every page, several at once; the cache keeps what was read."""
        pages = [unit.page for unit in walk() if unit.page is not None]
        with progress.task(f"{identity}: reading pages ({OCR})", n_units) as task:
            self.reader.read_all(pages, task, self.workers)

    def encode_units(self, units: Sequence[Unit], batch_size: int = 32) -> Encoded:
        """One vector per page, or one per line of it."""
        texts: list[list[str]] = []
        problems: dict[str, str] = {}
        for unit in units:
            try:
                texts.append(self._texts(unit))
            except PictureError as error:
                texts.append([])
                problems[unit.unit_id] = str(error)
        flat = [text for of_unit in texts for text in of_unit]
        prompt = self.text_encoder.prompt("document", None)
        vectors = self.text_encoder.embed(flat, prompt, batch_size, few_shapes=True)
        ends = np.cumsum([len(of_unit) for of_unit in texts], dtype=int)
        parts = np.split(vectors, ends[:-1])
        if self.one_vector_each:
            parts = [mean_vector(one) for one in parts]
        return Encoded(parts, problems)

    def encode_queries(self, queries: Sequence[str], batch_size: int = 32) -> list[FloatArray]:
        """One vector per query."""
        prompt = self.text_encoder.prompt("query", None)
        vectors = self.text_encoder.embed(queries, prompt, batch_size, backend=self.backend)
        return list(vectors[:, None])

    def _texts(self, unit: Unit) -> list[str]:
        if unit.page is None:
            raise ValueError(f"the unit '{unit.unit_id}' has no picture; page arms index pages")
        lines = [line.text for line in self.reader.read(unit.page)]
        return list(windows("\n".join(lines))) if self.one_vector_each else lines


def mean_vector(vectors: FloatArray) -> FloatArray:
    """(n, d) → (1, d), the mean scaled to length 1; none stay none, and so do opposites."""
    mean = vectors.mean(axis=0, keepdims=True) if len(vectors) else vectors
    length = np.linalg.norm(mean, axis=1, keepdims=True)
    return (mean / length if len(mean) and length[0, 0] > 0 else mean[:0]).astype(np.float32)
