"""Time, memory and size of a report over many queries, from labels and decisions of a seed.

    python benchmarks/report_scale.py [--queries 100000] [--keep folder]

Seven arms, six λ, eight datasets, visual density and page kinds; the router, two more trained
policies and three baselines, each decided on the test split and on five folds. All queries are
test queries, so that every number of the report is over all of them, twice. Targets for 100,000
queries on two cores: 60 s, 2,000 MB, 10 MB of HTML.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT))

from benchmarks.results_file import write_result  # noqa: E402
from oracle.tables import GROUP_COLUMNS  # noqa: E402

ARMS = ("bm25", "text_dense", "text_late", "text_rerank", "mm_dense", "mm_late", "mm_rerank")
ROUTER_ARMS = ("bm25", "text_dense", "text_rerank", "mm_dense", "mm_rerank")
MEAN_MS = np.array([3.0, 18.0, 95.0, 55.0, 40.0, 210.0, 120.0])
MEAN_QUALITY = np.array([0.51, 0.5, 0.56, 0.57, 0.62, 0.68, 0.67])
LAMS = (0.0, 0.1, 0.3, 0.5, 0.7, 1.0)
MEASURES = ("nDCG@5", "RR@5", "R@5")
DATASETS = 8
SEED = 7
ROUTERS = {"router": 0.6, "router_lora": 0.55, "tfidf": 0.3}
"""Policy → share of queries on which it takes the best arm."""


def make_queries(n: int, rng: np.random.Generator) -> dict[str, np.ndarray]:
    words = np.array(["what", "was", "the", "net", "margin", "of", "which", "chart", "growth"])
    lengths = rng.integers(3, 30, n)
    drawn = rng.integers(0, len(words), lengths.sum())
    texts = np.split(words[drawn], np.cumsum(lengths)[:-1])
    dataset = np.sort(rng.integers(0, DATASETS, n))
    density = rng.beta(1.2, 1.6, n)
    density[dataset == 0] = np.nan  # plain text
    return {
        "dataset": np.array([f"collection-{code}" for code in dataset], dtype=object),
        "query_id": np.array([f"q{row:07d}" for row in range(n)], dtype=object),
        "split": np.full(n, "test", dtype=object),
        **dict.fromkeys(GROUP_COLUMNS, np.array([f"{row:016x}" for row in range(n)], dtype=object)),
        "text": np.array([" ".join(text) for text in texts], dtype=object),
        "visual_density": density,
        "page_kind": np.array(["", "table", "chart"], dtype=object)[rng.integers(0, 3, n)],
    }


def make_labels(folder: Path, n: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Write a labels folder; return quality and latency (n, arms)."""
    folder.mkdir(parents=True)
    queries = make_queries(n, rng)
    density = np.nan_to_num(queries["visual_density"])
    slope = np.array([-0.25, -0.2, -0.2, -0.18, 0.02, 0.05, 0.05])
    base = MEAN_QUALITY + slope * density[:, None] + rng.normal(0, 0.2, (n, 1))
    quality = np.clip(np.round(base + rng.normal(0, 0.15, (n, len(ARMS))), 2), 0, 1)
    latency = MEAN_MS * rng.lognormal(0, 0.25, (n, len(ARMS)))
    long = {name: np.repeat(queries[name], len(ARMS)) for name in ("dataset", "query_id", "split")}
    table = {
        **long,
        "arm": np.tile(np.array(ARMS, dtype=object), n),
        "status": np.full(n * len(ARMS), "ok", dtype=object),
        **{name: (quality * (1 - 0.1 * i)).ravel() for i, name in enumerate(MEASURES)},
        "latency_ms": latency.ravel(),
        "latency_modelled": np.zeros(n * len(ARMS), dtype=bool),
    }
    pq.write_table(pa.table(table), folder / "labels.parquet")
    columns = {k: pa.array(v, from_pandas=k == "visual_density") for k, v in queries.items()}
    pq.write_table(pa.table(columns), folder / "queries.parquet")
    _write_samples(folder, long, latency)
    _write_runs(folder, long, rng)
    manifest = {
        "schema_version": 1,
        "pipelines": list(ARMS),
        "router_arms": list(ROUTER_ARMS),
        "measures": list(MEASURES),
        "seed": SEED,
    }
    (folder / "manifest.json").write_text(json.dumps(manifest))
    return quality, latency


def _write_samples(folder: Path, long: dict[str, np.ndarray], latency: np.ndarray) -> None:
    arm = np.tile(np.array(ARMS, dtype=object), len(latency))
    columns = {"dataset": long["dataset"], "query_id": long["query_id"], "arm": arm}
    table = {name: np.repeat(values, 3) for name, values in columns.items()}
    table["repeat"] = np.tile(np.arange(3, dtype=np.int32), latency.size)
    table["latency_ms"] = (latency.ravel()[:, None] * np.array([0.95, 1.0, 1.2])).ravel()
    pq.write_table(pa.table(table), folder / "latency_samples.parquet")


