"""Accuracy of every policy on UniversalRAG's released routing labels, over several seeds.

    python benchmarks/universalrag_routes.py [--labels FOLDER] [--seeds 1 2 3 4 5] [--work FOLDER]

The labels hold queries.jsonl and routes/train.tsv, test.tsv. A seed decides the validation part
that is cut from train, the order of batches and the first weights. Each seed trains one router,
which stays under --work; a seed that is finished there is not trained again. Reported are the mean
over seeds, the lowest and highest, the seconds of a seed, accuracy on each source, and how many
test questions are on a video that a training question is on, too (by the labels' gold videos, which
no policy sees).
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT))

from arms.atomic import write_json  # noqa: E402
from arms.progress import ConsoleProgress  # noqa: E402
from benchmarks.results_file import write_result  # noqa: E402
from benchmarks.videorag_wikihow import DATA  # noqa: E402
from training.routes.reading import read_routes  # noqa: E402
from training.routes.settings import RoutesSettings  # noqa: E402
from training.routes.table import RouteTable  # noqa: E402
from training.routes.train import train_routes  # noqa: E402

POLICIES = ("tfidf", "encoder_lora", "static", "router", "ensemble_majority")


def seed_scores(table: RouteTable, folder: Path, seed: int) -> dict[str, Any]:
    """Train with one seed, or read what it gave before."""
    done = folder.with_name(f"{folder.name}.json")
    if done.is_file():
        return json.loads(done.read_text(encoding="utf-8"))
    begin, cpu = time.perf_counter(), time.process_time()
    settings = RoutesSettings(seed=seed, policies=POLICIES, overhead_queries=50)
    trained = train_routes(table, folder, settings, ConsoleProgress())
    result = {
        "seconds": time.perf_counter() - begin,
        "cpu_seconds": time.process_time() - cpu,
        "load": os.getloadavg()[1],
        "left_out": trained.prepared.left_out,
        "policies": {
            one.policy: {"accuracy": one.accuracy, "by_source": dict(one.by_source)}
            for one in trained.scores
        },
    }
    write_json(done, result)
    return result


def shared_videos(folder: Path) -> dict[str, int]:
    """Source → test questions on a video that a training question is on."""
    metadata = {}
    for line in (folder / "queries.jsonl").read_text(encoding="utf-8").splitlines():
        record = json.loads(line)
        metadata[record["_id"]] = record["metadata"]
    ids = {
        split: [
            line.split("\t")[0]
            for line in (folder / "routes" / f"{split}.tsv").read_text("utf-8").splitlines()[1:]
        ]
        for split in ("train", "test")
    }
    seen = {name for one in ids["train"] for name in metadata[one].get("gt_videos") or ()}
    return dict(
        Counter(
            metadata[one]["source"]
            for one in ids["test"]
            if seen & set(metadata[one].get("gt_videos") or ())
        )
    )


def figures_of(runs: list[dict[str, Any]]) -> dict[str, float]:
    """Mean, lowest and highest of each policy over the seeds, and its mean on each source."""
    names = {"best": "router", "static": "static", "tfidf": "tfidf"}
    names |= {one: one for one in runs[0]["policies"] if one not in names.values()}
    figures: dict[str, float] = {}
    for key, policy in names.items():
        values = [run["policies"][policy]["accuracy"] for run in runs]
        figures[f"{key}_accuracy"] = float(np.mean(values))
        figures[f"{key}_accuracy_lowest"], figures[f"{key}_accuracy_highest"] = (
            min(values),
            max(values),
        )
        figures[f"{key}_accuracy_sd"] = float(np.std(values, ddof=1)) if len(values) > 1 else 0.0
        for source in runs[0]["policies"][policy]["by_source"]:
            per_seed = [run["policies"][policy]["by_source"][source] for run in runs]
            figures[f"{key}_accuracy_{source}"] = float(np.mean(per_seed))
    figures["slowest_seed_s"] = max(run["seconds"] for run in runs)
    figures["mean_seed_s"] = float(np.mean([run["seconds"] for run in runs]))
    figures["mean_seed_cpu_s"] = float(np.mean([run["cpu_seconds"] for run in runs]))
    figures["highest_load"] = max(run["load"] for run in runs)
    return figures


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--labels", type=Path, default=DATA / "universalrag-routes")
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3, 4, 5])
    parser.add_argument("--work", type=Path, default=ROOT / "runs" / "universalrag-routes")
    given = parser.parse_args()
    table = read_routes(given.labels)
    runs = [seed_scores(table, given.work / f"seed-{seed}", seed) for seed in given.seeds]
    shared = shared_videos(given.labels)
    figures = {
        "seeds": len(runs),
        "train_queries": int((table.splits == "train").sum()),
        "test_queries": int((table.splits == "test").sum()),
        "training_queries_left_out": runs[0]["left_out"],
        **figures_of(runs),
        **{f"test_on_a_training_video_{source}": count for source, count in shared.items()},
    }
    rounded = {
        key: round(value, 4) if isinstance(value, float) else value
        for key, value in figures.items()
    }
    print(write_result("universalrag_routes", rounded).read_text(encoding="utf-8"))


if __name__ == "__main__":
    main()
