"""The set that the overhead targets are stated on: 8,648 documents, 160 queries, 10 results."""

from __future__ import annotations

import argparse
from pathlib import Path

from arms.corpora.corpus import Dataset
from arms.corpora.reader import read_dataset
from arms.settings import DatasetSettings

DATA = Path(__file__).parent.parent.parent / "shared" / "data"
K = 10


def parser(description: str) -> argparse.ArgumentParser:
    """Options shared by the benchmarks of arms."""
    options = argparse.ArgumentParser(description=description)
    options.add_argument("--data", type=Path, default=DATA, help="folder of the test collections")
    options.add_argument("--index", type=Path, default=Path("runs/benchmarks/index"))
    return options


def read(data: Path) -> Dataset:
    """Read the set, leniently: what is wrong with it doesn't matter for time."""
    return read_dataset(DatasetSettings(path=data / "videorag-wikihow", strict=False))
