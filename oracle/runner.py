"""The oracle: every arm of every dataset on every query, resumable at any moment."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import pyarrow.parquet as pq

from arms.catalogue import build_arm, kind_of, missing_packages, spec_of
from arms.corpora.corpus import Dataset
from arms.errors import LabelsError, RoutingError, SettingsError
from arms.progress import Progress, SilentProgress
from arms.settings import ArmSettings
from arms.sole_writer import sole_writer
from oracle.assemble import assemble
from oracle.collisions import check_collisions
from oracle.labels import MANIFEST, read_manifest
from oracle.plan import OracleJob, Unit, digest_of, index_source, job_digest, plan_units
from oracle.quality import measure_names
from oracle.settings import OracleSettings
from oracle.shared_terms import warn_of_strangers
from oracle.split import query_groups
from oracle.tables import GRADE, GROUP_COLUMNS, RELEVANT_GRADES, RELEVANT_IDS, damage_of
from oracle.work import OpenArms, run_unit

_log = logging.getLogger(__name__)

_FILES = ("labels", "queries", "runs", "latency_samples", "failures", "best_arms")


def run_oracle(
    datasets: Sequence[Dataset],
    arms: Sequence[ArmSettings],
    index_folder: Path,
    labels_folder: Path,
    settings: OracleSettings | None = None,
    seed: int = 42,
    progress: Progress | None = None,
) -> bool:
    """Build absent indexes, rank, time, and write ``labels_folder``; return whether work was done.

    Labels of the same datasets, arms, settings and seed are left as they are. Otherwise every unit
    of work that still matches is kept (under ``.units/``, which may be deleted once the labels are
    complete) and the rest is done, so a run that was killed continues.

    Raises:
        SettingsError: with every problem of the settings, before anything costly begins.
        MissingExtraError, CorpusError, ArmIndexError: an index can't be built or opened.
        FolderInUseError: another process writes these labels, or an index of theirs.
    """
    job = OracleJob(
        tuple(datasets),
        tuple(arms),
        index_folder,
        labels_folder,
        settings or OracleSettings(),
        seed,
    )
    check_job(job)
    if is_complete(job):
        return False
    shown = progress or SilentProgress()
    with sole_writer(labels_folder):
        build_indexes(datasets, arms, index_folder, shown)
        units = plan_units(job)
        run_units(units, job, shown)
        assemble(job, units, shown)
    return True


def build_indexes(
    datasets: Sequence[Dataset],
    arms: Sequence[ArmSettings],
    index_folder: Path,
    progress: Progress | None = None,
) -> None:
    """Build every arm's index over every dataset that has it; whole ones are left as they are.

    A warning tells where an index that goes by words has none of the words of most queries.

    Raises:
        SettingsError: two arms, or parts of arms, would fill one folder with different indexes.
    """
    check_collisions(datasets, arms)
    for dataset in datasets:
        for arm in arms:
            if arm.only is None or dataset.name in arm.only:
                build_arm(spec_of(arm), dataset.corpus, index_folder / dataset.name, progress)
    warn_of_strangers(datasets, arms, index_folder)


def run_units(units: Sequence[Unit], job: OracleJob, progress: Progress) -> None:
    """Do the units in order, in this process, with a bar per dataset and pass."""
    opened = OpenArms(job)
    for kind, doing in (("rank", "rank"), ("latency", "time")):
        for dataset in job.datasets:
            mine = [one for one in units if one.kind == kind and one.dataset == dataset.name]
            total = sum(len(one.positions) * len(one.arms) for one in mine)
            if all(one.path(job.labels_folder).is_file() for one in mine):
                continue
            with progress.task(f"{doing} {dataset.name}", total=total) as bar:
                for unit in mine:
                    run_unit(unit, job, opened, bar.advance)


def is_complete(job: OracleJob) -> bool:
    """Whether the labels folder holds complete labels of exactly this job, every page readable.

    Where an index is there, it must be made from what the labelled one was made from. Damaged files
    are named in a warning.
    """
    folder = job.labels_folder
    try:
        manifest = read_manifest(folder)
    except LabelsError as error:
        if (folder / MANIFEST).is_file():
            _log.warning("%s: writing the labels again", str(error).partition(";")[0])
        return False
    if manifest.get("job_digest") != job_digest(job):
        return False
    damaged = {
        path: damage
        for path in (folder / f"{name}.parquet" for name in _FILES)
        if (damage := damage_of(path))
    }
    if damaged:
        named = "".join(f"\n  {path}: {damage}" for path, damage in damaged.items())
        _log.warning("complete labels have damaged files; writing the labels again:%s", named)
        return False
    wanted = {"runs": [GRADE], "queries": [*GROUP_COLUMNS, RELEVANT_GRADES, RELEVANT_IDS]}
    for name, columns in wanted.items():
        if set(columns) - set(pq.read_schema(folder / f"{name}.parquet").names):
            return False  # written before there were such columns; every unit of work is done
    for dataset in job.datasets:
        for arm in job.arms_of(dataset.name):
            source = index_source(job, dataset.name, arm)
            labelled = manifest["datasets"][dataset.name]["arms"][arm]["index_source"]
            if source is not None and digest_of(source) != labelled:
                return False
    return True


def check_job(job: OracleJob) -> None:
    """Raise ``SettingsError`` with every problem that can be seen before anything runs."""
    problems: list[str] = []
    for check in (
        _check_datasets,
        _check_split,
        _check_arms,
        _check_router_arms,
        _check_measures,
    ):
        try:
            problems += check(job)
        except RoutingError as error:
            problems.append(str(error))
    if problems:
        raise SettingsError("\n".join(problems))


def _check_datasets(job: OracleJob) -> list[str]:
    names = [dataset.name for dataset in job.datasets]
    problems = [] if names else ["there is no dataset; name at least one under 'corpus'"]
    problems += [
        f"{names.count(name)} datasets are called '{name}'; give each its own name"
        for name in sorted(set(names))
        if names.count(name) > 1
    ]
    for dataset in job.datasets:
        unjudged = [one.query_id for one in dataset.queries if not dataset.qrels.get(one.query_id)]
        if unjudged:
            problems.append(
                f"{dataset.name}: {len(unjudged)} queries have no judgement, e.g. "
                f"{', '.join(unjudged[:3])}; judge them, or drop them with strict: false"
            )
        if not dataset.queries:
            problems.append(f"{dataset.name}: there is no judged query to label")
    return problems


def _check_split(job: OracleJob) -> list[str]:
    groups = Counter(
        group for of_query in query_groups(job.datasets).values() for group in of_query.values()
    )
    if len(groups) != 1:
        return []
    return [
        f"the queries ({groups.total()}) all have the same text, so none can be held out for "
        "testing: judge at least two queries of different text (l2r queries makes some)"
    ]


def _check_arms(job: OracleJob) -> list[str]:
    identities = [spec_of(one).identity for one in job.arms]
    problems = [] if identities else ["there is no arm; name at least one under 'arms'"]
    problems += [
        f"{identities.count(one)} arms are called '{one}'; options aren't part of an arm's name: "
        "keep one, or give the others a 'name:' each"
        for one in sorted(set(identities))
        if identities.count(one) > 1
    ]
    names = {dataset.name for dataset in job.datasets}
    for one in job.arms:
        absent = sorted(set(one.only or ()) - names)
        if absent:
            problems.append(
                f"arm '{one.arm}' is only for {', '.join(absent)}, which this run doesn't have; "
                f"its datasets: {', '.join(sorted(names))}"
            )
        kind = kind_of(one.arm)
        missing = missing_packages(kind, one.encoder)
        if missing:
            problems.append(
                f"arm '{one.arm}' needs {', '.join(missing)}, not installed. "
                f"Run: pip install 'learning-to-route[{kind.extra}]'"
            )
    return problems


def _check_router_arms(job: OracleJob) -> list[str]:
    absent = [arm for arm in job.settings.router_arms or () if arm not in job.specs]
    if not absent:
        return []
    return [f"router_arms has {', '.join(absent)}; this run's arms: {', '.join(job.specs)}"]


def _check_measures(job: OracleJob) -> list[str]:
    measure_names(job.settings.measures, job.settings.k)
    return []