def _write_runs(folder: Path, long: dict[str, np.ndarray], rng: np.random.Generator) -> None:
    """Three documents per query and arm."""
    cells = len(long["query_id"])
    arm = np.tile(np.array(ARMS, dtype=object), cells // len(ARMS))
    documents = np.array([f"d{i}" for i in range(5000)], dtype=object)
    table = {
        "dataset": np.repeat(long["dataset"], 3),
        "query_id": np.repeat(long["query_id"], 3),
        "arm": np.repeat(arm, 3),
        "rank": np.tile(np.arange(1, 4, dtype=np.int32), cells),
        "doc_id": documents[rng.integers(0, len(documents), 3 * cells)],
        "score": np.tile(np.array([3.0, 2.0, 1.0]), cells),
    }
    pq.write_table(pa.table(table), folder / "runs.parquet")


def make_decisions(
    path: Path, labels: Path, quality: np.ndarray, latency: np.ndarray, rng: np.random.Generator
) -> int:
    """Write decisions, one policy and λ at a time; return how many."""
    queries = pq.read_table(labels / "queries.parquet", columns=["dataset", "query_id"])
    n = len(queries)
    choices = np.array([ARMS.index(arm) for arm in ROUTER_ARMS])
    shares = latency / latency[:, choices].sum(axis=1, keepdims=True)
    folds = np.array([f"cv{i % 5}" for i in range(n)], dtype=object)
    names = np.array(ARMS, dtype=object)
    written = 0
    fields = [("policy", pa.string()), ("lam", pa.float64()), ("dataset", pa.string())]
    fields += [("query_id", pa.string()), ("split", pa.string()), ("plan", pa.string())]
    fields += [("probability", pa.float64()), ("overhead_ms", pa.float64())]
    with pq.ParquetWriter(path, pa.schema(fields)) as writer:

        def write(policy: str, lam: float | None, columns: np.ndarray, overhead: float) -> None:
            nonlocal written
            for split in (np.full(n, "test", dtype=object), folds):
                batch = {
                    "policy": pa.array([policy] * n, pa.string()),
                    "lam": pa.array([lam] * n, pa.float64()),
                    "dataset": queries["dataset"],
                    "query_id": queries["query_id"],
                    "split": pa.array(split, pa.string()),
                    "plan": pa.array(names[columns], pa.string()),
                    "probability": pa.array(rng.uniform(0.2, 1.0, n)),
                    "overhead_ms": pa.array(np.full(n, overhead)),
                }
                writer.write_table(pa.table(batch, schema=writer.schema))
                written += n

        for arm in ROUTER_ARMS:
            write(f"static:{arm}", None, np.full(n, ARMS.index(arm)), 0.0)
        for lam in LAMS:
            rewards = ((1 - lam) * quality + lam * (1 - shares))[:, choices]
            best, single = choices[rewards.argmax(axis=1)], choices[rewards.mean(axis=0).argmax()]
            for policy, hits in ROUTERS.items():
                chosen = np.where(rng.random(n) < hits, best, single)
                write(policy, lam, chosen, 5.0 if policy == "router" else 1.0)
            write("random_same_mix", lam, rng.permutation(chosen), 0.0)
            write("best_static", lam, np.full(n, single), 0.0)
            write("best_static_per_dataset", lam, np.full(n, single), 0.0)
    return written


def measure(labels: Path, router: Path, report: Path) -> dict[str, float]:
    """Time and peak memory of the report, in a process of its own.

    Processor time stands beside the clock's: on a machine with other work the clock says more
    about that work.
    """
    code = (
        "import json, resource, sys, time\n"
        "begin = time.perf_counter()\n"
        "from pathlib import Path\n"
        "from analysis.write_report import write_report\n"
        "write_report(*map(Path, sys.argv[1:]))\n"
        "usage = resource.getrusage(resource.RUSAGE_SELF)\n"
        "print(json.dumps({'seconds': round(time.perf_counter() - begin, 1),"
        " 'processor_seconds': round(usage.ru_utime + usage.ru_stime, 1),"
        " 'peak_mb': round(usage.ru_maxrss / 1024)}))"
    )
    command = [sys.executable, "-c", code, str(labels), str(router), str(report)]
    run = subprocess.run(command, check=True, cwd=ROOT, stdout=subprocess.PIPE, text=True)
    measured: dict[str, float] = json.loads(run.stdout)
    return measured


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--queries", type=int, default=100_000)
    parser.add_argument("--keep", type=Path, help="leave labels, decisions and report here")
    arguments = parser.parse_args()
    os.environ.setdefault("OMP_NUM_THREADS", "1")  # two that meet another process spin
    folder = arguments.keep or Path(tempfile.mkdtemp())
    rng = np.random.default_rng(SEED)
    labels, router, report = folder / "labels", folder / "router", folder / "report"
    if not (router / "decisions.parquet").is_file():
        quality, latency = make_labels(labels, arguments.queries, rng)
        router.mkdir(parents=True)
        make_decisions(router / "decisions.parquet", labels, quality, latency, rng)
    decisions = pq.ParquetFile(router / "decisions.parquet").metadata.num_rows
    measured = measure(labels, router, report)
    html_mb = (report / "index.html").stat().st_size / 1e6
    figures = {
        **measured,
        "html_mb": round(html_mb, 2),
        "queries": arguments.queries,
        "decisions": decisions,
        "arms": len(ARMS),
        "lams": len(LAMS),
        "threads": os.environ["OMP_NUM_THREADS"],
    }
    print(json.dumps(figures))
    if arguments.queries == 100_000:
        write_result("report_scale", figures)
    if not arguments.keep:
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
