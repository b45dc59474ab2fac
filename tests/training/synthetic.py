"""Oracle labels made up for tests: the wording of a query decides which arm is best."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from oracle.tables import GROUP_COLUMNS

ARMS = ("bm25", "text_dense", "text_rerank")
LATENCY_MS = (2.0, 10.0, 40.0)
WORDS = {
    "bm25": ("invoice", "serial", "identifier", "code", "number", "exact"),
    "text_dense": ("feeling", "meaning", "idea", "similar", "mood", "theme"),
    "text_rerank": ("compare", "because", "whereas", "although", "cause", "effect"),
}
FILLER = ("the", "of", "report", "which", "about", "page", "year", "find")


def make_texts(count: int, seed: int = 0) -> tuple[list[str], np.ndarray]:
    """Distinct texts, and for each the column of the arm that its words point to."""
    random = np.random.default_rng(seed)
    best = random.integers(len(ARMS), size=count)
    texts = []
    for number, column in enumerate(best):
        telling = random.choice(WORDS[ARMS[column]], size=3, replace=False)
        words = random.permutation([*telling, *random.choice(FILLER, size=4, replace=False)])
        texts.append(" ".join(words) + f" {number}")
    return texts, best


def make_quality(best: np.ndarray, seed: int = 0, arms: int = len(ARMS)) -> np.ndarray:
    """(Q, arms): about 0.9 for the best arm, about 0.3 for the others, in [0, 1]."""
    random = np.random.default_rng(seed + 1)
    quality = 0.3 + 0.1 * random.standard_normal((len(best), arms))
    quality[np.arange(len(best)), best] += 0.6
    return np.clip(quality, 0.0, 1.0)


def write_labels(
    folder: Path,
    count: int = 300,
    datasets: tuple[str, ...] = ("alpha", "beta"),
    shuffled: bool = False,
    lacking: dict[str, tuple[str, ...]] | None = None,
    failing: int = 0,
    seed: int = 0,
    with_text: bool = True,
    late: bool = True,
) -> Path:
    """Write a complete labels folder; return it.

    Args:
        folder: where.
        count: queries over all datasets, split 80/10/10.
        datasets: queries are dealt to them in turn.
        shuffled: the control: qualities lose their connection with the texts.
        lacking: dataset → arms that it lacks.
        failing: the first that many training queries have an arm that ended in ``error``.
        seed: of texts and qualities.
        with_text: whether queries.parquet holds the text.
        late: add ``text_late`` to P (not to A).
    """
    texts, best = make_texts(count, seed)
    quality = make_quality(best, seed)
    if shuffled:
        quality = quality[np.random.default_rng(99).permutation(count)]
    pipelines = (*ARMS, "text_late") if late else ARMS
    if late:
        quality = np.column_stack([quality, np.clip(quality[:, 2] - 0.05, 0, 1)])
    latency = np.abs(np.random.default_rng(5).normal(1, 0.05, quality.shape)) * (
        *LATENCY_MS,
        *((80.0,) if late else ()),
    )
    splits = ["test" if n % 10 == 9 else "val" if n % 10 == 8 else "train" for n in range(count)]
    names = [datasets[(n // 10) % len(datasets)] for n in range(count)]
    ids = [f"q{n:04d}" for n in range(count)]
    folder.mkdir(parents=True, exist_ok=True)
    queries = {
        "dataset": names,
        "query_id": ids,
        "split": splits,
        **{name: [f"g{n:04d}" for n in range(count)] for name in GROUP_COLUMNS},
    }
    if with_text:
        queries["text"] = texts
    pq.write_table(pa.table(queries), folder / "queries.parquet")
    rows = []
    failures = [n for n in range(count) if splits[n] == "train"][:failing]
    for n in range(count):
        for column, arm in enumerate(pipelines):
            status = "ok"
            if arm in (lacking or {}).get(names[n], ()):
                status = "skipped"
            elif n in failures and column == 1:
                status = "error"
            known = status == "ok"
            rows.append(
                {
                    "dataset": names[n],
                    "query_id": ids[n],
                    "split": splits[n],
                    "arm": arm,
                    "status": status,
                    "nDCG@5": float(quality[n, column]) if known else None,
                    "latency_ms": float(latency[n, column]) if known else None,
                }
            )
    pq.write_table(pa.Table.from_pylist(rows), folder / "labels.parquet")
    manifest = {
        "schema_version": 1,
        "pipelines": list(pipelines),
        "router_arms": list(ARMS),
        "measures": ["nDCG@5"],
    }
    (folder / "manifest.json").write_text(json.dumps(manifest), encoding="utf-8")
    return folder
