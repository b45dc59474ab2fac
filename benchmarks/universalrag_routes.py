"""Accuracy of ``l2r routes train`` on UniversalRAG's released routing labels, as a user gets it.

    python benchmarks/universalrag_routes.py [--labels FOLDER] [--seeds 42 1 2 3 4]
        [--machines two_threads older_instructions] [--work FOLDER]

The labels hold queries.jsonl and routes/train.tsv, test.tsv. Each run is the console command
itself, with its default settings, in a process of its own: nothing but ``--seed`` is given, and not
even that for the command's own seed. The seeds run on one thread; the command's own seed runs again
under each of ``--machines``, environments that imitate other processors (see ``MACHINES``). A run
that is finished under --work isn't repeated. Reported are the run of the command's own seed, the
mean over seeds, the lowest and highest of all runs, seconds of a run, accuracy on each source, how
many numbers the default router has, its encoder's included, and how many test questions are on a
video that a training question is on, too (by the labels' gold videos, which no policy sees).
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import resource
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT))

from arms.atomic import write_json  # noqa: E402
from arms.encoders.resolve import resolve  # noqa: E402
from benchmarks.results_file import write_result  # noqa: E402
from benchmarks.videorag_wikihow import DATA  # noqa: E402
from training.routes.reading import read_routes  # noqa: E402
from training.routes.settings import RoutesSettings  # noqa: E402

OWN_SEED = RoutesSettings().seed
"""The seed of the command as typed."""
MACHINES: Mapping[str, Mapping[str, str]] = {
    "one_thread": {"OMP_NUM_THREADS": "1"},
    "two_threads": {"OMP_NUM_THREADS": "2"},
    "older_instructions": {
        "OMP_NUM_THREADS": "1",
        "ATEN_CPU_CAPABILITY": "default",
        "ONEDNN_MAX_CPU_ISA": "AVX",
        "MKL_ENABLE_INSTRUCTIONS": "AVX",
        "OPENBLAS_CORETYPE": "Sandybridge",
    },
}
"""Name → environment. Threads and instruction sets change the order in which numbers are added."""
USUAL = "one_thread"
_NOT_SOURCES = {
    "policy",
    "accuracy",
    "first right",
    "routes taken",
    "macro",
    "overhead ms",
    "remark",
}


def command(labels: Path, out: Path, seed: int) -> list[str]:
    """The words of the console command; the command's own seed isn't named."""
    words = [sys.executable, str(ROOT / "l2r.py"), "routes", "train", str(labels), str(out)]
    return words if seed == OWN_SEED else [*words, "--seed", str(seed)]


def run_command(labels: Path, out: Path, seed: int, machine: str) -> dict[str, Any]:
    """Train with the console command and read the scores it wrote, or what it gave before."""
    done = out.with_name(f"{out.name}.json")
    if done.is_file():
        return json.loads(done.read_text(encoding="utf-8"))
    out.parent.mkdir(parents=True, exist_ok=True)
    environment = {**os.environ, **MACHINES[machine], "PYTHONPATH": str(ROOT)}
    begin, before = time.perf_counter(), resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command(labels, out, seed), env=environment, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    used = (after.ru_utime + after.ru_stime) - (before.ru_utime + before.ru_stime)
    result = {
        "seed": seed,
        "machine": machine,
        "seconds": time.perf_counter() - begin,
        "cpu_seconds": used,
        "load": os.getloadavg()[1],
        "parameters": stored_numbers(out / "policies" / "router"),
        "policies": read_scores(out / "scores" / "scores.csv"),
    }
    write_json(done, result)
    return result


def read_scores(path: Path) -> dict[str, dict[str, Any]]:
    """Policy → accuracy, and accuracy on each source, from the table that the command wrote."""
    with path.open(encoding="utf-8", newline="") as stream:
        return {
            row["policy"]: {
                "accuracy": float(row["accuracy"]),
                "by_source": {
                    name: float(value) for name, value in row.items() if name not in _NOT_SOURCES
                },
            }
            for row in csv.DictReader(stream)
        }


def stored_numbers(policy: Path) -> int:
    """How many numbers a policy's own files hold; the encoder's come on top."""
    from safetensors.numpy import load_file

    files = sorted(policy.rglob("*.safetensors"))
    return sum(array.size for file in files for array in load_file(file).values())


def encoder_numbers() -> int:
    """How many numbers of the encoder a decision may read: all but the unused pooler's."""
    import torch

    from router.query_encoder import load_encoder

    model, _ = load_encoder(resolve(None), torch.float32)
    return sum(parameter.numel() for parameter in model.parameters())


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


