"""Other people's tables as labels: what comes in, and what is said of what can't."""

import contextlib
import csv
import inspect
import json
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from arms.errors import LabelsError, SettingsError
from oracle.commands import import_app
from oracle.importing.columns import measure_name, wide_columns
from oracle.importing.problems import Problems
from oracle.importing.tables import import_long, import_wide
from oracle.importing.trec import TrecSource, import_trec
from oracle.importing.write import ImportOptions
from oracle.labels import read_labels
from oracle.release.licences import parse_licence
from oracle.release.verify import verify_release
from oracle.release.write import release_labels
from tests.oracle import tables

ENDINGS = (".csv", ".xlsx", ".parquet")
STRICT = ImportOptions(overwrite=True)
LENIENT = ImportOptions(overwrite=True, lenient=True)


def problems_of(columns, tmp_path, ending=".csv", options=STRICT):
    path = tables.write_table(columns, tmp_path / f"table{ending}")
    with pytest.raises(LabelsError) as caught:
        import_wide(path, tmp_path / "labels", options)
    assert not (tmp_path / "labels").exists()
    return str(caught.value)


def dropped(folder):
    with (folder / "dropped.csv").open(newline="") as stream:
        return [(row["row"], row["column"], row["kind"]) for row in csv.DictReader(stream)]


@pytest.mark.parametrize("ending", ENDINGS)
def test_every_number_of_a_wide_table_comes_in(tmp_path, ending):
    columns = tables.wide_columns(60)
    path = tables.write_table(columns, tmp_path / f"table{ending}")
    done = import_wide(path, tmp_path / "labels", STRICT)
    labels = read_labels(tmp_path / "labels")
    assert done.n_queries == 60 and done.n_dropped == 0
    assert labels.pipelines == labels.router_arms == tables.ARMS
    assert labels.primary_measure == "nDCG@5" and set(labels.quality) == {"nDCG@5", "R@5"}
    row_of = {query_id: row for row, query_id in enumerate(columns["query_id"])}
    rows = [row_of[query_id] for query_id in labels.query_ids]
    for place, arm in enumerate(tables.ARMS):
        for got, header in (
            (labels.quality["nDCG@5"], f"{arm}_ndcg_5"),
            (labels.quality["R@5"], f"{arm}_recall_5"),
            (labels.latency_ms, f"{arm}_latency_ms"),
        ):
            assert got[:, place].tolist() == [columns[header][row] for row in rows]
    assert labels.texts.tolist() == [columns["query"][row] for row in rows]
    assert labels.datasets.tolist() == [columns["dataset"][row] for row in rows]
    assert set(labels.splits) == {"train", "val", "test"}
    stated = labels.manifest["datasets"]["a"]["arms"]["bm25"]
    assert stated["latency_stated"] == 40 and stated["status"] == {"ok": 40}


def test_the_same_table_gives_the_same_bytes_in_every_format_and_order(tmp_path):
    columns = tables.wide_columns(40)
    order = np.random.default_rng(1).permutation(40)
    shuffled = {name: [cells[row] for row in order] for name, cells in columns.items()}
    import_wide(tables.write_csv(columns, tmp_path / "a.csv"), tmp_path / "one", STRICT)
    import_wide(tables.write_xlsx(shuffled, tmp_path / "b.xlsx"), tmp_path / "two", STRICT)
    for name in ("labels.parquet", "queries.parquet"):
        assert (tmp_path / "one" / name).read_bytes() == (tmp_path / "two" / name).read_bytes()


def test_a_split_of_the_table_is_kept_and_one_of_ours_groups_by_text(tmp_path):
    columns = tables.wide_columns(30)
    columns["split"] = ["training", "dev", "Test"] * 10
    import_wide(tables.write_csv(columns, tmp_path / "t.csv"), tmp_path / "labels", STRICT)
    labels = read_labels(tmp_path / "labels")
    by_id = dict(zip(labels.query_ids, labels.splits, strict=True))
    assert [by_id[f"q{row:05d}"] for row in range(3)] == ["train", "val", "test"]
    del columns["split"]
    columns["query"] = [f"question {row // 2}" for row in range(30)]
    columns["dataset"] = ["a", "b"] * 15  # the same text in two datasets is no problem
    import_wide(tables.write_csv(columns, tmp_path / "u.csv"), tmp_path / "grouped", STRICT)
    labels = read_labels(tmp_path / "grouped")
    for group in set(labels.text_groups):
        assert len(set(labels.splits[labels.text_groups == group])) == 1


