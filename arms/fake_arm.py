"""An arm without a back end, for tests of whatever runs arms."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from arms.arm import Arm, ArmSpec
from arms.clock import StageClock
from arms.corpora.corpus import Corpus
from arms.corpora.granularity import units
from arms.errors import ArmError
from arms.indexes import folder
from arms.indexes.fold import UnitTable, top_positions
from arms.progress import Progress
from arms.records import Ranking


class FakeArm(Arm):
    """An arm without a back end: a document scores the number of distinct words it shares.

    It keeps the whole contract, index folder included. The option ``fails_on`` names a word; a
    query that holds it raises ``ArmError``.
    """

    def __init__(self, spec: ArmSpec, words: list[list[str]], table: UnitTable) -> None:
        self.spec = spec
        self._words = [frozenset(of_unit) for of_unit in words]
        self._table = table

    @classmethod
    def build(cls, spec: ArmSpec, corpus: Corpus, index_root: Path, progress: Progress) -> None:
        """Store each unit's words (see :meth:`Arm.build`)."""
        source = folder.Source(spec, corpus)
        if folder.finished(source, index_root):
            return
        with folder.building(source, index_root) as build:
            table = UnitTable.write(build.folder, units(corpus, spec.granularity))
            build.n_units = table.n_units
            words = []
            with progress.task(f"{spec.identity}: reading words", table.n_units) as task:
                for unit in units(corpus, spec.granularity):
                    words.append(sorted(set(unit.text.lower().split())))
                    task.advance()
            (build.folder / "words.json").write_text(json.dumps(words), encoding="utf-8")

    @classmethod
    def open(cls, spec: ArmSpec, corpus: Corpus, index_root: Path) -> FakeArm:
        """Open what :meth:`build` wrote (see :meth:`Arm.open`)."""
        place = folder.open_folder(folder.Source(spec, corpus), index_root)
        words = json.loads((place / "words.json").read_text(encoding="utf-8"))
        return cls(spec, words, UnitTable(place))

    def rank_batch(self, queries: Sequence[str], k: int, clock: StageClock) -> list[Ranking]:
        """Count shared words."""
        with clock.stage("search"):
            return [self._rank(set(query.lower().split()), k) for query in queries]

    def _rank(self, words: set[str], k: int) -> Ranking:
        if self.spec.options.get("fails_on") in words:
            raise ArmError(f"'{self.spec.identity}' was told to fail on this query")
        shared = np.array([len(words & of_unit) for of_unit in self._words], dtype=np.float64)
        scores = self._table.fold(shared)
        best = top_positions(scores, self._table.tie_rank, k, above=0.0)
        return self._table.ranking(best, scores[best])
