"""The queries on which the router lost most against the oracle, and what each arm found there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from analysis.outcomes import Outcome
from oracle.labels import Labels, read_columns
from oracle.tables import RUNS

LISTED = 20
DOCUMENTS_LISTED = 3

FoundDocuments = Mapping[tuple[str, str, str], tuple[str, ...]]
"""(dataset, query id, arm) → ids of its first documents, best first."""


@dataclass(frozen=True, slots=True)
class ArmResult:
    """One arm on one query; None where the dataset lacks the arm."""

    arm: str
    quality: float | None
    latency_ms: float | None


@dataclass(frozen=True, slots=True)
class LostQuery:
    """A query on which another arm would have earned more."""

    dataset: str
    query_id: str
    text: str | None
    """None where the labels hold no text."""
    chosen: str
    """The arm that answered, or ``merged: …`` with the arms whose documents the router merged."""
    best: str
    """The oracle's choice among A."""
    regret: float
    arms: tuple[ArmResult, ...]
    """Every arm of P, in order."""
    merged: tuple[str, ...] = ()
    """Arms that the router merged; empty where one answered."""


def lost_queries(
    labels: Labels, router: Outcome, oracle: Outcome, listed: int = LISTED
) -> list[LostQuery]:
    """Return the queries of largest regret, largest first; ties by dataset, then query id."""
    evaluation = router.evaluation
    regret = np.nan_to_num(oracle.reward - router.reward, nan=0.0)
    order = np.argsort(-regret, kind="stable")[:listed]
    quality = evaluation.quality[evaluation.primary_measure]
    answered, merged = router.answered_by(), router.merged
    found = []
    for place in order[regret[order] > 0.0]:
        row = evaluation.label_rows[place]
        arms = tuple(
            ArmResult(
                arm,
                _defined(quality[place, column]),
                _defined(evaluation.latency_ms[place, column]),
            )
            for column, arm in enumerate(evaluation.pipelines)
        )
        found.append(
            LostQuery(
                dataset=str(labels.datasets[row]),
                query_id=str(labels.query_ids[row]),
                text=None if labels.texts is None else str(labels.texts[row]),
                chosen=answered[place],
                best=evaluation.pipelines[oracle.answering_arm[place]],
                regret=float(regret[place]),
                arms=arms,
                merged=tuple(np.array(evaluation.pipelines)[router.runs[place]].tolist())
                if merged[place]
                else (),
            )
        )
    return found


def _defined(value: float) -> float | None:
    return None if np.isnan(value) else float(value)


def read_found_documents(
    labels_folder: Path, queries: Sequence[LostQuery], listed: int = DOCUMENTS_LISTED
) -> FoundDocuments | None:
    """Read the first documents of each arm on ``queries``; None where labels hold no runs.

    Raises:
        LabelsError: ``runs.parquet`` is damaged, or lacks a column.
    """
    path = labels_folder / RUNS
    if not path.is_file():
        return None
    wanted = {(one.dataset, one.query_id) for one in queries}
    named = pc.field("query_id").isin(pa.array([one.query_id for one in queries], pa.string()))
    table = read_columns(
        path,
        ["dataset", "query_id", "arm", "rank", "doc_id"],
        filters=named & (pc.field("rank") <= listed),
        remedy=f"delete {path.parent / 'manifest.json'} and rerun l2r oracle, or delete this file, "
        "and the report names no documents",
    )
    found: dict[tuple[str, str, str], list[str]] = {}
    for row in table.sort_by("rank").to_pylist():
        if (row["dataset"], row["query_id"]) in wanted:
            key = (row["dataset"], row["query_id"], row["arm"])
            found.setdefault(key, []).append(row["doc_id"])
    return {key: tuple(documents) for key, documents in found.items()}
