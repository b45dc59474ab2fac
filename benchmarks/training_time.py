"""How long training takes per λ: heads over a frozen encoder, and a sample of a LoRA epoch.

    python benchmarks/training_time.py [--queries 5000] [--lora-queries 256]

Queries are runs of 4 to 20 words of Python's own documentation, labels are random: fair for times,
which don't depend on the labels, and says nothing about quality. The encoder is the offline
all-MiniLM-L6-v2. LoRA is timed for one epoch over a sample, since a whole one takes minutes.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import torch

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT))

from arms.encoders.resolve import resolve  # noqa: E402
from arms.progress import SilentProgress  # noqa: E402
from benchmarks.results_file import write_result  # noqa: E402
from router.query_encoder import QueryEncoder  # noqa: E402
from training.data import supervision  # noqa: E402
from training.embeddings import embed_queries  # noqa: E402
from training.frozen import Split, fit_frozen_head  # noqa: E402
from training.lora import Tokens, fit_lora  # noqa: E402
from training.settings import LoraSettings, TrainingSettings  # noqa: E402
from training.table import RoutingTable  # noqa: E402

ARMS = 6


def made_table(count: int) -> RoutingTable:
    """Random labels over random cuts of Python's documentation."""
    from pydoc_data.topics import topics

    words = " ".join(topics.values()).split()
    draw, numbers = random.Random(42), np.random.default_rng(42)
    texts = []
    for number in range(count):
        begin = draw.randrange(len(words) - 20)
        texts.append(" ".join(words[begin : begin + draw.randint(4, 20)]) + f" {number}")
    return RoutingTable(
        arms=tuple(f"arm{number}" for number in range(ARMS)),
        datasets=np.full(count, "made", dtype=object),
        query_ids=np.arange(count).astype(str).astype(object),
        splits=np.full(count, "train", dtype=object),
        text_groups=np.arange(count).astype(str).astype(object),
        split_groups=np.arange(count).astype(str).astype(object),
        texts=np.array(texts, dtype=object),
        quality=numbers.random((count, ARMS)),
        latency_ms=numbers.random((count, ARMS)) * 10 + 1,
        competes=np.ones((count, ARMS), dtype=bool),
        comparable=np.ones(count, dtype=bool),
    )


def seconds_of(work) -> float:
    begin = time.perf_counter()
    work()
    return time.perf_counter() - begin


def frozen_figures(table: RoutingTable, settings: TrainingSettings) -> dict[str, float]:
    encoder = QueryEncoder()
    texts = table.texts.tolist()
    with tempfile.TemporaryDirectory() as folder:

        def embed() -> np.ndarray:
            return embed_queries(texts, encoder, Path(folder), SilentProgress())

        embed_s, cached_s = seconds_of(embed), seconds_of(embed)
        embedded = embed()
    validation = np.arange(len(table)) % 10 == 0
    seconds = []
    for lam in settings.lams:
        sides = [
            Split(embedded[rows], supervision(table.rows(rows), lam, settings.tau))
            for rows in (~validation, validation)
        ]
        seconds.append(
            seconds_of(lambda sides=sides: fit_frozen_head(table.arms, *sides, settings))
        )
    return {
        "frozen_embedding_s": embed_s,
        "frozen_embedding_cached_s": cached_s,
        "frozen_head_s_per_lam": float(np.median(seconds)),
        "frozen_head_slowest_s_per_lam": max(seconds),
        "frozen_total_s": embed_s + sum(seconds),
        "frozen_lams": len(settings.lams),
    }


def lora_figures(table: RoutingTable, settings: TrainingSettings) -> dict[str, float]:
    one_epoch = settings.model_copy(update={"lora": LoraSettings(epochs=1)})
    encoder = resolve()
    tokens = Tokens.of(encoder, table.texts.tolist(), settings.max_tokens)
    rows = np.arange(len(table))
    train = tokens.supervised(rows, supervision(table, 0.1, settings.tau))
    with tempfile.TemporaryDirectory() as folder:
        elapsed_s = seconds_of(
            lambda: fit_lora(
                table.arms, encoder, train, None, one_epoch, None, Path(folder) / "adapter"
            )
        )
    return {
        "lora_sample_queries": len(table),
        "lora_sample_epoch_s": elapsed_s,
        "lora_ms_per_query_and_epoch": 1000 * elapsed_s / len(table),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--queries", type=int, default=5000)
    parser.add_argument("--lora-queries", type=int, default=256)
    given = parser.parse_args()
    table, settings = made_table(given.queries), TrainingSettings()
    figures = {
        "queries": given.queries,
        "arms": ARMS,
        "torch_threads": torch.get_num_threads(),
        **frozen_figures(table, settings),
        **lora_figures(table.rows(np.arange(min(given.lora_queries, len(table)))), settings),
    }
    rounded = {
        key: round(value, 3) if isinstance(value, float) else value
        for key, value in figures.items()
    }
    print(write_result("training_time", rounded).read_text(encoding="utf-8"))


if __name__ == "__main__":
    main()
