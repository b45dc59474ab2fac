"""Folds that keep queries with a relevant document in common together.

A policy that knows which documents were relevant to training queries is at its best where new
queries ask for the same documents. Ordinary folds are such a place: most relevant documents of a
fold were relevant to queries outside it. Decided once more on folds that share no document, it
shows what is left where new questions concern documents that nobody asked about.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from oracle.groups import groups_in_force
from oracle.labels import Labels
from router.policy import Policy
from training.folds import check_folds, fold_of_queries
from training.learners import learners_of
from training.settings import TrainingSettings
from training.table import RoutingTable


def document_folds(
    labels: Labels, action: RoutingTable, settings: TrainingSettings
) -> NDArray[np.intp] | None:
    """(Q,) the fold of each query; None where there are to be none.

    That is where the settings say so, where judgements are unknown throughout, and, with ``auto``,
    where the groups in force are those already or nothing is cross-validated.

    Raises:
        SettingsError: some of the folds would be empty.
    """
    auto = settings.document_folds == "auto"
    folds = settings.cross_validation_folds if auto else int(settings.document_folds)
    force = groups_in_force(labels.groupings, "document")
    known = set(labels.datasets.tolist()) - set(force.fallbacks)
    same = bool((force.groups == action.split_groups).all())
    if folds < 2 or not known or (auto and same):
        return None
    grouped = replace(action, split_groups=force.groups)
    if auto:
        folds = min(folds, len(set(force.groups.tolist())))
    check_folds(grouped, folds, "training.document_folds")
    return fold_of_queries(grouped, folds, settings.seed)


def decided_again(
    learned: Mapping[str, Policy], defaults: Collection[str], settings: TrainingSettings
) -> tuple[str, ...]:
    """Names of the policies that are fitted anew in document folds, as learners are listed.

    Those that learn about documents, and beside them ``defaults`` (what ``router`` asks among them)
    and those that run one set of arms for all queries, to measure them against; none where none
    learns about documents.
    """
    if not any(policy.learns_documents for policy in learned.values()):
        return ()
    found = {
        name
        for name, policy in learned.items()
        if policy.learns_documents or not policy.query_dependent
    }
    wanted = found | set(defaults)
    return tuple(one.name for one in learners_of(settings) if one.name in wanted)


def split_warnings(labels: Labels, learned: Mapping[str, Policy]) -> list[str]:
    """A sentence where policies that learn about documents were tested on documents they know."""
    names = [name for name, policy in learned.items() if policy.learns_documents]
    force = groups_in_force(labels.groupings, labels.split_by)
    loose = [
        name for name in sorted(set(labels.datasets.tolist())) if force.used(name) != "document"
    ]
    if not names or not loose:
        return []
    where = "" if len(loose) == len(set(labels.datasets.tolist())) else f" of {', '.join(loose)}"
    return [
        f"{', '.join(names)}: what they know of documents that earlier questions asked for is in "
        f"the figures of the test split{where}, which shares documents with training; new "
        "questions about documents that nobody asked about are answered worse than those figures "
        "say: see the report's document split, or split by document (oracle.split.by)"
    ]
