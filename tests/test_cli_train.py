"""``l2r train``: what it says before it loads torch, and how it ends when it is stopped."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import l2r
from tests.small_corpus import write_small_corpus
from tests.test_cli import assert_refused, cli, write

ROOT = Path(__file__).parent.parent
WITHOUT_TORCH = """
import sys, l2r
try:
    l2r.main(["train", "run.yaml"])
except SystemExit as stopped:
    sys.exit(3 if "torch" in sys.modules else stopped.code)
"""


def test_missing_labels_are_named_before_torch_is_loaded(tmp_path):
    write(tmp_path, "corpus: my-corpus\n")  # which isn't there either, nor read
    run = subprocess.run(
        [sys.executable, "-c", WITHOUT_TORCH], capture_output=True, text=True, cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)}, check=False,
    )  # fmt: skip
    assert_refused(run, "run (or rerun) l2r oracle")


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("corpus: {path: c, language: klingon}", "corpus.0.language: no language is called"),
        ("corpus: {path: c, language: germann}", "did you mean 'german'?"),
        (
            "corpus: c\ntraining: {baselines: {inverse_regularisation: [-1]}}",
            "training.baselines.inverse_regularisation: inverse_regularisation must be finite and",
        ),
        ("corpus: c\noracle: {split: {train: 0.9, val: 0.1, test: 0}}", "oracle.split.test: Input"),
        ("corpus: c\ncorpus: d", "corpus: lines 1 and 2; keep one"),
        ("", "expected keys such as 'corpus:' and 'arms:', got an empty file"),
    ],
)
def test_impossible_settings_are_refused_when_they_are_read(tmp_path, capsys, text, told):
    with pytest.raises(SystemExit, match="1"):
        l2r.main(["train", str(write(tmp_path, text))])
    assert told in capsys.readouterr().err


def test_a_corpus_of_one_question_is_refused(tmp_path, capsys):
    folder = write_small_corpus(tmp_path / "my-corpus")
    queries = [json.loads(line) for line in (folder / "queries.jsonl").read_text().splitlines()]
    lines = (json.dumps({**query, "text": "where is it?"}) + "\n" for query in queries)
    (folder / "queries.jsonl").write_text("".join(lines))
    with pytest.raises(SystemExit, match="1"):
        l2r.main(["oracle", str(write(tmp_path, "corpus: my-corpus\narms: [bm25]\n"))])
    assert "the queries (120) all have the same text" in capsys.readouterr().err
    assert not (tmp_path / "runs").exists()


def test_lightnings_exit_on_sigterm_is_no_success(monkeypatch, capsys):
    """Lightning's exception is an exit without a status, which Python would turn into 0."""
    from pytorch_lightning.utilities.exceptions import SIGTERMException

    def stopped(words):
        raise SIGTERMException

    monkeypatch.setattr(l2r, "app", stopped)
    with pytest.raises(SystemExit) as raised:
        l2r.main(["train", "run.yaml"])
    assert raised.value.code == 128 + signal.SIGTERM
    assert "run the same command again to continue" in capsys.readouterr().err


LONG_TRAINING = """
corpus: my-corpus
arms: [bm25, {arm: bm25, granularity: paragraph}]
oracle: {latency: {repeats: 1, warm_up: 0}}
training:
  lams: [0.1]
  cross_validation_folds: 0
  frozen: {epochs: 100000}
"""


def catches_sigterm(process_id: int) -> bool:
    """Whether the process has a handler of the signal, as it has once Lightning trains."""
    status = Path(f"/proc/{process_id}/status").read_text()
    (caught,) = re.findall(r"^SigCgt:\s*(\w+)", status, flags=re.MULTILINE)
    return bool(int(caught, 16) >> (signal.SIGTERM - 1) & 1)


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/status").is_file(), reason="needs /proc")
def test_sigterm_in_the_middle_of_training_ends_with_143(tmp_path):
    write_small_corpus(tmp_path / "my-corpus")
    write(tmp_path, LONG_TRAINING)
    assert cli("oracle", "run.yaml", cwd=tmp_path).returncode == 0
    with subprocess.Popen(
        [sys.executable, "-m", "l2r", "train", "run.yaml"], cwd=tmp_path, text=True,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, env={**os.environ, "PYTHONPATH": str(ROOT)},
    ) as child:  # fmt: skip
        begins_by = time.monotonic() + 240
        while not catches_sigterm(child.pid) and time.monotonic() < begins_by:
            with pytest.raises(subprocess.TimeoutExpired):
                child.wait(timeout=0.2)
        with pytest.raises(subprocess.TimeoutExpired):
            child.wait(timeout=1)  # in the first of a hundred thousand epochs
        child.send_signal(signal.SIGTERM)
        _, told = child.communicate(timeout=60)
    assert child.returncode == 128 + signal.SIGTERM
    assert "run the same command again to continue" in told
    assert "Traceback" not in told
    assert not (tmp_path / "runs" / "router").exists()


def test_a_bad_path_does_not_hide_a_bad_arm(tmp_path, capsys):
    run = write(tmp_path, "corpus: nowhere\narms: [bm26, text_dense]\n")
    for command in ("index", "oracle"):
        with pytest.raises(SystemExit, match="1"):
            l2r.main([command, str(run)])
        told = capsys.readouterr().err
        assert "no arm is called 'bm26'" in told
        assert "nowhere" in told


def test_ctrl_c_says_how_to_go_on(monkeypatch, tmp_path, capsys):
    def interrupted(*given):
        raise KeyboardInterrupt

    monkeypatch.setattr(l2r, "read_run", interrupted)
    with pytest.raises(SystemExit, match="130"):
        l2r.main(["train", str(tmp_path)])
    assert "stopped; run the same command again to continue" in capsys.readouterr().err
