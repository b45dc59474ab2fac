"""``l2r queries``: run twice, with other settings, over several corpora."""

from pathlib import Path

import pytest

import l2r
from tests.small_corpus import write_small_corpus

RUN = "corpus: [first, second]\nqueries: {{kinds: [keywords], n_queries: {}}}\n"


@pytest.fixture
def run(tmp_path, capsys):
    """Return a function that runs the command and gives exit status, output and errors."""
    for name in ("first", "second"):
        write_small_corpus(tmp_path / name)
    path = tmp_path / "run.yaml"

    def call(*words: str, n_queries: int = 10) -> tuple[int, str, str]:
        path.write_text(RUN.format(n_queries))
        with pytest.raises(SystemExit) as stopped:
            l2r.main(["queries", str(path), *words])
        return int(stopped.value.code or 0), *capsys.readouterr()

    return call


def contents(folder: Path) -> dict[str, tuple[bytes, int]]:
    return {
        str(path.relative_to(folder)): (path.read_bytes(), path.stat().st_mtime_ns)
        for path in folder.rglob("*")
        if path.is_file()
    }


def test_the_same_command_again_leaves_everything_as_it_is(run, tmp_path):
    assert run()[0] == 0
    made = contents(tmp_path / "runs" / "queries")
    assert {"first/queries.jsonl", "second/qrels/test.tsv", "second/made_from.json"} <= set(made)
    code, printed, _ = run()
    assert code == 0
    assert printed.count("made already") == 2
    assert contents(tmp_path / "runs" / "queries") == made


def test_only_what_is_missing_is_made(run, tmp_path):
    run()
    (tmp_path / "runs" / "queries" / "second").rename(tmp_path / "elsewhere")
    made = contents(tmp_path / "runs" / "queries" / "first")
    assert run()[0] == 0
    assert contents(tmp_path / "runs" / "queries" / "first") == made
    again = {name: content for name, (content, _) in contents(tmp_path / "elsewhere").items()}
    second = contents(tmp_path / "runs" / "queries" / "second")
    assert {name: content for name, (content, _) in second.items()} == again


def test_all_folders_of_other_queries_are_named_at_once_and_kept(run, tmp_path):
    run()
    (tmp_path / "runs" / "queries" / "second" / "made_from.json").unlink()
    made = contents(tmp_path / "runs")
    code, _, told = run(n_queries=6)
    assert code == 1
    assert "queries/first was made from something else (n_queries: wanted 6" in told
    assert "queries/second exists already and isn't known to be made" in told
    assert told.count("--overwrite") == 2
    assert contents(tmp_path / "runs") == made


def test_overwriting_replaces(run, tmp_path):
    run()
    code, printed, _ = run("--overwrite", n_queries=6)
    assert code == 0
    assert printed.count("6 queries over 60 documents") == 2
    lines = (tmp_path / "runs" / "queries" / "first" / "queries.jsonl").read_text().splitlines()
    assert len(lines) == 6


def test_unusable_corpora_are_all_named_before_anything_is_written(run, tmp_path):
    for name in ("first", "second"):
        (tmp_path / name / "corpus.jsonl").unlink()
    code, _, told = run()
    assert code == 1
    assert "first should hold corpus.jsonl" in told
    assert "second should hold corpus.jsonl" in told
    assert not (tmp_path / "runs").exists()


def test_two_corpora_of_one_name_are_refused(tmp_path, capsys):
    for name in ("a/docs", "b/docs"):
        write_small_corpus(tmp_path / name)
    path = tmp_path / "run.yaml"
    path.write_text("corpus: [a/docs, b/docs]\n")
    with pytest.raises(SystemExit, match="1"):
        l2r.main(["queries", str(path)])
    assert "two corpora would be written to" in capsys.readouterr().err
