import gzip

import pytest

from arms.corpora.trec import read_qrels, read_run, write_qrels, write_run
from arms.errors import CorpusError
from arms.records import Ranking


def test_reads_qrels(tmp_path):
    path = tmp_path / "q.txt"
    path.write_text("1 0 a 2\n1 0  b\t0\n\n2 Q0 a -2\n".replace("\t", " "))
    assert read_qrels(path) == {"1": {"a": 2, "b": 0}, "2": {"a": -2}}


def test_a_run_is_ordered_by_score_then_document_not_by_its_ranks(tmp_path):
    path = tmp_path / "r.txt.gz"
    lines = "q Q0 c 1 0.5 x\nq Q0 b 2 0.5 x\nq Q0 a 3 2e0 x\n"
    path.write_bytes(gzip.compress(lines.encode()))
    assert read_run(path) == {"q": Ranking(("a", "b", "c"), (2.0, 0.5, 0.5))}


@pytest.mark.parametrize("name", ["run.txt", "run.txt.gz"])
def test_runs_and_qrels_round_trip(tmp_path, name):
    run = {
        "query 1": Ranking(("Ada Lovelace", "b"), (0.1 + 0.2, -1e-300)),
        "q2": Ranking(("ü",), (3.0,)),
    }
    write_run(run, tmp_path / name)
    assert read_run(tmp_path / name) == run
    qrels = {"query 1": {"Ada Lovelace": 2, "b": 0}}
    write_qrels(qrels, tmp_path / f"qrels-{name}")
    assert read_qrels(tmp_path / f"qrels-{name}") == qrels


def test_an_empty_ranking_has_no_line(tmp_path):
    write_run({"q": Ranking((), ())}, tmp_path / "run")
    assert read_run(tmp_path / "run") == {}


def test_equal_runs_give_equal_bytes(tmp_path):
    run = {"q": Ranking(("a",), (1.0,))}
    write_run(run, tmp_path / "a.gz")
    write_run(run, tmp_path / "b.gz")
    content = (tmp_path / "a.gz").read_bytes()
    assert content == (tmp_path / "b.gz").read_bytes()
    assert content[4:8] == bytes(4)  # no time of writing


def test_run_errors_name_lines_and_count_the_rest(tmp_path):
    path = tmp_path / "r"
    path.write_bytes(
        b"q Q0 a 1 1.0 x\nq Q0 a 2 0.9 x\nq Q0 b 3 high x\nq Q0 c 4\nq Q0 \xff 5 1 x\n"
        b"q Q0 d 6 nan x\n"
    )
    with pytest.raises(CorpusError) as caught:
        read_run(path)
    message = str(caught.value)
    assert "5 unusable lines" in message
    assert "line 2: document 'a' stands twice for query 'q', first in line 1" in message
    assert "line 3: the score should be a finite number, got 'high'" in message
    assert "line 4: expected 6 columns (query Q0 document rank score tag), got 4" in message
    assert "and 2 more" in message


def test_qrels_errors_name_lines(tmp_path):
    path = tmp_path / "q"
    path.write_text("1 0 a 1\n1 0 a 1\n1 0 a 2\n1 0 b 0.5\n")
    with pytest.raises(CorpusError) as caught:
        read_qrels(path)
    assert "2 unusable lines" in str(caught.value)
    assert "line 3: '1' 'a' has grade 1 in line 1, then 2" in str(caught.value)
    assert "line 4: the grade should be an integer, got '0.5'" in str(caught.value)


def test_missing_file_and_unwritable_id(tmp_path):
    with pytest.raises(CorpusError, match="can't be read"):
        read_run(tmp_path / "nowhere")
    with pytest.raises(CorpusError, match="without tab or line break"):
        write_run({"q\n": Ranking(("a",), (1.0,))}, tmp_path / "run")
    assert list(tmp_path.iterdir()) == []
