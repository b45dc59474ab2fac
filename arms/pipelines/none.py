"""No retrieval: for questions that a language model answers unaided. Never a default action."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from arms.arm import Arm, ArmSpec
from arms.clock import StageClock
from arms.corpora.corpus import Corpus
from arms.indexes import folder
from arms.indexes.fold import EMPTY
from arms.progress import Progress
from arms.records import Ranking
from arms.settings import Settings, parse_options


class PipelineArm(Arm):
    """Finds nothing, at no cost. It takes no options."""

    def __init__(self, spec: ArmSpec) -> None:
        self.spec = spec

    @classmethod
    def build(cls, spec: ArmSpec, corpus: Corpus, index_root: Path, progress: Progress) -> None:
        """Write the record alone (see :meth:`Arm.build`)."""
        parse_options(Settings, spec.options, spec.identity)
        source = folder.Source(spec, corpus)
        if not folder.finished(source, index_root):
            with folder.building(source, index_root):
                pass

    @classmethod
    def open(cls, spec: ArmSpec, corpus: Corpus, index_root: Path) -> PipelineArm:
        """Check the record (see :meth:`Arm.open`)."""
        parse_options(Settings, spec.options, spec.identity)
        folder.open_folder(folder.Source(spec, corpus), index_root)
        return cls(spec)

    def rank_batch(self, queries: Sequence[str], k: int, clock: StageClock) -> list[Ranking]:
        """Return an empty ranking for each query."""
        return [EMPTY] * len(queries)
