"""The whole audit of a labels folder, and of a router trained on it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from analysis.audit.baselines import check_baselines
from analysis.audit.claims import claims_of
from analysis.audit.documents import check_documents, seen_documents
from analysis.audit.findings import Findings, Objection, joined
from analysis.audit.latency import check_latency, timed_queries
from analysis.audit.measures import check_measures
from analysis.audit.splits import check_splits
from analysis.bootstrap import Resamples
from analysis.decided import join_decisions
from analysis.decision_codes import FOLDS, TEST, read_decision_batches
from analysis.evaluation import evaluate_queries
from analysis.facts import read_router_record
from analysis.markdown import escape, markdown_table
from analysis.results import score_all
from analysis.roles import BEST_STATIC
from analysis.storage import mapping
from analysis.table import Table, write_csv
from arms.atomic import atomic_folder
from oracle.labels import Labels, TextArray, read_labels
from router.decisions import read_decisions
from router.policy_names import ROUTER

DECISIONS = "decisions.parquet"
RECORD = "audit.json"
CLEAN = "Nothing that these checks look for."


@dataclass(frozen=True)
class Audit:
    """What was found, in the order of the checks."""

    labels: Path
    router: Path | None
    evaluated: str
    """Which queries the claims are about."""
    findings: Findings

    @property
    def objections(self) -> tuple[Objection, ...]:
        """What a reviewer would object to."""
        return self.findings.objections


def audit(
    labels_folder: Path,
    router_folder: Path | None = None,
    n_resamples: int = 2000,
    confidence: float = 0.95,
    seed: int = 42,
) -> Audit:
    """Check measures, splits and latencies of the labels, and the claims of a router.

    Claims are checked on folds where the decisions hold any, as they have the most queries, and on
    the test split otherwise.

    Args:
        labels_folder: labels, or a release of them.
        router_folder: what ``l2r train`` wrote from them; None: the labels alone are checked.
        n_resamples: of the paired bootstrap.
        confidence: of its intervals.
        seed: of the resamples.

    Raises:
        LabelsError: the labels are absent, unfinished or damaged.
        RouterError: the decisions are absent or of other labels.
    """
    labels = read_labels(labels_folder)
    parts = [check_measures(labels_folder, labels)]
    is_test = labels.splits == "test"
    sides = np.where(is_test, "test", "train").astype(object)
    parts.append(check_splits(labels, sides, is_test, "test split"))
    timed, modelled_share = timed_queries(labels_folder, labels)
    if router_folder is None:
        parts.append(check_latency(modelled_share, timed, ()))
        return Audit(labels_folder, None, "no claims: no router was given", joined(parts))
    path = router_folder / DECISIONS
    decided = join_decisions(read_decision_batches(path), labels)
    name = FOLDS if len(decided.label_rows(FOLDS)) else TEST
    rows = decided.label_rows(name)
    if name == FOLDS:
        sides = fold_of_each(path, labels)
        held_out = sides != ""
        parts.append(check_splits(labels, sides, held_out, "folds"))
    evaluation = evaluate_queries(labels, rows, name, labels.router_arms)
    scores = score_all(labels, decided, evaluation, decided.lams)
    resamples = Resamples(len(evaluation), n_resamples, seed)
    claims = claims_of(scores.outcomes, BEST_STATIC)
    parts.append(check_latency(modelled_share, timed[evaluation.label_rows], claims))
    record = read_router_record(router_folder)
    default = str(mapping(record.get("defaults")).get("select", ROUTER))
    parts.append(check_baselines(scores.outcomes, default, resamples, confidence))
    seen = seen_documents(labels, sides)
    here = None if seen is None else seen[evaluation.label_rows]
    parts.append(check_documents(claims, here, resamples, confidence))
    told = {FOLDS: f"folds, {len(evaluation):,} queries", TEST: f"test split, {len(evaluation):,}"}
    return Audit(labels_folder, router_folder, told[name], joined(parts))


def fold_of_each(decisions: Path, labels: Labels) -> TextArray:
    """(Q,) the fold in which each query was held out; empty where in none."""
    table = read_decisions(decisions)
    splits = table["split"].to_pylist()
    keys = zip(table["dataset"].to_pylist(), table["query_id"].to_pylist(), splits, strict=True)
    fold_of = {(dataset, query): split for dataset, query, split in keys if split.startswith("cv")}
    queries = zip(labels.datasets.tolist(), labels.query_ids.tolist(), strict=True)
    return np.array([fold_of.get(key, "") for key in queries], dtype=object)


def write_audit(audited: Audit, folder: Path) -> Path:
    """Write ``audit.md`` and a CSV per table into ``folder``, replaced as a whole."""
    with atomic_folder(folder) as temporary:
        for table in audited.findings.tables:
            path = temporary / f"{table.name}.csv"
            path.write_text(write_csv(table), encoding="utf-8", newline="")
        (temporary / "audit.md").write_text(audit_text(audited), encoding="utf-8")
    return folder / "audit.md"


def audit_text(audited: Audit) -> str:
    """Return the audit as Markdown: objections first, then what was checked, then the tables."""
    objections = [f"{n}. {escape(one.sentence)}" for n, one in enumerate(audited.objections, 1)]
    parts = [
        "# Audit",
        escape(f"Labels: {audited.labels}. Router: {audited.router or 'none given'}."),
        escape(f"Claims are checked on: {audited.evaluated}."),
        "## What a reviewer would object to",
        "\n".join(objections) or CLEAN,
        "## What was checked",
        "\n".join(f"- {escape(one)}" for one in audited.findings.remarks),
        *(_table(one) for one in audited.findings.tables),
    ]
    return "\n\n".join(parts) + "\n"


def _table(table: Table) -> str:
    shown = [markdown_table(table)] if table.shown_rows else []
    note = [escape(table.note)] if table.note else []
    return "\n\n".join([f"## {escape(table.title)}", *shown, *note, f"All rows: {table.name}.csv"])
