"""Which encoder of page pictures an arm has: ``ocr``, the offline default, or a vision model."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal

from pydantic import Field

from arms.encoders.ocr import OCR, OcrSettings, PageReader
from arms.encoders.query_encoding import BACKEND_HELP, Backend
from arms.encoders.resolve import ResolvedEncoder, resolve
from arms.encoders.unit_encoder import UnitEncoder
from arms.settings import Settings

if TYPE_CHECKING:
    from arms.encoders.text_encoder import TextEncoder

Dtype = Literal["float32", "bfloat16"]


class VisionSettings(Settings):
    """How a vision model of colpali-engine is loaded and fed."""

    model_class: str | None = Field(
        default=None, description="e.g. ColQwen2_5; default: what the checkpoint names"
    )
    dtype: Dtype = Field(default="float32", description="of pages and queries alike")
    max_visual_tokens: int | None = Field(
        default=None, ge=1, description="of a page, for Qwen models; default: the checkpoint's"
    )
    batch_pixels: int = Field(
        default=4_000_000, ge=1, description="pages are encoded together up to so many pixels"
    )
    max_query_tokens: int = Field(default=512, ge=1, description="longer queries are cut")

    @property
    def of_pages(self) -> dict[str, Any]:
        """The options that change pages' vectors, but for the data type."""
        return self.model_dump(include={"model_class", "max_visual_tokens"})


class PageSettings(Settings):
    """Options of the encoder of page pictures, for arms that read them.

    The arm's ``encoder`` says which: none, or ``ocr``, reads pages with OCR and embeds what was
    read; a Hugging Face id or folder is a vision model of colpali-engine.
    """

    ocr: OcrSettings = Field(default=OcrSettings(), description="ocr: how pages are read")
    text_encoder: str | None = Field(
        default=None, description="ocr: embeds what was read; default: all-MiniLM-L6-v2"
    )
    backend: Backend = Field(default="auto", description=f"ocr: {BACKEND_HELP}")
    workers: int | None = Field(
        default=None, ge=1, description="ocr: threads that read pages; default: one for each core"
    )
    vision: VisionSettings = Field(default=VisionSettings(), description="a vision model's")

    def resolved(self, encoder: str | None) -> ResolvedEncoder:
        """Return the encoder's name and revision, as an index records them."""
        if uses_ocr(encoder):
            text_encoder = resolve(self.text_encoder)
            return replace(text_encoder, encoder_id=f"{OCR}+{text_encoder.encoder_id}")
        return resolve(encoder)

    def dtype_of(self, encoder: str | None) -> str:
        """Return the data type in which pages are encoded, as an index records it."""
        return "float32" if uses_ocr(encoder) else self.vision.dtype

    def recorded(self, encoder: str | None) -> dict[str, Any]:
        """Return the options that change pages' vectors."""
        if uses_ocr(encoder):
            return {OCR: self.ocr.model_dump()}
        return {"vision": self.vision.of_pages}

    def load(
        self, encoder: str | None, device: str, *, one_vector_each: bool, for_queries: bool
    ) -> UnitEncoder:
        """Load the encoder; ``one_vector_each``: for dense retrieval, else for late interaction.

        Raises:
            SettingsError: it can't be loaded, or is of the other kind.
        """
        if not uses_ocr(encoder):
            return self._vision(resolve(encoder), device, one_vector_each=one_vector_each)
        from arms.encoders.ocr_pages import OcrPages

        reader, texts = PageReader(self.ocr), self._text_encoder(device)
        wanted: Backend = self.backend if for_queries else "torch"
        backend = texts.backend(wanted, texts.prompt("query", None))
        return OcrPages(reader, texts, one_vector_each, self.workers, backend)

    def _vision(
        self, encoder: ResolvedEncoder, device: str, *, one_vector_each: bool
    ) -> UnitEncoder:
        from arms.encoders.text_encoder import pick_device
        from arms.encoders.vision_model import model_class_of
        from arms.encoders.vision_pages import load_vision_pages

        vision = self.vision
        return load_vision_pages(
            encoder,
            model_class_of(encoder, vision.model_class, one_vector_each=one_vector_each),
            vision.dtype,
            pick_device(device),
            max_visual_tokens=vision.max_visual_tokens,
            batch_pixels=vision.batch_pixels,
            max_query_tokens=vision.max_query_tokens,
        )

    def _text_encoder(self, device: str) -> TextEncoder:
        from arms.encoders.text_encoder import load_text_encoder

        return load_text_encoder(resolve(self.text_encoder), device=device)


def uses_ocr(encoder: str | None) -> bool:
    """Whether an arm's ``encoder`` stands for reading with OCR."""
    return encoder is None or encoder == OCR
