"""What one query costs on text_dense and text_rerank: PyTorch against the back end that auto takes.

Serial and warm, k = 5, reranking 100 candidates; arms and back ends take turns at each query. The
rankings of both back ends are compared: they may differ only where scores tie within 1e-4. Run from
the repository's root, on a quiet machine:

    python -m benchmarks.single_query [--threads 1 2] [--queries 100] [--repeats 3]
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path

from arms.arm import Arm, ArmSpec
from arms.bfloat16 import has_fast_bfloat16
from arms.catalogue import build_arm, open_arm
from arms.clock import StageClock
from arms.corpora.corpus import Dataset, MemoryCorpus
from arms.progress import ConsoleProgress
from arms.records import Ranking
from benchmarks.results_file import RESULTS, write_result
from benchmarks.videorag_wikihow import parser, read
from oracle.hardware import fixed_threads

K = 5
DEPTH = 100
TIE = 1e-4
DTYPE = "bfloat16" if has_fast_bfloat16() else "float32"
"""Of documents alone; queries are encoded in float32."""
PARTS = {"dense": {"dtype": DTYPE}, "late": {"dtype": DTYPE}}
BACKENDS = ("torch", "auto")


def specs(backend: str) -> dict[str, ArmSpec]:
    """The text suite's two arms that encode queries, with this back end."""
    dense = {**PARTS["dense"], "backend": backend}
    rerank = {**PARTS, "candidates": DEPTH, "backend": backend}
    return {
        "text_dense": ArmSpec("text_dense", options=dense),
        "text_rerank": ArmSpec("text_rerank", options=rerank),
    }


def opened(dataset: Dataset, index_root: Path) -> dict[tuple[str, str], Arm]:
    """Back end and name → arm, built where it is absent."""
    arms = {}
    for backend in BACKENDS:
        for name, spec in specs(backend).items():
            build_arm(spec, dataset.corpus, index_root, ConsoleProgress())
            arms[backend, name] = open_arm(spec, dataset.corpus, index_root)
    return arms


def timed(
    arms: dict[tuple[str, str], Arm], queries: Sequence[str], repeats: int
) -> tuple[dict[tuple[str, str], list[float]], dict[tuple[str, str], list[float]]]:
    """Milliseconds of every query on every arm, whole and of encoding: medians of the repeats."""
    whole: dict[tuple[str, str], list[float]] = {key: [] for key in arms}
    encode: dict[tuple[str, str], list[float]] = {key: [] for key in arms}
    for query in queries[:10]:
        for arm in arms.values():
            arm.rank([query], K)
    for number, query in enumerate(queries):
        samples: dict[tuple[str, str], list[tuple[float, float]]] = {key: [] for key in arms}
        for turn in range(repeats):
            order = list(arms)
            shift = (number + turn) % len(order)
            for key in order[shift:] + order[:shift]:
                clock = StageClock()
                begin = time.perf_counter_ns()
                arms[key].rank([query], K, clock)
                taken = (time.perf_counter_ns() - begin) / 1e6
                samples[key].append((taken, clock.stage_ms["encode"]))
        for key, pairs in samples.items():
            whole[key].append(statistics.median(one for one, _ in pairs))
            encode[key].append(statistics.median(one for _, one in pairs))
    return whole, encode


def same_but_for_ties(one: Ranking, other: Ranking) -> bool:
    """Whether two rankings hold the same documents in the same order, but for ties in score."""
    if len(one.doc_ids) != len(other.doc_ids):
        return False
    scores = dict(zip(other.doc_ids, other.scores, strict=True))
    last = other.scores[-1] if other.scores else 0.0
    return all(
        ours == theirs or (abs(mine - its) <= TIE and abs(scores.get(ours, last) - mine) <= TIE)
        for ours, theirs, mine, its in zip(
            one.doc_ids, other.doc_ids, one.scores, other.scores, strict=True
        )
    )


def compared(arms: dict[tuple[str, str], Arm], queries: Sequence[str]) -> dict[str, float]:
    """How the rankings of both back ends differ, to the depth of 100."""
    figures: dict[str, float] = {}
    for name in specs("torch"):
        pairs = [
            (
                arms["torch", name].rank([query], DEPTH)[0],
                arms["auto", name].rank([query], DEPTH)[0],
            )
            for query in queries
        ]
        gaps = [
            abs(mine - its)
            for one, other in pairs
            for mine, its in zip(one.scores, other.scores, strict=False)
        ]
        figures |= {
            f"{name}_rankings_equal": sum(one.doc_ids == other.doc_ids for one, other in pairs),
            f"{name}_rankings_that_differ_beyond_ties": sum(
                not same_but_for_ties(one, other) for one, other in pairs
            ),
            f"{name}_greatest_score_difference": max(gaps, default=0.0),
        }
    return figures


def main() -> None:
    options = parser("One query on text_dense and text_rerank, by back end and threads.")
    options.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    options.add_argument("--queries", type=int, default=100)
    options.add_argument("--repeats", type=int, default=3)
    options.add_argument("--documents", type=int, help="only so many; default: all of them")
    options.add_argument("--output", type=Path, default=RESULTS)
    given = options.parse_args()
    dataset, index_root = read(given.data), given.index
    if given.documents is not None:
        index_root = index_root / f"first-{given.documents}"
        first = list(islice(dataset.corpus, given.documents))
        dataset = replace(dataset, corpus=MemoryCorpus(f"first-{given.documents}", first))
    queries = [query.text for query in dataset.queries][: given.queries]
    arms = opened(dataset, index_root)
    figures: dict[str, object] = {
        "n_documents": len(dataset.corpus),
        "n_queries": len(queries),
        "k": K,
        "depth": DEPTH,
    }
    for name in specs("auto"):
        told = arms["auto", name].query_backends()
        figures[f"{name}_auto"] = ", ".join(f"{part}: {one}" for part, one in told.items())
    for threads in given.threads:
        with fixed_threads(threads):
            whole, encode = timed(arms, queries, given.repeats)
        for (backend, name), taken in whole.items():
            place = f"{name}_{backend}_{threads}_threads"
            figures[f"{place}_p50_ms"] = round(statistics.median(taken), 2)
            figures[f"{place}_p95_ms"] = round(statistics.quantiles(taken, n=20)[-1], 2)
            figures[f"{place}_encode_p50_ms"] = round(statistics.median(encode[backend, name]), 2)
    for name in specs("auto"):
        figures[f"{name}_p50_ms"] = figures[f"{name}_auto_{given.threads[-1]}_threads_p50_ms"]
    figures |= compared(arms, queries)
    print(write_result("single_query", figures, given.output))


if __name__ == "__main__":
    main()
