"""The console command: settings files, their errors, and what a user sees of them."""

import subprocess
import sys
from pathlib import Path

import pytest

import l2r
from arms.errors import SettingsError

ROOT = Path(__file__).parent.parent
RECIPES = sorted((ROOT / "training" / "recipes").glob("*.yaml"))


def write(folder: Path, text: str) -> Path:
    path = folder / "run.yaml"
    path.write_text(text, encoding="utf-8")
    return path


def cli(*words: str, cwd: Path = ROOT) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "l2r", *words], capture_output=True, text=True, cwd=cwd,
        env={"PYTHONPATH": str(ROOT), "PATH": "/usr/bin:/bin", "COLUMNS": "120"},
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
        run = cli(*words, cwd=tmp_path)
        assert run.returncode == 1
        assert "absent" in run.stderr
        assert "Traceback" not in run.stderr


def test_lam_takes_several_values():
    spread = ["train", "a.yaml", "--lam", "0", "--lam", "0.1", "--lam", "1"]
    assert l2r.spread_lam(["train", "a.yaml", "--lam", "0", "0.1", "1"]) == spread
    assert l2r.spread_lam(["select", "r", "q 2019", "--lam", "0.1"]) == [
        "select", "r", "q 2019", "--lam", "0.1",
    ]  # fmt: skip
    assert l2r.spread_lam(["train", "--lam", "0", "0.5", "a.yaml"]) == [
        "train", "--lam", "0", "--lam", "0.5", "a.yaml",
    ]  # fmt: skip


def test_arms_lists_every_arm():
    run = cli("arms")
    assert run.returncode == 0, run.stderr
    for name in ("bm25", "text_dense", "text_late", "text_rerank", "fusion", "run_file", "none"):
        assert name in run.stdout
    assert "late" in run.stdout
    assert "paragraph" in run.stdout


def test_every_command_has_help():
    commands = ("demo", "arms", "queries", "index", "oracle", "train", "report", "select")
    listed = cli("--help").stdout
    for command in commands:
        assert command in listed
        assert cli(command, "--help").returncode == 0
