"""What becomes of pictures of every odd kind."""

import numpy as np
import pytest
from PIL import Image

from arms.corpora import pictures
from arms.corpora.media import inspect_pdf, inspect_picture
from arms.corpora.pictures import MAX_PIXELS, PictureError, load_picture
from arms.records import Page
from tests.arms.corpora.page_files import (
    HEIGHT,
    WIDTH,
    encrypted_pdf,
    image,
    words,
    write_pdf,
    write_picture,
)


def load(path):
    return load_picture(Page(path, None, inspect_picture(path).sha256))


@pytest.mark.parametrize(
    ("name", "mode", "colour", "expected"),
    [
        ("rgb.png", "RGB", (10, 20, 30), (10, 20, 30)),
        ("grey.png", "L", 77, (77, 77, 77)),
        ("bits.png", "1", 1, (255, 255, 255)),
        ("sixteen.png", "I;16", 32768, (127, 127, 127)),
        ("dark sixteen.tif", "I;16", 200, (0, 0, 0)),
        ("fraction.tif", "F", 0.5, (127, 127, 127)),
        ("cmyk.tif", "CMYK", (0, 255, 255, 0), (255, 0, 0)),
        ("cmyk.jpg", "CMYK", (0, 255, 255, 0), (255, 0, 0)),
        ("clear.png", "RGBA", (0, 0, 0, 0), (255, 255, 255)),
        ("half.png", "RGBA", (0, 0, 0, 128), (127, 127, 127)),
        ("grey clear.png", "LA", (0, 0), (255, 255, 255)),
        ("lab.tif", "LAB", (255, 128, 128), (255, 255, 255)),
    ],
)
def test_every_mode_becomes_rgb_transparent_ones_on_white(tmp_path, name, mode, colour, expected):
    path = write_picture(tmp_path / name, mode=mode, colour=colour)
    picture = load(path)
    assert (picture.mode, picture.size) == ("RGB", (40, 30))
    assert np.abs(np.array(picture.getpixel((20, 15)), dtype=int) - expected).max() <= 2


def test_a_palette_with_a_transparent_colour_is_laid_on_white(tmp_path):
    picture = Image.new("P", (4, 4), 1)
    picture.putpalette([0, 0, 0, 200, 0, 0])
    picture.save(tmp_path / "a.gif", transparency=1)
    assert load(tmp_path / "a.gif").getpixel((0, 0)) == (255, 255, 255)


@pytest.mark.parametrize("size", [(1, 1), (1, 20_000), (20_000, 1), (600, 20_000)])
def test_any_size_is_kept(tmp_path, size):
    assert load(write_picture(tmp_path / "a.png", size=size)).size == size


def test_the_camera_orientation_is_applied(tmp_path):
    exif = Image.Exif()
    exif[0x0112] = 6
    assert load(write_picture(tmp_path / "a.jpg", exif=exif)).size == (30, 40)


def test_too_many_pixels_are_refused_before_they_are_read(tmp_path, monkeypatch):
    monkeypatch.setattr(pictures, "MAX_PIXELS", 1199)
    path = write_picture(tmp_path / "a.png")
    with pytest.raises(PictureError, match=r"40 × 30 pixels; at most 1,199 are read"):
        load_picture(Page(path, None, "0"))


@pytest.mark.parametrize("suffix", ["png", "jpg", "tif", "webp", "gif"])
def test_a_cut_off_picture_is_refused_not_shown_in_part(tmp_path, suffix):
    path = tmp_path / f"a.{suffix}"
    Image.effect_noise((80, 80), 60).convert("RGB").save(path)
    path.write_bytes(path.read_bytes()[: path.stat().st_size * 2 // 3])
    with pytest.raises(PictureError, match=r"a\.\w+ can't be read as a picture"):
        load_picture(Page(path, None, "0"))


def page(path, number=1, dpi=144):
    return Page(path, number, inspect_pdf(path).sha256, dpi)


def test_a_pdf_page_is_drawn_at_its_dpi(tmp_path):
    path = write_pdf(tmp_path / "a.pdf", words("text"), image(0, 0, WIDTH, HEIGHT))
    assert load_picture(page(path)).size == (2 * WIDTH, 2 * HEIGHT)
    assert load_picture(page(path, 2, 72)).size == (WIDTH, HEIGHT)
    assert load_picture(page(path, 2, 72)).getpixel((9, 9)) == (200, 30, 30)
    assert load_picture(page(path, 1, 72)).getpixel((9, 9)) == (255, 255, 255)
    with pytest.raises(PictureError, match=r"has 2 pages; page 3 isn't there"):
        load_picture(page(path, 3))


def test_a_poster_is_drawn_smaller_and_a_sliver_has_a_pixel(tmp_path):
    poster = write_pdf(tmp_path / "poster.pdf", b"", box=(0, 0, 14400, 14400))
    width, height = load_picture(page(poster, dpi=72)).size
    assert 0.95 * MAX_PIXELS < width * height <= 1.01 * MAX_PIXELS
    sliver = write_pdf(tmp_path / "sliver.pdf", b"", box=(0, 0, 0.1, 5000))
    assert load_picture(page(sliver, dpi=72)).size == (1, 5000)


def test_a_pdf_that_cannot_be_opened_is_a_picture_error(tmp_path):
    path = tmp_path / "a.pdf"
    path.write_bytes(encrypted_pdf())
    with pytest.raises(PictureError, match=r"page 1: .*[Pp]assword"):
        load_picture(Page(path, 1, "0"))
    with pytest.raises(PictureError, match="nowhere"):
        load_picture(Page(tmp_path / "nowhere.pdf", 1, "1"))
