"""Which encoder of page pictures an arm has: ``ocr``, the offline default, or a vision model."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from pydantic import Field

from arms.encoders.ocr import OCR, OcrSettings, PageReader
from arms.encoders.resolve import ResolvedEncoder, resolve
from arms.encoders.unit_encoder import UnitEncoder
from arms.errors import SettingsError
from arms.settings import Settings

if TYPE_CHECKING:
    from arms.encoders.text_encoder import TextEncoder


class PageSettings(Settings):
    """Options of the encoder of page pictures, for arms that read them.

    The arm's ``encoder`` says which: none, or ``ocr``, reads pages with OCR and embeds what was
    read; a Hugging Face id or folder is a vision model of colpali-engine.
    """

    ocr: OcrSettings = Field(default=OcrSettings(), description="ocr: how pages are read")
    text_encoder: str | None = Field(
        default=None, description="ocr: embeds what was read; default: all-MiniLM-L6-v2"
    )
    workers: int | None = Field(
        default=None, ge=1, description="ocr: threads that read pages; default: one for each core"
    )

    def resolved(self, encoder: str | None) -> ResolvedEncoder:
        """Return the encoder's name and revision, as an index records them."""
        if uses_ocr(encoder):
            text_encoder = resolve(self.text_encoder)
            return replace(text_encoder, encoder_id=f"{OCR}+{text_encoder.encoder_id}")
        return resolve(encoder)

    def dtype_of(self, encoder: str | None) -> str:
        """Return the data type in which pages are encoded, as an index records it."""
        return "float32"

    def recorded(self, encoder: str | None) -> dict[str, Any]:
        """Return the options that change pages' vectors."""
        if uses_ocr(encoder):
            return {OCR: self.ocr.model_dump()}
        return {}

    def load(self, encoder: str | None, device: str, *, one_vector_each: bool) -> UnitEncoder:
        """Load the encoder; ``one_vector_each``: for dense retrieval, else for late interaction.

        Raises:
            SettingsError: it can't be loaded, or is of the other kind.
        """
        if not uses_ocr(encoder):
            raise SettingsError(f"'{encoder}': vision models aren't supported yet; leave it out")
        from arms.encoders.ocr_pages import OcrPages

        reader = PageReader(self.ocr)
        return OcrPages(reader, self._text_encoder(device), one_vector_each, self.workers)

    def _text_encoder(self, device: str) -> TextEncoder:
        from arms.encoders.text_encoder import load_text_encoder

        return load_text_encoder(resolve(self.text_encoder), device=device)


def uses_ocr(encoder: str | None) -> bool:
    """Whether an arm's ``encoder`` stands for reading with OCR."""
    return encoder is None or encoder == OCR
