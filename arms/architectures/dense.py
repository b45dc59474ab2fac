"""Dense retrieval: one vector per unit, inner product, faiss."""

from __future__ import annotations

import copy
from abc import abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar, Literal

import numpy as np
from pydantic import Field

from arms.architectures.encoding import count_units, encode_corpus
from arms.arm import Arm, ArmSpec
from arms.clock import StageClock
from arms.corpora.corpus import Corpus
from arms.encoders.given_queries import GivenQueries, QueryVectors
from arms.encoders.unit_encoder import UnitEncoder
from arms.indexes import folder
from arms.indexes.faiss_index import VECTORS, Shape, VectorIndex, write_index
from arms.indexes.fold import EMPTY, UnitTable
from arms.indexes.mapped_array import create_mapped
from arms.progress import Progress
from arms.records import Ranking, Unit
from arms.settings import Settings, parse_options


class DenseSettings(Settings):
    """Options of every dense arm; an arm adds those of its encoder."""

    index: Literal["flat", "hnsw", "ivf"] = Field(default="flat", description="flat is exact")
    hnsw_m: int = Field(default=32, ge=2, le=256, description="HNSW: links per unit")
    ef_construction: int = Field(default=200, ge=1, description="HNSW: breadth while building")
    ef_search: int = Field(default=128, ge=1, description="HNSW: breadth while searching")
    n_lists: int | None = Field(default=None, ge=1, description="IVF: default 4·√units")
    n_probe: int = Field(default=16, ge=1, description="IVF: lists read per query")
    batch_size: int = Field(default=32, ge=1)
    device: str = Field(default="auto", description="auto, cpu, cuda, cuda:1 …")

    @property
    def shape(self) -> Shape:
        """What shapes the index's structure, with what the other structures use left out."""
        given = self.model_dump(include=set(_SHAPES[self.index]))
        return Shape(index=self.index, **given)

    def recorded_shape(self) -> dict[str, object]:
        """Return the options that shape the index's structure, as its record holds them."""
        return self.model_dump(include={"index", *_SHAPES[self.index]})

    @abstractmethod
    def source(self, spec: ArmSpec, corpus: Corpus) -> folder.Source:
        """Return what an index of ``corpus`` is made from."""

    @abstractmethod
    def load_encoder(self, spec: ArmSpec, *, for_queries: bool) -> UnitEncoder:
        """Load the encoder of queries, or that of units."""


_SHAPES = {"flat": (), "hnsw": ("hnsw_m", "ef_construction"), "ivf": ("n_lists",)}


class DenseArm(Arm):
    """One vector per unit; a unit without one is not found. A document scores its best unit."""

    options_class: ClassVar[type[DenseSettings]]

    def __init__(
        self,
        spec: ArmSpec,
        encoder: UnitEncoder,
        index: VectorIndex,
        table: UnitTable,
        batch_size: int = 32,
    ) -> None:
        self.spec = spec
        self._encoder = encoder
        self._index = index
        self._table = table
        self._batch_size = batch_size

    @classmethod
    def source(cls, spec: ArmSpec, corpus: Corpus) -> folder.Source:
        """Return what its own index is made from (see :meth:`Arm.source`)."""
        return parse_options(cls.options_class, spec.options, spec.identity).source(spec, corpus)

    @classmethod
    def build(cls, spec: ArmSpec, corpus: Corpus, index_root: Path, progress: Progress) -> None:
        """Encode the corpus in chunks that outlive a kill, then index (see :meth:`Arm.build`)."""
        options = parse_options(cls.options_class, spec.options, spec.identity)
        source = options.source(spec, corpus)
        if folder.finished(source, index_root):
            return
        with folder.building(source, index_root) as build:
            n_units = count_units(source)
            encoder = options.load_encoder(spec, for_queries=False)
            kept = _write_vectors(source, build, encoder, n_units, options.batch_size, progress)
            build.n_units = UnitTable.write(build.folder, kept, may_be_empty=True).n_units
            write_index(build.folder, options.shape)

    @classmethod
    def open(cls, spec: ArmSpec, corpus: Corpus, index_root: Path) -> DenseArm:
        """Open the index memory-mapped and load the query encoder (see :meth:`Arm.open`)."""
        options = parse_options(cls.options_class, spec.options, spec.identity)
        place = folder.open_folder(options.source(spec, corpus), index_root)
        encoder = options.load_encoder(spec, for_queries=True)
        index = VectorIndex(
            place, options.index, options.ef_search, options.n_probe, device=options.device
        )
        return cls(spec, encoder, index, UnitTable(place), options.batch_size)

    def rank_batch(self, queries: Sequence[str], k: int, clock: StageClock) -> list[Ranking]:
        """Encode the queries, search, fold units to documents by their maximum."""
        with clock.stage("encode"):
            vectors = np.concatenate(self._encoder.encode_queries(queries, self._batch_size))
        with clock.stage("search"):
            if self._table.n_units == 0:
                return [EMPTY] * len(queries)
            return self._index.rank(vectors, self._table, k)

    def with_query_vectors(self, given: QueryVectors) -> DenseArm:
        """See :meth:`Arm.with_query_vectors`."""
        if self._encoder.query_encoding is None:
            return self
        twin = copy.copy(self)
        twin._encoder = GivenQueries(self._encoder, given)
        return twin

    def query_backends(self) -> dict[str, str]:
        """See :meth:`Arm.query_backends`."""
        told = self._encoder.query_backend
        return {self.spec.identity: told} if told else {}

    def memory_bytes(self) -> int:
        """Return the bytes of the vectors and the unit table, mapped files included."""
        return self._index.size_bytes + self._table.size_bytes


def _write_vectors(
    source: folder.Source,
    build: folder.Build,
    encoder: UnitEncoder,
    n_units: int,
    batch_size: int,
    progress: Progress,
) -> list[Unit]:
    """Encode all units straight into the file that the index maps; return those with a vector."""
    path = build.folder / VECTORS
    shape = (n_units, encoder.dimension)
    vectors = create_mapped(path, np.float32, shape)
    kept: list[Unit] = []
    for chunk in encode_corpus(source, build, encoder, n_units, progress, batch_size=batch_size):
        filled = [unit for unit, length in zip(chunk.units, chunk.lengths, strict=True) if length]
        if len(filled) != len(chunk.vectors):
            raise ValueError("a dense encoder gives at most one vector per unit")
        vectors[len(kept) : len(kept) + len(filled)] = chunk.vectors
        kept += filled
    vectors.flush()
    if len(kept) < n_units:
        shorter = np.array(vectors[: len(kept)])
        del vectors
        np.save(path, shorter, allow_pickle=False)
    return kept
