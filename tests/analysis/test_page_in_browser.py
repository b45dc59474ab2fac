"""The page in headless Chromium: quiet, alone, visible, sortable, narrow, accessible.

Chromium is Debian's package; axe-core comes from npm into ``.browser/`` (see ``.ci/run``), or from
the folder that ``AXE_CORE`` names. Where either is missing these tests are skipped and say so.
"""

import os
import shutil
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from analysis.write_report import write_report
from tests.analysis.conftest import SETTINGS
from tests.analysis.synthetic import make_world, write_suite

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
AXE = Path(os.environ.get("AXE_CORE", ROOT / ".browser/node_modules/axe-core")) / "axe.min.js"
REAL_LABELS = ROOT / "runs/text-suite/labels"
REAL_ROUTER = ROOT / "runs/text-suite/router"
WIDTHS = {"desktop": (1280, 900), "phone": (360, 740)}


@pytest.fixture(scope="module")
def browser():
    found = shutil.which("chromium") or shutil.which("google-chrome")
    if found is None:
        pytest.skip("no Chromium here: apt-get install chromium")
    playwright = pytest.importorskip("playwright.sync_api", reason="pip install playwright")
    with playwright.sync_playwright() as driver:
        chromium = driver.chromium.launch(executable_path=found, args=["--no-sandbox"])
        yield chromium
        chromium.close()


@pytest.fixture(scope="module")
def made_page(tmp_path_factory):
    """A report that has every section: text, visual density, kinds of page, storage, rankings."""
    folder = tmp_path_factory.mktemp("browser")
    world = make_world(n=300)
    record = {"size_bytes": 3_000_000, "build_seconds": 4.0, "n_units": 90}
    world.manifest = {"indexes": {"manuals": dict.fromkeys(world.pipelines, record)}}
    labels_folder, router_folder = write_suite(folder, world)
    path = labels_folder / "queries.parquet"
    table = pq.read_table(path)
    rng = np.random.default_rng(0)
    extra = {
        "text": [f"which <b>page</b> number {i} & why " * (1 + i % 6) for i in range(300)],
        "visual_density": rng.random(300),
        "page_kind": np.array(["chart", "table"], dtype=object)[np.arange(300) % 2],
    }
    for name, values in extra.items():
        table = table.append_column(name, pa.array(values))
    pq.write_table(table, path)
    return write_report(labels_folder, router_folder, folder / "report", SETTINGS).html


@pytest.fixture(scope="module", params=["made", "real suite"])
def html(request, tmp_path_factory):
    if request.param == "made":
        return request.getfixturevalue("made_page")
    if not (REAL_ROUTER / "decisions.parquet").is_file():
        pytest.skip("the real suite hasn't been run here: runs/text-suite")
    folder = tmp_path_factory.mktemp("real") / "report"
    return write_report(REAL_LABELS, REAL_ROUTER, folder).html


@pytest.fixture(params=["light", "dark"])
def scheme(request):
    return request.param


class Visit:
    """A page that is open, with what it said and asked for."""

    def __init__(self, browser, html, size="desktop", scheme="light", unfold=True):
        width, height = WIDTHS[size]
        self.context = browser.new_context(
            viewport={"width": width, "height": height}, color_scheme=scheme
        )
        self.page = self.context.new_page()
        self.said, self.asked = [], []
        self.page.on("console", lambda message: self.said.append(message.text))
        self.page.on("pageerror", lambda error: self.said.append(str(error)))
        self.page.on("request", lambda request: self.asked.append(request.url))
        self.page.goto(html.as_uri())
        if unfold:
            self.page.evaluate("document.querySelectorAll('details').forEach(d => d.open = true)")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.context.close()


def test_it_is_silent_and_asks_for_nothing_but_itself(browser, html, scheme):
    with Visit(browser, html, scheme=scheme) as visit:
        visit.page.wait_for_load_state("networkidle")
        assert visit.said == []
        assert visit.asked == [html.as_uri()]


def test_the_answer_is_on_the_first_screen(browser, html):
    for size, (_, height) in WIDTHS.items():
        with Visit(browser, html, size, unfold=False) as visit:
            box = visit.page.locator(".first .verdict").bounding_box()
            assert box["y"] + box["height"] < 0.6 * height, size
            deploy = visit.page.locator("#t-deploy + .wide").bounding_box()
            assert deploy["y"] < height, size


def test_the_rest_is_folded_and_a_link_unfolds_it(browser, html):
    with Visit(browser, html, unfold=False) as visit:
        sections = visit.page.locator("details.section")
        assert sections.count() >= 10
        assert not visit.page.locator("#t-main").is_visible()
        visit.page.goto(html.as_uri() + "#t-main")
        assert visit.page.locator("#t-main").is_visible()


