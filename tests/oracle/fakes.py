"""A cheap arm with real files whose failures and delays are options, and a suite to run it on."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Sequence
from pathlib import Path

import pytest

from arms import catalogue
from arms.arm import Arm, ArmKind, ArmSpec
from arms.atomic import write_json
from arms.clock import StageClock
from arms.corpora.corpus import Corpus, Dataset, MemoryCorpus
from arms.indexes.folder import Source, building, finished, open_folder
from arms.progress import Progress
from arms.records import Document, Query, Ranking

NAMES = {"fake": "dense", "fake_b": "sparse", "fake_late": "late", "fake_none": "none"}


def register(monkeypatch: pytest.MonkeyPatch | None = None) -> None:
    """Add the fake arms to the catalogue."""
    for name, architecture in NAMES.items():
        kind = ArmKind(name, "text", architecture, ("document", "paragraph"), __name__)
        if monkeypatch is None:
            catalogue.KINDS[name] = kind
        else:
            monkeypatch.setitem(catalogue.KINDS, name, kind)


class PipelineArm(Arm):
    """Scores a document by a hash of (query, document, arm), a multiple of 1/8: ties are common.

    Options: ``fail_on``, ``empty_on``, ``hang_on`` (words in a query), ``fail_alone_on`` (the same,
    when the query comes alone), ``delay_s`` (per query), ``build_delay_s`` (per document),
    ``stated_ms``.
    """

    def __init__(self, spec: ArmSpec, doc_ids: list[str]) -> None:
        self.spec = spec
        self.doc_ids = doc_ids
        self.calls: list[tuple[str, ...]] = []

    @classmethod
    def build(cls, spec: ArmSpec, corpus: Corpus, index_root: Path, progress: Progress) -> None:
        source = Source(spec, corpus)
        if finished(source, index_root):
            return
        with building(source, index_root) as folder, progress.task("index fake") as bar:
            ids = []
            for document in corpus:
                if "build_delay_s" in spec.options:
                    time.sleep(spec.options["build_delay_s"])
                ids.append(document.doc_id)
                bar.advance()
            write_json(folder.folder / "ids.json", ids)

    @classmethod
    def open(cls, spec: ArmSpec, corpus: Corpus, index_root: Path) -> PipelineArm:
        folder = open_folder(Source(spec, corpus), index_root)
        return cls(spec, json.loads((folder / "ids.json").read_text(encoding="utf-8")))

    def stated_latency_ms(self, query: str) -> float | None:
        return self.spec.options.get("stated_ms")

    def rank_batch(self, queries: Sequence[str], k: int, clock: StageClock) -> list[Ranking]:
        self.calls.append(tuple(queries))
        alone = self.spec.options.get("fail_alone_on")
        if alone is not None and len(queries) == 1 and alone in queries[0]:
            raise RuntimeError(f"alone with {alone}")
        with clock.stage("search"):
            return [self._rank(query, k) for query in queries]

    def _rank(self, query: str, k: int) -> Ranking:
        options = self.spec.options
        if "delay_s" in options:
            time.sleep(options["delay_s"])
        if "fail_on" in options and options["fail_on"] in query:
            raise RuntimeError(f"poisoned by {options['fail_on']}")
        if "hang_on" in options and options["hang_on"] in query:
            time.sleep(30)
        if "empty_on" in options and options["empty_on"] in query:
            return Ranking((), ())
        scored = sorted((-self._score(query, doc_id), doc_id) for doc_id in self.doc_ids)[:k]
        return Ranking(tuple(doc for _, doc in scored), tuple(-score for score, _ in scored))

    def _score(self, query: str, doc_id: str) -> float:
        written = f"{query}|{doc_id}|{self.spec.identity}".encode()
        return hashlib.sha256(written).digest()[0] // 32 / 8


def dataset(name: str, n_queries: int = 12, n_documents: int = 8, word: str = "query") -> Dataset:
    """A dataset whose query ``i`` is judged on documents ``i`` (2) and ``i + 1`` (1)."""
    documents = [
        Document(f"d{one}", f"title {one}", f"text number {one} of {name}")
        for one in range(n_documents)
    ]
    queries = tuple(Query(f"q{one:02d}", f"{word} {one} {name}") for one in range(n_queries))
    qrels = {
        f"q{one:02d}": {f"d{one % n_documents}": 2, f"d{(one + 1) % n_documents}": 1}
        for one in range(n_queries)
    }
    return Dataset(name, MemoryCorpus(name, documents), queries, qrels, {"empty text": 3})
