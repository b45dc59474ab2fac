"""Finished units of work become a labels folder; the manifest is written last."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import chain
from typing import Any

import numpy as np
import pyarrow as pa

from arms.atomic import write_json
from arms.catalogue import kind_of
from arms.progress import Progress, SilentProgress
from oracle.best_arm import best_arms
from oracle.collect import TIMES, Collected, collect, made_on, memory_bytes, query_backends
from oracle.groups import (
    Groupings,
    GroupsInForce,
    groups_in_force,
    split_entry,
    split_rows,
    suite_groupings,
)
from oracle.hardware import hardware, library_versions, source_commit
from oracle.labels import MANIFEST, SCHEMA_VERSION, SPLIT, Labels
from oracle.page_facts import page_kind, visual_densities
from oracle.plan import UNIT_FOLDER, OracleJob, Unit, digest_of, index_source, job_digest
from oracle.quality import measure_names, relevant_grades_of, relevant_ids_of
from oracle.tables import (
    BEST_ARM_SCHEMA,
    FAILURE_SCHEMA,
    GROUP_COLUMNS,
    PAGE_FIELDS,
    QUERY_SCHEMA,
    RELEVANT_FIELDS,
    RELEVANT_GRADES,
    RELEVANT_IDS,
    RUN_SCHEMA,
    SAMPLE_SCHEMA,
    column,
    label_schema,
    write_table,
)

_QUERY_SCHEMA = pa.schema([*QUERY_SCHEMA, *PAGE_FIELDS, *RELEVANT_FIELDS])


def router_arms(job: OracleJob) -> tuple[str, ...]:
    """Return A in P's order: as set, or every pipeline but late interaction and ``none``."""
    wished = job.settings.router_arms
    if wished is not None:
        return tuple(arm for arm in job.specs if arm in wished)
    return tuple(
        identity for identity, spec in job.specs.items() if kind_of(spec.name).chosen_by_default
    )


def assemble(job: OracleJob, units: Sequence[Unit], progress: Progress | None = None) -> Labels:
    """Write every file of the labels folder from finished units and return the labels.

    The old manifest goes first and the new one comes last, so that a folder with a manifest is
    whole at every moment.

    Raises:
        LabelsError: a unit isn't finished.
    """
    folder = job.labels_folder
    measures = measure_names(job.settings.measures, job.settings.k)
    with (progress or SilentProgress()).task("write labels", total=8) as bar:
        found = [
            collect(job, dataset, [one for one in units if one.dataset == dataset.name], measures)
            for dataset in sorted(job.datasets, key=lambda one: one.name)
        ]
        groupings = suite_groupings(job.datasets)
        force = groups_in_force(groupings, job.settings.split.by)
        manifest = _manifest(job, found, units, measures) | {SPLIT: split_entry(force)}
        labels = _labels(job, found, groupings, force, manifest)
        bar.advance()
        (folder / MANIFEST).unlink(missing_ok=True)
        for name, table, schema in (
            ("labels", _label_table(labels, found), label_schema(measures)),
            ("queries", _query_table(labels, found), _QUERY_SCHEMA),
            ("runs", _run_tables(found), RUN_SCHEMA),
            ("latency_samples", _sample_table(found), SAMPLE_SCHEMA),
            ("failures", _failure_table(found), FAILURE_SCHEMA),
            ("best_arms", best_arms(labels, job.settings.lams), BEST_ARM_SCHEMA),
        ):
            write_table(folder / f"{name}.parquet", table, schema)
            bar.advance()
        write_json(folder / MANIFEST, labels.manifest)
        bar.advance()
    _clear_leftovers(job)
    return labels


def _clear_leftovers(job: OracleJob) -> None:
    """Remove temporary files of writers that were killed."""
    for folder in (job.labels_folder, job.labels_folder / UNIT_FOLDER):
        for path in folder.glob(".*.tmp"):
            path.unlink(missing_ok=True)