def test_figures_are_visible(browser, html):
    with Visit(browser, html) as visit:
        figures = visit.page.locator("figure svg")
        assert figures.count() >= 8
        for i in range(figures.count()):
            box = figures.nth(i).bounding_box()
            assert box["width"] > 400 and box["height"] > 150
        painted = visit.page.evaluate(
            "[...document.querySelectorAll('figure svg')].every(s => s.querySelector('path, use'))"
        )
        assert painted


def test_hovering_a_point_shows_its_numbers(browser, html):
    with Visit(browser, html) as visit:
        point = visit.page.locator("#pareto-point-0")
        point.scroll_into_view_if_needed()
        tip = visit.page.locator("#tip")
        assert tip.is_hidden()
        visit.page.locator("#pareto-point-0 use, #pareto-point-0 path").last.hover(force=True)
        assert tip.is_visible()
        assert "nDCG@5" in tip.inner_text() and " ms" in tip.inner_text()
        visit.page.mouse.move(2, 2)
        assert tip.is_hidden()


def column(page, number):
    cells = page.locator(f"#t-main_arms + .wide tbody td:nth-child({number})")
    return cells.all_inner_texts()


def test_a_table_sorts_on_click_and_by_keyboard(browser, html):
    with Visit(browser, html) as visit:
        heading = visit.page.locator("#t-main_arms + .wide th", has_text="mean ms")
        place = 1 + heading.evaluate("e => e.cellIndex")
        heading.get_by_role("button").click()
        assert heading.get_attribute("aria-sort") == "ascending"
        rising = [float(text.replace(",", "")) for text in column(visit.page, place)]
        assert rising == sorted(rising) and len(set(rising)) > 1
        heading.get_by_role("button").press("Enter")
        assert heading.get_attribute("aria-sort") == "descending"
        falling = [float(text.replace(",", "")) for text in column(visit.page, place)]
        assert falling == rising[::-1]


def test_negative_numbers_sort_as_numbers_and_undefined_ones_come_last(browser, html):
    with Visit(browser, html) as visit:
        selector = "#t-frontier_areas ~ .wide"
        heading = visit.page.locator(f"{selector} th", has_text="router − policy: area")
        place = 1 + heading.evaluate("e => e.cellIndex")
        for _ in range(2):
            heading.get_by_role("button").click()
            cells = visit.page.locator(f"{selector} tbody td:nth-child({place})").all_inner_texts()
            assert cells[-1] == "–"
            values = [float(text.split()[0].replace("−", "-")) for text in cells[:-1]]
            assert values in (sorted(values), sorted(values, reverse=True))
        assert values[0] > values[-1]


def test_a_table_can_be_searched(browser, html):
    with Visit(browser, html) as visit:
        holder = visit.page.locator(".table", has=visit.page.locator("#t-main"))
        rows = holder.locator("tbody tr")
        everything = rows.count()
        holder.get_by_role("searchbox").fill("oracle over a")
        shown = [row for row in rows.all() if row.is_visible()]
        assert 0 < len(shown) < everything
        assert all("oracle over A" in row.inner_text() for row in shown)
        status = holder.get_by_role("status").inner_text()
        assert status == f"{len(shown)} of {everything} rows"


def test_a_phone_never_scrolls_sideways(browser, html):
    with Visit(browser, html, "phone") as visit:
        width = visit.page.evaluate("document.documentElement.scrollWidth")
        assert width <= WIDTHS["phone"][0]
        outside = visit.page.evaluate(
            """[...document.querySelectorAll('main *')].filter(e => !e.closest('.wide, pre')
            && e.getBoundingClientRect().right > innerWidth + 1).map(e => e.outerHTML.slice(0, 80))
            """
        )
        assert outside == []


def test_printing_unfolds_what_is_folded_and_is_light(browser, html):
    with Visit(browser, html, scheme="dark", unfold=False) as visit:
        visit.page.emulate_media(media="print", color_scheme="dark")
        visit.page.evaluate("dispatchEvent(new Event('beforeprint'))")
        assert visit.page.evaluate("[...document.querySelectorAll('details')].every(d => d.open)")
        background = visit.page.evaluate("getComputedStyle(document.body).backgroundColor")
        assert background == "rgb(255, 255, 255)"


@pytest.mark.parametrize(("size", "scheme"), [("desktop", "light"), ("phone", "dark")])
def test_axe_finds_no_serious_fault(browser, html, scheme, size):
    if not AXE.is_file():
        pytest.skip(f"no axe-core at {AXE}: npm install --prefix .browser axe-core")
    with Visit(browser, html, size, scheme) as visit:
        # What is inside a picture is one picture to a reader, and thousands of elements to axe.
        visit.page.evaluate("document.querySelectorAll('figure svg > *').forEach(e => e.remove())")
        visit.page.evaluate(AXE.read_text(encoding="utf-8"))  # the page's own policy stays in force
        found = visit.page.evaluate("axe.run(document, {resultTypes: ['violations']})")
        serious = [
            (fault["impact"], fault["id"], fault["nodes"][0]["html"][:200])
            for fault in found["violations"]
            if fault["impact"] in ("serious", "critical")
        ]
        assert serious == []