@pytest.mark.parametrize("ending", ENDINGS)
@pytest.mark.parametrize(
    ("row", "header", "value", "told"),
    [
        (4, "query", "what is  ITEM 0", "query: the query text of an earlier row of the dataset"),
        (4, "query_id", "q00000", "query_id: the dataset and query id of an earlier row"),
        (4, "query", None, "query: no query text"),
        (4, "bm25_latency_ms", 0, "bm25_latency_ms: a latency of 0"),
        (4, "bm25_latency_ms", -2.5, "bm25_latency_ms: a negative latency: row 6 (-2.5)"),
        (4, "bm25_latency_ms", None, "bm25_latency_ms: a number is missing"),
        (4, "text_dense_ndcg_5", 1.5, "text_dense_ndcg_5: a quality outside [0, 1]: row 6 (1.5)"),
        (4, "text_dense_ndcg_5", None, "text_dense_ndcg_5: a number is missing"),
    ],
)
def test_a_problem_is_told_with_its_row(tmp_path, ending, row, header, value, told):
    columns = tables.wide_columns(12)
    columns["dataset"] = ["a"] * 12
    columns[header][row] = value
    message = problems_of(columns, tmp_path, ending)
    assert told in message
    assert "row 6" in message and "1 problem in 12 rows" in message
    assert "--lenient" in message


@pytest.mark.parametrize("ending", [".csv", ".xlsx"])
def test_nan_text_and_infinity_in_a_number_column_are_told_apart(tmp_path, ending):
    columns = tables.wide_columns(12)
    columns["bm25_ndcg_5"][1] = "NaN"
    columns["bm25_ndcg_5"][2] = "n/a"
    columns["bm25_latency_ms"][3] = "inf"
    columns["bm25_latency_ms"][4] = "12,5"
    columns["bm25_latency_ms"][5] = "1_000"
    message = problems_of(columns, tmp_path, ending)
    for told in (
        "bm25_ndcg_5: NaN where a number is expected: row 3",
        "bm25_ndcg_5: text where a number is expected: row 4 (n/a)",
        "bm25_latency_ms: an infinite number: row 5",
        "bm25_latency_ms: text where a number is expected: rows 6 (12,5), 7 (1_000)",
    ):
        assert told in message
    assert "5 problems in 12 rows" in message


def test_nan_in_parquet_is_a_problem_and_null_is_a_missing_value(tmp_path):
    columns = tables.wide_columns(12)
    columns["bm25_latency_ms"][3] = float("nan")
    columns["bm25_latency_ms"][4] = None
    message = problems_of(columns, tmp_path, ".parquet")
    assert "NaN where a number is expected: row 5" in message
    assert "a number is missing beside the arm's other ones: row 6" in message


def test_an_arm_without_values_is_skipped_by_dataset_and_a_problem_by_query(tmp_path):
    columns = tables.wide_columns(12)
    for row in range(12):
        if columns["dataset"][row] == "b":
            for suffix in ("ndcg_5", "recall_5", "latency_ms"):
                columns[f"text_dense_{suffix}"][row] = None
    path = tables.write_csv(columns, tmp_path / "t.csv")
    import_wide(path, tmp_path / "labels", STRICT)
    labels = read_labels(tmp_path / "labels")
    lacking = labels.status[:, 1] == "skipped"
    assert lacking.tolist() == (labels.datasets == "b").tolist()
    for suffix in ("ndcg_5", "recall_5", "latency_ms"):
        columns[f"text_dense_{suffix}"][1] = None
    (tmp_path / "second").mkdir()
    message = problems_of(columns, tmp_path / "second")
    assert (
        "the arm has no value on this query, and others of the dataset have one: row 3" in message
    )
    for suffix in ("ndcg_5", "recall_5", "latency_ms"):
        columns[f"text_dense_{suffix}"] = [None] * 12
    (tmp_path / "third").mkdir()
    assert "text_dense has no value" in problems_of(columns, tmp_path / "third")


