"""Collects what every policy decided, column by column, for ``decisions.parquet``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from arms.reward import FloatArray
from router.decisions import ANSWER, CEILING, DECISION_SCHEMA, PREDICTED, REUSED
from training.table import RoutingTable

_SCHEMA = DECISION_SCHEMA.append(PREDICTED).append(REUSED)


@dataclass
class DecisionTable:
    """Grows by one policy at one λ at a time."""

    _parts: list[pa.Table] = field(default_factory=list)

    def add(
        self,
        policy: str,
        lam: float | None,
        table: RoutingTable,
        splits: NDArray[np.object_],
        plans: NDArray[np.object_],
        probability: FloatArray | None = None,
        overhead_ms: FloatArray | None = None,
        predicted_quality: FloatArray | None = None,
        reused_encode_ms: FloatArray | None = None,
        answer_quality: Mapping[str, FloatArray] | None = None,
        ceiling_quality: Mapping[str, FloatArray] | None = None,
    ) -> None:
        """Add one decision per row of ``table``; a plan of None decides nothing.

        Args:
            policy: its name.
            lam: None where the decisions hold for every λ.
            table: the queries decided on.
            splits: (Q,) the split each query has in this evaluation.
            plans: (Q,) as ``str(plan)`` writes them.
            probability: (Q,) of the answering arm; None where the policy has none.
            overhead_ms: (Q,) what deciding took; None for 0.
            predicted_quality: (Q,) expected of the answer; None where nothing is.
            reused_encode_ms: (Q,) encoding that the arms needn't do again; None for 0.
            answer_quality: measure → (Q,) of the policy's own rankings, NaN where an arm answers;
                None where one always does.
            ceiling_quality: the same of their documents in the ideal order.
        """
        decided = np.array([plan is not None for plan in plans], dtype=bool)
        count = int(decided.sum())
        content = {
            "policy": pa.repeat(pa.scalar(policy, pa.string()), count),
            "lam": pa.repeat(pa.scalar(lam, pa.float64()), count),
            "dataset": pa.array(table.datasets[decided], pa.string()),
            "query_id": pa.array(table.query_ids[decided], pa.string()),
            "split": pa.array(splits[decided], pa.string()),
            "plan": pa.array(plans[decided], pa.string()),
            "probability": _numbers(probability, decided),
            "overhead_ms": pa.array(
                np.zeros(count) if overhead_ms is None else overhead_ms[decided]
            ),
            PREDICTED.name: _numbers(predicted_quality, decided),
            REUSED.name: pa.array(
                np.zeros(count) if reused_encode_ms is None else reused_encode_ms[decided]
            ),
        }
        own = {
            f"{prefix}{measure}": _numbers(values, decided)
            for prefix, quality in ((ANSWER, answer_quality), (CEILING, ceiling_quality))
            for measure, values in (quality or {}).items()
        }
        schema = pa.schema([*_SCHEMA, *(pa.field(name, pa.float64()) for name in own)])
        self._parts.append(pa.table(content | own, schema=schema))

    def add_columns(
        self,
        policy: str,
        lam: float | None,
        table: RoutingTable,
        splits: NDArray[np.object_],
        columns: NDArray[np.intp],
        probability: FloatArray | None = None,
    ) -> None:
        """Add decisions for single arms, given as (Q,) columns of ``table``; −1 decides nothing."""
        plans = np.array([*table.arms, None], dtype=object)[columns]
        self.add(policy, lam, table, splits, plans, probability)

    def finish(self) -> pa.Table:
        """Return all decisions, in the order added."""
        return pa.concat_tables([_SCHEMA.empty_table(), *self._parts], promote_options="default")


def _numbers(values: FloatArray | None, decided: NDArray[np.bool_]) -> pa.Array:
    if values is None:
        return pa.nulls(int(decided.sum()), pa.float64())
    return pa.array(values[decided].astype(np.float64), from_pandas=True)
