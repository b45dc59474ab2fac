"""Dense retrieval's best documents, ranked again by MaxSim over stored vectors.

Such an arm has no vectors of its own: it reads the indexes of a dense and of a late-interaction
arm of the same granularity in the same index root, and builds those that are absent. Nothing is
encoded twice.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from arms.arm import Arm, ArmSpec
from arms.catalogue import arm_class, build_arm, open_arm
from arms.clock import StageClock
from arms.corpora.corpus import Corpus
from arms.encoders.given_queries import QueryVectors
from arms.encoders.query_encoding import Backend
from arms.encoders.query_states import one_pass
from arms.encoders.unit_encoder import FloatArray, UnitEncoder
from arms.indexes import folder
from arms.indexes.fold import UnitTable, top_documents
from arms.indexes.maxsim import rescore
from arms.indexes.token_vectors import TokenVectors
from arms.progress import Progress
from arms.records import Ranking
from arms.settings import Settings, parse_options


class RerankOptions(Settings):
    """Options of every reranking arm."""

    candidates: int = Field(default=100, ge=1, description="documents taken from the dense arm")
    dense: dict[str, Any] = Field(
        default_factory=dict,
        description="options of the dense arm it reads, the same as where that stands alone, and "
        "its encoder (default: the reranking arm's)",
    )
    late: dict[str, Any] = Field(
        default_factory=dict, description="the same of the late-interaction arm"
    )
    batch_size: int = Field(default=32, ge=1, description="of query encoding for MaxSim")
    backend: Backend | None = Field(
        default=None, description="of both arms it reads, where their options name none"
    )

    def part(self, role: str, name: str, spec: ArmSpec) -> ArmSpec:
        """Return the spec of the arm ``name`` that plays ``role``, dense or late."""
        options = dict(self.dense if role == "dense" else self.late)
        encoder = options.pop("encoder", None) or spec.encoder
        if self.backend is not None:
            options.setdefault("backend", self.backend)
        return ArmSpec(name, spec.granularity, encoder, options)


class RerankArm(Arm):
    """The dense arm, then MaxSim on its best ``candidates`` documents (or ``k``, if more).

    The candidates are documents, also where paragraphs or pages are indexed: the dense arm names
    the documents of its best units. Then every unit of a candidate is scored and its best one
    counts, so that a candidate gets its exact MaxSim, the one that the late arm alone would give
    it. Scoring only the units that the dense arm found would be cheaper and would let the dense
    arm decide which passage of a document speaks for it.
    """

    dense_name: ClassVar[str]
    late_name: ClassVar[str]

    def __init__(
        self,
        spec: ArmSpec,
        options: RerankOptions,
        dense: Arm,
        encoder: UnitEncoder,
        table: UnitTable,
        store: TokenVectors,
    ) -> None:
        self.spec = spec
        self._options = options
        self._dense = dense
        self._encoder, self._table, self._store = encoder, table, store

    @classmethod
    def parts(cls, spec: ArmSpec) -> Sequence[ArmSpec]:
        """Return the dense and the late arm (see :meth:`Arm.parts`)."""
        return cls._parts(spec)[1:]

    @classmethod
    def _parts(cls, spec: ArmSpec) -> tuple[RerankOptions, ArmSpec, ArmSpec]:
        options = parse_options(RerankOptions, spec.options, spec.identity)
        dense = options.part("dense", cls.dense_name, spec)
        return options, dense, options.part("late", cls.late_name, spec)

    @classmethod
    def source(cls, spec: ArmSpec, corpus: Corpus) -> folder.Source:
        """The record names the parts, which keep records of their own."""
        recorded = {
            part.name: {"identity": part.identity, "options": dict(part.options)}
            for part in cls.parts(spec)
        }
        return folder.Source(spec, corpus, recorded)

    @classmethod
    def build(cls, spec: ArmSpec, corpus: Corpus, index_root: Path, progress: Progress) -> None:
        """Build the parts that are missing, then the record (see :meth:`Arm.build`)."""
        for part in cls.parts(spec):
            build_arm(part, corpus, index_root, progress)
        source = cls.source(spec, corpus)
        if not folder.finished(source, index_root):
            with folder.building(source, index_root):
                pass

    @classmethod
    def open(cls, spec: ArmSpec, corpus: Corpus, index_root: Path) -> RerankArm:
        """Open the parts (see :meth:`Arm.open`); the late index's search structure stays shut."""
        options, dense_spec, late_spec = cls._parts(spec)
        folder.open_folder(cls.source(spec, corpus), index_root)
        dense = open_arm(dense_spec, corpus, index_root)
        late: Any = arm_class(cls.late_name)
        with folder.reading(index_root / late_spec.folder_name):
            parts = late.open_parts(late_spec, corpus, index_root)
        return cls(spec, options, dense, parts.encoder, parts.table, parts.store)

    def rank_batch(self, queries: Sequence[str], k: int, clock: StageClock) -> list[Ranking]:
        """Retrieve with the dense arm, encode the queries for MaxSim, score its documents."""
        depth = max(k, self._options.candidates)
        with one_pass():
            found = self._dense.rank_batch(queries, depth, clock)
            with clock.stage("encode"):
                vectors = self._encoder.encode_queries(queries, self._options.batch_size)
        with clock.stage("rerank"):
            units = [self._units(ranking.doc_ids) for ranking in found]
            scores = rescore(vectors, self._store, units)
            return [self._top(*one, k) for one in zip(units, scores, strict=True)]

    def _units(self, doc_ids: Sequence[str]) -> NDArray[np.int64]:
        rows = [self._table.row_of(doc_id) for doc_id in doc_ids]
        return np.array([unit for row in rows for unit in self._table.units_of(row)], np.int64)

    def _top(self, units: NDArray[np.int64], scores: FloatArray, k: int) -> Ranking:
        """Units without a vector score −inf and are dropped."""
        real = np.isfinite(scores)
        return top_documents(scores[real], units[real], self._table, k)

    def with_query_vectors(self, given: QueryVectors) -> RerankArm:
        """Give them to the dense arm (see :meth:`Arm.with_query_vectors`)."""
        twin = copy.copy(self)
        twin._dense = self._dense.with_query_vectors(given)
        return twin

    def query_backends(self) -> dict[str, str]:
        """See :meth:`Arm.query_backends`."""
        told, late = self._encoder.query_backend, self._parts(self.spec)[2]
        return {**self._dense.query_backends(), **({late.identity: told} if told else {})}

    def memory_bytes(self) -> int:
        """Return the bytes of the dense arm, the token vectors and the unit table."""
        return self._dense.memory_bytes() + self._store.size_bytes + self._table.size_bytes
