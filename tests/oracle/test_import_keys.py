"""Imported tables whose key columns have empty or merged cells, and workbooks of several sheets."""

from pathlib import Path

import pytest

from arms.errors import LabelsError
from arms.progress import SilentProgress
from oracle.importing.sources import open_table
from oracle.importing.tables import import_long, import_wide
from oracle.importing.workbook import MergedRange, filled
from oracle.importing.write import ImportOptions
from oracle.labels import read_labels
from tests.oracle import tables

ENDINGS = (".csv", ".tsv", ".xlsx", ".parquet")
STRICT = ImportOptions(overwrite=True)
LENIENT = ImportOptions(overwrite=True, lenient=True)
WIDE = {
    "query_id": ["q1", "q2", "q3", "q4"],
    "query": ["what is one", "what is two", "what is three", "what is four"],
    "dataset": ["fin", "fin", "law", "law"],
    "split": ["train", "val", "test", "train"],
    "a_ndcg_5": [1.0, 0.0, 1.0, 0.5],
    "a_latency_ms": [1.0, 1.0, 2.0, 2.0],
    "b_ndcg_5": [0.0, 1.0, 0.0, 0.5],
    "b_latency_ms": [5.0, 5.0, 6.0, 6.0],
}
LONG = {
    **{name: [cell for cell in WIDE[name] for _ in range(2)] for name in list(WIDE)[:4]},
    "arm": ["a", "b"] * 4,
    "ndcg_5": [1.0, 0.0] * 4,
    "latency_ms": [1.0, 5.0] * 4,
}
WRITERS = {**tables.WRITERS, ".tsv": lambda columns, path: tables.write_csv(columns, path, "\t")}


def write(columns: dict[str, list], path: Path) -> Path:
    return WRITERS[path.suffix](columns, path)


def without(columns: dict[str, list], name: str, *rows: int) -> dict[str, list]:
    cells = [None if row in rows else cell for row, cell in enumerate(columns[name])]
    return {**columns, name: cells}


@pytest.mark.parametrize("ending", ENDINGS)
@pytest.mark.parametrize("key", ["query_id", "query", "dataset", "split"])
def test_an_empty_key_is_refused_with_its_row(tmp_path, key, ending):
    path = write(without(WIDE, key, 1, 3), tmp_path / f"table{ending}")
    with pytest.raises(LabelsError, match=rf"{key}: .*: rows 3.*, 5"):
        import_wide(path, tmp_path / "labels", STRICT)
    import_wide(path, tmp_path / "labels", LENIENT)
    labels = read_labels(tmp_path / "labels")
    assert sorted(labels.query_ids) == ["q1", "q3"]
    assert sorted(labels.datasets) == ["fin", "law"]


@pytest.mark.parametrize("ending", ENDINGS)
@pytest.mark.parametrize("key", ["query_id", "query", "dataset", "split", "arm"])
def test_an_empty_key_of_a_long_table_is_refused_with_its_row(tmp_path, key, ending):
    path = write(without(LONG, key, 3), tmp_path / f"table{ending}")
    with pytest.raises(LabelsError, match=rf"{key}: .*: row 5"):
        import_long(path, tmp_path / "labels", STRICT)


def test_a_query_with_two_splits_is_refused(tmp_path):
    path = write({**LONG, "split": [*LONG["split"][:-1], "test"]}, tmp_path / "table.csv")
    with pytest.raises(LabelsError, match=r"in another split: row 9 \(train in row 8\)"):
        import_long(path, tmp_path / "labels", STRICT)


def workbook(columns: dict[str, list], path: Path, merged: tuple[str, ...]) -> Path:
    openpyxl = pytest.importorskip("openpyxl")
    write(columns, path)
    book = openpyxl.load_workbook(path)
    for cells in merged:
        book.active.merge_cells(cells)
    book.save(path)
    return path