def test_missing_columns_are_all_named_before_a_row_is_read(tmp_path):
    columns = tables.wide_columns(5)
    del columns["bm25_latency_ms"], columns["text_dense_ndcg_5"]
    message = problems_of(
        columns, tmp_path, options=ImportOptions(arms=("bm25", "text_dense", "x"))
    )
    for told in (
        "bm25_latency_ms: a column",
        "text_dense_ndcg_5: a column",
        "x_latency_ms: a column",
    ):
        assert told in message
    columns = {"query": ["a"], "bm25_ndcg": [1], "bm25_latency": [1]}
    assert "--latency-unit ms or" in problems_of(columns, tmp_path)
    path = tmp_path / "table.csv"
    import_wide(path, tmp_path / "labels", ImportOptions(latency_unit="s"))
    assert read_labels(tmp_path / "labels").latency_ms.tolist() == [[1000.0]]
    assert read_labels(tmp_path / "labels").primary_measure == "nDCG"


def test_statuses_are_read_and_must_fit_the_numbers(tmp_path):
    columns = tables.wide_columns(12)
    status = ["ok"] * 12
    status[1], status[2], status[3] = "timeout", "EMPTY", "error"
    for row in (1, 2, 3):
        columns["bm25_ndcg_5"][row] = columns["bm25_recall_5"][row] = None
    columns["bm25_latency_ms"][3] = None
    columns["bm25_status"] = status
    import_wide(tables.write_csv(columns, tmp_path / "t.csv"), tmp_path / "labels", STRICT)
    labels = read_labels(tmp_path / "labels")
    by_id = dict(zip(labels.query_ids, range(12), strict=True))
    rows = [by_id[f"q{row:05d}"] for row in (1, 2, 3)]
    assert labels.status[rows, 0].tolist() == ["timeout", "empty", "error"]
    quality = labels.quality["nDCG@5"][rows, 0]
    assert np.isnan(quality[[0, 2]]).all() and quality[1] == 0.0
    assert np.isnan(labels.latency_ms[rows, 0]).tolist() == [True, False, True]
    columns["bm25_ndcg_5"][1], columns["bm25_ndcg_5"][2] = 0.0, 0.5
    columns["bm25_status"][5] = "fine"
    columns["bm25_status"][6] = "ok"
    columns["bm25_latency_ms"][6] = columns["bm25_ndcg_5"][6] = columns["bm25_recall_5"][6] = None
    (tmp_path / "second").mkdir()
    message = problems_of(columns, tmp_path / "second")
    assert "bm25_ndcg_5: a failed arm that has a quality: row 3 (0)" in message
    assert "bm25_ndcg_5: the status is empty and the quality isn't 0: row 4 (0.5)" in message
    assert "bm25_status: a status that is none of ok" in message and "row 7 (fine)" in message
    assert "bm25_latency_ms: a number is missing beside the arm's other ones: row 8" in message


def test_lenient_leaves_the_rows_out_and_records_them(tmp_path):
    columns = tables.wide_columns(30)
    columns["bm25_latency_ms"][4] = 0
    columns["bm25_ndcg_5"][7] = "n/a"
    columns["query"][10] = columns["query"][11] = "the same"
    columns["dataset"] = ["a"] * 30
    path = tables.write_csv(columns, tmp_path / "t.csv")
    done = import_wide(path, tmp_path / "labels", LENIENT)
    assert (done.n_queries, done.n_dropped) == (27, 3)
    labels = read_labels(tmp_path / "labels")
    gone = {f"q{row:05d}" for row in (4, 7, 11)}
    assert set(labels.query_ids) == set(columns["query_id"]) - gone
    assert dropped(tmp_path / "labels") == [
        ("13", "query", "duplicate_text"),
        ("9", "bm25_ndcg_5", "text"),
        ("6", "bm25_latency_ms", "zero_latency"),
    ]
    assert labels.manifest["datasets"]["a"]["dropped"] == {"queries": 3}
    columns["bm25_latency_ms"] = [0] * 30
    tables.write_csv(columns, path)
    with pytest.raises(LabelsError, match="nothing is left to import"):
        import_wide(path, tmp_path / "labels", LENIENT)
    assert read_labels(tmp_path / "labels").query_ids.tolist() == labels.query_ids.tolist()


def test_many_problems_are_told_briefly(tmp_path):
    columns = tables.wide_columns(500)
    columns["bm25_latency_ms"] = [-1] * 500
    message = problems_of(columns, tmp_path)
    assert "500 problems in 500 rows" in message and "and 488 more" in message
    assert len(message) < 1000


def test_a_text_with_a_line_break_counts_as_one_row(tmp_path):
    columns = tables.wide_columns(6)
    columns["query"][0] = "a question\nof two lines"
    columns["bm25_latency_ms"][2] = 0
    assert "a latency of 0: no clock measures that: row 4" in problems_of(columns, tmp_path)


