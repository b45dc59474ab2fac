"""Decisions as numbers: each batch of the file becomes codes, and its text is let go."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from analysis.evaluation import FloatArray, IntArray
from analysis.query_places import QueryPlaces
from analysis.roles import role_of
from arms.errors import RouterError
from arms.read_errors import damage
from oracle.labels import Labels
from router import decisions
from router.decisions import ANSWER, CEILING, DOCUMENT_FOLDS, FOLDS

TEST = "test"
VALIDATION = "val"
EVALUATIONS = (TEST, FOLDS, DOCUMENT_FOLDS, VALIDATION)
"""Named by how a decision's split begins: the test split, folds, folds that share no relevant
document, and the validation split."""
PREDICTED, REUSED = decisions.PREDICTED.name, decisions.REUSED.name
_TEXTS = ("policy", "dataset", "query_id", "split", "plan")
_NUMBERS = ("lam", "overhead_ms")
_BATCH_ROWS = 1 << 18


@dataclass(frozen=True, eq=False)
class CodedDecisions:
    """The decisions that are evaluated; arrays run parallel, in the file's order."""

    policies: tuple[str, ...]
    plans: tuple[str, ...]
    policy_codes: NDArray[np.int16]
    plan_codes: IntArray
    label_rows: IntArray
    lams: FloatArray
    """NaN: for every λ."""
    overhead_ms: FloatArray
    evaluation_codes: NDArray[np.int8]
    """Places in ``EVALUATIONS``."""
    sides: NDArray[np.int32]
    """Number of the fold; 0 on the test split."""
    predicted_quality: FloatArray | None
    reused_encode_ms: FloatArray
    """0 throughout where the decisions have no such column."""
    answered_rows: IntArray
    """(M,) rows of these decisions, ascending, that the policy answers with its own ranking."""
    answer_quality: Mapping[str, FloatArray]
    """Measure of the labels → (M,) quality of those answers; NaN where it isn't told."""
    ceiling_quality: Mapping[str, FloatArray]
    """The same of their documents in the ideal order."""


def read_decision_batches(path: Path) -> Iterator[pa.RecordBatch]:
    """Yield what a report reads of ``decisions.parquet``, text as dictionaries.

    Raises:
        RouterError: the file is absent or damaged, or lacks a column.
    """
    if not path.is_file():
        raise RouterError(f"{path} is missing; run l2r train, which writes it beside the router")
    try:
        present = set(pq.read_schema(path).names)
        missing = [name for name in (*_TEXTS, *_NUMBERS) if name not in present]
        if missing:
            raise RouterError(f"{path} lacks the columns {', '.join(missing)}; rerun l2r train")
        wanted = [name for name in (*_TEXTS, *_NUMBERS, PREDICTED, REUSED) if name in present]
        wanted += sorted(name for name in present if name.startswith((ANSWER, CEILING)))
        with pq.ParquetFile(path, read_dictionary=list(_TEXTS)) as file:
            yield from file.iter_batches(_BATCH_ROWS, columns=wanted, use_threads=False)
    except (OSError, pa.ArrowException) as error:
        raise RouterError(f"{damage(path, error)}; rerun l2r train") from error


def code_decisions(batches: Iterable[pa.RecordBatch], labels: Labels) -> CodedDecisions:
    """Turn batches to codes; rows on train queries and of arms and oracles are dropped.

    Raises:
        RouterError: a decision about a query that the labels don't have.
    """
    coder = _Coder(QueryPlaces(labels), labels.primary_measure, tuple(labels.quality))
    for batch in batches:
        coder.add(batch)
    return coder.finish()


