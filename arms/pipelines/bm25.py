"""BM25 over stemmed words."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Literal

from pydantic import Field, field_validator

from arms.arm import Arm, ArmSpec
from arms.clock import StageClock
from arms.corpora.corpus import Corpus
from arms.corpora.granularity import units
from arms.corpora.languages import check_language
from arms.indexes import folder
from arms.indexes.bm25_index import (
    Analyzer,
    Bm25Index,
    check_token_pattern,
    snowball_algorithm,
    stop_words_of,
    write_bm25,
)
from arms.indexes.fold import EMPTY, UnitTable, top_positions
from arms.progress import Progress, Task
from arms.records import Granularity, Ranking
from arms.settings import Settings, parse_options
from arms.text_form import composed


class Bm25Options(Settings):
    """Options of ``bm25``; all of them shape the index."""

    language: str | None = Field(default=None, description="default: the corpus's language")
    stemmer: bool | None = Field(
        default=None, description="default: where Snowball has one for the language"
    )
    stop_words: bool | tuple[str, ...] | None = Field(
        default=None, description="true, false or a list; default: the language's, where known"
    )
    token_pattern: str | None = Field(
        default=None,
        description="a regular expression without groups; each match is a word; default: runs of "
        "two or more letters, digits and marks; Chinese, Japanese, Thai, Lao, Khmer and Burmese "
        "as characters and pairs of them",
    )
    k1: float = Field(default=1.5, ge=0)
    b: float = Field(default=0.75, ge=0, le=1)
    delta: float = Field(default=0.5, ge=0, description="of BM25L and BM25+ alone")
    method: Literal["lucene", "robertson", "atire", "bm25l", "bm25+"] = "lucene"

    @field_validator("language")
    @classmethod
    def _check_language(cls, name: str | None) -> str | None:
        return None if name is None else check_language(name)

    _check_token_pattern = field_validator("token_pattern")(check_token_pattern)

    def analyzer(self, corpus: Corpus) -> Analyzer:
        """Settle what is left to the corpus's language."""
        language = self.language or corpus.language
        return Analyzer(
            language,
            snowball_algorithm(language, self.stemmer),
            stop_words_of(language, self.stop_words),
            self.token_pattern,
        )

    def parameters(self) -> dict[str, Any]:
        """Return bm25s's own parameters."""
        return {"k1": self.k1, "b": self.b, "delta": self.delta, "method": self.method}


def _settled(spec: ArmSpec, corpus: Corpus) -> tuple[Analyzer, dict[str, Any], dict[str, Any]]:
    """Return the wording, bm25s's parameters, and both as the options that the index records."""
    options = parse_options(Bm25Options, spec.options, spec.identity)
    analyzer, parameters = options.analyzer(corpus), options.parameters()
    recorded = {
        "language": analyzer.language,
        "stemmer": analyzer.stemmer,
        "stop_words": list(analyzer.stop_words),
        "token_pattern": analyzer.token_pattern,
    }
    return analyzer, parameters, recorded | parameters


def _texts(corpus: Corpus, granularity: Granularity, task: Task) -> Iterator[str]:
    for unit in units(corpus, granularity):
        yield unit.text
        task.advance()


class PipelineArm(Arm):
    """BM25: the index is built by bm25s and opened memory-mapped.

    A query none of whose words the corpus has gets an empty ranking, and so does every query when
    the corpus holds nothing but stop words. Documents of score 0 are never returned.
    """

    def __init__(self, spec: ArmSpec, index: Bm25Index, table: UnitTable) -> None:
        self.spec = spec
        self._index = index
        self._table = table

    @classmethod
    def source(cls, spec: ArmSpec, corpus: Corpus) -> folder.Source:
        """Return what its index is made from (see :meth:`Arm.source`)."""
        return folder.Source(spec, corpus, _settled(spec, corpus)[2])

    @classmethod
    def build(cls, spec: ArmSpec, corpus: Corpus, index_root: Path, progress: Progress) -> None:
        """Index the corpus; the whole index is one unit of work (see :meth:`Arm.build`)."""
        analyzer, parameters, _ = _settled(spec, corpus)
        source = cls.source(spec, corpus)
        if folder.finished(source, index_root):
            return
        with folder.building(source, index_root) as build:
            table = UnitTable.write(build.folder, units(corpus, spec.granularity))
            build.n_units = table.n_units
            with progress.task(f"{spec.identity}: reading words", table.n_units) as task:
                texts = _texts(corpus, spec.granularity, task)
                write_bm25(build.folder, texts, analyzer, parameters)

    @classmethod
    def open(cls, spec: ArmSpec, corpus: Corpus, index_root: Path) -> PipelineArm:
        """Open the index memory-mapped (see :meth:`Arm.open`)."""
        analyzer, _, _ = _settled(spec, corpus)
        place = folder.open_folder(cls.source(spec, corpus), index_root)
        table = UnitTable(place)
        return cls(spec, Bm25Index(place, analyzer, table.n_units), table)

    def rank_batch(self, queries: Sequence[str], k: int, clock: StageClock) -> list[Ranking]:
        """Score all units, fold them to documents, keep the best ``k`` above 0."""
        with clock.stage("encode"):
            term_ids = [self._index.term_ids(query) for query in queries]
        with clock.stage("search"):
            return [self._best(ids, k) if ids else EMPTY for ids in term_ids]

    def _best(self, term_ids: list[int], k: int) -> Ranking:
        scores = self._table.fold(self._index.scores(term_ids))
        best = top_positions(scores, self._table.tie_rank, k, above=0.0)
        return self._table.ranking(best, scores[best])

    def shares_terms(self, query: str) -> bool:
        """Whether any term of the query is in the index (see :meth:`Arm.shares_terms`)."""
        return bool(self._index.term_ids(composed(query)))

    def memory_bytes(self) -> int:
        """Return the bytes of vocabulary, matrix and unit table, mapped files included."""
        return self._index.size_bytes + self._table.size_bytes