def _labels(
    job: OracleJob,
    found: Sequence[Collected],
    groupings: Groupings,
    force: GroupsInForce,
    manifest: dict[str, Any],
) -> Labels:
    keys = [(one.dataset.name, query_id) for one in found for query_id in one.query_ids]
    texts = {
        (dataset.name, query.query_id): query.text
        for dataset in job.datasets
        for query in dataset.queries
    }

    def array(values: Sequence[Any]) -> Any:
        return np.fromiter(values, dtype=object)

    return Labels(
        pipelines=tuple(manifest["pipelines"]),
        router_arms=tuple(manifest["router_arms"]),
        datasets=array([dataset for dataset, _ in keys]),
        query_ids=array([query_id for _, query_id in keys]),
        splits=split_rows(groupings.datasets.tolist(), force, job.settings.split, job.seed),
        text_groups=groupings.query,
        texts=array([texts[key] for key in keys]),
        status=np.concatenate([one.status for one in found]),
        quality={
            name: np.concatenate([one.quality[name] for one in found])
            for name in manifest["measures"]
        },
        latency_ms=np.concatenate([one.times["latency_ms"] for one in found]),
        manifest=manifest,
        relevant_grades=array(
            [
                tuple(relevant_grades_of(one.dataset.qrels[query_id]))
                for one in found
                for query_id in one.query_ids
            ]
        ),
        relevant_ids=array(
            [
                tuple(relevant_ids_of(one.dataset.qrels[query_id]))
                for one in found
                for query_id in one.query_ids
            ]
        ),
        near_duplicate_groups=groupings.near_duplicate,
        document_groups=groupings.document,
    )


def _label_table(labels: Labels, found: Sequence[Collected]) -> pa.Table:
    """One row per query and pipeline: by dataset, query id, and pipeline in P's order."""
    schema = label_schema(tuple(labels.quality))
    n_arms = len(labels.pipelines)

    def gathered(name: str) -> Any:
        return np.concatenate([one.times[name] for one in found]).reshape(-1)

    values: dict[str, Any] = {
        "dataset": np.repeat(labels.datasets, n_arms),
        "query_id": np.repeat(labels.query_ids, n_arms),
        "split": np.repeat(labels.splits, n_arms),
        "arm": np.tile(np.array(labels.pipelines, dtype=object), len(labels.query_ids)),
        "status": labels.status.reshape(-1),
        **{name: quality.reshape(-1) for name, quality in labels.quality.items()},
        **{name: gathered(name) for name in TIMES},
        "latency_modelled": np.concatenate([one.modelled for one in found]).reshape(-1),
        "repeats": np.concatenate([one.repeats for one in found]).reshape(-1),
    }
    return pa.table({field.name: column(values[field.name], field.type) for field in schema})


def _query_table(labels: Labels, found: Sequence[Collected]) -> pa.Table:
    by_id = [{query.query_id: query for query in one.dataset.queries} for one in found]
    densities = [visual_densities(one.dataset, one.query_ids) for one in found]
    return pa.table(
        {
            "dataset": labels.datasets.tolist(),
            "query_id": labels.query_ids.tolist(),
            "split": labels.splits.tolist(),
            **{
                name: groups.tolist()
                for name, groups in zip(GROUP_COLUMNS, labels.groupings.columns, strict=True)
            },
            "text": [] if labels.texts is None else labels.texts.tolist(),
            "visual_density": list(chain.from_iterable(densities)),
            "page_kind": [
                page_kind(queries[query_id])
                for one, queries in zip(found, by_id, strict=True)
                for query_id in one.query_ids
            ],
            RELEVANT_GRADES: [] if labels.relevant_grades is None else list(labels.relevant_grades),
            RELEVANT_IDS: [] if labels.relevant_ids is None else list(labels.relevant_ids),
        },
        schema=_QUERY_SCHEMA,
    )


