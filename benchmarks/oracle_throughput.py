"""Queries per second of each arm in the oracle's batched quality pass, once indexes exist.

    python benchmarks/oracle_throughput.py [run.yaml] [--datasets a b] [--queries 500]

Goes over the datasets of a run (the text suite by default; datasets that aren't on this machine are
left out and named), builds the indexes that are absent, then times ranking and judging every query,
dataset by dataset and arm by arm as the oracle does. Opening an index and one warm-up batch aren't
counted. The arms of a dataset share hidden states of queries, so the first that needs them pays for
them: here ``text_dense``. ``four_arms`` is the rate at which a query goes through bm25, text_dense,
text_late and text_rerank one after the other; it uses as many threads as ``--threads`` says.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
if str(ROOT) not in sys.path:
    sys.path.insert(0, str(ROOT))

from arms.catalogue import open_arm, spec_of  # noqa: E402
from arms.corpora.corpus import Dataset  # noqa: E402
from arms.encoders.query_states import QueryStates, sharing  # noqa: E402
from arms.progress import ConsoleProgress  # noqa: E402
from arms.settings import ArmSettings  # noqa: E402
from benchmarks.results_file import write_result  # noqa: E402
from oracle.hardware import fixed_threads, resolve_threads  # noqa: E402
from oracle.outcome import rank_queries  # noqa: E402
from oracle.quality import measure_names, query_quality  # noqa: E402
from oracle.runner import build_indexes  # noqa: E402
from oracle.settings import OracleSettings  # noqa: E402

RECIPE = ROOT / "training" / "recipes" / "text-suite.yaml"
FOUR_ARMS = ("bm25", "text_dense", "text_late", "text_rerank")


def quality_pass_s(
    dataset: Dataset,
    arm: ArmSettings,
    index_folder: Path,
    settings: OracleSettings,
    n_queries: int,
    states: QueryStates,
) -> tuple[int, float]:
    """Return how many queries were ranked and judged, and the seconds that took."""
    opened = open_arm(spec_of(arm), dataset.corpus, index_folder / dataset.name)
    queries = dataset.queries[:n_queries]
    texts = [query.text for query in queries]
    measures = measure_names(settings.measures, settings.k)
    rank_queries(opened, texts[: settings.batch_size], settings.k, settings.batch_size, None)
    begin_s = time.perf_counter()
    with sharing(states):
        outcomes = rank_queries(opened, texts, settings.k, settings.batch_size, None)
    rankings = {
        query.query_id: outcome.ranking
        for query, outcome in zip(queries, outcomes, strict=True)
        if outcome.status in ("ok", "empty")
    }
    query_quality(dataset.qrels, rankings, measures)
    return len(queries), time.perf_counter() - begin_s


def measured(
    datasets: Sequence[Dataset],
    arms: Sequence[ArmSettings],
    index_folder: Path,
    settings: OracleSettings,
    n_queries: int,
) -> dict[str, tuple[int, float]]:
    """Return each arm's number of queries and seconds over all datasets."""
    totals: dict[str, tuple[int, float]] = {}
    for dataset in datasets:
        states = QueryStates([query.text for query in dataset.queries[:n_queries]])
        for arm in arms:
            if arm.only is not None and dataset.name not in arm.only:
                continue
            n, seconds = quality_pass_s(dataset, arm, index_folder, settings, n_queries, states)
            identity = spec_of(arm).identity
            done, spent_s = totals.get(identity, (0, 0.0))
            totals[identity] = (done + n, spent_s + seconds)
            print(f"{dataset.name:24} {identity:24} {n / seconds:9.1f} queries/s", flush=True)
    return totals


def figures(totals: Mapping[str, tuple[int, float]]) -> dict[str, Any]:
    """Return queries per second by arm, and of the four text arms together."""
    found: dict[str, Any] = {
        f"{arm}_queries_per_s": round(queries / seconds, 1)
        for arm, (queries, seconds) in totals.items()
    }
    if all(arm in totals for arm in FOUR_ARMS):
        per_query_s = sum(totals[arm][1] / totals[arm][0] for arm in FOUR_ARMS)
        found["four_arms_queries_per_s"] = round(1 / per_query_s, 1)
        found["four_arms_rankings_per_s"] = round(len(FOUR_ARMS) / per_query_s, 1)
    return found


def arguments() -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("run", nargs="?", type=Path, default=RECIPE)
    parser.add_argument("--datasets", nargs="*", help="default: all of the run's")
    parser.add_argument("--queries", type=int, default=500, help="at most, per dataset")
    parser.add_argument("--threads", type=int, help="default: OMP_NUM_THREADS, or every core")
    return parser.parse_args()


def main() -> None:
    """Time every arm on every dataset and write the result."""
    import l2r

    given = arguments()
    run = l2r.read_run(given.run)
    wanted = [one for one in run.corpus if not given.datasets or one.dataset_name in given.datasets]
    here = [one for one in wanted if one.format != "beir" or one.path.is_dir()]
    for one in wanted:
        if one not in here:
            print(f"left out, not on this machine: {one.dataset_name}", file=sys.stderr)
    if not here:
        sys.exit("none of the run's datasets is on this machine; name a run of your own")
    datasets = l2r.read_datasets(run.model_copy(update={"corpus": tuple(here)}))
    index_folder = run.output / "index"
    build_indexes(datasets, run.arms, index_folder, ConsoleProgress())
    threads = resolve_threads(given.threads)
    with fixed_threads(threads):
        totals = measured(datasets, run.arms, index_folder, run.oracle, given.queries)
    found = figures(totals)
    print(*(f"{key} = {value}" for key, value in found.items()), sep="\n")
    about = {
        "datasets": [one.name for one in datasets],
        "batch_size": run.oracle.batch_size,
        "queries_per_dataset_at_most": given.queries,
        "threads": threads,
        "load_average": round(os.getloadavg()[0], 2),
    }
    print(write_result("oracle_throughput", {**found, **about}))


if __name__ == "__main__":
    main()
