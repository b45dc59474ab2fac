"""A fake arm and an index root that holds it, for tests of ``Router.search``."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar

from arms.arm import Arm, ArmSpec
from arms.clock import StageClock
from arms.corpora.corpus import Corpus
from arms.indexes.folder import ArmRecord, write_record
from arms.progress import Progress
from arms.records import Ranking


class FakeArm(Arm):
    """Answers every query with documents named after the arm and the dataset."""

    opened: ClassVar[list[str]] = []
    _lock = threading.Lock()

    def __init__(self, spec: ArmSpec, corpus: Corpus) -> None:
        self.spec, self.corpus = spec, corpus

    @classmethod
    def build(cls, spec: ArmSpec, corpus: Corpus, index_root: Path, progress: Progress) -> None:
        raise AssertionError("serving never builds")

    @classmethod
    def open(cls, spec: ArmSpec, corpus: Corpus, index_root: Path) -> FakeArm:
        time.sleep(0.02)  # long enough for threads to meet
        with cls._lock:
            cls.opened.append(f"{index_root.name}/{spec.identity}")
        return cls(spec, corpus)

    def rank_batch(self, queries: Sequence[str], k: int, clock: StageClock) -> list[Ranking]:
        documents = tuple(f"{self.corpus.name}-{self.spec.identity}-{row}" for row in range(k))
        return [Ranking(documents, tuple(-float(row) for row in range(k))) for _ in queries]


def write_fake_index(index_root: Path, dataset: str, arms: Sequence[str]) -> None:
    for identity in arms:
        name, _, encoder = identity.partition("#")
        name, _, granularity = name.partition("@")
        folder = index_root / dataset / identity.replace("/", "--")
        folder.mkdir(parents=True)
        record = ArmRecord(
            identity=identity,
            name=name,
            granularity=granularity or "document",
            options={"language": "german"},
            encoder_id=encoder or None,
            encoder_revision=None,
            encoder_dtype=None,
            corpus_fingerprint=f"fingerprint of {dataset}",
            n_documents=7,
        )
        write_record(folder, record)