def _run_tables(found: Sequence[Collected]) -> Iterator[pa.Table]:
    """One table per dataset: by query id, pipeline in P's order, rank."""
    for one in found:
        if not one.runs:
            continue
        joined = pa.concat_tables(one.runs)  # by arm, query, rank
        joined = joined.take(np.argsort(joined["query"].to_numpy(), kind="stable"))
        query_ids = pa.array(one.query_ids, pa.string())
        arms = pa.array(one.pipelines, pa.string())
        yield pa.table(
            {
                "dataset": pa.repeat(one.dataset.name, len(joined)),
                "query_id": query_ids.take(joined["query"].combine_chunks()),
                "arm": arms.take(joined["arm"].combine_chunks()),
                "rank": joined["rank"],
                "doc_id": joined["doc_id"],
                "score": joined["score"],
                "grade": joined["grade"],
            }
        )


def _sample_table(found: Sequence[Collected]) -> pa.Table:
    rows = [
        (one.dataset.name, one.query_ids[query], one.pipelines[arm], repeat, latency_ms)
        for one in found
        for query, arm, samples in one.samples
        for repeat, latency_ms in enumerate(samples)
    ]
    return _table(rows, SAMPLE_SCHEMA)


def _failure_table(found: Sequence[Collected]) -> pa.Table:
    rows = [
        (one.dataset.name, one.query_ids[query], one.pipelines[arm], *rest)
        for one in found
        for query, arm, *rest in one.failures
    ]
    return _table(rows, FAILURE_SCHEMA)


def _table(rows: Sequence[tuple[Any, ...]], schema: pa.Schema) -> pa.Table:
    columns = list(zip(*rows, strict=True)) or [()] * len(schema.names)
    return pa.table(dict(zip(schema.names, columns, strict=True)), schema=schema)


def _manifest(
    job: OracleJob, found: Sequence[Collected], units: Sequence[Unit], measures: Sequence[str]
) -> dict[str, Any]:
    config = {
        "oracle": job.settings.model_dump(mode="json"),
        "arms": [one.model_dump(mode="json") for one in job.arms],
        "datasets": sorted(one.name for one in job.datasets),
        "seed": job.seed,
    }
    measured = [json.loads(one) for one in made_on(job, units)]
    return {
        "schema_version": SCHEMA_VERSION,
        "pipelines": list(job.specs),
        "router_arms": list(router_arms(job)),
        "measures": list(measures),
        "config": config,
        "config_hash": digest_of(config),
        "job_digest": job_digest(job),
        "seed": job.seed,
        "lams": list(job.settings.lams),
        "concurrency": 1,
        "threads": sorted({one["threads"] for one in measured if "threads" in one}),
        "hardware": hardware(),
        "latency_measured_on": measured,
        "library_versions": library_versions(),
        "commit": source_commit(),
        "datasets": {one.dataset.name: _dataset_entry(job, one, units) for one in found},
    }


def _dataset_entry(job: OracleJob, found: Collected, units: Sequence[Unit]) -> dict[str, Any]:
    name = found.dataset.name
    held, backends = memory_bytes(job, units, name), query_backends(job, units, name)
    arms: dict[str, Any] = {}
    for place, arm in enumerate(found.pipelines):
        record = job.index_record(name, arm) or {}
        record.pop("files", None)  # hashes serve who opens the index
        arms[arm] = {
            "status": dict(sorted(Counter(found.status[:, place].tolist()).items())),
            "latency_stated": found.stated.get(arm, 0),
            "latency_modelled": int(found.modelled[:, place].sum()),
            "index": {**record, "memory_bytes": held.get(arm)} if record else record,
            "query_backends": backends.get(arm, {}),
            "index_source": digest_of(index_source(job, name, arm)),
        }
    return {
        "corpus_fingerprint": found.dataset.corpus.fingerprint,
        "n_documents": len(found.dataset.corpus),
        "n_queries": len(found.query_ids),
        "dropped": dict(found.dataset.dropped),
        "without_own_document": len(found.dataset.without_own),
        "arms": arms,
    }
