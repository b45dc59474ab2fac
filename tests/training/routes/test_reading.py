import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from arms.errors import LabelsError
from tests.training.routes.label_files import write_labels
from training.routes.reading import BETWEEN, ONE_ROUTE, read_routes
from training.routes.table import prepare


def needed_of(table):
    return {
        query: {route for route, there in zip(table.routes, row, strict=True) if there}
        for query, row in zip(table.query_ids, table.needed, strict=True)
    }


def test_a_folder_is_read_with_sources_and_several_routes(tmp_path):
    folder = write_labels(tmp_path / "labels", train=2, test=1)
    with (folder / "routes" / "train.tsv").open("a", encoding="utf-8") as stream:
        stream.write("video_train_0\tparagraph\n")
    table = read_routes(folder)
    assert table.routes == ("document", "paragraph", "video")
    assert needed_of(table)["video_train_0"] == {"video", "paragraph"}
    assert needed_of(table)["document_test_0"] == {"document"}
    by_id = dict(zip(table.query_ids, zip(table.sources, table.splits, strict=True), strict=True))
    assert by_id["video_train_1"] == ("films", "train")
    assert by_id["paragraph_test_0"] == ("wiki", "test")


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_a_table_is_read(tmp_path, ending):
    path = tmp_path / f"mine.{ending}"
    rows = [("Who?", ["paragraph"]), ("How?", ["video", "clip"]), ("List, all?", ["document"])]
    rows += [("When?", ["video"]), ("Where?", ["clip"])]
    splits = ["train", "dev", "test", "train", "train"]
    if ending == "csv":
        lines = ["query,routes,split"]
        lines += [
            f'"{text}","{"|".join(routes)}",{split}'
            for (text, routes), split in zip(rows, splits, strict=True)
        ]
        path.write_text("\n".join(lines), encoding="utf-8")
    else:
        columns = {
            "query": [text for text, _ in rows],
            "routes": [routes for _, routes in rows],
            "split": splits,
        }
        pq.write_table(pa.table(columns), path)
    table = read_routes(path)
    assert table.splits.tolist() == ["train", "val", "test", "train", "train"]
    assert table.sources.tolist() == ["mine"] * 5
    assert list(needed_of(table).values()) == [set(routes) for _, routes in rows]


def routes_of(path, cells, separator=None):
    """The routes of each row of a table with these cells."""
    rows = [f'q {number},"{cell}"' for number, cell in enumerate(cells)]
    path.write_text("\n".join(["query,routes", *rows]), encoding="utf-8")
    table = read_routes(path, separator=separator)
    return [needed_of(table)[str(number)] for number in range(2, 2 + len(cells))]


@pytest.mark.parametrize("mark", BETWEEN)
def test_a_mark_that_may_belong_to_a_name_is_refused_until_it_is_said_which(tmp_path, mark):
    path, cells = tmp_path / "t.csv", ["bm25", f"bm25{mark}rerank", "dense", f"bm25{mark}rerank"]
    with pytest.raises(LabelsError) as raised:
        routes_of(path, cells)
    assert str(raised.value).splitlines()[1:] == [
        f"  row 3: 'bm25{mark}rerank' may be one route, or bm25 and rerank, and rerank stands "
        f"alone in no row; say which: --separator none, or --separator '{mark}'"
    ]
    name = f"bm25{mark}rerank"
    assert routes_of(path, cells, ONE_ROUTE) == [{"bm25"}, {name}, {"dense"}, {name}]
    both = {"bm25", "rerank"}
    assert routes_of(path, cells, mark) == [{"bm25"}, both, {"dense"}, both]
    assert routes_of(path, cells, " / ") == [{"bm25"}, {name}, {"dense"}, {name}]


def test_parts_that_all_stand_alone_are_routes(tmp_path):
    cells = ["a", "b", "a+b", "c", "a, c|b"]
    found = [{"a"}, {"b"}, {"a", "b"}, {"c"}, {"a", "b", "c"}]
    assert routes_of(tmp_path / "t.csv", cells) == found


def test_a_list_is_taken_as_it_is(tmp_path):
    cells = ['[""bm25+rerank"", ""a,b""]', "[a|b, c]", "['x', 'y']", "z"]
    found = [{"bm25+rerank", "a,b"}, {"a|b", "c"}, {"x", "y"}, {"z"}]
    assert routes_of(tmp_path / "t.csv", cells) == found
    path = tmp_path / "t.parquet"
    pq.write_table(pa.table({"query": ["q"], "routes": [["bm25+rerank", "a|b"]]}), path)
    assert list(needed_of(read_routes(path)).values()) == [{"bm25+rerank", "a|b"}]


def test_all_problems_of_a_folder_are_told_at_once(tmp_path):
    folder = write_labels(tmp_path / "labels", train=1, test=1)
    with (folder / "queries.jsonl").open("a", encoding="utf-8") as stream:
        stream.write("{broken\n" + json.dumps({"_id": "empty", "text": "  "}) + "\n")
    with (folder / "routes" / "test.tsv").open("a", encoding="utf-8") as stream:
        stream.write("nobody\tvideo\nvideo_train_0\n")
    (folder / "routes" / "extra.tsv").write_text("a\tb\n", encoding="utf-8")
    with pytest.raises(LabelsError) as told:
        read_routes(folder)
    message = str(told.value)
    for part in (
        "has problems (5)",
        "queries.jsonl line 7",
        "'empty' is empty",
        "'nobody' is not in queries.jsonl",
        "routes/test.tsv line 6: expected query id, tab, route",
        "routes/extra.tsv is no known split",
    ):
        assert part in message


