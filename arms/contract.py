"""What every arm must do, as tests that any arm's test class inherits.

    class TestMyArm(ArmContract):
        @pytest.fixture
        def spec(self):
            return ArmSpec("my_arm")

Needs pytest to run and nothing of it to import. ``FakeArm`` is an arm to test other code with.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from arms.arm import Arm, ArmSpec
from arms.catalogue import arm_class
from arms.clock import StageClock
from arms.contract_corpus import ODD_QUERIES, QUERIES, contract_corpus
from arms.corpora.corpus import Corpus, MemoryCorpus
from arms.errors import ArmError, ArmIndexError, CorpusError, QueryError
from arms.fake_arm import FakeArm
from arms.indexes import folder
from arms.progress import SilentProgress, Task
from arms.records import Document, Ranking

__all__ = ["ODD_QUERIES", "QUERIES", "ArmContract", "FakeArm", "contract_corpus"]


class KilledError(Exception):
    """Stands for a kill in the middle of a build."""


class _KillingProgress:
    """Raises when a bar moves for the ``advances``-th time."""

    def __init__(self, advances: int) -> None:
        self._left = advances

    @contextmanager
    def task(self, description: str, total: int | None = None) -> Iterator[Task]:
        """Open a bar that kills."""
        yield self

    def advance(self, amount: int = 1) -> None:
        """Count down, then raise."""
        self._left -= 1
        if self._left <= 0:
            raise KilledError


def _same(one: Sequence[Ranking], other: Sequence[Ranking]) -> None:
    for first, second in zip(one, other, strict=True):
        assert first.doc_ids == second.doc_ids
        np.testing.assert_allclose(first.scores, second.scores, rtol=1e-4, atol=1e-5)


def _well_formed(ranking: Ranking, k: int, known: set[str]) -> None:
    assert len(ranking.doc_ids) <= k
    assert len(set(ranking.doc_ids)) == len(ranking.doc_ids)
    assert set(ranking.doc_ids) <= known
    assert all(isinstance(score, float) and np.isfinite(score) for score in ranking.scores)
    pairs = list(zip(ranking.scores, ranking.doc_ids, strict=True))
    assert pairs == sorted(pairs, key=lambda found: (-found[0], found[1]))


def _raised(expected: type[Exception], action: Any, *arguments: Any) -> str:
    try:
        action(*arguments)
    except expected as error:
        return str(error)
    raise AssertionError(f"expected {expected.__name__}, nothing was raised")


def _stamps(root: Path) -> dict[str, int]:
    return {str(path): path.stat().st_mtime_ns for path in root.rglob("*") if path.is_file()}


class ArmContract:
    """Tests of one arm. A subclass gives a fixture ``spec``; the rest can be overridden."""

    fills_k: ClassVar[bool] = False
    """Whether the arm scores every document, so that k results come whenever k documents exist."""
    finds: ClassVar[bool] = True
    """Whether the arm finds anything at all."""
    answers_any_query: ClassVar[bool] = True
    """False: a query that nobody foresaw may raise ``ArmError`` (a replayed run)."""
    _opened: ClassVar[dict[str, tuple[Arm, Corpus, Path]]]
    reads_texts: ClassVar[bool] = True
    """False: the arm ranks the documents of one corpus only, whatever they say (a replayed run)."""

    def arm_type(self, spec: ArmSpec) -> type[Arm]:
        """Return the class under test: the catalogue's."""
        return arm_class(spec.name)

    def document(self, doc_id: str, title: str, text: str) -> Document:
        """Return a document that says this; for an arm over pages, one with pictures of it."""
        return Document(doc_id, title, text)

    def corpus(self, spec: ArmSpec) -> Corpus:
        """Return the corpus that the tests index."""
        given = contract_corpus(spec.granularity)
        documents = [self.document(one.doc_id, one.title, one.text) for one in given]
        return MemoryCorpus("contract", documents)

    def opened(self, spec: ArmSpec, corpus: Corpus, root: Path) -> Arm:
        """Build and open."""
        self.arm_type(spec).build(spec, corpus, root, SilentProgress())
        return self.arm_type(spec).open(spec, corpus, root)

    def shared(self, spec: ArmSpec, tmp_path_factory: Any) -> tuple[Arm, Corpus, Path]:
        """Build and open once for all tests that leave the index as it is."""
        opened = vars(type(self)).get("_opened")
        if opened is None:
            opened = type(self)._opened = {}
        key = repr(spec)
        if key not in opened:
            root, corpus = tmp_path_factory.mktemp("shared"), self.corpus(spec)
            opened[key] = (self.opened(spec, corpus, root), corpus, root)
        return opened[key]

    def test_rankings_are_ordered_distinct_and_known(
        self, spec: ArmSpec, tmp_path_factory: Any
    ) -> None:
        """Any k, beyond the corpus too: distinct documents, best first, ties by id."""
        arm, corpus, _ = self.shared(spec, tmp_path_factory)
        known = {document.doc_id for document in corpus}
        for k in (1, 3, len(corpus), 50):
            rankings = arm.rank(QUERIES, k)
            assert len(rankings) == len(QUERIES)
            for ranking in rankings:
                _well_formed(ranking, k, known)
                if self.fills_k:
                    assert len(ranking.doc_ids) == min(k, len(corpus))
                if self.finds:
                    assert ranking.doc_ids
        assert arm.spec == spec

    def test_smaller_k_is_a_prefix(self, spec: ArmSpec, tmp_path_factory: Any) -> None:
        """Asking for fewer cuts the same ranking."""
        arm, _, _ = self.shared(spec, tmp_path_factory)
        deep = arm.rank(QUERIES, 50)
        for k in (1, 2, 5):
            cut = [Ranking(one.doc_ids[:k], one.scores[:k]) for one in deep]
            _same(arm.rank(QUERIES, k), cut)

    def test_a_batch_equals_singles_in_any_order(
        self, spec: ArmSpec, tmp_path_factory: Any
    ) -> None:
        """Neighbours in a batch change nothing; an empty batch gives nothing."""
        arm, _, _ = self.shared(spec, tmp_path_factory)
        batch = arm.rank(QUERIES, 4)
        _same(batch, [arm.rank([query], 4)[0] for query in QUERIES])
        _same(batch, arm.rank(QUERIES[::-1], 4)[::-1])
        assert arm.rank([], 4) == []

    def test_threads_share_an_arm(self, spec: ArmSpec, tmp_path_factory: Any) -> None:
        """Threads get what one thread gets."""
        arm, _, _ = self.shared(spec, tmp_path_factory)
        with ThreadPoolExecutor(4) as threads:
            found = list(threads.map(lambda query: arm.rank([query], 4)[0], QUERIES * 4))
        _same(found, arm.rank(QUERIES, 4) * 4)

    def test_reopening_rebuilds_nothing(self, spec: ArmSpec, tmp_path: Path) -> None:
        """A second build writes no file; a second opening ranks the same."""
        corpus = self.corpus(spec)
        first = self.opened(spec, corpus, tmp_path).rank(QUERIES, 4)
        before = _stamps(tmp_path)
        assert self.opened(spec, corpus, tmp_path).rank(QUERIES, 4) == first
        assert _stamps(tmp_path) == before

    def test_the_record_tells_size_and_source(self, spec: ArmSpec, tmp_path_factory: Any) -> None:
        """``arm.json`` holds size and corpus fingerprint; no file is a pickle."""
        arm, corpus, root = self.shared(spec, tmp_path_factory)
        place = root / spec.folder_name
        record = folder.read_record(place)
        others = [path for path in place.rglob("*") if path.is_file() and path.name != "arm.json"]
        assert record.identity == spec.identity
        assert record.corpus_fingerprint == corpus.fingerprint
        assert record.n_documents == len(corpus)
        assert record.size_bytes == sum(path.stat().st_size for path in others)
        assert not [path for path in others if path.suffix in (".pkl", ".pickle", ".pt")]
        assert arm.memory_bytes() >= 0

    def test_a_changed_corpus_is_refused_then_rebuilt(self, spec: ArmSpec, tmp_path: Path) -> None:
        """Opening with another corpus fails and says why; building repairs it."""
        corpus = self.corpus(spec)
        self.opened(spec, corpus, tmp_path)
        first, *rest = corpus
        changed = MemoryCorpus(
            "contract", [self.document(first.doc_id, first.title, first.text + " now"), *rest]
        )
        message = _raised(ArmIndexError, self.arm_type(spec).open, spec, changed, tmp_path)
        assert "corpus_fingerprint" in message and "l2r index" in message
        assert len(self.opened(spec, changed, tmp_path).rank(QUERIES, 2)) == len(QUERIES)

    def test_an_absent_or_unfinished_index_is_refused(self, spec: ArmSpec, tmp_path: Path) -> None:
        """No ``arm.json``, no opening."""
        corpus = self.corpus(spec)
        open_it = self.arm_type(spec).open
        assert "absent" in _raised(ArmIndexError, open_it, spec, corpus, tmp_path)
        self.opened(spec, corpus, tmp_path)
        (tmp_path / spec.folder_name / "arm.json").unlink()
        assert "unfinished" in _raised(ArmIndexError, open_it, spec, corpus, tmp_path)

    def test_a_killed_build_continues(
        self, spec: ArmSpec, tmp_path: Path, tmp_path_factory: Any
    ) -> None:
        """A build that dies can't be opened; run again, it ranks as if never killed."""
        arm, corpus, _ = self.shared(spec, tmp_path_factory)
        expected = arm.rank(QUERIES, 4)
        for advances in (1, 7):
            root = tmp_path / str(advances)
            try:
                self.arm_type(spec).build(spec, corpus, root, _KillingProgress(advances))
            except KilledError:
                _raised(ArmIndexError, self.arm_type(spec).open, spec, corpus, root)
            _same(self.opened(spec, corpus, root).rank(QUERIES, 4), expected)
            assert not list(root.rglob("chunks"))

    def test_an_empty_corpus_is_refused(self, spec: ArmSpec, tmp_path: Path) -> None:
        """Nothing to index is a ``CorpusError``."""
        empty = MemoryCorpus("contract", [])
        message = _raised(
            CorpusError, self.arm_type(spec).build, spec, empty, tmp_path, SilentProgress()
        )
        assert "no documents" in message

    def test_odd_queries_get_a_ranking(self, spec: ArmSpec, tmp_path_factory: Any) -> None:
        """Any visible text gets a ranking, maybe empty."""
        arm, corpus, _ = self.shared(spec, tmp_path_factory)
        known = {document.doc_id for document in corpus}
        for query in ODD_QUERIES:
            try:
                (ranking,) = arm.rank([query], 3)
            except ArmError:
                assert not self.answers_any_query
            else:
                _well_formed(ranking, 3, known)

    def test_empty_queries_are_refused(self, spec: ArmSpec, tmp_path_factory: Any) -> None:
        """Nothing to ask is a ``QueryError``, and so is half a surrogate pair."""
        arm, _, _ = self.shared(spec, tmp_path_factory)
        for query in ("", " \n\t ", None, "bad \ud800"):
            _raised(QueryError, arm.rank, ["water", query], 3)
        _raised(ValueError, arm.rank, ["water"], 0)

    def test_a_corpus_of_stop_words_can_be_asked(self, spec: ArmSpec, tmp_path: Path) -> None:
        """A corpus without a single term can be indexed and asked."""
        words = {"b": "the of and", "a": "is a the", "c": "to be or not to be", "d": ". , !"}
        documents = [self.document(one, "", text) for one, text in words.items()]
        corpus = MemoryCorpus("contract", documents)
        if self.reads_texts:
            for ranking in self.opened(spec, corpus, tmp_path).rank(QUERIES, 3):
                _well_formed(ranking, 3, set(words))

    def test_equal_scores_order_by_document_id(self, spec: ArmSpec, tmp_path: Path) -> None:
        """Ties order by id, also across the cut at k."""
        doc_ids = ("d10", "d9", "d2", "é", "Z", "a")
        documents = [self.document(one, "", "high tides") for one in doc_ids]
        corpus = MemoryCorpus("contract", documents)
        if not (self.finds and self.reads_texts):
            return
        arm = self.opened(spec, corpus, tmp_path)
        for k in (1, 3, 6, 9):
            for ranking in arm.rank(["tides", "high tides at the coast"], k):
                assert ranking.doc_ids == tuple(sorted(doc_ids)[:k])

    def test_one_document_suffices(self, spec: ArmSpec, tmp_path: Path) -> None:
        """A corpus of one works."""
        if not self.reads_texts:
            return
        corpus = MemoryCorpus("contract", [self.document("only", "", "high tides")])
        (ranking,) = self.opened(spec, corpus, tmp_path).rank(["tides"], 10)
        assert ranking.doc_ids == (("only",) if self.finds else ())

    def test_the_clock_shows_the_stages(self, spec: ArmSpec, tmp_path_factory: Any) -> None:
        """Stage times are filled and don't exceed the call."""
        arm, _, _ = self.shared(spec, tmp_path_factory)
        clock = StageClock()
        begin = time.perf_counter()
        arm.rank(QUERIES, 3, clock)
        elapsed_ms = (time.perf_counter() - begin) * 1000
        assert (sum(clock.stage_ms.values()) > 0) == self.finds
        assert sum(clock.stage_ms.values()) <= elapsed_ms
