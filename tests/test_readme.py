"""The README's commands run; its demo and its snippet stand in test_demo.py."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.small_corpus import write_small_corpus

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")
ENVIRONMENT = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", README, flags=re.DOTALL)


def commands() -> list[str]:
    lines = [line.split("#")[0].strip() for block in blocks("sh") for line in block.splitlines()]
    return [line for line in lines if line]


def run(command: list[str] | str, folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command, shell=isinstance(command, str), cwd=folder, env=ENVIRONMENT,
        capture_output=True, text=True, check=False,
    )  # fmt: skip


@pytest.mark.parametrize("target", [line for line in commands() if line.startswith("make ")])
def test_make_targets_exist(target):
    assert run(f"{target} --dry-run", ROOT).returncode == 0


@pytest.mark.slow
def test_the_commands_run_on_a_users_corpus(tmp_path):
    write_small_corpus(tmp_path / "my-corpus")
    (tmp_path / "my.yaml").write_text(blocks("yaml")[0], encoding="utf-8")
    ours = [line for line in commands() if line.startswith("l2r ")]
    assert len(ours) >= 6
    for command in [*ours, "l2r queries my.yaml"]:
        done = run(command, tmp_path)
        assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
    assert (tmp_path / "runs/report/index.html").is_file()


def test_what_python_blocks_import_is_there():
    for block in blocks("python"):
        compile(block, "README.md", "exec")
        imports = [line for line in block.splitlines() if line.startswith(("import ", "from "))]
        exec("\n".join(imports), {})
