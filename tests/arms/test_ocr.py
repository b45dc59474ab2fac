"""RapidOCR itself, on small pictures; and long ones in pieces."""

import hashlib

import numpy as np
import pytest
from PIL import Image, ImageDraw, ImageFont

from arms.encoders import ocr
from arms.encoders.ocr import OcrSettings, PageReader
from arms.encoders.picture_pieces import MAX_RATIO, pieces
from arms.records import Page


@pytest.fixture(autouse=True)
def _own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("L2R_CACHE", str(tmp_path / "cache"))


def drawn(size, lines, mode="RGB", paper="white"):
    """A picture with text at (left, top)."""
    picture = Image.new("RGB", size, paper)
    pen = ImageDraw.Draw(picture)
    for place, text in lines.items():
        pen.text(place, text, fill="black", font=ImageFont.load_default(size=22))
    return picture.convert(mode)


def page_of(picture, path):
    picture.save(path)
    return Page(path, None, hashlib.sha256(path.read_bytes()).hexdigest())


@pytest.fixture(scope="module")
def reader():
    return PageReader()


def test_lines_come_from_top_to_bottom_and_are_kept(reader, tmp_path, monkeypatch):
    page = page_of(
        drawn((400, 300), {(30, 40): "Total revenue", (30, 180): "1,234 euros"}), tmp_path / "a.png"
    )
    first, second = reader.read(page)
    assert (first.text, second.text) == ("Total revenue", "1,234 euros")
    assert 30 < (first.box[1] + first.box[3]) / 2 < 80 and first.confidence > 0.5
    monkeypatch.setattr(PageReader, "read_picture", None)
    assert PageReader().read(page) == (first, second)


@pytest.mark.parametrize(
    ("name", "mode"),
    [("grey.png", "L"), ("press.jpg", "CMYK"), ("clear.png", "LA"), ("bits.png", "1")],
)
def test_any_kind_of_pixels_is_read(reader, tmp_path, name, mode):
    page = page_of(drawn((300, 200), {(30, 80): "High tides"}, mode), tmp_path / name)
    assert [line.text for line in reader.read(page)] == ["High tides"]


def test_a_transparent_page_is_read_on_white(reader, tmp_path):
    picture = Image.new("RGBA", (300, 200), (0, 0, 0, 0))
    font = ImageFont.load_default(size=22)
    ImageDraw.Draw(picture).text((30, 80), "High tides", fill=(0, 0, 0, 255), font=font)
    assert [line.text for line in reader.read(page_of(picture, tmp_path / "a.png"))] == [
        "High tides"
    ]


@pytest.mark.parametrize("size", [(1, 1), (1, 90)])
def test_specks_hold_no_text(reader, tmp_path, size):
    assert reader.read(page_of(Image.new("RGB", size, "white"), tmp_path / "a.png")) == ()


def test_a_long_strip_is_read_to_its_end(reader, tmp_path):
    lines = {(10, top): f"Entry {top}" for top in (40, 1240)}
    read = reader.read(page_of(drawn((220, 1400), lines), tmp_path / "a.png"))
    assert [line.text for line in read] == ["Entry 40", "Entry 1240"]
    assert [round(line.box[1], -2) for line in read] == [0, 1200]


@pytest.mark.parametrize("size", [(20_000, 60), (60, 20_000), (1, 20_000), (2000, 5000)])
def test_pieces_cover_the_picture_once_and_have_a_bounded_ratio(size):
    height, width = size
    picture = np.random.default_rng(0).integers(0, 255, (height, width, 3), dtype=np.uint8)
    found = list(pieces(picture))
    for piece, _, _ in found:
        assert max(piece.shape[:2]) <= MAX_RATIO * min(piece.shape[:2]) + MAX_RATIO
    if height > MAX_RATIO * width:
        joined = np.concatenate([piece[:, :width] for piece, _, _ in found])[:height]
        assert [top for _, _, top in found] == list(
            np.cumsum([0, *map(len, (p for p, _, _ in found))])[:-1]
        )
    elif width > MAX_RATIO * height:
        joined = np.concatenate([piece[:height] for piece, _, _ in found], axis=1)[:, :width]
        assert found[1][1] == found[0][0].shape[1]
    else:
        ((joined, _, _),) = found
    np.testing.assert_array_equal(joined, picture)
    assert len(found) < 40


def test_a_cut_goes_between_lines():
    picture = np.random.default_rng(0).integers(0, 255, (3000, 100, 3), dtype=np.uint8)
    picture[900:905] = 255
    assert 900 <= len(next(pieces(picture))[0]) <= 905


def test_settings_that_change_the_text_change_the_fingerprint():
    usual = OcrSettings().fingerprint
    for other in ({"engine": "openvino"}, {"min_confidence": 0.9}, {"max_side": 640}):
        assert OcrSettings(**other).fingerprint != usual


def test_openvino_meets_few_widths_and_reads_each_line_to_its_end():
    pytest.importorskip("openvino")
    texts = ["Tides " * 8 + "end", "Tides " * 9 + "end", "Tides " * 7 + "bees"]
    loaded, widths = ocr._load(OcrSettings(engine="openvino")), []
    run = loaded.text_rec.session._session
    loaded.text_rec.session._session = lambda lines: (widths.append(lines.shape[-1]), run(lines))[1]
    picture = drawn((900, 300), {(30, 40 + 80 * n): text for n, text in enumerate(texts)})
    assert list(loaded(np.asarray(picture)[:, :, ::-1]).txts) == texts
    assert len(set(widths)) > 1 and not [width for width in widths if width % 64]