def test_a_table_without_its_columns_or_with_bad_rows_is_refused(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("question_text,label\nWho?,a\n", encoding="utf-8")
    with pytest.raises(LabelsError, match="no column 'query'"):
        read_routes(path)
    path.write_text("query,routes,split\nWho?,,train\n,a,later\n", encoding="utf-8")
    with pytest.raises(LabelsError) as told:
        read_routes(path)
    for part in ("row 2: no route", "row 3: the query is empty", "got 'later'"):
        assert part in str(told.value)
    with pytest.raises(LabelsError, match="neither a folder"):
        read_routes(tmp_path / "labels.txt")


def test_validation_is_cut_by_text_and_leaks_leave_training(tmp_path):
    folder = write_labels(tmp_path / "labels", train=20, test=4)
    lines = (folder / "queries.jsonl").read_text("utf-8").splitlines()
    queries = {record["_id"]: record for record in map(json.loads, lines)}
    queries["video_train_0"]["text"] = queries["video_test_0"]["text"].upper()
    for number in range(1, 9):
        queries[f"wiki_{number}"] = {"_id": f"wiki_{number}", "text": "Who   PAINTED it?"}
    (folder / "queries.jsonl").write_text("\n".join(map(json.dumps, queries.values())), "utf-8")
    with (folder / "routes" / "train.tsv").open("a", encoding="utf-8") as stream:
        stream.writelines(f"wiki_{number}\tparagraph\n" for number in range(1, 9))
    prepared = prepare(read_routes(folder), seed=3)
    table = prepared.table
    assert prepared.left_out == 1
    assert prepared.cut_from_train == ("val",)
    assert "video_train_0" not in table.query_ids
    counts = {split: int((table.splits == split).sum()) for split in ("train", "val", "test")}
    assert counts["test"] == 12
    assert counts["val"] + counts["train"] == 67
    assert 4 <= counts["val"] <= 9
    same = [one.startswith("wiki_") for one in table.query_ids]
    assert len(set(table.splits[same])) == 1
    again = prepare(read_routes(folder), seed=3).table
    assert again.splits.tolist() == table.splits.tolist()
    other = prepare(read_routes(folder), seed=4).table
    assert other.splits.tolist() != table.splits.tolist()


def test_labels_of_one_route_cannot_be_trained_on(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("query,routes\n" + "".join(f"q {n},a\n" for n in range(30)), encoding="utf-8")
    with pytest.raises(LabelsError, match=r"two routes, got a \(training queries: 24, after the"):
        prepare(read_routes(path), seed=0)


def test_few_queries_say_where_they_went(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("query,routes\nWho?,a\nHow?,b\nWhy?,a\n", encoding="utf-8")
    with pytest.raises(LabelsError, match=r"got [ab] \(training queries: 1, after the splits val"):
        prepare(read_routes(path), seed=0)


def test_ids_that_stand_twice_are_told_together(tmp_path):
    path = tmp_path / "t.csv"
    rows = "".join(f"q {n},{route},{n}\n" for n in range(7) for route in "ab")
    path.write_text(f"query,routes,id\n{rows}", encoding="utf-8")
    with pytest.raises(LabelsError, match="stand twice: '0', '1', '2', '3', '4' and 2 more; a"):
        read_routes(path)


def test_text_that_is_not_utf_8_is_named(tmp_path):
    folder = write_labels(tmp_path / "labels", train=1, test=1)
    with (folder / "queries.jsonl").open("ab") as stream:
        stream.write(b'{"_id": "x", "text": "na\xefve"}\n')
    with pytest.raises(LabelsError, match="line 7: a line is not UTF-8 text"):
        read_routes(folder)
    (tmp_path / "t.csv").write_bytes(b"query,routes\nna\xefve,a\n")
    with pytest.raises(LabelsError, match="is no UTF-8 text"):
        read_routes(tmp_path / "t.csv")


def test_what_is_odd_about_labels_is_counted(tmp_path):
    path = tmp_path / "t.csv"
    rows = [f"which {n},{'ab'[n % 2]},train" for n in range(20)]
    rows += ["Which 3?,b,test", "Which 3?,c,test"]
    path.write_text("\n".join(["query,routes,split", *rows]), encoding="utf-8")
    prepared = prepare(read_routes(path), seed=0)
    assert prepared.never_trained == ("c",)
    assert prepared.contradicting == 2


@pytest.mark.parametrize("texts", [["same"] * 40, [f"text {n}" for n in range(9)]])
def test_so_few_different_texts_are_refused(tmp_path, texts):
    rows = [f"{text},{'ab'[place % 2]}" for place, text in enumerate(texts)]
    (tmp_path / "r.csv").write_text("\n".join(["query,routes", *rows]))
    with pytest.raises(LabelsError, match="at least 10 training queries of different texts"):
        prepare(read_routes(tmp_path / "r.csv"), seed=1)
