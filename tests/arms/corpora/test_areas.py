import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from arms.corpora.areas import Mark, connected, covered_share, drawings

PAGE = (0.0, 0.0, 100.0, 100.0)


@pytest.mark.parametrize(
    ("boxes", "share"),
    [
        ([], 0),
        ([(0, 0, 50, 50)], 0.25),
        ([(0, 0, 50, 50)] * 3, 0.25),
        ([(0, 0, 50, 50), (25, 25, 75, 75)], 0.4375),
        ([(0, 0, 50, 50), (50, 50, 100, 100)], 0.5),
        ([(-50, -50, 50, 50)], 0.25),
        ([(-9, -9, 900, 900), (10, 10, 20, 20)], 1),
        ([(200, 200, 300, 300)], 0),
        ([(10, 10, 10, 90)], 0),
    ],
)
def test_share_is_of_the_union_cut_to_the_page(boxes, share):
    assert covered_share(boxes, PAGE) == pytest.approx(share)


def test_a_page_without_area_has_share_zero():
    assert covered_share([(0, 0, 1, 1)], (0, 0, 0, 100)) == 0


edges = st.integers(-5, 24)


@given(st.lists(st.tuples(edges, edges, edges, edges), max_size=12))
def test_share_equals_counting_unit_squares(corners):
    boxes = [(min(a, c), min(b, d), max(a, c), max(b, d)) for a, b, c, d in corners]
    grid = np.zeros((20, 20), dtype=bool)
    for left, bottom, right, top in boxes:
        grid[max(0, left) : max(0, right), max(0, bottom) : max(0, top)] = True
    assert covered_share(boxes, (0, 0, 20, 20)) == pytest.approx(grid.mean())


def test_thousands_of_tiles_are_summed_on_a_lattice():
    tiles = [(x, y, x + 1.003, y + 1.003) for x in range(100) for y in range(60)]
    assert covered_share(tiles, PAGE) == pytest.approx(0.6, abs=0.002)


@given(st.lists(st.lists(st.booleans(), min_size=7, max_size=7), min_size=1, max_size=9))
def test_connected_cells_are_those_that_a_walk_reaches(rows):
    marked = np.array(rows, dtype=bool)
    names = connected(marked)
    assert ((names >= 0) == marked).all()
    for row, column in np.argwhere(marked):
        for down, right in ((0, 1), (1, 0), (1, 1), (1, -1)):
            r, c = row + down, column + right
            if r < marked.shape[0] and 0 <= c < 7 and marked[r, c]:
                assert names[row, column] == names[r, c]
    assert len(set(names[marked])) == walked_groups(marked)


def walked_groups(marked) -> int:
    waiting, groups = {tuple(cell) for cell in np.argwhere(marked)}, 0
    while waiting:
        groups += 1
        border = [waiting.pop()]
        while border:
            row, column = border.pop()
            near = {(row + a, column + b) for a in (-1, 0, 1) for b in (-1, 0, 1)} & waiting
            waiting -= near
            border += near
    return groups


def marks(*boxes, n_segments=2):
    return [Mark(box, n_segments) for box in boxes]


BARS = [(20 + 6 * bar, 20, 24 + 6 * bar, 30 + 5 * bar) for bar in range(4)]
GRID = [(10, y, 60, y + 0.1) for y in (40, 45, 50)] + [(x, 40, x + 0.1, 50) for x in (10, 35, 60)]


def test_bars_and_grids_are_drawings_with_their_bounds():
    assert drawings(marks(*BARS), PAGE) == [(20, 20, 42, 45)]
    assert (10, 40, 60.1, 50.1) in drawings(marks(*GRID), PAGE)


def test_drawings_apart_are_two():
    far = [(left + 50, bottom + 40, right + 50, top + 40) for left, bottom, right, top in BARS]
    assert drawings(marks(*BARS, *far), PAGE) == [(20, 20, 42, 45), (70, 60, 92, 85)]


def test_one_curve_of_many_segments_is_a_drawing():
    assert drawings(marks((10, 10, 60, 40), n_segments=80), PAGE) == [(10, 10, 60, 40)]


@pytest.mark.parametrize(
    "boxes",
    [
        [],
        [(10, 10, 90, 90)],  # a frame
        [(0, 90, 100, 98)],  # a band
        [(10, y, 40, y + 0.1) for y in (30, 31.3)] + [(10, y, 55, y + 0.1) for y in (32.6, 34)],
        [(10 + x, 50, 10.5 + x, 50.5) for x in range(30)],  # dotted leader
        [(5, 96, 95, 96.1), (5, 4, 95, 4.1)],  # rules of header and footer
        [(10, y, 11, y + 1) for y in range(10, 90, 10)],  # bullets
        [(10, 10, 11, 11)] * 6,  # an icon
    ],
)
def test_frames_bands_underlines_and_bullets_are_none(boxes):
    assert drawings(marks(*boxes), PAGE) == []


def test_a_table_may_have_only_horizontal_rules():
    rules = [(20, y, 80, y + 0.1) for y in (40, 55, 60)]
    assert drawings(marks(*rules), PAGE) == [(20, 40, 80, 60.1)]
    assert drawings(marks(*rules[:2]), PAGE) == []
