"""A TREC run that exists already, with the latencies its owner states.

An arm is asked in words, a run is keyed by query id, so the run comes with the queries it was made
for: a BEIR ``queries.jsonl`` that gives each id its text. A text that stands there under two ids
is answered with the first; an id that stands there twice is refused. Queries of the run that the
file lacks can't be asked: they are counted in a warning and left out.
"""

from __future__ import annotations

import hashlib
import logging
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import Field, model_validator

from arms.arm import Arm, ArmSpec
from arms.clock import StageClock
from arms.corpora.beir import parse_query
from arms.corpora.corpus import Corpus
from arms.corpora.lines import decode, numbered_lines
from arms.corpora.problems import LineError
from arms.corpora.trec import read_run
from arms.errors import ArmError, SettingsError
from arms.home import expanded
from arms.indexes import folder
from arms.indexes.fold import EMPTY
from arms.progress import Progress
from arms.read_errors import why_absent
from arms.records import Query, Ranking
from arms.settings import Settings, parse_options

_SHOWN = 5
_log = logging.getLogger(__name__)


class RunFileOptions(Settings):
    """Options of ``run_file``. In a path, ``{dataset}`` stands for the corpus's name."""

    path: str = Field(description="the TREC run, plain or gzipped")
    queries_path: str = Field(description="queries.jsonl with the run's query ids and their texts")
    latency_ms: float | None = Field(
        default=None, gt=0, allow_inf_nan=False, description="one latency for every query"
    )
    latencies_path: str | None = Field(
        default=None, description="or a file of lines: query id, tab, milliseconds"
    )

    @model_validator(mode="after")
    def _one_source_of_latency(self) -> RunFileOptions:
        if (self.latency_ms is None) == (self.latencies_path is None):
            raise ValueError("give either latency_ms or latencies_path")
        return self

    def files(self, corpus: Corpus) -> dict[str, Path]:
        """Return the files to read, by option; raise ``SettingsError`` if any can't be read."""
        given = {
            name: expanded(value.replace("{dataset}", corpus.name), f"run_file, {name}")
            for name, value in self.model_dump().items()
            if isinstance(value, str)
        }
        absent = [
            f"{name}: {why_absent(path)}" for name, path in given.items() if not path.is_file()
        ]
        if absent:
            raise SettingsError(f"options of 'run_file': {'; '.join(absent)}")
        return given

    def recorded(self, corpus: Corpus) -> dict[str, Any]:
        """Return the contents' hashes: a run that changed needs a new record."""
        hashes = {name: _sha256(path) for name, path in self.files(corpus).items()}
        return {**hashes, "latency_ms": self.latency_ms}


@dataclass(frozen=True, slots=True)
class _Answer:
    ranking: Ranking
    latency_ms: float


class PipelineArm(Arm):
    """Looks answers up by the text of the query.

    A query of the file for which the run has no line gets an empty ranking; a text that isn't in
    the file raises ``ArmError``, since nobody ran the arm on it.
    """

    def __init__(self, spec: ArmSpec, answers: Mapping[str, _Answer]) -> None:
        self.spec = spec
        self._answers = answers

    @classmethod
    def build(cls, spec: ArmSpec, corpus: Corpus, index_root: Path, progress: Progress) -> None:
        """Check run, queries and latencies against one another and the corpus."""
        options = parse_options(RunFileOptions, spec.options, spec.identity)
        source = folder.Source(spec, corpus, options.recorded(corpus))
        if folder.finished(source, index_root):
            return
        with folder.building(source, index_root) as build:
            build.n_units = len(corpus)
            answers = _read_answers(options, corpus, told=True)
            _check_documents(answers, corpus)

    @classmethod
    def open(cls, spec: ArmSpec, corpus: Corpus, index_root: Path) -> PipelineArm:
        """Read the run; refuse one that changed since it was checked (see :meth:`Arm.open`)."""
        options = parse_options(RunFileOptions, spec.options, spec.identity)
        folder.open_folder(folder.Source(spec, corpus, options.recorded(corpus)), index_root)
        return cls(spec, _read_answers(options, corpus))

    def rank_batch(self, queries: Sequence[str], k: int, clock: StageClock) -> list[Ranking]:
        """Return the run's rankings, cut at ``k``."""
        with clock.stage("search"):
            found = [self._answer(query).ranking for query in queries]
            return [Ranking(ranking.doc_ids[:k], ranking.scores[:k]) for ranking in found]

    def stated_latency_ms(self, query: str) -> float:
        """Return the latency that the run's owner states for the query."""
        return self._answer(query).latency_ms

    def _answer(self, query: str) -> _Answer:
        answer = self._answers.get(query)
        if answer is None:
            raise ArmError(
                f"'{self.spec.identity}' replays a run and has no answer to {query[:60]!r}; "
                "expected a text of its queries_path"
            )
        return answer


