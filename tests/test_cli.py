"""The console command: settings files, their errors, and what a user sees of them."""

import io
import os
import subprocess
import sys
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from unittest.mock import patch

import pytest

import l2r
from arms.errors import SettingsError
from tests.analysis.synthetic import write_suite
from tests.oracle import tables
from tests.small_corpus import write_small_corpus

ROOT = Path(__file__).parent.parent
RECIPES = sorted((ROOT / "training" / "recipes").glob("*.yaml"))


def write(folder: Path, text: str) -> Path:
    path = folder / "run.yaml"
    path.write_text(text, encoding="utf-8")
    return path


def cli(*words: str, cwd: Path = ROOT) -> subprocess.CompletedProcess[str]:
    """Run a command in this process: one of its own would load every library again."""
    printed, told, before = io.StringIO(), io.StringIO(), Path.cwd()
    os.chdir(cwd)
    try:
        with (
            patch.dict(os.environ, COLUMNS="120"),
            redirect_stdout(printed),
            redirect_stderr(told),
            pytest.raises(SystemExit) as ended,
        ):
            l2r.main(list(words))
    finally:
        os.chdir(before)
    code = int(ended.value.code or 0)
    return subprocess.CompletedProcess(words, code, printed.getvalue(), told.getvalue())


def process(*words: str, cwd: Path = ROOT) -> subprocess.CompletedProcess[str]:
    """Run a command as a user does."""
    return subprocess.run(
        [sys.executable, "-m", "l2r", *words], capture_output=True, text=True, cwd=cwd,
        env={"PYTHONPATH": str(ROOT), "PATH": "/usr/bin:/bin", "OMP_NUM_THREADS": "1"},
    )  # fmt: skip


@pytest.mark.parametrize("recipe", RECIPES, ids=lambda path: path.name)
def test_every_recipe_parses(recipe):
    assert l2r.read_run(recipe).corpus


def test_only_the_corpus_is_needed(tmp_path):
    run = l2r.read_run(write(tmp_path, "corpus: my-docs"))
    assert run.corpus[0].path == tmp_path / "my-docs"
    assert run.output == tmp_path / "runs"
    assert [arm.arm for arm in run.arms] == ["bm25", "text_dense", "text_rerank"]


def test_every_problem_of_a_file_is_named_at_once(tmp_path):
    path = write(tmp_path, "corpus: docs\noracl: {}\n")
    with pytest.raises(SettingsError, match="unknown key 'oracl'; did you mean 'oracle'"):
        l2r.read_run(path)
    path = write(tmp_path, "corpus: docs\ntraining: {tua: 0.1}\noracle: {mesures: [P@1]}\n")
    with pytest.raises(SettingsError) as caught:
        l2r.read_run(path)
    assert "did you mean 'tau'" in str(caught.value)
    assert "did you mean 'measures'" in str(caught.value)


@pytest.mark.parametrize("text", ["", "just words", "- a\n- b", "corpus: [unclosed"])
def test_a_file_that_is_no_run_gets_one_line_and_no_traceback(tmp_path, text):
    run = cli("oracle", str(write(tmp_path, text)))
    assert run.returncode == 1
    assert run.stderr.startswith("l2r: ")
    assert "Traceback" not in run.stderr


def test_a_missing_file_and_a_missing_router_are_named(tmp_path):
    for words in (("index", "absent.yaml"), ("select", "absent-router", "a query")):
        run = process(*words, cwd=tmp_path)
        assert run.returncode == 1
        assert "absent" in run.stderr
        assert "Traceback" not in run.stderr


def test_lam_takes_several_values():
    spread = ["train", "a.yaml", "--lam", "0", "--lam", "0.1", "--lam", "1"]
    assert l2r.spread_lam(["train", "a.yaml", "--lam", "0", "0.1", "1"]) == spread
    assert l2r.spread_lam(["select", "r", "q 2019", "--lam", "0.1"]) == [
        "select", "r", "q 2019", "--lam", "0.1",
    ]  # fmt: skip
    for query in ("2019", "1e5", "nan"):  # a query may look like a number
        words = ["select", "r", "--lam", "0.1", query]
        assert l2r.spread_lam(words) == words
    assert l2r.spread_lam(["train", "--lam", "0", "0.5", "a.yaml"]) == [
        "train", "--lam", "0", "--lam", "0.5", "a.yaml",
    ]  # fmt: skip


BM25_RUN = "corpus: my-corpus\narms: [bm25, {arm: bm25, granularity: paragraph}]\n"