def test_semicolons_and_a_byte_order_mark_are_read(tmp_path):
    columns = tables.wide_columns(6)
    path = tables.write_csv(columns, tmp_path / "t.csv", delimiter=";")
    path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes())
    assert import_wide(path, tmp_path / "labels", STRICT).n_queries == 6


def test_other_headers_are_named_by_the_user(tmp_path):
    columns = tables.wide_columns(6)
    columns["Frage"] = columns.pop("query")
    path = tables.write_csv(columns, tmp_path / "t.csv")
    import_wide(path, tmp_path / "labels", ImportOptions(columns={"text": "Frage"}))
    assert read_labels(tmp_path / "labels").texts is not None
    import_wide(path, tmp_path / "labels", STRICT)  # without text: reports, but no training
    assert read_labels(tmp_path / "labels").texts is None
    with pytest.raises(SettingsError, match="--column takes query_id, text"):
        import_wide(
            path, tmp_path / "labels", ImportOptions(overwrite=True, columns={"txet": "Frage"})
        )
    with pytest.raises(LabelsError, match="Frege: a column is missing"):
        import_wide(
            path, tmp_path / "labels", ImportOptions(overwrite=True, columns={"text": "Frege"})
        )
    with pytest.raises(SettingsError, match=r"--quality is one of nDCG@5, R@5"):
        import_wide(path, tmp_path / "labels", replace(STRICT, quality="AP"))
    with pytest.raises(SettingsError, match="--router-arm must name"):
        import_wide(path, tmp_path / "labels", replace(STRICT, router_arms=("x",)))
    import_wide(
        path,
        tmp_path / "labels",
        ImportOptions(overwrite=True, quality="R@5", router_arms=("bm25",)),
    )
    labels = read_labels(tmp_path / "labels")
    assert labels.primary_measure == "R@5" and labels.router_arms == ("bm25",)


def test_an_earlier_import_is_replaced_only_when_asked(tmp_path):
    first = tables.write_csv(tables.wide_columns(12), tmp_path / "first.csv")
    second = tables.write_csv(tables.wide_columns(6), tmp_path / "second.csv")
    import_wide(first, tmp_path / "labels", ImportOptions())
    with pytest.raises(SettingsError, match=r"holds imported labels already.*--overwrite"):
        import_wide(second, tmp_path / "labels", ImportOptions())
    assert len(read_labels(tmp_path / "labels").query_ids) == 12
    import_wide(second, tmp_path / "labels", STRICT)
    assert len(read_labels(tmp_path / "labels").query_ids) == 6
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "notes.txt").write_text("keep")
    with pytest.raises(SettingsError, match="holds no imported labels"):
        import_wide(second, tmp_path / "mine", STRICT)


@pytest.mark.parametrize(
    ("name", "content", "told"),
    [
        ("t.csv", b"", "is empty"),
        ("t.csv", b"query,bm25_ndcg_5,bm25_latency_ms\n", "nothing is left to import"),
        ("t.csv", b"query,bm25_ndcg_5\n\xff\xfe,1\n", "UTF-8"),
        ("t.csv", b'query,bm25_ndcg_5,bm25_latency_ms\n"open,1,2\n', "can't be read"),
        ("t.csv", b"a,b\n1,2\n", "<ARM>_latency_ms: a column is missing"),
        ("t.xlsx", b"not a zip", "no readable XLSX"),
        ("t.parquet", b"PAR1", "no readable parquet"),
        ("t.ods", b"", "tables end in"),
    ],
)
def test_a_file_that_is_no_table_is_refused(tmp_path, name, content, told):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(LabelsError, match=told):
        import_wide(tmp_path / name, tmp_path / "labels", STRICT)
    with pytest.raises(LabelsError, match="is not a file"):
        import_wide(tmp_path / "absent.csv", tmp_path / "labels", STRICT)


