"""How much an arm costs over the bare library it stands on, as the ratio of median times.

Batches of all queries, k = 10, the same settings on both sides, PyTorch too, one process, the two
sides taken in turns. Run from the repository's root, on a quiet machine:

    python -m benchmarks.arm_overhead [--arms bm25 text_dense text_late] [--rounds 15]
"""

from __future__ import annotations

import gc
import statistics
import time
from collections.abc import Callable
from itertools import islice
from pathlib import Path

from arms.arm import Arm, ArmSpec
from arms.catalogue import build_arm, open_arm
from arms.corpora.corpus import Dataset, MemoryCorpus
from arms.progress import ConsoleProgress
from benchmarks.results_file import write_result
from benchmarks.videorag_wikihow import K, parser, read

Action = Callable[[], object]
LATE_DOCUMENTS = 500


def opened(spec: ArmSpec, dataset: Dataset, index_root: Path) -> Arm:
    build_arm(spec, dataset.corpus, index_root, ConsoleProgress())
    return open_arm(spec, dataset.corpus, index_root)


def medians_ms(ours: Action, bare: Action, rounds: int) -> tuple[float, float]:
    """Median milliseconds of each side over interleaved rounds, after two to warm up."""
    samples: dict[Action, list[float]] = {ours: [], bare: []}
    for number in range(rounds + 2):
        for action in (ours, bare) if number % 2 else (bare, ours):
            gc.collect()
            begin = time.perf_counter_ns()
            action()
            if number >= 2:
                samples[action].append((time.perf_counter_ns() - begin) / 1e6)
    return statistics.median(samples[ours]), statistics.median(samples[bare])


def figures_of(
    name: str, n_queries: int, ours: Action, bare: Action, rounds: int
) -> dict[str, float]:
    ours_ms, bare_ms = medians_ms(ours, bare, rounds)
    return {
        f"{name}_overhead_ratio": round(ours_ms / bare_ms, 3),
        f"{name}_ms_per_query": round(ours_ms / n_queries, 4),
        f"{name}_bare_ms_per_query": round(bare_ms / n_queries, 4),
    }


def measure_bm25(dataset: Dataset, index_root: Path, rounds: int) -> dict[str, float]:
    """Bare side: ``bm25s.tokenize`` and ``BM25.retrieve``, its index held in memory."""
    import bm25s
    import Stemmer

    queries = [query.text for query in dataset.queries]
    arm = opened(ArmSpec("bm25"), dataset, index_root)
    words = {
        "stopwords": "en",
        "stemmer": Stemmer.Stemmer("english"),
        "show_progress": False,
    }
    index = bm25s.BM25()
    texts = [document.full_text for document in dataset.corpus]
    index.index(bm25s.tokenize(texts, **words), show_progress=False)

    def bare() -> object:
        return index.retrieve(bm25s.tokenize(queries, **words), k=K, show_progress=False)

    return figures_of("bm25", len(queries), lambda: arm.rank(queries, K), bare, rounds)


def measure_text_dense(dataset: Dataset, index_root: Path, rounds: int) -> dict[str, float]:
    """Bare side: ``SentenceTransformer.encode`` and ``faiss.IndexFlatIP.search``, in memory."""
    import faiss
    import numpy as np
    from sentence_transformers import SentenceTransformer

    from arms.encoders.resolve import resolve
    from arms.encoders.text_encoder import quiet_loading

    queries = [query.text for query in dataset.queries]
    spec = ArmSpec("text_dense", options={"dtype": "bfloat16", "device": "cpu", "backend": "torch"})
    arm = opened(spec, dataset, index_root)
    vectors = np.load(index_root / spec.folder_name / "vectors.npy")
    index = faiss.IndexFlatIP(vectors.shape[1])
    index.add(vectors)
    with quiet_loading():
        encoder = SentenceTransformer(resolve().path, device="cpu")

    def bare_of(texts: list[str]) -> object:
        encoded = encoder.encode(texts, normalize_embeddings=True, show_progress_bar=False)
        return index.search(encoded, K)

    batch = figures_of(
        "text_dense", len(queries), lambda: arm.rank(queries, K), lambda: bare_of(queries), rounds
    )
    few = queries[:20]
    single = figures_of(
        "text_dense_single",
        len(few),
        lambda: [arm.rank([query], K) for query in few],
        lambda: [bare_of([query]) for query in few],
        rounds,
    )
    return batch | single


def measure_text_late(dataset: Dataset, index_root: Path, rounds: int) -> dict[str, float]:
    """Bare side: PyLate's encoding and MaxSim; over the first documents, which it must all hold."""
    from benchmarks import overhead_late

    first = MemoryCorpus(dataset.name, list(islice(dataset.corpus, LATE_DOCUMENTS)))
    queries = [query.text for query in dataset.queries]
    root = index_root / f"first-{LATE_DOCUMENTS}"
    figures = overhead_late.measure_text_late(first, queries, root, min(rounds, 5))
    return {name: round(value, 3) for name, value in figures.items()} | {
        "text_late_n_documents": LATE_DOCUMENTS
    }


MEASURES = {
    "bm25": measure_bm25,
    "text_dense": measure_text_dense,
    "text_late": measure_text_late,
}


def main() -> None:
    options = parser("Arm overhead over the bare library.")
    options.add_argument("--arms", nargs="+", choices=list(MEASURES), default=list(MEASURES))
    options.add_argument("--rounds", type=int, default=15)
    given = options.parse_args()
    dataset = read(given.data)
    figures: dict[str, float] = {
        "n_documents": len(dataset.corpus),
        "n_queries": len(dataset.queries),
        "k": K,
    }
    for arm in given.arms:
        figures |= MEASURES[arm](dataset, given.index, given.rounds)
    print(write_result("arm_overhead", figures))


if __name__ == "__main__":
    main()