@pytest.fixture
def labelled(tmp_path):
    """A run of two cheap arms, labelled."""
    write_small_corpus(tmp_path / "my-corpus")
    write(tmp_path, BM25_RUN)
    done = cli("oracle", "run.yaml", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    return tmp_path


def assert_refused(run: subprocess.CompletedProcess[str], *words: str) -> None:
    assert run.returncode == 1, run.stdout + run.stderr
    assert "Traceback" not in run.stderr
    for word in words:
        assert word in run.stderr


@pytest.mark.parametrize("lam", ["nan", "2", "-1"])
def test_train_refuses_a_lam_outside_its_range(labelled, lam):
    assert_refused(cli("train", "run.yaml", "--lam", lam, cwd=labelled), "lam must lie in [0, 1]")


@pytest.mark.parametrize("name", ["manifest.json", "labels.parquet", "queries.parquet"])
def test_damaged_labels_are_named(labelled, name):
    path = labelled / "runs" / "labels" / name
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    assert_refused(cli("train", "run.yaml", cwd=labelled), name, "rerun l2r oracle")


def test_a_damaged_index_record_is_rebuilt(labelled):
    path = labelled / "runs" / "index" / "my-corpus" / "bm25" / "arm.json"
    whole = path.read_bytes()
    path.write_bytes(whole[:20])
    assert cli("index", "run.yaml", cwd=labelled).returncode == 0
    assert len(path.read_bytes()) > 20


def test_an_output_that_cannot_be_written_is_named(tmp_path):
    write_small_corpus(tmp_path / "my-corpus")
    write(tmp_path, f"{BM25_RUN}output: my-corpus/corpus.jsonl\n")
    assert_refused(cli("index", "run.yaml", cwd=tmp_path), "can't be written")


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("corpus: []", "at least 1 item"),
        ("corpus: {path: my-corpus, name: ../../x}", "becomes a folder"),
        ("corpus: my-corpus\narms: [bm25, bm25]", "give the others a 'name:' each"),
        ("corpus: my-corpus\narms: bm25", "arms: should be a list, e.g. [bm25], got 'bm25'"),
        (
            "corpus: my-corpus\narms: [bm25]\ntraining: {policies: probing}",
            "training.policies: should be a list, e.g. [probing], got 'probing'",
        ),
        ("corpus: my-corpus\noracle: {latency: {timeout_s: .inf}}", "finite number"),
    ],
)
def test_index_refuses_what_would_collide_or_escape(tmp_path, text, told):
    write_small_corpus(tmp_path / "my-corpus")
    write(tmp_path, text)
    assert_refused(cli("index", "run.yaml", cwd=tmp_path), told)
    assert not (tmp_path / "runs").exists()


def test_arms_lists_every_arm():
    run = cli("arms")
    assert run.returncode == 0, run.stderr
    for name in ("bm25", "text_dense", "text_late", "text_rerank", "fusion", "run_file", "none"):
        assert name in run.stdout
    assert "late" in run.stdout
    assert "paragraph" in run.stdout


def test_every_command_has_help():
    commands = ("demo", "arms", "queries", "index", "oracle", "train", "report", "select")
    commands += ("learn", "compare", "release", "verify", "import")
    listed = cli("--help").stdout
    for command in commands:
        assert command in listed
        assert cli(command, "--help").returncode == 0


def test_labels_made_elsewhere_stand_in_for_a_corpus(tmp_path):
    run = l2r.read_run(write(tmp_path, "labels: theirs"))
    assert l2r.labels_of(run) == tmp_path / "theirs" and run.corpus == ()
    with pytest.raises(SettingsError, match="expected 'corpus:'"):
        l2r.read_run(write(tmp_path, "output: runs"))
    for command in ("index", "queries", "oracle"):
        assert_refused(cli(command, "run.yaml", cwd=tmp_path), "run.yaml has problems")
    write(tmp_path, "labels: theirs")
    for command in ("index", "queries", "oracle"):
        assert_refused(cli(command, "run.yaml", cwd=tmp_path), "add 'corpus:'")
    assert_refused(cli("train", "run.yaml", cwd=tmp_path), "theirs holds no manifest.json")
    write(tmp_path, "labels: theirs\ncorpus: docs")
    assert_refused(cli("oracle", "run.yaml", cwd=tmp_path), "remove 'labels:'")


def test_labels_go_out_and_come_in(tmp_path):
    table = tables.write_csv(tables.wide_columns(40), tmp_path / "table.csv")
    done = cli("import", "wide", str(table), "labels", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "labels: labels, 40 queries" in done.stdout
    assert_refused(cli("release", "labels", "out", cwd=tmp_path), "--license cc-by-4.0")
    done = cli("release", "labels", "out", "--license", "mit", "--text", "hash", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert cli("verify", "out", cwd=tmp_path).stdout.startswith("out: sound")
    content = (tmp_path / "out" / "labels.parquet").read_bytes()
    (tmp_path / "out" / "labels.parquet").write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    (tmp_path / "out" / "stranger").write_text("")
    assert_refused(
        cli("verify", "out", cwd=tmp_path),
        "out: 2 faults", "labels.parquet: checksum", "stranger: unexpected file",
    )  # fmt: skip
    for words in (("--text", "maybe"), ("--license", "mine")):
        run = cli("release", "labels", "out2", "--license", "mit", *words, cwd=tmp_path)
        assert_refused(run, words[0])
    assert_refused(
        cli("import", "wide", "table.csv", "x", "--column", "text", cwd=tmp_path), "what=HEADER"
    )
    assert_refused(
        cli("import", "long", "table.csv", "x", cwd=tmp_path), "arm: a column is missing"
    )


def test_compare_reads_folders_and_yaml_files(tmp_path):
    write_suite(tmp_path / "a", lams=(0.0,))
    write_suite(tmp_path / "b", lams=(0.0,), hits=0.9)
    path = write(tmp_path, "labels: a/labels\noutput: a")
    done = cli("compare", str(path), "b", "--output", "out.md", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "router at λ = 0 is better by +" in done.stdout
    assert (tmp_path / "out.md").read_text() in done.stdout and (tmp_path / "out.csv").is_file()
    assert_refused(cli("compare", "a", "absent", cwd=tmp_path), "absent is no folder")
