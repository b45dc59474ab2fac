"""How long ``Router.select`` takes and how much memory it holds, per kind of policy.

    python benchmarks/select_latency.py [--router runs/…/router] [--queries labels/queries.parquet]

Without ``--router`` an artifact is made on the spot: the offline all-MiniLM-L6-v2 with random
heads through PyTorch and, exported, through ONNX Runtime in float32 and int8; static-embedding
tables with random heads, over tokens alone and beside three views of n-grams; TF-IDF fitted on
random labels; a static table. That is fair for times and memory, which don't depend on the values
of the weights, and says nothing about quality. Without ``--queries`` the queries are runs of 4 to
20 words of Python's own documentation. Each policy is measured in a process of its own, one query
at a time after a warm-up, then in batches of 64.

The package semantic-router, with the same encoder, is measured beside them where it is installed
(``pip install 'learning-to-route[bench]'``), or by ``--semantic-router-python``, the Python of
another environment that has it.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT))

from benchmarks.results_file import write_result  # noqa: E402

ARMS = ("bm25", "text_dense", "text_late", "text_rerank")
LAMS = (0.0, 0.1, 0.3, 0.5, 0.7, 1.0)
POLICIES = {
    "router": "encoder",
    "router_onnx": "encoder_onnx",
    "router_onnx_int8": "encoder_onnx_int8",
    "static_embedding": "static",
    "static_embedding_ngrams": "static_ngrams",
    "tfidf": "tfidf",
    "best_static": "static_table",
}
"""Policy in the artifact → prefix of its figures."""
BATCH = 64
WARM_UP = 20


def made_queries(count: int) -> list[str]:
    from pydoc_data.topics import topics

    words = " ".join(topics.values()).split()
    draw = random.Random(42)
    queries = []
    while len(queries) < count:
        begin = draw.randrange(len(words) - 20)
        queries.append(" ".join(words[begin : begin + draw.randint(4, 20)]))
    return queries


def read_queries(path: Path, count: int) -> list[str]:
    if path.suffix == ".parquet":
        import pyarrow.parquet as pq

        texts = pq.read_table(path, columns=["text"])["text"].to_pylist()
        return random.Random(42).sample(texts, min(count, len(texts)))
    lines = path.read_text(encoding="utf-8").splitlines()
    texts = [json.loads(line)["text"] for line in lines if line.strip()]
    return random.Random(42).sample(texts, min(count, len(texts)))


def made_static(name: str, ngrams: bool) -> Any:
    """Tables of the size that training makes, n-grams as for routing labels; random heads."""
    from arms.encoders.resolve import resolve
    from router.policies.static_embedding import LamHeads, StaticEmbeddingPolicy
    from router.text_views import ByteTable, TextFeatures, TokenIds, View
    from training.routes.ridge_views import NGRAM_VIEWS
    from training.static_table import start_table

    generator = np.random.default_rng(42)
    start = start_table(resolve(), "embeddings", 256)
    views = [View(TokenIds(start.tokenizer_json, 128), ByteTable.of(start.rows))]
    for spec in NGRAM_VIEWS if ngrams else ():
        rows = generator.normal(size=(spec.buckets, len(ARMS))).astype(np.float32)
        views.append(View(spec, ByteTable.of(rows)))
    features = TextFeatures(tuple(views))
    weight = generator.normal(size=(3, len(ARMS), features.dim)).astype(np.float32)
    heads = LamHeads(weight, np.zeros((3, len(ARMS)), dtype=np.float32), None)
    return StaticEmbeddingPolicy(name, ARMS, features, heads)


def made_router(folder: Path, queries: Sequence[str], threads: int) -> None:
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.linear_model import LogisticRegression

    from router.artifact import Defaults, RouterRecord, write_router
    from router.onnx_export import export_to_onnx
    from router.policies.encoder import EncoderPolicy, LinearHead
    from router.policies.static import StaticPolicy
    from router.policies.tfidf import TfidfHead, TfidfPolicy
    from router.query_encoder import QueryEncoder

    generator = np.random.default_rng(42)
    encoder = QueryEncoder()
    heads = {
        lam: LinearHead(
            generator.normal(size=(len(ARMS), encoder.dim)).astype(np.float32),
            np.zeros(len(ARMS), dtype=np.float32),
        )
        for lam in LAMS
    }
    vectorizer = TfidfVectorizer(sublinear_tf=True, ngram_range=(1, 2))
    features = vectorizer.fit_transform(queries)
    labels = generator.integers(len(ARMS), size=len(queries))
    fitted = TfidfHead.of(LogisticRegression().fit(features, labels))
    policies = [
        EncoderPolicy("router", ARMS, heads, query_encoder=encoder),
        TfidfPolicy("tfidf", ARMS, vectorizer, {lam: fitted for lam in LAMS}),
        StaticPolicy("best_static", ARMS, {0.0: "text_rerank", 0.5: "text_dense", 1.0: "bm25"}),
    ]
    policies += [
        made_static("static_embedding", ngrams=False),
        made_static("static_embedding_ngrams", ngrams=True),
    ]
    write_router(folder, RouterRecord(ARMS, Defaults("router"), lams=LAMS), policies)
    for int8 in (False, True):
        export_to_onnx(folder, int8=int8, threads=threads)


def memory_mb(entry: str) -> float:
    """``VmRSS`` (resident now) or ``VmHWM`` (its peak) of this program, from ``/proc``.

    ``getrusage`` would do for the peak, were it not inherited from the process that started us.
    """
    for line in Path("/proc/self/status").read_text(encoding="ascii").splitlines():
        if line.startswith(entry):
            return int(line.split()[1]) * 1024 / 1e6
    return float("nan")


def measure(folder: Path, policy: str, queries: Sequence[str], lam: float) -> dict[str, float]:
    """In a fresh process: times in milliseconds, memory in megabytes."""
    before_mb = memory_mb("VmRSS")
    begin = time.perf_counter()
    from router import Router

    router = Router.load(folder, policy=policy)
    load_ms = (time.perf_counter() - begin) * 1e3

    def timed_ms(function: Any, *given: Any) -> float:
        begin_ns = time.perf_counter_ns()
        function(*given, lam=lam)
        return (time.perf_counter_ns() - begin_ns) / 1e6

    for query in queries[:WARM_UP]:
        router.select(query, lam=lam)
    single = [timed_ms(router.select, query) for query in queries]
    batches = [queries[start : start + BATCH] for start in range(0, len(queries), BATCH)]
    full = [list(batch) for batch in batches if len(batch) == BATCH]
    batched = [timed_ms(router.select_many, batch) for _ in range(3) for batch in full]
    return {
        "p50_ms": float(np.percentile(single, 50)),
        "p95_ms": float(np.percentile(single, 95)),
        "min_ms": min(single),
        f"batch{BATCH}_ms": float(np.median(batched)),
        f"batch{BATCH}_min_ms": min(batched),
        "load_ms": load_ms,
        "rss_mb": memory_mb("VmHWM"),
        "rss_delta_mb": memory_mb("VmRSS") - before_mb,
    }


def run_child(command: Sequence[str], queries: Sequence[str], threads: int) -> dict[str, Any]:
    names = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")
    run = subprocess.run(
        list(command),
        input=json.dumps(list(queries)),
        stdout=subprocess.PIPE,
        text=True,
        check=True,
        env={**os.environ, **{name: str(threads) for name in names}},
    )
    figures: dict[str, Any] = json.loads(run.stdout.splitlines()[-1])
    return figures


def measured_apart(
    folder: Path, policy: str, queries: Sequence[str], arguments: argparse.Namespace
) -> dict[str, float]:
    given = ("--router", str(folder), "--lam", str(arguments.lam))
    command = (sys.executable, __file__, "--child", policy, *given)
    found = run_child(command, queries, arguments.threads)
    files = (folder / "policies" / policy).rglob("*")
    size = sum(path.stat().st_size for path in files if path.is_file())
    return {**found, "size_mb": size / 1e6}


def semantic_router(queries: Sequence[str], arguments: argparse.Namespace) -> dict[str, Any]:
    """Figures of the package semantic-router; that it was left out, where it isn't installed."""
    from arms.encoders.resolve import resolve

    python = arguments.semantic_router_python
    if python is None and find_spec("semantic_router") is None:
        return {"semantic_router": "not installed: left out"}
    script = str(Path(__file__).with_name("semantic_router_latency.py"))
    command = (str(python or sys.executable), script, resolve().path)
    found = run_child(command, queries, arguments.threads)
    figures = {
        f"semantic_router_{name}": round(value, 4) if isinstance(value, float) else value
        for name, value in found.items()
    }
    return figures