def _read_answers(
    options: RunFileOptions, corpus: Corpus, told: bool = False
) -> dict[str, _Answer]:
    """Query text → answer; ``told``: warn of queries that are left out."""
    files = options.files(corpus)
    run = read_run(files["path"])
    latencies = _read_latencies(files["latencies_path"]) if options.latencies_path else None
    answers: dict[str, _Answer] = {}
    without_latency = []
    line_of: dict[str, int] = {}
    for number, line in numbered_lines(files["queries_path"]):
        query = _parsed(line, f"{files['queries_path']}, line {number}")
        _refuse_twice(query.query_id, number, line_of, files["queries_path"])
        latency_ms = latencies.get(query.query_id) if latencies else options.latency_ms
        if latency_ms is None:
            without_latency.append(query.query_id)
        else:
            ranking = run.get(query.query_id, EMPTY)
            answers.setdefault(query.text, _Answer(ranking, latency_ms))
    _refuse(without_latency, "queries without a latency in latencies_path")
    unknown = [query for query in run if query not in line_of]
    if unknown and len(unknown) == len(run):
        _refuse(unknown, "queries, and queries_path has none of them")
    if unknown and told:
        _log.warning(
            "options of 'run_file': %d of %d queries of the run are left out, since queries_path "
            "lacks them: %s",
            len(unknown),
            len(run),
            ", ".join(unknown[:_SHOWN]) + (", …" if len(unknown) > _SHOWN else ""),
        )
    return answers


def _parsed(line: bytes, place: str) -> Query:
    try:
        return parse_query(line)
    except LineError as error:
        raise SettingsError(f"options of 'run_file': {place}: {error}") from error


def _refuse_twice(query_id: str, number: int, line_of: dict[str, int], path: Path) -> None:
    first = line_of.setdefault(query_id, number)
    if first != number:
        raise SettingsError(
            f"options of 'run_file': {path} has the query id '{query_id}' in lines {first} and "
            f"{number}; keep one"
        )


def _check_documents(answers: Mapping[str, _Answer], corpus: Corpus) -> None:
    known = {document.doc_id for document in corpus}
    named = dict.fromkeys(
        doc_id for answer in answers.values() for doc_id in answer.ranking.doc_ids
    )
    _refuse([doc_id for doc_id in named if doc_id not in known], "documents that the corpus lacks")


def _refuse(items: Sequence[str], what: str) -> None:
    if items:
        shown = ", ".join(items[:_SHOWN]) + (", …" if len(items) > _SHOWN else "")
        raise SettingsError(f"options of 'run_file': the run has {len(items)} {what}: {shown}")


def _read_latencies(path: Path) -> dict[str, float]:
    """Read ``query id, tab, milliseconds``; a first line that is no number is a header."""
    latencies: dict[str, float] = {}
    line_of: dict[str, int] = {}
    for number, line in numbered_lines(path):
        query_id, _, written = decode(line).rstrip("\r\n").partition("\t")
        try:
            latency_ms = float(written)
        except ValueError:
            if number == 1:
                continue
            latency_ms = math.nan
        if not (math.isfinite(latency_ms) and latency_ms > 0):
            raise SettingsError(
                f"{path}, line {number}: expected a query id, a tab and milliseconds above 0, "
                f"got {decode(line).strip()!r}"
            )
        _refuse_twice(query_id, number, line_of, path)
        latencies[query_id] = latency_ms
    return latencies


def _sha256(path: Path) -> str:
    digest = hashlib.sha256()
    with open(path, "rb") as stream:
        while block := stream.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()