def test_merged_keys_of_a_wide_sheet_are_filled(tmp_path):
    path = workbook(WIDE, tmp_path / "table.xlsx", ("C2:C3", "C4:C5"))
    import_wide(path, tmp_path / "labels", STRICT)
    labels = read_labels(tmp_path / "labels")
    assert labels.datasets.tolist() == ["fin", "fin", "law", "law"]
    assert labels.query_ids.tolist() == ["q1", "q2", "q3", "q4"]


def test_merged_keys_of_a_long_sheet_are_filled(tmp_path):
    merged = [f"{column}{row}:{column}{row + 1}" for column in "ABCD" for row in (2, 4, 6, 8)]
    path = workbook(LONG, tmp_path / "table.xlsx", tuple(merged))
    import_long(path, tmp_path / "labels", STRICT)
    labels = read_labels(tmp_path / "labels")
    assert labels.query_ids.tolist() == ["q1", "q2", "q3", "q4"]
    assert labels.splits.tolist() == ["train", "val", "test", "train"]
    assert labels.latency_ms.tolist() == [[1.0, 5.0]] * 4


def test_merged_ranges_fill_rows_and_columns_below_the_header():
    rows = [["a", None, "c"], ["x", None, 1], [None, None, 2], ["y"]]
    merged = [MergedRange(1, 1, 0, 1), MergedRange(2, 3, 0, 1), MergedRange(4, 4, 0, 2)]
    assert [list(row) for row in filled(rows, merged)] == [
        ["a", None, "c"],
        ["x", "x", 1],
        ["x", "x", 2],
        ["y", "y", "y"],
    ]


def several_sheets(path: Path) -> Path:
    openpyxl = pytest.importorskip("openpyxl")
    book = openpyxl.Workbook()
    book.active.title = "old"
    book.active.sheet_state = "hidden"
    book.create_chartsheet("Graph")
    secret = book.create_sheet("secret")
    secret.sheet_state = "veryHidden"
    for sheet, quality in ((book["old"], 0.1), (book.create_sheet("may"), 0.9)):
        sheet.append(["query", "a_ndcg_5", "a_latency_ms", "b_ndcg_5", "b_latency_ms"])
        for number in range(3):
            sheet.append([f"question {number}", quality, 1, quality, 2])
    book.active = 3
    book.save(path)
    return path


def test_the_first_visible_sheet_is_read_and_said(tmp_path, caplog):
    path = several_sheets(tmp_path / "table.xlsx")
    import_wide(path, tmp_path / "labels", STRICT)
    assert read_labels(tmp_path / "labels").quality["nDCG@5"].tolist() == [[0.9, 0.9]] * 3
    (said,) = caplog.messages
    assert "reading the sheet 'may'" in said
    assert "'old' (hidden), 'Graph' (a chart), 'secret' (hidden)" in said


def test_a_named_sheet_is_read_though_it_is_hidden(tmp_path, caplog):
    path = several_sheets(tmp_path / "table.xlsx")
    import_wide(path, tmp_path / "labels", ImportOptions(sheet="old"))
    assert read_labels(tmp_path / "labels").quality["nDCG@5"].tolist() == [[0.1, 0.1]] * 3
    assert caplog.messages == []


@pytest.mark.parametrize(
    ("sheet", "why"),
    [
        ("Graph", "holds a chart and no cells"),
        ("june", r"no sheet 'june'; it has: 'old' \(hidden\)"),
    ],
)
def test_a_sheet_without_cells_is_refused(tmp_path, sheet, why):
    path = several_sheets(tmp_path / "table.xlsx")
    with pytest.raises(LabelsError, match=why), open_table(path, sheet):
        pass


def test_a_row_longer_than_the_header_is_named(tmp_path):
    path = tmp_path / "table.csv"
    path.write_text("query,a_ndcg_5\nplain,1\nwho, me,0\n")
    with (
        pytest.raises(LabelsError, match=r"after row 2 \(the next row has 3 cells"),
        open_table(path) as opened,
    ):
        opened.read(["query"], SilentProgress())