@dataclass
class _Coder:
    places: QueryPlaces
    primary: str
    measures: tuple[str, ...]
    kept: int = 0
    policies: dict[str, int] = field(default_factory=dict)
    plans: dict[str, int] = field(default_factory=dict)
    parts: dict[str, list[NDArray[Any]]] = field(default_factory=dict)
    unknown: int = 0
    first_unknown: str = ""
    predicts: bool = False

    def add(self, batch: pa.RecordBatch) -> None:
        splits, sides = (_mapped(batch["split"], one) for one in (_split_code, _side_code))
        policies = _mapped(batch["policy"], self._policy_code)
        kept = np.flatnonzero((splits >= 0) & (policies >= 0))
        if not len(kept):
            return
        taken = batch if len(kept) == batch.num_rows else batch.take(pa.array(kept))
        rows = self.places.rows_of(taken["dataset"], taken["query_id"])
        self._note_unknown(taken, rows)
        self._keep("rows", rows)
        self._keep("policies", policies[kept].astype(np.int16))
        self._keep("evaluations", splits[kept].astype(np.int8))
        self._keep("sides", sides[kept].astype(np.int32))
        self._keep("plans", _mapped(taken["plan"], self._plan_code))
        self._keep("lams", _numbers(taken["lam"], np.nan))
        self._keep("overheads", _numbers(taken["overhead_ms"], 0.0))
        told = taken[REUSED] if REUSED in batch.schema.names else pa.nulls(len(kept), pa.float64())
        self._keep("reused", _numbers(told, 0.0))
        if PREDICTED in batch.schema.names:
            self.predicts = True
            self._keep("predicted", _numbers(taken[PREDICTED], np.nan))
        self._keep_answers(taken)
        self.kept += len(kept)

    def finish(self) -> CodedDecisions:
        if self.unknown:
            raise RouterError(
                f"{self.unknown} decisions are about queries that the labels don't have, for "
                f"example {self.first_unknown}; they were made on other labels: rerun l2r train"
            )
        return CodedDecisions(
            policies=tuple(self.policies),
            plans=tuple(self.plans),
            policy_codes=self._all("policies", np.int16),
            plan_codes=self._all("plans", np.intp),
            label_rows=self._all("rows", np.intp),
            lams=self._all("lams", np.float64),
            overhead_ms=self._all("overheads", np.float64),
            evaluation_codes=self._all("evaluations", np.int8),
            sides=self._all("sides", np.int32),
            predicted_quality=self._all("predicted", np.float64) if self.predicts else None,
            reused_encode_ms=self._all("reused", np.float64),
            answered_rows=self._all("answered", np.intp),
            answer_quality=self._own(ANSWER),
            ceiling_quality=self._own(CEILING),
        )

    def _own(self, prefix: str) -> dict[str, FloatArray]:
        return {measure: self._all(prefix + measure, np.float64) for measure in self.measures}

    def _keep_answers(self, batch: pa.RecordBatch) -> None:
        """Keep the rows that tell the quality of the policy's own ranking, and nothing else."""
        columns = set(batch.schema.names)
        if ANSWER + self.primary not in columns:
            return
        told = np.flatnonzero(~np.isnan(_numbers(batch[ANSWER + self.primary], np.nan)))
        if not len(told):
            return
        self._keep("answered", self.kept + told)
        for name in (kind + measure for kind in (ANSWER, CEILING) for measure in self.measures):
            absent = np.full(len(told), np.nan)
            own = _numbers(batch[name], np.nan)[told] if name in columns else absent
            self._keep(name, own)

    def _keep(self, name: str, values: NDArray[Any]) -> None:
        self.parts.setdefault(name, []).append(values)

    def _all(self, name: str, kind: type[np.generic]) -> NDArray[Any]:
        parts = self.parts.pop(name, [])
        return np.concatenate(parts).astype(kind, copy=False) if parts else np.zeros(0, dtype=kind)

    def _policy_code(self, policy: str) -> int:
        if role_of(policy) in ("static", "oracle"):
            return -1  # follows from the labels alone
        return self.policies.setdefault(policy, len(self.policies))

    def _plan_code(self, plan: str) -> int:
        return self.plans.setdefault(plan, len(self.plans))

    def _note_unknown(self, batch: pa.RecordBatch, rows: IntArray) -> None:
        strangers = np.flatnonzero(rows < 0)
        if len(strangers) and not self.unknown:
            first = batch.slice(int(strangers[0]), 1).to_pylist()[0]
            self.first_unknown = f"'{first['query_id']}' of {first['dataset']}"
        self.unknown += len(strangers)


def _split_code(split: str) -> int:
    """Return the place in ``EVALUATIONS``; −1 for what isn't evaluated."""
    if split == TEST:
        return 0
    return next((code for code in (1, 2, 3) if split.startswith(EVALUATIONS[code])), -1)


def _side_code(split: str) -> int:
    """Return the number that a fold's name ends with; 0 where there is none."""
    digits = split.removeprefix(DOCUMENT_FOLDS).removeprefix(FOLDS)
    return int(digits) if digits.isdecimal() else 0


def _mapped(texts: pa.Array, code_of: Any) -> IntArray:
    """(rows,) ``code_of`` each text, called once per distinct one; −1 for null."""
    coded = texts if pa.types.is_dictionary(texts.type) else texts.dictionary_encode()
    codes = [-1 if text is None else code_of(text) for text in coded.dictionary.to_pylist()]
    indices = pc.fill_null(coded.indices, len(codes)).to_numpy(zero_copy_only=False)
    return np.array([*codes, -1], dtype=np.intp)[indices]


def _numbers(column: pa.Array, absent: float) -> FloatArray:
    return np.asarray(
        pc.fill_null(column.cast(pa.float64()), absent).to_numpy(zero_copy_only=False)
    )
