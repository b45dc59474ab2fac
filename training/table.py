"""Oracle labels as training sees them: texts, and quality and latency over one set of arms."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from arms.catalogue import find_kind
from arms.errors import LabelsError
from arms.reward import BoolArray, FloatArray, normalised_latency, reward, total_latency
from oracle.groups import groups_in_force
from oracle.labels import Labels, TextArray, labelled_arms
from oracle.settings import SplitBy

Texts = Mapping[tuple[str, str], str]
"""(dataset, query id) → query text, for labels that were published without it."""
_RECIPROCAL_RANK = re.compile(r"M?RR\b")
_AT_ONE = re.compile(r"(P|R|Success|nDCG)(\(.*\))?@1$")


@dataclass(frozen=True)
class RoutingTable:
    """Q queries (rows) × the arms of one declared set (columns), in the labels' order."""

    arms: tuple[str, ...]
    datasets: TextArray
    query_ids: TextArray
    splits: TextArray
    text_groups: TextArray
    """(Q,) equal for queries of equal text."""
    split_groups: TextArray
    """(Q,) the groups in force: queries of one group share a fold, and none of them learns from
    another's judgements. Never finer than ``text_groups``."""
    texts: TextArray
    quality: FloatArray
    """(Q, arms) the primary measure; NaN where the arm failed or isn't there."""
    latency_ms: FloatArray
    """(Q, arms) NaN where the arm failed or isn't there."""
    competes: BoolArray
    """(Q, arms) False where the query's dataset lacks the arm."""
    comparable: BoolArray
    """(Q,) True where at least one arm competes and none of them ended in error or timeout."""
    relevant_first: BoolArray | None = None
    """(Q, arms) True where the arm ranked a relevant result first; None where no measure tells."""
    first_measure: str | None = None
    """What told: ``RR@5 = 1``, say."""
    pipelines: Mapping[str, str] = field(default_factory=dict)
    """Arm → its pipeline's name in the catalogue, where the labels tell."""
    history_groups: TextArray | None = None
    """(Q,) queries of one group are told nothing of each other's judgements when models learn to
    read the history of documents: ``split_groups``, but never coarser than near-duplicates, as
    nothing could be learned of documents that no two groups share. None: ``split_groups``."""

    def __len__(self) -> int:
        return len(self.query_ids)

    def rows(self, wanted: BoolArray | NDArray[np.intp]) -> RoutingTable:
        """Return the wanted rows, in the order given."""
        return RoutingTable(
            arms=self.arms,
            datasets=self.datasets[wanted],
            query_ids=self.query_ids[wanted],
            splits=self.splits[wanted],
            text_groups=self.text_groups[wanted],
            split_groups=self.split_groups[wanted],
            texts=self.texts[wanted],
            quality=self.quality[wanted],
            latency_ms=self.latency_ms[wanted],
            competes=self.competes[wanted],
            comparable=self.comparable[wanted],
            relevant_first=None if self.relevant_first is None else self.relevant_first[wanted],
            first_measure=self.first_measure,
            pipelines=self.pipelines,
            history_groups=None if self.history_groups is None else self.history_groups[wanted],
        )

    def pipeline_of(self, arm: str) -> str:
        """Return the name of an arm's pipeline: as told, else its own without view and encoder."""
        return self.pipelines.get(arm) or arm.split("@")[0].split("#")[0]

    def is_run(self, arm: str) -> bool:
        """Whether it searches when asked; so does an arm that the catalogue doesn't know."""
        kind = find_kind(self.pipeline_of(arm))
        return kind is None or kind.searches

    def may_be_probe(self, arm: str) -> bool:
        """Whether it searches, and doesn't merely fuse what other arms find."""
        kind = find_kind(self.pipeline_of(arm))
        return self.is_run(arm) and not (kind and kind.fuses)

    def rewards(self, lam: float) -> FloatArray:
        """(Q, arms) Equation 1, latency normalised over this table's arms; NaN where masked."""
        return reward(self.quality, normalised_latency(self.latency_ms, self.competes), lam)

    def total_latency_ms(self) -> FloatArray:
        """(Q,) the sum over this table's arms that compete: what latency is normalised by."""
        return total_latency(self.latency_ms, self.competes)

    def mean_latency_ms(self) -> FloatArray:
        """(arms,) mean over comparable queries; infinite for an arm that never answered."""
        seen = self.competes & self.comparable[:, None]
        total = np.where(seen, self.latency_ms, 0.0).sum(axis=0)
        count = seen.sum(axis=0)
        return np.divide(total, count, out=np.full(len(self.arms), np.inf), where=count > 0)