@pytest.mark.parametrize("ending", ENDINGS)
def test_a_damaged_table_is_refused_or_read_and_never_ends_in_a_traceback(tmp_path, ending):
    path = tables.write_table(tables.wide_columns(50), tmp_path / f"t{ending}")
    whole, rng = path.read_bytes(), np.random.default_rng(2)
    for _ in range(60):
        damaged = bytearray(whole)
        for place in rng.integers(0, len(whole), rng.choice([1, 3, 20])):
            damaged[place] = rng.integers(0, 256)
        cut = rng.random() < 0.2
        path.write_bytes(damaged[: len(damaged) // 2] if cut else damaged)
        with contextlib.suppress(LabelsError):
            import_wide(path, tmp_path / "labels", STRICT)


def test_only_imported_labels_are_overwritten(tmp_path):
    path = tables.write_csv(tables.wide_columns(6), tmp_path / "t.csv")
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.tex").write_text("years of work")
    with pytest.raises(SettingsError, match="holds no imported labels"):
        import_wide(path, tmp_path / "mine", STRICT)
    assert (tmp_path / "mine" / "thesis.tex").exists()


def test_names_of_measures():
    assert [measure_name(one) for one in ("ndcg", "NDCG@10", "ndcg_5", "mrr_at_5", "recall5")] == [
        "nDCG", "nDCG@10", "nDCG@5", "RR@5", "R@5",
    ]  # fmt: skip
    assert measure_name("response") is None


def test_arms_whose_names_begin_alike_are_told_apart():
    header = ["q"]
    for arm in ("text", "text_dense", "text_dense@paragraph#a/b"):
        header += [f"{arm}_ndcg", f"{arm}_latency_s"]
    problems = Problems("t")
    columns = wide_columns(header, None, {"text": "q"}, None, problems)
    assert not problems.found
    assert columns.arms == ("text", "text_dense", "text_dense@paragraph#a/b")
    assert columns.latency["text_dense"].factor == 1000.0


def long_rows(count=20, arms=("gpt", "llama")):
    return [
        {
            "sample_id": f"s{query}",
            "prompt": f"prompt number {query}",
            "eval_name": "mmlu" if query % 2 else "gsm8k",
            "model_name": arm,
            "performance": float((query + place) % 2),
            "total_cost": 0.5 * (place + 1),
        }
        for query in range(count)
        for place, arm in enumerate(arms)
    ]


def write_rows(rows, path):
    pq.write_table(pa.Table.from_pylist(rows), path)
    return path


COSTED = ImportOptions(overwrite=True, columns={"latency": "total_cost"}, latency_unit="s")


def test_a_long_table_of_routerbench_comes_in(tmp_path):
    rows = long_rows()
    order = np.random.default_rng(0).permutation(len(rows))
    path = write_rows([rows[row] for row in order], tmp_path / "r.parquet")
    import_long(path, tmp_path / "labels", COSTED)
    labels = read_labels(tmp_path / "labels")
    assert set(labels.pipelines) == {"gpt", "llama"} and labels.primary_measure == "performance"
    gpt = labels.pipelines.index("gpt")
    for row, query_id in enumerate(labels.query_ids):
        number = int(query_id[1:])
        assert labels.quality["performance"][row, gpt] == number % 2
        assert labels.latency_ms[row].tolist() == [
            500.0 if arm == "gpt" else 1000.0 for arm in labels.pipelines
        ]
        assert labels.datasets[row] == ("mmlu" if number % 2 else "gsm8k")
        assert labels.texts[row] == f"prompt number {number}"


def test_problems_of_a_long_table_are_told_with_rows(tmp_path):
    rows = long_rows()
    rows[3]["performance"] = 2.0
    rows[5]["total_cost"] = -1.0
    rows[7]["model_name"] = None
    rows[8]["prompt"] = "another prompt"
    rows.append(dict(rows[0]))
    path = write_rows(rows, tmp_path / "r.parquet")
    with pytest.raises(LabelsError) as caught:
        import_long(path, tmp_path / "labels", COSTED)
    message = str(caught.value)
    for told in (
        "performance of llama: a quality outside [0, 1]: row 5 (2)",
        "total_cost of llama: a negative latency: row 7 (-1000)",
        "model_name: no name of an arm: row 9",
        "performance of llama: the arm has no value on this query, and others of the dataset have "
        "one: row 8",
        "prompt: another text than an earlier row gives the same query: row 11 (than row 10)",
        "the dataset, query and arm of an earlier row: row 42 (as row 2)",
    ):
        assert told in message
    done = import_long(
        path, tmp_path / "labels", ImportOptions(**{**vars(COSTED), "lenient": True})
    )
    assert (done.n_queries, done.n_dropped) == (16, 4)


def test_a_long_table_without_ids_groups_by_text(tmp_path):
    rows = [{key: row[key] for key in row if key != "sample_id"} for row in long_rows()]
    path = write_rows(rows, tmp_path / "r.parquet")
    assert import_long(path, tmp_path / "labels", COSTED).n_queries == 20
    with pytest.raises(LabelsError, match="claude stands in no row"):
        import_long(path, tmp_path / "labels", replace(COSTED, arms=("gpt", "claude")))
    import_long(path, tmp_path / "labels", replace(COSTED, arms=("llama",)))
    assert read_labels(tmp_path / "labels").pipelines == ("llama",)


@pytest.fixture
def trec(tmp_path):
    (tmp_path / "qrels.txt").write_text("q1 0 d1 1\nq2 0 d2 1\nq3 0 d9 1\nq4 0 d1 0\n")
    (tmp_path / "a.run").write_text(
        "q1 Q0 d1 1 9 t\nq1 Q0 d2 2 8 t\nq2 Q0 d1 1 9 t\nq2 Q0 d2 2 8 t\n"
    )
    (tmp_path / "b.run").write_text(
        "q1 Q0 d2 1 9 t\nq2 Q0 d2 1 9 t\nq3 Q0 d9 1 1 t\nq4 Q0 d1 1 1 t\n"
    )
    latencies = "".join(f"q{q},{arm},{q}.5,ok\n" for q in range(1, 5) for arm in "ab")
    latencies = latencies.replace("q3,b,3.5,ok", "q3,b,,timeout").replace(
        "q3,a,3.5,ok", "q3,a,3.5,empty"
    )
    (tmp_path / "latency.csv").write_text(f"query_id,arm,latency_ms,status\n{latencies}")
    (tmp_path / "queries.tsv").write_text("q1\tone?\nq2\ttwo?\nq3\tthree?\nq4\tfour?\n")
    return TrecSource(
        runs={"a": tmp_path / "a.run", "b": tmp_path / "b.run"},
        qrels=tmp_path / "qrels.txt",
        latencies=tmp_path / "latency.csv",
        queries=tmp_path / "queries.tsv",
    )


def test_trec_runs_come_in(trec, tmp_path):
    done = import_trec(trec, tmp_path / "labels", LENIENT)
    assert (done.n_queries, done.n_dropped) == (3, 1)  # q4 has no relevant document
    labels = read_labels(tmp_path / "labels")
    assert labels.query_ids.tolist() == ["q1", "q2", "q3"]
    assert labels.texts.tolist() == ["one?", "two?", "three?"]
    assert labels.status.tolist() == [["ok", "ok"], ["ok", "ok"], ["empty", "timeout"]]
    reciprocal = labels.quality["RR@5"]
    assert reciprocal[:2].tolist() == [[1.0, 0.0], [0.5, 1.0]] and reciprocal[2, 0] == 0.0
    assert labels.latency_ms[:2].tolist() == [[1.5, 1.5], [2.5, 2.5]]
    assert np.isnan(labels.latency_ms[2, 1])
    runs = pq.read_table(tmp_path / "labels" / "runs.parquet").to_pylist()
    assert runs[0] == {
        "dataset": "qrels", "query_id": "q1", "arm": "a", "rank": 1, "doc_id": "d1", "score": 9.0,
        "grade": 1,
    }  # fmt: skip
    assert [one["grade"] for one in runs] == [1, 0, 0, 0, 1, 1, 1]
    assert labels.relevant_grades.tolist() == [(1,), (1,), (1,)]
    assert dropped(tmp_path / "labels") == [("4", "", "unjudged")]


def test_measures_look_at_the_documents_that_are_kept(trec, tmp_path):
    trec.qrels.write_text("q1 0 d1 1\nq1 0 d2 2\nq2 0 d2 1\nq3 0 d9 1\nq3 0 d5 -1\n")
    trec.latencies.write_text(
        "\n".join(one for one in trec.latencies.read_text().splitlines() if "q4" not in one)
    )
    trec.runs["b"].write_text(trec.runs["b"].read_text().replace("q4 Q0 d1 1 1 t\n", ""))
    for k, quality in ((2, [1.0, 0.5]), (1, [0.5, 0.0])):
        target, out = tmp_path / f"labels {k}", tmp_path / f"out {k}"
        import_trec(replace(trec, measures=("AP",), k=k), target, STRICT)
        labels = read_labels(target)
        assert labels.quality["AP"][:2, 0].tolist() == quality
        assert labels.relevant_grades.tolist() == [(2, 1), (1,), (1,)]
        release_labels(target, out, parse_licence("mit", None))
        assert verify_release(out) == []


def test_problems_of_trec_files_come_together(trec, tmp_path):
    with pytest.raises(LabelsError, match=r"no document is judged relevant.*: query 4 \(q4\)"):
        import_trec(trec, tmp_path / "labels", STRICT)
    lines = trec.latencies.read_text().splitlines()
    lines = [line for line in lines if not line.startswith("q1,a")]
    lines[lines.index("q2,a,2.5,ok")] = "q2,a,0,ok"
    lines += ["q2,b,7,ok", "q77,a,1,ok", "q1,c,1,ok"]
    trec.latencies.write_text("\n".join(lines))
    trec.runs["a"].write_text("q99 Q0 d1 1 9 t\nq98 Q0 d1 1 9 t\n")
    trec.queries.write_text("q1\tone?\nq3\tthree?\nq4\tfour?\n")
    with pytest.raises(LabelsError) as caught:
        import_trec(trec, tmp_path / "labels", STRICT)
    message = str(caught.value)
    for told in (
        "run of a: no latency for this query and arm: querys 1 (q1), 2 (q2)",
        "latency_ms: a latency of 0: no clock measures that: row 3",
        "the dataset, query and arm of an earlier row: row 9 (as row 4)",
        "query_id: a query that neither the judgements nor a run have: row 10 (q77)",
        "run of a: none of the run's queries is judged; it belongs to other judgements: 2 queries, "
        "e.g. q99",
        "query text: no query text: query 2",
    ):
        assert told.replace("querys", "queries") in message


def test_queries_of_runs_that_nobody_judged_are_counted_and_left_out(trec, tmp_path):
    """As trec_eval does; neither strictness nor their latencies matter."""
    trec.qrels.write_text("q1 0 d1 1\nq2 0 d2 1\n")
    trec.runs["a"].write_text(trec.runs["a"].read_text() + "x9 Q0 d1 1 9 t\n")
    lines = trec.latencies.read_text().splitlines()
    lines = [line for line in lines if line[:2] not in ("q3", "q4")] + ["x9,a,1,ok", "q4,b,1,ok"]
    trec.latencies.write_text("\n".join(lines))
    done = import_trec(trec, tmp_path / "labels", STRICT)
    assert (done.n_queries, done.n_dropped, done.n_unjudged) == (2, 0, 3)  # q3 and q4 of b, and x9
    labels = read_labels(tmp_path / "labels")
    assert labels.query_ids.tolist() == ["q1", "q2"]
    assert labels.latency_ms.tolist() == [[1.5, 1.5], [2.5, 2.5]]
    assert labels.manifest["imported"]["unjudged_queries"] == 3
    assert not (tmp_path / "labels" / "dropped.csv").exists()


def test_a_query_with_two_texts_is_refused_with_both_lines(trec, tmp_path):
    trec.qrels.write_text(trec.qrels.read_text().replace("q4 0 d1 0", "q4 0 d1 1"))
    trec.queries.write_text("q1\tone?\nq2\ttwo?\n\nq3\tthree?\nq4\tfour?\nq2\telse\nq7\ta\nq7\tb\n")
    with pytest.raises(LabelsError) as caught:
        import_trec(trec, tmp_path / "labels", STRICT)
    told = "query text: a query id that stands twice: query 2 (q2: lines 2 and 6 of queries.tsv)"
    assert told in str(caught.value)
    assert "q7" not in str(caught.value)  # nobody judged it
    import_trec(trec, tmp_path / "labels", LENIENT)
    assert read_labels(tmp_path / "labels").query_ids.tolist() == ["q1", "q3", "q4"]


def options_named(message):
    return set(re.findall(r"--[a-z-]+", message.splitlines()[-1]))


@pytest.mark.parametrize("command", ["wide", "long", "trec"])
def test_advice_names_options_that_the_command_has(trec, tmp_path, command):
    commands = {one.name: one.callback for one in import_app.registered_commands}
    known = {
        f"--{name.replace('_', '-')}" for name in inspect.signature(commands[command]).parameters
    }
    headless = tmp_path / "h.csv"
    headless.write_text("a,b\n1,2\n")
    (tmp_path / "unit.csv").write_text("query_id,arm,latency\nq1,a,1\n")
    (tmp_path / "strangers.run").write_text("x Q0 d 1 1 t\n")
    begin = {"wide": import_wide, "long": import_long}.get(command)
    attempts = [
        lambda: (
            begin(headless, tmp_path / "out", STRICT)
            if begin
            else import_trec(replace(trec, latencies=headless), tmp_path / "out", STRICT)
        ),
        lambda: import_trec(trec, tmp_path / "out", STRICT),
        lambda: import_trec(
            replace(trec, latencies=tmp_path / "unit.csv"), tmp_path / "out", STRICT
        ),
        lambda: import_trec(
            replace(trec, runs={"a": tmp_path / "strangers.run"}), tmp_path / "out", STRICT
        ),
    ]
    named = []
    for attempt in attempts if command == "trec" else attempts[:1]:
        with pytest.raises(LabelsError) as caught:
            attempt()
        named.append(options_named(str(caught.value)))
    assert set().union(*named) <= known
    assert named[0] == {"--column", "--latency-unit"}
    assert not named[-1] or command != "trec"  # no option helps against a run of other queries


def test_imported_labels_are_released_and_sound(tmp_path, trec):
    import_trec(trec, tmp_path / "trec", LENIENT)
    path = tables.write_csv(tables.wide_columns(40), tmp_path / "t.csv")
    import_wide(path, tmp_path / "wide", STRICT)
    for name in ("trec", "wide"):
        out = tmp_path / "out" / name
        release_labels(tmp_path / name, out, parse_licence("mit", None), "keep")
        assert verify_release(out) == []
        assert "imported from" in (out / "README.md").read_text()
        manifest = json.loads((out / "manifest.json").read_text())
        assert str(tmp_path) not in json.dumps(manifest)
    assert Path(tmp_path / "out" / "trec" / "runs.parquet").is_file()


def read_queries(folder):
    return pq.read_table(folder / "queries.parquet").to_pydict()


ASKED = "what was the total revenue of the whole company and all its subsidiaries in the year {}?"


def test_without_judgements_nearly_equal_texts_share_a_split(tmp_path):
    columns = tables.wide_columns(40)
    topics = ("cats", "engines", "violins", "glaciers", "ballots", "orchids", "tariffs", "comets")
    texts = [f"{topics[row % 8]} {topics[row // 8]} {row}" for row in range(36)]
    columns["query"] = texts + [ASKED.format(year) for year in (2017, 2018, 2019, 2020)]
    done = import_wide(tables.write_csv(columns, tmp_path / "t.csv"), tmp_path / "near", STRICT)
    labels = read_labels(done.folder)
    assert done.split == labels.manifest["split"] == {"by": "near_duplicate", "fallbacks": {}}
    asked = np.array([text.startswith("what was") for text in labels.texts])
    assert len(set(labels.near_duplicate_groups[asked & (labels.datasets == "a")])) == 1
    for dataset in set(labels.datasets):
        mine = asked & (labels.datasets == dataset)
        assert len(set(labels.splits[mine])) == 1
    assert all(one is None for one in labels.document_groups)
    options = replace(STRICT, split="document", overwrite=True)
    done = import_wide(tmp_path / "t.csv", tmp_path / "near", options)
    assert {one["used"] for one in done.split["fallbacks"].values()} == {"near_duplicate"}
    again = read_labels(done.folder)
    assert again.splits.tolist() == labels.splits.tolist()


def test_a_split_that_is_given_is_called_given(tmp_path):
    columns = tables.wide_columns(30)
    columns["split"] = ["training", "dev", "Test"] * 10
    done = import_wide(tables.write_csv(columns, tmp_path / "t.csv"), tmp_path / "labels", STRICT)
    assert done.split == {"by": "query", "given": True, "fallbacks": {}}


def test_trec_judgements_group_by_document_with_or_without_texts(trec, tmp_path):
    trec.qrels.write_text("q1 0 d1 2\nq1 0 d2 1\nq2 0 d2 1\nq3 0 d9 1\nq4 0 d7 0\n")
    for name, source in (("texts", trec), ("none", replace(trec, queries=None))):
        import_trec(source, tmp_path / name, replace(LENIENT, split="document"))
        queries = read_queries(tmp_path / name)
        assert queries["relevant_ids"] == [["d1", "d2"], ["d2"], ["d9"]]
        groups = queries["document_group"]
        assert groups[0] == groups[1] != groups[2]
        assert (queries["near_duplicate_group"] == [None] * 3) is (name == "none")
