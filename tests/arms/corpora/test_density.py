import pytest

from arms.corpora import density as density_module
from arms.corpora.density import LayoutDensity, density_of, object_density
from arms.corpora.media import inspect_pdf, inspect_picture
from arms.corpora.reader import read_documents
from arms.errors import SettingsError
from arms.records import Page
from arms.settings import DatasetSettings
from tests.arms.corpora.folders import REAL_DATA, needs_real_data
from tests.arms.corpora.page_files import (
    HEIGHT,
    WIDTH,
    image,
    words,
    write_pdf,
    write_picture,
)

BARS = b"".join(
    f"0 0 1 rg {100 + 30 * bar} 100 20 {40 + 20 * bar} re f\n".encode() for bar in range(4)
)
BARS_BOX = (100, 100, 210, 200)


def density(tmp_path, content, **options):
    path = write_pdf(tmp_path / "a.pdf", content, **options)
    return object_density(Page(path, 1, inspect_pdf(path).sha256))


def share(width, height):
    return width * height / (WIDTH * HEIGHT)


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b"", 0),
        (words("only", "text"), 0),
        (image(0, 0, WIDTH, HEIGHT), 1),
        (image(-50, -50, WIDTH + 100, HEIGHT + 100), 1),
        (image(50, 50, 200, 100), share(200, 100)),
        (image(50, 50, 200, 100) + words("text on top", left=60, top=90), share(200, 100)),
        (image(50, 50, 200, 100) * 2, share(200, 100)),
        (image(0, 0, 200, 100) + image(100, 0, 200, 100), share(300, 100)),
        (image(WIDTH - 100, 0, 200, 100), share(100, 100)),
        (b"q 50 50 100 100 re W n " + image(0, 0, WIDTH, HEIGHT) + b"Q\n", share(100, 100)),
        (BARS, share(110, 100)),
        (image(100, 100, 110, 50) + BARS, share(110, 100)),
        (b"0.9 0.9 1 rg 0 0 400 500 re f\n" + BARS, share(110, 100)),
        (b"0.8 g 0 0 400 500 re f\n", 0),
        (b"1 g 50 50 300 300 re f\n" * 5, 0),
        (b"50 50 300 300 re n\n" * 5, 0),
        (b"0 g 50 50 300 30 re f\n", 0),
    ],
)
def test_density_of_page_objects(tmp_path, content, expected):
    assert density(tmp_path, content) == pytest.approx(expected, abs=0.002)


def test_a_table_of_ruled_lines_counts(tmp_path):
    lines = "".join(f"50 {y} m 350 {y} l S\n" for y in range(100, 220, 20))
    lines += "".join(f"{x} 100 m {x} 200 l S\n" for x in (50, 150, 350))
    assert density(tmp_path, lines.encode()) == pytest.approx(share(300, 100), abs=0.005)


def test_the_page_is_what_its_crop_box_shows(tmp_path):
    content = image(0, 0, 200, 250)
    assert density(tmp_path, content) == pytest.approx(0.25, abs=1e-3)
    assert density(tmp_path, content, extra="/CropBox [0 0 200 250]") == pytest.approx(1, abs=1e-3)
    assert density(tmp_path, content, extra="/Rotate 90") == pytest.approx(0.25, abs=1e-3)


def test_pictures_inside_forms_are_scaled_with_them(tmp_path):
    from tests.arms.corpora.page_files import form

    inner = image(0, 0, 100, 100)
    content = b"q 2 0 0 1 50 50 cm /Fm1 Do Q\n"
    path = tmp_path / "form.pdf"
    path.write_bytes(form(content, inner, matrix="0.5 0 0 1 0 0"))
    found = object_density(Page(path, 1, inspect_pdf(path).sha256))
    assert found == pytest.approx(share(100, 100), abs=1e-3)


def test_a_picture_file_is_all_picture(tmp_path):
    path = write_picture(tmp_path / "a.png")
    assert object_density(Page(path, None, inspect_picture(path).sha256)) == 1.0


def test_densities_are_kept_by_content(tmp_path, monkeypatch):
    first = density(tmp_path, BARS)
    density_module._densities.cache_clear()
    monkeypatch.setattr(density_module, "page_density", lambda sheet: pytest.fail("walked again"))
    assert density(tmp_path, BARS) == first
    monkeypatch.setattr(density_module, "METHOD", "another")
    monkeypatch.setattr(density_module, "page_density", lambda sheet: 0.5)
    density_module._densities.cache_clear()
    assert density(tmp_path, BARS) == 0.5


class FakeLayout:
    """Finds the left half of any picture."""

    name = "left-half-1"
    calls = 0

    def regions(self, picture):
        FakeLayout.calls += 1
        return [(0, 0, picture.width / 2, picture.height), (0, 0, picture.width / 2, 1)]


not_a_layout = 3


@pytest.mark.parametrize("named", ["FakeLayout", "made"])
def test_a_layout_model_may_be_plugged_in(tmp_path, named):
    FakeLayout.calls = 0
    write_pdf(tmp_path / "a.pdf", words("text"), image(0, 0, WIDTH, HEIGHT))
    settings = DatasetSettings(path=tmp_path, format="pdf", density=f"{__name__}:{named}")
    for _ in range(2):
        corpus = read_documents(settings)
        assert [document.pages[0].visual_density for document in corpus] == [0.5, 0.5]
    assert FakeLayout.calls == 2


def made():
    return FakeLayout()


@pytest.mark.parametrize("named", ["nowhere:model", f"{__name__}:nothing", __name__, "x y"])
def test_a_layout_model_that_is_none_is_a_clear_error(named):
    with pytest.raises(SettingsError, match=r"package\.module:attribute"):
        density_of(named)
    with pytest.raises(SettingsError, match="regions"):
        density_of(f"{__name__}:not_a_layout")


def test_density_may_be_left_unknown(tmp_path):
    assert density_of("none") is None
    write_pdf(tmp_path / "a.pdf", BARS)
    corpus = read_documents(DatasetSettings(path=tmp_path, format="pdf", density="none"))
    assert [document.pages[0].visual_density for document in corpus] == [None]


def test_a_layout_model_reads_pictures_too(tmp_path):
    path = write_picture(tmp_path / "a.png")
    page = Page(path, None, inspect_picture(path).sha256)
    assert LayoutDensity(FakeLayout())(page) == 0.5


@needs_real_data
def test_real_scans_are_dense_and_prose_is_not():
    corpus = read_documents(DatasetSettings(path=REAL_DATA / "mmlongbench-doc-pages"))
    found = {document.doc_id: document.pages[0].visual_density for document in corpus}
    assert all(0 <= density <= 1 for density in found.values())
    scans = [v for k, v in found.items() if k.startswith("reportq32015-151009093138")]
    assert min(scans) > 0.95
    assert sum(v < 0.1 for v in found.values()) > 100
