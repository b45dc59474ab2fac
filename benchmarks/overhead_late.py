"""What the late-interaction arms add to bare PyLate: k = 10, queries in a batch."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import torch

from arms.arm import ArmSpec
from arms.catalogue import build_arm, open_arm
from arms.clock import StageClock
from arms.corpora.corpus import Corpus

K = 10
CANDIDATES = 100


def measure_text_late(
    corpus: Corpus, queries: Sequence[str], index_root: Path, repeats: int = 5
) -> dict[str, float]:
    """Time ``text_late`` and the MaxSim of ``text_rerank`` beside PyLate's own functions.

    Both sides start from the texts of the queries and read the same stored token vectors. PyLate:
    ``ColBERT.encode``, then ``rank.rerank`` over the whole corpus (late) or over the same
    candidates (rerank), its documents held in memory as float32. A ratio below 1 means that ours
    is faster. Medians of ``repeats`` interleaved runs, in milliseconds per batch.
    """
    from pylate import rank

    specs = (
        ArmSpec("text_late", options={"backend": "torch"}),
        ArmSpec("text_rerank", options={"candidates": CANDIDATES, "backend": "torch"}),
    )
    for spec in specs:
        build_arm(spec, corpus, index_root)
    late, rerank = (open_arm(spec, corpus, index_root) for spec in specs)
    parts = late._parts  # type: ignore[attr-defined]
    documents = [torch.from_numpy(parts.store.of(unit)).float() for unit in range(len(corpus))]
    dense = rerank._dense.rank(list(queries), CANDIDATES)  # type: ignore[attr-defined]
    rows = [[parts.table.row_of(one) for one in found.doc_ids] for found in dense]

    def pylate(candidates: Sequence[Sequence[int]]) -> None:
        encoded = parts.encoder.pylate_model.encode(list(queries), is_query=True)
        given = [list(places) for places in candidates]
        vectors = [[documents[one] for one in places] for places in given]
        found = rank.rerank(given, encoded, vectors)
        assert all(len(one) >= min(K, len(corpus)) for one in found)

    def ours_rerank() -> float:
        clock = StageClock()
        rerank.rank(list(queries), K, clock)
        return clock.stage_ms["rerank"]

    every = [list(range(len(corpus)))] * len(queries)
    timed = {
        "text_late_ms": lambda: late.rank(list(queries), K),
        "pylate_late_ms": lambda: pylate(every),
        "pylate_rerank_ms": lambda: pylate(rows),
        "text_late_encode_ms": lambda: parts.encoder.encode_queries(list(queries)),
        "pylate_encode_ms": lambda: parts.encoder.pylate_model.encode(list(queries)),
    }
    samples: dict[str, list[float]] = {name: [] for name in (*timed, "text_rerank_maxsim_ms")}
    for _ in range(repeats):
        for name, run in timed.items():
            samples[name].append(_milliseconds(run))
        samples["text_rerank_maxsim_ms"].append(ours_rerank())
    figures = {name: float(np.median(times)) for name, times in samples.items()}
    ours_ms = figures["text_late_encode_ms"] + figures["text_rerank_maxsim_ms"]
    return figures | {
        "text_late_overhead_ratio": figures["text_late_ms"] / figures["pylate_late_ms"],
        "text_rerank_overhead_ratio": ours_ms / figures["pylate_rerank_ms"],
    }


def _milliseconds(run: Callable[[], object]) -> float:
    begin = time.perf_counter()
    run()
    return (time.perf_counter() - begin) * 1000
