"""Small routing tables for unit tests."""

import numpy as np

from training.table import RoutingTable


def make_table(
    quality,
    latency_ms=None,
    competes=None,
    comparable=None,
    datasets=None,
    groups=None,
    texts=None,
    split_groups=None,
) -> RoutingTable:
    quality = np.asarray(quality, dtype=float)
    count, arms = quality.shape
    competes = np.ones((count, arms), dtype=bool) if competes is None else np.asarray(competes)
    latency = np.ones((count, arms)) if latency_ms is None else np.asarray(latency_ms, dtype=float)

    def column(values, default):
        return np.array(default if values is None else values, dtype=object)

    return RoutingTable(
        arms=tuple("abcdefg"[:arms]),
        datasets=column(datasets, ["d"] * count),
        query_ids=column(None, [f"q{row}" for row in range(count)]),
        splits=column(None, ["train"] * count),
        text_groups=column(groups, [f"g{row}" for row in range(count)]),
        split_groups=column(split_groups or groups, [f"g{row}" for row in range(count)]),
        texts=column(texts, [f"text {row}" for row in range(count)]),
        quality=np.where(competes, quality, np.nan),
        latency_ms=np.where(competes, latency, np.nan),
        competes=competes,
        comparable=np.ones(count, dtype=bool) if comparable is None else np.asarray(comparable),
    )
