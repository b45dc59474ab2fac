"""What the arms found for labelled queries: rankings for policies that look before they choose."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np
import pyarrow.compute as pc

from arms.errors import LabelsError
from arms.records import Ranking
from arms.reward import FloatArray
from oracle.labels import Labels, read_columns
from oracle.quality import follows_from_grades, quality_of_grades
from oracle.tables import GRADE, RUNS
from router.probe_features import document_name
from training.table import RoutingTable

_COLUMNS = ("dataset", "query_id", "arm", "rank", "doc_id", "score")
_EXAMPLES = 3


class RecordedRuns:
    """Rankings of the labels' ``runs.parquet``, read arm by arm when they are first needed.

    Args:
        folder: the labels folder.
        labels: the same, opened.
    """

    def __init__(self, folder: Path, labels: Labels) -> None:
        self._path = folder / RUNS
        self._row_of = {
            key: row
            for row, key in enumerate(
                zip(labels.datasets.tolist(), labels.query_ids.tolist(), strict=True)
            )
        }
        self.measure = labels.primary_measure
        self.measures = tuple(labels.quality)
        self.relevant_grades = known_grades(labels)
        told = labels.relevant_grades
        self._untold = [row for row in self._row_of.values() if told is None or told[row] is None]
        self._ungraded: dict[str, set[int]] = {}
        self._by_arm: dict[str, list[Ranking]] = {}
        self._grades: dict[str, list[tuple[int, ...]] | None] = {}
        self._lock = threading.Lock()

    @classmethod
    def beside(cls, folder: Path, labels: Labels) -> RecordedRuns | None:
        """Return the rankings of a labels folder; None where it lacks them, as releases may."""
        return cls(folder, labels) if (folder / RUNS).is_file() else None

    def rankings(self, arm: str) -> list[Ranking]:
        """(Q,) what ``arm`` found for each labelled query; empty where it found nothing or failed.

        Documents go by :func:`router.probe_features.document_name`.

        Raises:
            LabelsError: the file is absent or damaged.
        """
        with self._lock:
            if arm not in self._by_arm:
                self._by_arm[arm] = self._read(arm)
            return self._by_arm[arm]

    def grades(self, arm: str) -> list[tuple[int, ...]] | None:
        """(Q,) judged grade of each document of :meth:`rankings`; None where the file lacks any.

        Raises:
            LabelsError: the file is absent or damaged.
        """
        self.rankings(arm)
        return self._grades[arm]

    def lacking_grades(self, arms: Sequence[str]) -> list[str]:
        """Say of how many queries of which dataset grades are missing, the first ones by name.

        Of ``relevant_grades``, and of the documents that ``arms`` found.

        Raises:
            LabelsError: the file of rankings is absent or damaged.
        """
        ungraded: set[int] = set()
        for arm in arms:
            self.rankings(arm)
            ungraded |= self._ungraded[arm]
        keys = list(self._row_of)
        return [
            f"{what} is missing for {_named(keys, rows)}"
            for what, rows in (
                ("relevant_grades in queries.parquet", self._untold),
                (f"a grade in {RUNS}", ungraded),
            )
            if rows
        ]

    def quality_of(
        self, rows: np.ndarray, rankings: Sequence[Ranking | None], arms: Sequence[str]
    ) -> dict[str, FloatArray]:
        """Measure → (n,) quality of rankings of documents that ``arms`` found for ``rows``.

        NaN where there is no ranking, and throughout for a measure that doesn't follow from grades.
        A document must be named as in :meth:`rankings`.

        Raises:
            LabelsError: the labels don't tell every document's grade and all grades of a query.
        """
        return self._quality(rows, self._graded(rows, rankings, arms))

    def ceiling_of(
        self, rows: np.ndarray, rankings: Sequence[Ranking | None], arms: Sequence[str]
    ) -> dict[str, FloatArray]:
        """Measure → (n,) quality of the same documents in their ideal order: by judged grade.

        No ranking of these candidates has more nDCG@k, R@k, P@k or RR@k. As :meth:`quality_of`
        otherwise. The rankings name every candidate, not only the first k.
        """
        graded = self._graded(rows, rankings, arms)
        return self._quality(
            rows, [None if one is None else sorted(one, reverse=True) for one in graded]
        )

    def _graded(
        self, rows: np.ndarray, rankings: Sequence[Ranking | None], arms: Sequence[str]
    ) -> list[list[int] | None]:
        """(n,) grades of each ranking's documents in its order; None where there is no ranking."""
        by_arm = [(self.rankings(arm), self.grades(arm)) for arm in arms]
        if self.relevant_grades is None or any(grades is None for _, grades in by_arm):
            raise LabelsError(
                "the quality of a policy's own ranking follows from judged grades, and the labels "
                "lack some: rerun l2r oracle, which adds them without ranking anew"
            )
        found: list[list[int] | None] = []
        for row, ranking in zip(rows.tolist(), rankings, strict=True):
            grade_of: dict[str, int] = {}
            for held, grades in by_arm if ranking is not None else ():
                assert grades is not None
                grade_of |= zip(held[row].doc_ids, grades[row], strict=True)
            found.append(None if ranking is None else [grade_of[one] for one in ranking.doc_ids])
        return found

    def _quality(
        self, rows: np.ndarray, graded: Sequence[Sequence[int] | None]
    ) -> dict[str, FloatArray]:
        assert self.relevant_grades is not None
        answered = [place for place, one in enumerate(graded) if one is not None]
        found = {measure: np.full(len(graded), np.nan) for measure in self.measures}
        told = [measure for measure in self.measures if follows_from_grades(measure)]
        listed = [one for one in graded if one is not None]
        relevant = [self.relevant_grades[int(rows[place])] for place in answered]
        for measure, values in quality_of_grades(listed, relevant, told).items():
            found[measure][answered] = values
        return found

    def depth(self, arms: Sequence[str]) -> int:
        """Return how many documents the longest ranking of ``arms`` has."""
        return max((len(one.doc_ids) for arm in arms for one in self.rankings(arm)), default=0)

    def probed(
        self, arms: Sequence[str], rows: np.ndarray, table: RoutingTable, depth: int
    ) -> dict[str, list[Ranking]]:
        """Arm → rankings of ``rows``, at most ``depth`` documents each.

        An arm that no dataset of these rows has is absent; a row whose dataset lacks it is empty.
        """
        found = {}
        for arm in arms:
            has = table.competes[rows, table.arms.index(arm)]
            if has.any():
                whole = self.rankings(arm)
                found[arm] = [
                    Ranking(whole[row].doc_ids[:depth], whole[row].scores[:depth]) for row in rows
                ]
        return found

    def _read(self, arm: str) -> list[Ranking]:
        table = read_columns(self._path, _COLUMNS, (GRADE,), filters=pc.field("arm") == arm)
        table = table.sort_by(
            [("dataset", "ascending"), ("query_id", "ascending"), ("rank", "ascending")]
        )
        keys = list(zip(table["dataset"].to_pylist(), table["query_id"].to_pylist(), strict=True))
        scores = table["score"].to_pylist()
        documents = [
            document_name(key[0], one)
            for key, one in zip(keys, table["doc_id"].to_pylist(), strict=True)
        ]
        told = GRADE in table.column_names and not table[GRADE].null_count
        grades = table[GRADE].to_pylist() if told else [0] * len(table)
        null = table[GRADE].is_null().to_pylist() if GRADE in table.column_names else None
        rows = {
            self._row_of.get(key)
            for place, key in enumerate(keys if not told else ())
            if null is None or null[place]
        }
        self._ungraded[arm] = {row for row in rows if row is not None}
        found = [Ranking((), ())] * len(self._row_of)
        graded: list[tuple[int, ...]] = [()] * len(self._row_of)
        begin = 0
        for end in range(1, len(keys) + 1):
            if end == len(keys) or keys[end] != keys[begin]:
                row = self._row_of.get(keys[begin])
                if row is not None:
                    found[row] = Ranking(tuple(documents[begin:end]), tuple(scores[begin:end]))
                    graded[row] = tuple(grades[begin:end])
                begin = end
        self._grades[arm] = graded if told else None
        return found


def known_grades(labels: Labels) -> list[tuple[int, ...]] | None:
    """(Q,) grades above 0 of each query; None where the labels don't tell those of every query."""
    told = labels.relevant_grades
    if told is None or any(one is None for one in told):
        return None
    return list(told)


def _named(keys: Sequence[tuple[str, str]], rows: Iterable[int]) -> str:
    """How many queries of each dataset ``rows`` are, with the first ids; ``keys`` are of all."""
    counts = Counter(dataset for dataset, _ in keys)
    of_dataset: dict[str, list[str]] = {}
    for row in sorted(rows):
        dataset, query_id = keys[row]
        of_dataset.setdefault(dataset, []).append(query_id)
    return ", ".join(
        f"{len(found):,} of {counts[dataset]:,} queries of {dataset} "
        f"({', '.join(found[:_EXAMPLES])}{', …' if len(found) > _EXAMPLES else ''})"
        for dataset, found in sorted(of_dataset.items())
    )