def figures_of(runs: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """Each policy's figures: the command as typed, mean and sd over seeds, extremes of all runs.

    The mean and the accuracies on sources are over seeds on the usual machine alone, so that the
    command's own seed isn't counted again for each imitated machine.
    """
    usual = [run for run in runs if run["machine"] == USUAL]
    typed = [run for run in usual if run["seed"] == OWN_SEED]
    figures: dict[str, float] = {}
    for policy in usual[0]["policies"]:
        key = "best" if policy == "router" else policy
        every = [run["policies"][policy]["accuracy"] for run in runs]
        values = [run["policies"][policy]["accuracy"] for run in usual]
        for run in typed:
            figures[f"{key}_accuracy_as_typed"] = run["policies"][policy]["accuracy"]
        figures[f"{key}_accuracy"] = float(np.mean(values))
        figures[f"{key}_accuracy_lowest"] = min(every)
        figures[f"{key}_accuracy_highest"] = max(every)
        figures[f"{key}_accuracy_sd"] = float(np.std(values, ddof=1)) if len(values) > 1 else 0.0
        for source in usual[0]["policies"][policy]["by_source"]:
            of_seeds = [run["policies"][policy]["by_source"][source] for run in usual]
            figures[f"{key}_accuracy_{source}"] = float(np.mean(of_seeds))
    for run in runs:
        if run["seed"] == OWN_SEED:
            figures[f"best_accuracy_{run['machine']}"] = run["policies"]["router"]["accuracy"]
    figures["mean_seed_s"] = float(np.mean([run["seconds"] for run in usual]))
    figures["mean_seed_cpu_s"] = float(np.mean([run["cpu_seconds"] for run in usual]))
    figures["highest_load"] = max(run["load"] for run in runs)
    return figures


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--labels", type=Path, default=DATA / "universalrag-routes")
    parser.add_argument("--seeds", type=int, nargs="+", default=[OWN_SEED, 1, 2, 3, 4])
    others = [name for name in MACHINES if name != USUAL]
    parser.add_argument("--machines", nargs="*", choices=others, default=others)
    parser.add_argument("--work", type=Path, default=ROOT / "runs" / "universalrag-routes")
    given = parser.parse_args()
    wanted = [(seed, USUAL) for seed in given.seeds]
    wanted += [(OWN_SEED, machine) for machine in given.machines]
    runs = [
        run_command(given.labels, given.work / f"seed-{seed}-{machine}", seed, machine)
        for seed, machine in wanted
    ]
    table = read_routes(given.labels)
    shared = shared_videos(given.labels)
    figures = {
        "seeds": len(given.seeds),
        "runs": len(runs),
        "train_queries": int((table.splits == "train").sum()),
        "test_queries": int((table.splits == "test").sum()),
        "router_parameters": runs[0]["parameters"] + encoder_numbers(),
        **figures_of(runs),
        **{f"test_on_a_training_video_{source}": count for source, count in shared.items()},
    }
    rounded = {
        key: round(value, 4) if isinstance(value, float) else value
        for key, value in figures.items()
    }
    settings = {"seeds_on": USUAL, "machines": json.dumps(MACHINES)}
    print(write_result("universalrag_routes", rounded | settings).read_text(encoding="utf-8"))


if __name__ == "__main__":
    main()