def routing_table(
    labels: Labels,
    arms: Sequence[str],
    texts: Texts | None = None,
    split: SplitBy | None = None,
) -> RoutingTable:
    """Cut the labels down to ``arms``, with each query's text attached.

    ``split``: which groups are in force; default: those that the labels' split was made by.

    Raises:
        LabelsError: an arm isn't in the labels, or a query's text is nowhere to be found.
    """
    columns = labels.columns_of(arms)
    competes = labels.available(arms)
    by: SplitBy = split or labels.split_by
    asked_by: SplitBy = "near_duplicate" if by == "document" else by
    relevant_first, first_measure = _relevant_first(labels)
    return RoutingTable(
        arms=tuple(arms),
        datasets=labels.datasets,
        query_ids=labels.query_ids,
        splits=labels.splits,
        text_groups=labels.text_groups,
        split_groups=groups_in_force(labels.groupings, by).groups,
        texts=_texts_of(labels, texts),
        quality=np.where(competes, labels.quality[labels.primary_measure][:, columns], np.nan),
        latency_ms=np.where(competes, labels.latency_ms[:, columns], np.nan),
        competes=competes,
        comparable=labels.comparable(arms) & competes.any(axis=1),
        relevant_first=None if relevant_first is None else relevant_first[:, columns] & competes,
        first_measure=first_measure,
        pipelines={arm: spec.name for arm, spec in labelled_arms(labels.manifest).items()},
        history_groups=groups_in_force(labels.groupings, asked_by).groups,
    )


def _relevant_first(labels: Labels) -> tuple[BoolArray | None, str | None]:
    """(Q, P) where the arm ranked a relevant result first, and the measure that tells."""
    for measure, values in labels.quality.items():
        if _RECIPROCAL_RANK.match(measure):
            return values == 1.0, f"{measure} = 1"  # NaN where the arm failed: False
    for measure, values in labels.quality.items():
        if _AT_ONE.match(measure):
            return values > 0.0, f"{measure} > 0"
    return None, None


def _texts_of(labels: Labels, texts: Texts | None) -> TextArray:
    if labels.texts is not None:
        return labels.texts
    keys = list(zip(labels.datasets.tolist(), labels.query_ids.tolist(), strict=True))
    given = texts or {}
    missing = [key for key in keys if key not in given]
    if missing:
        dataset, query_id = missing[0]
        raise LabelsError(
            f"the labels hold no query text, and {len(missing)} of {len(keys)} queries are not in "
            f"the texts given, first '{query_id}' of {dataset}; name the datasets that they were "
            "made from"
        )
    return np.array([given[key] for key in keys], dtype=object)


FEWEST_QUERIES = 10
"""Of training: with fewer a router would know single queries, not kinds of them."""


def check_trainable(table: RoutingTable) -> None:
    """Raise ``LabelsError`` unless there are two arms and ``FEWEST_QUERIES`` to train on."""
    if len(table.arms) < 2:
        raise LabelsError(
            "a router needs at least two arms to choose from, got "
            f"{', '.join(table.arms) or 'none'}; add arms to the run and rerun l2r oracle"
        )
    usable = (table.splits == "train") & table.comparable
    if not usable.any():
        raise LabelsError(
            f"none of {int((table.splits == 'train').sum())} training queries has labels from "
            "every arm; see the counts by status in the labels' manifest.json"
        )
    if usable.sum() < FEWEST_QUERIES:
        raise LabelsError(
            f"a router needs at least {FEWEST_QUERIES} training queries that every arm answered, "
            f"got {int(usable.sum())} of {len(table)} labelled; label more queries (some hundreds "
            "are better: the report's intervals say how sure it is)"
        )
