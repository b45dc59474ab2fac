"""The queries of one evaluation, with every arm's quality and latency on them.

An evaluation never mixes outcomes and absence: queries on which any arm failed leave it for all
arms (``failures="exclude"``), or each failure counts as that arm's worst case
(``failures="worst"``); an arm that a dataset lacks is NaN there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from arms.errors import LabelsError
from oracle.labels import Labels

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.intp]
BoolArray = NDArray[np.bool_]
ArmCodes = NDArray[np.integer[Any]]
Failures = Literal["exclude", "worst"]

_FAILED = ("error", "timeout")


@dataclass(frozen=True, eq=False)
class Evaluation:
    """N queries × P pipelines; rows follow the labels' order."""

    name: str
    """``test`` (the fixed split) or ``cv`` (grouped folds, pooled)."""
    failures: Failures
    pipelines: tuple[str, ...]
    declared_arms: tuple[str, ...]
    """The one set of arms whose latencies normalise everybody's latency."""
    router_arms: tuple[str, ...]
    primary_measure: str
    dataset_names: tuple[str, ...]
    """Datasets that occur, sorted."""
    dataset_codes: IntArray
    """(N,) index into ``dataset_names``."""
    label_rows: IntArray
    """(N,) rows of the labels, ascending."""
    quality: Mapping[str, FloatArray]
    """Measure → (N, P); NaN where the dataset lacks the arm."""
    latency_ms: FloatArray
    """(N, P); NaN where the dataset lacks the arm."""
    samples_ms: FloatArray | None
    """(N, P, repeats) single timings, NaN where absent; None where they weren't kept."""
    total_latency_ms: FloatArray
    """(N,) Σ_j L_j(q) over ``declared_arms`` that the query's dataset has."""
    failed_queries: int
    """Queries on which an arm failed: left out, or counted as worst case."""

    @property
    def measures(self) -> tuple[str, ...]:
        """The measures, the one that serves as quality first."""
        rest = [measure for measure in self.quality if measure != self.primary_measure]
        return (self.primary_measure, *rest)

    def __len__(self) -> int:
        return len(self.label_rows)

    def columns_of(self, arms: Sequence[str]) -> IntArray:
        """Return the columns of ``arms``."""
        return np.array([self.pipelines.index(arm) for arm in arms], dtype=np.intp)


def evaluate_queries(
    labels: Labels,
    label_rows: IntArray,
    name: str,
    declared_arms: Sequence[str],
    failures: Failures = "exclude",
    samples_ms: FloatArray | None = None,
) -> Evaluation:
    """Cut ``labels`` down to ``label_rows`` and treat failed queries as ``failures`` says.

    Args:
        labels: the oracle labels, Q queries × P pipelines.
        label_rows: rows of ``labels`` to evaluate on.
        name: name of the evaluation.
        declared_arms: arms whose latencies normalise latency in the reward.
        failures: leave failed queries out, or count them as the arm's worst case.
        samples_ms: (Q, P, repeats) single timings where kept.

    Raises:
        LabelsError: an unknown declared arm, or an ``ok`` label with a missing or negative number.
    """
    declared_columns = labels.columns_of(declared_arms)
    rows = np.sort(np.asarray(label_rows, dtype=np.intp))
    comparable = labels.comparable(labels.pipelines)[rows]
    quality, latency = _measured(labels)
    if failures == "worst":
        quality, latency = _worst_case(labels, quality, latency)
    else:
        rows = rows[comparable]
    names, codes = np.unique(labels.datasets[rows].astype(str), return_inverse=True)
    latency = latency[rows]
    return Evaluation(
        name=name,
        failures=failures,
        pipelines=labels.pipelines,
        declared_arms=tuple(declared_arms),
        router_arms=labels.router_arms,
        primary_measure=labels.primary_measure,
        dataset_names=tuple(str(dataset) for dataset in names),
        dataset_codes=codes.astype(np.intp),
        label_rows=rows,
        quality={measure: values[rows] for measure, values in quality.items()},
        latency_ms=latency,
        samples_ms=None if samples_ms is None else samples_ms[rows],
        total_latency_ms=np.nansum(latency[:, declared_columns], axis=1),
        failed_queries=int((~comparable).sum()),
    )


def _measured(labels: Labels) -> tuple[dict[str, FloatArray], FloatArray]:
    """Quality per measure and latency, with ``empty`` = quality 0; refuse holes in ``ok`` rows."""
    ran = np.isin(labels.status, ("ok", "empty"))
    empty = labels.status == "empty"
    quality = {
        measure: np.where(empty, 0.0, np.where(ran, values, np.nan))
        for measure, values in labels.quality.items()
    }
    latency = np.where(ran, labels.latency_ms, np.nan)
    for name, values in (*quality.items(), ("latency_ms", latency)):
        wrong = int((ran & ~(np.isfinite(values) & (values >= 0.0))).sum())
        if wrong:
            raise LabelsError(
                f"{wrong} labels have status ok but no {name} (or a negative one); every arm that "
                "answered needs a number of at least 0: rerun l2r oracle, or mend the import"
            )
    return quality, latency


def _worst_case(
    labels: Labels, quality: dict[str, FloatArray], latency: FloatArray
) -> tuple[dict[str, FloatArray], FloatArray]:
    """A failure counts as quality 0 and the longest latency seen of that arm.

    An arm that never answered takes the longest latency of any arm.
    """
    failed = np.isin(labels.status, _FAILED)
    longest = np.max(np.where(np.isnan(latency), -1.0, latency), axis=0, initial=-1.0)
    longest = np.where(longest < 0.0, max(longest.max(initial=0.0), 0.0), longest)
    timed_out = labels.status == "timeout"
    limit_ms = timeout_ms(labels.manifest)
    latency = np.where(failed, longest[None, :], latency)
    latency = np.where(timed_out, np.maximum(latency, limit_ms), latency)
    return {name: np.where(failed, 0.0, values) for name, values in quality.items()}, latency


def timeout_ms(manifest: Mapping[str, Any]) -> float:
    """The time limit per query that the manifest's oracle settings state, in ms; 0 if none."""
    node: Any = manifest
    for key in ("config", "oracle", "latency", "timeout_s"):
        node = node.get(key) if isinstance(node, Mapping) else None
    return 1000.0 * float(node) if isinstance(node, int | float) else 0.0
