"""SIGKILL while a dense or a late index is encoded, then rerun: the same bytes, the same rankings.

Children are forked from a server that has loaded the back ends, so that a kill costs no import.
"""

from __future__ import annotations

import multiprocessing
import random
import time
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing.sharedctypes import Synchronized
from pathlib import Path

import pytest

from arms.arm import ArmSpec
from arms.catalogue import build_arm, open_arm
from arms.corpora.corpus import MemoryCorpus
from arms.indexes.folder import building_folder
from arms.progress import Task
from arms.records import Document

SPECS = (ArmSpec("text_dense"), ArmSpec("text_late"))
KILLS_EACH = 3
CHUNK_UNITS = 4
N_DOCUMENTS = 32
_NAMES = "tide moon coast lava ash crust bee hive bloom bread flour starter ice valley knight"
WORDS = _NAMES.split()
QUERIES = ("tides at the coast", "bees in bloom", "bread and flour")


def corpus() -> MemoryCorpus:
    draw = random.Random(13)
    return MemoryCorpus(
        "killed",
        [
            Document(f"d{number}", "", " ".join(draw.choices(WORDS, k=20)))
            for number in range(N_DOCUMENTS)
        ],
    )


class CountingProgress:
    """Counts the units that are done where the parent can read it."""

    def __init__(self, done: Synchronized[int]) -> None:
        self._done = done

    @contextmanager
    def task(self, description: str, total: int | None = None) -> Iterator[Task]:
        yield self

    def advance(self, amount: int = 1) -> None:
        self._done.value += amount


def build(spec: ArmSpec, root: Path, done: Synchronized[int]) -> None:
    """Build one index in chunks so small that a kill falls between them."""
    import torch

    from arms.encoders.unit_encoder import UnitEncoder

    torch.set_num_threads(1)
    UnitEncoder.chunk_units = CHUNK_UNITS
    build_arm(spec, corpus(), root, CountingProgress(done))


@pytest.fixture(scope="module")
def children():
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["arms.pipelines.text_dense", "arms.pipelines.text_late"])
    return context


def finish(children, spec: ArmSpec, root: Path) -> int:
    """Build to the end; return how many units the build went through."""
    done = children.Value("i", 0)
    child = children.Process(target=build, args=(spec, root, done))
    child.start()
    child.join(120)
    assert child.exitcode == 0
    return done.value


def kill(children, spec: ArmSpec, root: Path, after_units: int, delay_s: float) -> None:
    """Kill the build ``delay_s`` after it is through with that many units."""
    done = children.Value("i", 0)
    child = children.Process(target=build, args=(spec, root, done))
    child.start()
    while done.value < after_units and child.is_alive():
        time.sleep(0.001)
    time.sleep(delay_s)
    child.kill()
    child.join(120)
    assert child.exitcode == -9, "the build ended before it could be killed"


def index_files(root: Path, spec: ArmSpec) -> dict[str, bytes]:
    folder = root / spec.folder_name
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file() and path.name != "arm.json"  # which holds the time that building took
    }


@pytest.mark.slow
@pytest.mark.parametrize("spec", SPECS, ids=lambda spec: spec.identity)
def test_kills_while_encoding_change_no_byte(children, tmp_path, spec):
    finish(children, spec, tmp_path / "undisturbed")
    expected = index_files(tmp_path / "undisturbed", spec)
    assert len(expected) > 5
    root, draw = tmp_path / "killed", random.Random(spec.identity)
    chunks = building_folder(root / spec.folder_name) / "chunks"
    kept = 0
    for number in range(KILLS_EACH):
        kill(children, spec, root, CHUNK_UNITS * (1 + 2 * number), draw.uniform(0, 0.01))
        assert not (root / spec.folder_name / "arm.json").exists()
        finished = {path for path in chunks.iterdir() if path.suffix == ".safetensors"}
        assert len(finished) > kept  # each run adds to what the killed ones left
        kept = len(finished)
    assert kept < N_DOCUMENTS / CHUNK_UNITS
    assert finish(children, spec, root) == N_DOCUMENTS
    assert index_files(root, spec) == expected
    found, undisturbed = (
        open_arm(spec, corpus(), folder).rank(QUERIES, 10)
        for folder in (root, tmp_path / "undisturbed")
    )
    assert found == undisturbed