def all_figures(folder: Path, made: bool, arguments: argparse.Namespace) -> dict[str, Any]:
    from router.artifact import read_router

    queries = wanted_queries(arguments)
    figures: dict[str, Any] = {
        "router": "made here, random heads" if made else str(arguments.router),
        "queries": len(queries),
        "words_per_query_mean": float(np.mean([len(query.split()) for query in queries])),
        "threads": arguments.threads,
        "load_average_before": os.getloadavg()[0],
    }
    present = read_router(folder).policies
    for policy, prefix in POLICIES.items():
        if policy in present:
            found = measured_apart(folder, policy, queries, arguments)
            figures |= {f"{prefix}_{name}": round(value, 4) for name, value in found.items()}
    figures |= semantic_router(queries, arguments)
    figures["load_average_after"] = os.getloadavg()[0]
    figures["rss_mb"] = max(value for name, value in figures.items() if name.endswith("_rss_mb"))
    return figures


def wanted_queries(arguments: argparse.Namespace) -> list[str]:
    if arguments.queries:
        return read_queries(arguments.queries, arguments.count)
    return made_queries(arguments.count)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--router", type=Path, help="an artifact; default: made on the spot")
    parser.add_argument(
        "--queries", type=Path, help="parquet or JSON lines with 'text'; default: made"
    )
    parser.add_argument("--count", type=int, default=256, help="how many queries (at least 64)")
    parser.add_argument("--lam", type=float, default=0.1)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument(
        "--semantic-router-python", type=Path, help="a Python that has semantic-router"
    )
    parser.add_argument("--child", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.child:
        queries = json.load(sys.stdin)
        print(json.dumps(measure(arguments.router, arguments.child, queries, arguments.lam)))
        return
    with tempfile.TemporaryDirectory() as temporary:
        folder = arguments.router or Path(temporary) / "router"
        if not arguments.router:
            made_router(folder, wanted_queries(arguments), arguments.threads)
        figures = all_figures(folder, not arguments.router, arguments)
    print(json.dumps(figures, indent=2))
    print(write_result("select_latency", figures))


if __name__ == "__main__":
    main()
