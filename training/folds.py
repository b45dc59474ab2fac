"""Grouped cross-validation folds: queries of one group in force always share a fold."""

from __future__ import annotations

import hashlib

import numpy as np
from numpy.typing import NDArray

from arms.errors import SettingsError
from training.table import RoutingTable


def _shuffled(groups: set[str], seed: int) -> list[str]:
    """Order groups by a hash, so that adding a query never reshuffles the others."""
    return sorted(
        groups, key=lambda group: (hashlib.sha256(f"{seed}:{group}".encode()).digest(), group)
    )


def check_folds(
    table: RoutingTable, folds: int, setting: str = "training.cross_validation_folds"
) -> None:
    """Raise ``SettingsError`` that names ``setting`` where some of the folds would be empty."""
    groups = len(set(table.split_groups.tolist()))
    if folds > groups:
        raise SettingsError(
            f"{setting} is {folds}, and the labels have {groups} groups of "
            "queries that are never parted; lower it (0: no cross-validation), label more "
            "queries, or set training.split to a looser one"
        )


def fold_of_queries(table: RoutingTable, folds: int, seed: int) -> NDArray[np.intp]:
    """(Q,) fold of each query, from 0: groups dealt in turn within each dataset.

    A group that occurs in several datasets is dealt with the first of them, by name. Dealing goes
    on where the dataset before stopped, so that many small datasets still fill all folds evenly.
    """
    fold_of: dict[str, int] = {}
    for dataset in sorted(set(table.datasets)):
        groups = set(table.split_groups[table.datasets == dataset]) - set(fold_of)
        for group in _shuffled(groups, seed):
            fold_of[group] = len(fold_of) % folds
    return np.array([fold_of[group] for group in table.split_groups], dtype=np.intp)


def held_out_share(table: RoutingTable, share: float, seed: int) -> NDArray[np.bool_]:
    """(Q,) True for about ``share`` of the groups: the inner validation set of one fold."""
    return fold_of_queries(table, max(2, round(1 / share)), seed) == 0
