"""Dense retrieval's best documents, ranked again by MaxSim over stored token vectors.

It has no vectors of its own: it reads the indexes of ``text_dense`` and ``text_late`` of the same
granularity in the same index root, and builds those that are absent. No document is encoded twice.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from pydantic import Field

from arms.arm import Arm, ArmSpec
from arms.catalogue import arm_class, build_arm, open_arm
from arms.clock import StageClock
from arms.corpora.corpus import Corpus
from arms.indexes import folder
from arms.indexes.fold import top_documents
from arms.indexes.maxsim import FloatArray, rescore
from arms.progress import Progress
from arms.records import Ranking
from arms.settings import Settings, parse_options

if TYPE_CHECKING:
    from arms.encoders.token_encoder import TokenEncoder
    from arms.indexes.fold import UnitTable
    from arms.indexes.token_vectors import TokenVectors


class RerankOptions(Settings):
    """Options of ``text_rerank``."""

    candidates: int = Field(default=100, ge=1, description="documents taken from text_dense")
    dense: dict[str, Any] = Field(
        default_factory=dict,
        description="options of the text_dense it reads, the same as where that stands alone, and "
        "its encoder (default: the reranking arm's)",
    )
    late: dict[str, Any] = Field(default_factory=dict, description="the same of text_late")
    batch_size: int = Field(default=32, ge=1, description="of query encoding for MaxSim")

    def part(self, name: str, spec: ArmSpec) -> ArmSpec:
        """Return the spec of the part ``text_dense`` or ``text_late`` of this reranking."""
        options = dict(self.dense if name == "text_dense" else self.late)
        encoder = options.pop("encoder", None) or spec.encoder
        return ArmSpec(name, spec.granularity, encoder, options)

    def recorded(self, spec: ArmSpec) -> dict[str, Any]:
        """Return what the record holds; the parts keep records of their own."""
        parts = [self.part(name, spec) for name in ("text_dense", "text_late")]
        return {
            part.name: {"identity": part.identity, "options": dict(part.options)} for part in parts
        }


class PipelineArm(Arm):
    """``text_dense``, then MaxSim on its best ``candidates`` documents (or ``k``, if more).

    A document's units are all scored, and its best one counts.
    """

    def __init__(
        self,
        spec: ArmSpec,
        options: RerankOptions,
        dense: Arm,
        encoder: TokenEncoder,
        table: UnitTable,
        store: TokenVectors,
    ) -> None:
        self.spec = spec
        self._options = options
        self._dense = dense
        self._encoder, self._table, self._store = encoder, table, store

    @classmethod
    def build(cls, spec: ArmSpec, corpus: Corpus, index_root: Path, progress: Progress) -> None:
        """Build the parts that are missing, then the record (see :meth:`Arm.build`)."""
        options = parse_options(RerankOptions, spec.options, spec.identity)
        for name in ("text_dense", "text_late"):
            build_arm(options.part(name, spec), corpus, index_root, progress)
        source = folder.Source(spec, corpus, options.recorded(spec))
        if not folder.finished(source, index_root):
            with folder.building(source, index_root):
                pass

    @classmethod
    def open(cls, spec: ArmSpec, corpus: Corpus, index_root: Path) -> PipelineArm:
        """Open the parts (see :meth:`Arm.open`); the late index's search structure stays shut."""
        options = parse_options(RerankOptions, spec.options, spec.identity)
        folder.open_folder(folder.Source(spec, corpus, options.recorded(spec)), index_root)
        dense = open_arm(options.part("text_dense", spec), corpus, index_root)
        late: Any = arm_class("text_late")
        parts = late.open_parts(options.part("text_late", spec), corpus, index_root)
        return cls(spec, options, dense, parts.encoder, parts.table, parts.store)

    def rank_batch(self, queries: Sequence[str], k: int, clock: StageClock) -> list[Ranking]:
        """Retrieve with ``text_dense``, encode the queries to tokens, score its documents."""
        depth = max(k, self._options.candidates)
        found = self._dense.rank_batch(queries, depth, clock)
        with clock.stage("encode"):
            vectors = self._encoder.encode_queries(queries, self._options.batch_size)
        with clock.stage("rerank"):
            return [
                self._rerank(query, ranking.doc_ids, k)
                for query, ranking in zip(vectors, found, strict=True)
            ]

    def _rerank(self, query: FloatArray, doc_ids: Sequence[str], k: int) -> Ranking:
        rows = [self._table.row_of(doc_id) for doc_id in doc_ids]
        units = np.array([unit for row in rows for unit in self._table.units_of(row)], dtype=int)
        return top_documents(rescore(query, self._store, units), units, self._table, k)

    def memory_bytes(self) -> int:
        """Return the bytes of the dense arm, the token vectors and the unit table."""
        return self._dense.memory_bytes() + self._store.size_bytes + self._table.size_bytes
