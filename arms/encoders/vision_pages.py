"""Page pictures to vectors with a vision model of colpali-engine.

Vectors are those of colpali-engine's own model and processor. Of a bag of patch vectors, what the
processor added to fill a batch is dropped, and every other token counts, those of the prompt
included, as in colpali-engine's scoring.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from arms.corpora.pictures import PictureError, load_picture
from arms.encoders.resolve import ResolvedEncoder
from arms.encoders.unit_encoder import Encoded, FloatArray, UnitEncoder
from arms.encoders.vision_model import VisionModel, load_vision_model
from arms.records import Page, Unit

if TYPE_CHECKING:
    from PIL.Image import Image

SMALLEST_SIDE = 28
MAX_RATIO = 50
"""Narrower and longer pictures are laid on white: processors refuse them."""

_loaded: weakref.WeakValueDictionary[tuple[Any, ...], VisionPages] = weakref.WeakValueDictionary()
_loading = threading.Lock()


def load_vision_pages(
    encoder: ResolvedEncoder,
    class_name: str,
    dtype: str,
    device: str,
    *,
    max_visual_tokens: int | None = None,
    batch_pixels: int = 4_000_000,
    max_query_tokens: int = 512,
) -> VisionPages:
    """Load an encoder, or return the one that another opened arm of this process holds."""
    key = (encoder, class_name, dtype, device, max_visual_tokens, batch_pixels, max_query_tokens)
    with _loading:
        found = _loaded.get(key)
        if found is None:
            loaded = load_vision_model(encoder, class_name, dtype, device, max_visual_tokens)
            found = _loaded[key] = VisionPages(loaded, batch_pixels, max_query_tokens)
        return found


class VisionPages(UnitEncoder):
    """A loaded vision model. Threads may share it; they take turns."""

    chunk_units = 16

    def __init__(
        self, loaded: VisionModel, batch_pixels: int = 4_000_000, max_query_tokens: int = 512
    ) -> None:
        """Pages are encoded together while their pictures have at most ``batch_pixels``."""
        self._model, self._processor = loaded.model, loaded.processor
        self._one_vector_each = loaded.class_name.startswith("Bi")
        self._batch_pixels, self._max_query_tokens = batch_pixels, max_query_tokens
        self._turn = threading.Lock()
        self._dimension = self.encode_queries(["x"])[0].shape[1]

    @property
    def dimension(self) -> int:
        """Length of a vector."""
        return self._dimension

    def encode_units(self, units: Sequence[Unit], batch_size: int = 32) -> Encoded:
        """One vector per page, or one per token of it; pages of equal content are encoded once."""
        pages = {unit.page.key: unit.page for unit in units if unit.page is not None}
        problems: dict[str, str] = {}
        vectors: dict[str, FloatArray] = {}
        for batch in self._batches(pages, batch_size, problems):
            keys = [key for key, _ in batch]
            with self._turn:
                encoded = self._encode(
                    self._processor.process_images([picture for _, picture in batch])
                )
            vectors.update(zip(keys, encoded, strict=True))
        none = np.empty((0, self.dimension), dtype=np.float32)
        keys = [unit.page.key if unit.page is not None else "" for unit in units]
        return Encoded(
            [vectors.get(key, none) for key in keys],
            {
                unit.unit_id: problems[key]
                for unit, key in zip(units, keys, strict=True)
                if key in problems
            },
        )

    def encode_queries(self, queries: Sequence[str], batch_size: int = 32) -> list[FloatArray]:
        """One vector per query, or one per token of it; queries are cut at a number of tokens."""
        found: list[FloatArray] = []
        for begin in range(0, len(queries), batch_size):
            with self._turn:
                texts = [self._plain(query) for query in queries[begin : begin + batch_size]]
                found += self._encode(self._processor.process_queries(texts=texts))
        return found

    def _batches(
        self, pages: dict[str, Page], batch_size: int, problems: dict[str, str]
    ) -> Iterator[list[tuple[str, Image]]]:
        """Yield keys with pictures, bounded in number and pixels; note pages that can't be read."""
        batch: list[tuple[str, Image]] = []
        pixels = 0
        for key, page in pages.items():
            try:
                picture = laid_on_white(load_picture(page))
            except PictureError as error:
                problems[key] = str(error)
                continue
            size = picture.width * picture.height
            if batch and (len(batch) == batch_size or pixels + size > self._batch_pixels):
                yield batch
                batch, pixels = [], 0
            batch.append((key, picture))
            pixels += size
        if batch:
            yield batch

    def _encode(self, features: Any) -> list[FloatArray]:
        if hasattr(self._model, "rope_deltas"):
            self._model.rope_deltas = None  # of the batch before
        with torch.inference_mode():
            vectors = self._model(**features.to(self._model.device)).float().cpu()
        if self._one_vector_each:
            return list(vectors.numpy()[:, None])
        kept = features["attention_mask"].bool().cpu()
        return [one[mask].numpy() for one, mask in zip(vectors, kept, strict=True)]

    def _plain(self, query: str) -> str:
        """The query without the model's own marks, such as a picture's, cut at the limit."""
        tokenizer = self._processor.tokenizer
        for mark in tokenizer.all_special_tokens:
            query = query.replace(mark, " ")
        cut = tokenizer(
            query,
            add_special_tokens=False,
            truncation=True,
            max_length=self._max_query_tokens,
            return_offsets_mapping=True,
        )["offset_mapping"]
        return query[: cut[-1][1]] if cut else query


def laid_on_white(picture: Image) -> Image:
    """Widen a picture whose short side is under 28 pixels, or under a 50th of the long one."""
    from PIL import Image as image_module  # noqa: N813

    least = max(SMALLEST_SIDE, -(-max(picture.size) // MAX_RATIO))
    if min(picture.size) >= least:
        return picture
    width, height = (max(side, least) for side in picture.size)
    paper = image_module.new("RGB", (width, height), "white")
    paper.paste(picture)
    return paper
