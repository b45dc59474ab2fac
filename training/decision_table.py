"""Collects what every policy decided, column by column, for ``decisions.parquet``."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from arms.reward import FloatArray
from router.decisions import DECISION_SCHEMA
from training.table import RoutingTable


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
        columns: NDArray[np.intp],
        probability: FloatArray | None = None,
        overhead_ms: FloatArray | None = None,
    ) -> None:
        """Add one decision per row of ``table``; a column of −1 decides nothing.

        Args:
            policy: its name.
            lam: None where the decisions hold for every λ.
            table: the queries decided on, with the arms that ``columns`` point into.
            splits: (Q,) the split each query has in this evaluation.
            columns: (Q,) the chosen arm.
            probability: (Q,) of the chosen arm; None where the policy has none.
            overhead_ms: (Q,) what deciding took; None for 0.
        """
        decided = columns >= 0
        count = int(decided.sum())
        plans = np.array(table.arms, dtype=object)[columns[decided]]
        zeros = np.zeros(count)
        content = {
            "policy": pa.repeat(pa.scalar(policy, pa.string()), count),
            "lam": pa.repeat(pa.scalar(lam, pa.float64()), count),
            "dataset": pa.array(table.datasets[decided], pa.string()),
            "query_id": pa.array(table.query_ids[decided], pa.string()),
            "split": pa.array(splits[decided], pa.string()),
            "plan": pa.array(plans, pa.string()),
            "probability": pa.nulls(count, pa.float64())
            if probability is None
            else pa.array(probability[decided]),
            "overhead_ms": pa.array(zeros if overhead_ms is None else overhead_ms[decided]),
        }
        self._parts.append(pa.table(content, schema=DECISION_SCHEMA))

    def finish(self) -> pa.Table:
        """Return all decisions, in the order added."""
        return pa.concat_tables([DECISION_SCHEMA.empty_table(), *self._parts])
