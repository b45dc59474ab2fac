"""What a scanner makes of a sheet: a grey picture, slightly tilted, with a little noise."""

from __future__ import annotations

import io
import random
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from PIL.Image import Image as Picture

MAX_TILT_DEGREES = 0.7
NOISE = 7.0
"""Standard deviation of the noise, of 255 grey levels."""
_PAPER = 246
_JPEG_QUALITY = 70


def scan(sheet: Picture, rng: random.Random) -> bytes:
    """Return the sheet as a grey JPEG; equal sheets and states of ``rng`` give equal bytes."""
    from PIL import Image

    tilt = rng.uniform(-MAX_TILT_DEGREES, MAX_TILT_DEGREES)
    grey = sheet.convert("L").rotate(tilt, Image.Resampling.BICUBIC, fillcolor=255)
    levels = np.asarray(grey, dtype=np.float64) * (_PAPER / 255)
    noise = np.random.default_rng(rng.randrange(2**32)).normal(0, NOISE, levels.shape)
    noisy = Image.fromarray((levels + noise).clip(0, 255).astype(np.uint8))
    stream = io.BytesIO()
    noisy.save(stream, "JPEG", quality=_JPEG_QUALITY)
    return stream.getvalue()
