"""Pages to pictures: PDF pages drawn with pypdfium2, picture files read with Pillow.

Every picture comes back as RGB, of any size from 1 × 1 pixel to ``MAX_PIXELS``, however long or
narrow. Grey, palette, CMYK and 16-bit pictures are converted; transparent ones are laid on white,
as paper is; the camera's orientation tag is applied; of several frames the first is taken. What
can't be decoded to its end is refused, never shown in part.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from arms.atomic import write_json
from arms.cache import cache_folder
from arms.corpora.pdf import DRAWING, MediaError, open_pdf, pdfium
from arms.errors import CorpusError
from arms.extras import not_importable
from arms.out_of_memory import is_out_of_memory, out_of_memory
from arms.records import Page

if TYPE_CHECKING:
    from PIL.Image import Image

MAX_PIXELS = 89_000_000
"""A larger picture is refused rather than read into memory; a PDF's page is drawn smaller."""


class PictureError(CorpusError):
    """A page that can't be drawn or read; the message says why."""


def load_picture(page: Page) -> Image:
    """Return the page's picture as RGB.

    Raises:
        PictureError: the file is absent, damaged, encrypted or too large, or the PDF lacks the
            page.
    """
    return _read_file(page.path) if page.number is None else _draw(page)


def check_picture(path: Path, sha256: str) -> None:
    """Decode a picture file once per content, to know that it can be.

    Raises:
        MediaError: it can't, with the reason.
    """
    remembered = cache_folder("pictures") / sha256[:2] / f"{sha256}.json"
    version = _pillow()[0].__version__
    try:
        found = json.loads(remembered.read_text(encoding="utf-8"))
        if found["pillow"] != version:
            raise ValueError("another release may read other files")
        problem = found["problem"]
    except (OSError, ValueError, KeyError, TypeError):
        problem = _why_unusable(path)
        write_json(remembered, {"pillow": version, "problem": problem})
    if problem is not None:
        raise MediaError("unusable_picture", problem)


def count_frames(path: Path) -> int:
    """Return how many pictures the file holds; 1 where it can't be read."""
    try:
        with _pillow()[0].open(path) as picture:
            return int(getattr(picture, "n_frames", 1))
    except Exception:  # whether it can be read at all is check_picture's to say
        return 1


def _why_unusable(path: Path) -> str | None:
    try:
        _read_file(path)
    except PictureError as error:
        return str(error).removeprefix(f"{path} ")
    return None


def _read_file(path: Path) -> Image:
    image_module, operations = _pillow()
    try:
        with image_module.open(path) as picture:
            width, height = picture.size
            if width * height > MAX_PIXELS:
                raise PictureError(
                    f"{path} has {width} × {height} pixels; at most {MAX_PIXELS:,} are read"
                )
            picture.load()
            return _rgb(operations.exif_transpose(picture), image_module)
    except PictureError:
        raise
    except Exception as error:  # Pillow's decoders raise whatever they meet
        if is_out_of_memory(error):  # a fault of the machine, not to be remembered of the picture
            raise out_of_memory(error, f"decode {path}") from error
        if isinstance(error, PermissionError):
            raise  # nor is this
        reason = str(error).replace(f" {str(path)!r}", "")
        raise PictureError(f"{path} can't be read as a picture: {reason}") from error


def _rgb(picture: Image, image_module: Any) -> Image:
    if picture.mode.startswith("I") or picture.mode == "F":
        picture = _eight_bits(picture, image_module)
    if picture.mode in ("RGBA", "LA", "PA") or "transparency" in picture.info:
        picture = picture.convert("RGBA")
        paper = image_module.new("RGBA", picture.size, "white")
        picture = image_module.alpha_composite(paper, picture)
    converted: Image = picture.convert("RGB")
    return converted


def _eight_bits(picture: Image, image_module: Any) -> Image:
    """Scale grey values of 16 bits, or of 32 bits or fractions by what is in them, to 0 … 255."""
    import numpy as np

    grey = np.nan_to_num(np.asarray(picture, dtype=np.float32))
    brightest = grey.max(initial=0)
    if picture.mode == "F" and brightest <= 1:
        top = 1
    else:
        top = 65535 if picture.mode.startswith("I;16") or brightest > 255 else 255
    return image_module.fromarray((grey * (255 / top)).clip(0, 255).astype(np.uint8))


def _draw(page: Page) -> Image:
    module, number = pdfium(), page.number or 0
    with DRAWING:
        try:
            document = open_pdf(str(page.path), page.sha256)
            if not 1 <= number <= len(document):
                raise PictureError(
                    f"{page.path} has {len(document)} pages; page {number} isn't there"
                )
            sheet = document[number - 1]
            width, height = sheet.get_size()
            scale = page.dpi / 72
            scale = min(scale, (MAX_PIXELS / max(1.0, width * height)) ** 0.5)
            drawn = sheet.render(scale=scale).to_pil()
            sheet.close()
        except (module.PdfiumError, OSError) as error:
            if is_out_of_memory(error):
                raise out_of_memory(error, f"draw {page.path}, page {number}") from error
            raise PictureError(f"{page.path}, page {number}: {error}") from error
    picture: Image = drawn.convert("RGB")
    return picture


def _pillow() -> tuple[Any, Any]:
    try:
        from PIL import Image, ImageOps
    except ImportError as error:
        raise not_importable(error, "pillow", "pages") from error
    return Image, ImageOps
