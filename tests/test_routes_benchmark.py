"""The benchmark of routing labels runs the console command, and nothing else."""

import sys

import pytest

import l2r
from benchmarks.universalrag_routes import (
    MACHINES,
    OWN_SEED,
    USUAL,
    command,
    figures_of,
    read_scores,
    run_command,
)
from tests.training.routes.label_files import write_labels
from training.routes.settings import RoutesSettings


def test_the_command_is_the_one_that_users_type(tmp_path):
    typed = command(tmp_path / "labels", tmp_path / "out", OWN_SEED)[1:]
    assert typed[0].endswith("l2r.py")
    assert typed[1:] == ["routes", "train", str(tmp_path / "labels"), str(tmp_path / "out")]
    assert RoutesSettings().seed == OWN_SEED
    other = command(tmp_path / "labels", tmp_path / "out", OWN_SEED + 1)[1:]
    assert other == [*typed, "--seed", str(OWN_SEED + 1)]
    assert all(key.isupper() for machine in MACHINES.values() for key in machine)


def test_the_spread_is_of_all_runs_and_the_mean_of_seeds_alone():
    runs = [
        {
            "seed": seed,
            "machine": machine,
            "seconds": 1.0,
            "cpu_seconds": 1.0,
            "load": 0.0,
            "policies": {"router": {"accuracy": accuracy, "by_source": {"wiki": accuracy}}},
        }
        for seed, machine, accuracy in (
            (OWN_SEED, USUAL, 0.75), (OWN_SEED + 1, USUAL, 0.25), (OWN_SEED, "two_threads", 0.0),
        )
    ]  # fmt: skip
    figures = figures_of(runs)
    assert figures["best_accuracy"] == figures["best_accuracy_wiki"] == 0.5
    assert figures["best_accuracy_as_typed"] == figures["best_accuracy_one_thread"] == 0.75
    assert (figures["best_accuracy_lowest"], figures["best_accuracy_highest"]) == (0.0, 0.75)
    assert figures["best_accuracy_two_threads"] == 0.0


@pytest.mark.slow
def test_the_console_gives_what_the_benchmark_gives(tmp_path):
    labels = write_labels(tmp_path / "labels", train=12, test=4)
    run = run_command(labels, tmp_path / "benchmark", OWN_SEED, USUAL)
    with pytest.raises(SystemExit) as stopped:
        l2r.main(["routes", "train", str(labels), str(tmp_path / "console")])
    assert not stopped.value.code
    assert read_scores(tmp_path / "console" / "scores" / "scores.csv") == run["policies"]
    assert sys.executable == command(labels, tmp_path, OWN_SEED)[0]
