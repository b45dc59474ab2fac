"""Released latencies: the median and the spread of the samples that are held of them."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from oracle.release.columns import keys, numbers, row_describer
from oracle.release.faults import Fault, row_fault

_CELL = ("dataset", "query_id", "arm")
_NEAR = 1e-6
"""By what share a latency may differ from the computed one: single precision is enough."""


def sample_faults(labels: pa.Table, samples: pa.Table) -> list[Fault]:
    """Return every latency that isn't its samples' median, and every spread that isn't theirs.

    Only rows with samples are judged, and none that was modelled or has no latency. As
    ``oracle.latency.Timing`` has it, the spread is the distance from the 25th to the 75th
    percentile.
    """
    median, spread = _of_samples(labels, samples)
    modelled = pc.fill_null(labels["latency_modelled"], False).to_numpy()
    name = row_describer(labels, _CELL)
    faults: list[Fault] = []
    for column, computed, what in (
        ("latency_ms", median, "the median"),
        ("latency_iqr_ms", spread, "the interquartile range"),
    ):
        stated = numbers(labels, column)
        apart = np.abs(stated - computed) > _NEAR * (1.0 + np.abs(median))  # never true of NaN

        def describe(
            row: int, stated: NDArray[np.float64] = stated, computed: NDArray[np.float64] = computed
        ) -> str:
            return f"{name(row)}: {stated[row]:.6g}, by the samples {computed[row]:.6g}"

        faults += row_fault(
            "labels.parquet",
            apart & ~modelled,
            f"{column} isn't {what} of latency_samples.parquet",
            describe,
        )
    return faults


def _of_samples(
    labels: pa.Table, samples: pa.Table
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """(N,) median and (N,) interquartile range of each label's samples; NaN without, or of faulty
    ones, which are named elsewhere."""
    places = pc.index_in(keys(samples, _CELL), value_set=keys(labels, _CELL).combine_chunks())
    place = pc.fill_null(places, -1).to_numpy().astype(np.intp)
    latency_ms = numbers(samples, "latency_ms")
    latency_ms = np.where(np.isfinite(latency_ms) & (latency_ms >= 0), latency_ms, np.nan)
    order = np.argsort(place, kind="stable")
    rows, begins, counts = np.unique(place[order], return_index=True, return_counts=True)
    median, spread = np.full(len(labels), np.nan), np.full(len(labels), np.nan)
    for count in np.unique(counts[rows >= 0]).tolist():  # as many samples each: one matrix
        alike = (rows >= 0) & (counts == count)
        held = latency_ms[order[begins[alike][:, None] + np.arange(count)]]
        with np.errstate(all="ignore"):  # what can't be is NaN
            median[rows[alike]] = np.median(held, axis=1)
            low, high = np.percentile(held, (25, 75), axis=1)
            spread[rows[alike]] = high - low
    return median, spread
