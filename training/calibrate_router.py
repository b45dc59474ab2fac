"""Calibrate a finished router on labels: what ``l2r calibrate`` does."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np

from arms.errors import LabelsError, RouterError
from arms.progress import Progress, SilentProgress
from arms.sole_writer import writes
from oracle.labels import read_labels
from router.artifact import RouterRecord, policy_folder, read_router, update_record
from router.calibration import Calibration
from router.overhead import measure_overhead
from router.policies import load_policy
from router.policy import Policy, PolicyInputs
from training.calibrating import POINTS, HeldOut, calibrate_policy, lam_ranges, realised_by
from training.labels_hash import labels_hash
from training.recorded_runs import RecordedRuns
from training.reused_encoding import reusable_encode_ms
from training.table import RoutingTable, Texts, routing_table

_TIMED_QUERIES = 50


@writes("router_folder")
def calibrate_router(
    router_folder: Path,
    labels_folder: Path,
    policy_name: str | None = None,
    split: str = "val",
    texts: Texts | None = None,
    progress: Progress | None = None,
) -> Calibration:
    """Measure a policy of the router on held-out labels, and keep the curve in ``router.json``.

    Policies that take any λ are measured over a grid that is finest where the latency changes;
    others at the λ they were trained for. The overhead is the one measured in training.

    Args:
        router_folder: what ``l2r train`` wrote.
        labels_folder: labels that have all of the router's arms.
        policy_name: default: the one that ``select`` asks.
        split: ``val``, or ``test`` where the curve is to be reported rather than relied on.
        texts: (dataset, query id) → text, for labels that hold none.
        progress: where a bar is drawn.

    Raises:
        RouterError: the router is unusable or has no such policy.
        LabelsError: the labels are unusable, lack an arm or a text, have no query in ``split``,
            or the policy probes and the labels hold no rankings.
    """
    record = read_router(router_folder)
    name = policy_name or record.defaults.select
    if name not in record.policies:
        raise RouterError(f"this router has the policies {', '.join(record.policies)}; got {name}")
    policy = load_policy(policy_folder(router_folder, name))
    held_out, known = open_held_out(policy, labels_folder, split, texts)
    overhead_ms = overheads_ms(record, policy, held_out.action, known)
    total = len(policy.lams) if policy.lams else POINTS
    with (progress or SilentProgress()).task("calibrating", total=total) as task:
        found = calibrate_policy(
            realised_by(policy, held_out, overhead_ms, known),
            policy.lams,
            held_out,
            record.lams,
            task,
            steps=lam_ranges(policy),
        )
    update_record(router_folder, replace(record, calibration={**record.calibration, name: found}))
    return found


def open_held_out(
    policy: Policy, labels_folder: Path, split: str, texts: Texts | None = None
) -> tuple[HeldOut, PolicyInputs]:
    """Return the comparable queries of ``split``, and what is known of them at every λ.

    Raises:
        LabelsError: the policy probes, and the labels hold no rankings; or they hold no texts.
    """
    labels = read_labels(labels_folder)
    if labels.texts is None and texts is None:
        raise LabelsError(
            f"{labels_folder} holds no query texts, and a policy decides by them; calibrate on the "
            "labels that l2r oracle wrote, or on a release made with --text keep"
        )
    action = routing_table(labels, policy.arms, texts)
    every = routing_table(labels, labels.pipelines, texts)
    rows = np.flatnonzero((action.splits == split) & action.comparable & every.comparable)
    reusable = None
    if policy.queries is not None:
        encoder = policy.queries.load(policy.device)
        reusable = reusable_encode_ms(labels_folder, labels, every, encoder)[rows]
    runs, probed = RecordedRuns.beside(labels_folder, labels), None
    if policy.probes:
        if runs is None:
            raise LabelsError(
                f"the policy '{policy.name}' looks at what {', '.join(policy.probes)} find, and "
                "the labels hold no rankings (runs.parquet); give labels with rankings"
            )
        probed = runs.probed(policy.probes, rows, every, policy.probe_depth)
    held_out = HeldOut(
        split,
        action.rows(rows),
        every.rows(rows),
        labels_hash(labels_folder),
        reusable,
        runs,
        rows,
    )
    frozen = policy.frozen_encoder() is not None and len(rows) > 0
    embeddings = policy.embed(held_out.action.texts.tolist(), 0.0) if frozen else None
    known = PolicyInputs(embeddings=embeddings, probed=probed, competes=held_out.action.competes)
    return held_out, known


def overheads_ms(
    record: RouterRecord, policy: Policy, table: RoutingTable, known: PolicyInputs
) -> dict[int, float]:
    """:meth:`Policy.overhead_key` → milliseconds of deciding.

    As training measured it, where there is one cost; else medians over some held-out queries.
    """
    lams = policy.overhead_keys()
    recorded = record.overhead_ms.get(policy.name)
    if len(lams) == 1 and recorded is not None:
        return dict.fromkeys(lams, recorded)
    if not len(table):
        return dict.fromkeys(lams, 0.0)
    found = {}
    for cost, lam in lams.items():
        probed = None
        if known.probed is not None:
            run = policy.probes_at(lam)
            probed = {a: one[:_TIMED_QUERIES] for a, one in known.probed.items() if a in run}
        queries = table.texts[:_TIMED_QUERIES].tolist()
        timed = measure_overhead(policy, queries, lam, probed=probed)
        found[cost] = float(np.median(timed))
    return found
