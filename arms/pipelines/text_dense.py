"""One vector per unit, ranked by inner product."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Literal

import numpy as np
from pydantic import Field

from arms.arm import Arm, ArmSpec
from arms.clock import StageClock
from arms.corpora.corpus import Corpus
from arms.corpora.granularity import units
from arms.encoders.chunks import Arrays, encode_in_chunks
from arms.encoders.resolve import ResolvedEncoder, resolve
from arms.encoders.text_encoder import Dtype, TextEncoder, load_text_encoder, pick_device
from arms.indexes import folder
from arms.indexes.faiss_index import VECTORS, Shape, VectorIndex, write_index
from arms.indexes.fold import UnitTable
from arms.progress import Progress
from arms.records import Ranking
from arms.settings import Settings, parse_options


class DenseOptions(Settings):
    """Options of ``text_dense``."""

    index: Literal["flat", "hnsw", "ivf"] = Field(default="flat", description="flat is exact")
    hnsw_m: int = Field(default=32, ge=2, le=256, description="HNSW: links per unit")
    ef_construction: int = Field(default=200, ge=1, description="HNSW: breadth while building")
    ef_search: int = Field(default=128, ge=1, description="HNSW: breadth while searching")
    n_lists: int | None = Field(default=None, ge=1, description="IVF: default 4·√units")
    n_probe: int = Field(default=16, ge=1, description="IVF: lists read per query")
    dtype: Dtype = Field(
        default="float32",
        description="of the document encoder; bfloat16 is faster where the processor has it. "
        "Queries are always encoded in float32",
    )
    max_tokens: int | None = Field(default=None, ge=4, description="default: the encoder's limit")
    batch_size: int = Field(default=32, ge=1)
    query_prompt: str | None = Field(default=None, description="default: the encoder's own")
    document_prompt: str | None = Field(default=None, description="default: the encoder's own")
    device: str = Field(default="auto", description="auto, cpu, cuda, cuda:1 …")

    @property
    def shape(self) -> Shape:
        """What shapes the index's structure, with what the other structures use left out."""
        given = self.model_dump(include=set(_SHAPES[self.index]))
        return Shape(index=self.index, **given)

    def recorded(self) -> dict[str, object]:
        """Return the options that shape the index, as its record holds them."""
        return {
            **self.model_dump(include={"index", *_SHAPES[self.index]}),
            "max_tokens": self.max_tokens,
            "document_prompt": self.document_prompt,
        }


_SHAPES = {"flat": (), "hnsw": ("hnsw_m", "ef_construction"), "ivf": ("n_lists",)}


class PipelineArm(Arm):
    """Dense retrieval with any sentence-transformers model: unit vectors, inner product, faiss."""

    def __init__(
        self,
        spec: ArmSpec,
        options: DenseOptions,
        encoder: TextEncoder,
        index: VectorIndex,
        table: UnitTable,
    ) -> None:
        self.spec = spec
        self._encoder = encoder
        self._index = index
        self._table = table
        self._batch_size = options.batch_size
        self._prompt = encoder.prompt("query", options.query_prompt)

    @classmethod
    def build(cls, spec: ArmSpec, corpus: Corpus, index_root: Path, progress: Progress) -> None:
        """Encode the corpus in chunks that outlive a kill, then index (see :meth:`Arm.build`)."""
        options = parse_options(DenseOptions, spec.options, spec.identity)
        encoder = resolve(spec.encoder)
        source = folder.Source(spec, corpus, options.recorded(), encoder, options.dtype)
        if folder.finished(source, index_root):
            return
        with folder.building(source, index_root) as build:
            table = UnitTable.write(build.folder, units(corpus, spec.granularity))
            build.n_units = table.n_units
            _write_vectors(build, spec, corpus, options, encoder, progress)
            write_index(build.folder, options.shape)

    @classmethod
    def open(cls, spec: ArmSpec, corpus: Corpus, index_root: Path) -> PipelineArm:
        """Open the index memory-mapped and load the query encoder (see :meth:`Arm.open`)."""
        options = parse_options(DenseOptions, spec.options, spec.identity)
        resolved = resolve(spec.encoder)
        source = folder.Source(spec, corpus, options.recorded(), resolved, options.dtype)
        place = folder.open_folder(source, index_root)
        encoder = load_text_encoder(resolved, "float32", options.device, options.max_tokens)
        index = VectorIndex(
            place,
            options.index,
            options.ef_search,
            options.n_probe,
            gpu=pick_device(options.device).startswith("cuda"),
        )
        return cls(spec, options, encoder, index, UnitTable(place))

    def rank_batch(self, queries: Sequence[str], k: int, clock: StageClock) -> list[Ranking]:
        """Encode the queries, search, fold units to documents by their maximum."""
        with clock.stage("encode"):
            vectors = self._encoder.embed(queries, self._prompt, self._batch_size)
        with clock.stage("search"):
            return self._index.rank(vectors, self._table, k)

    def memory_bytes(self) -> int:
        """Return the bytes of the vectors and the unit table, mapped files included."""
        return self._index.size_bytes + self._table.size_bytes


def _write_vectors(
    build: folder.Build,
    spec: ArmSpec,
    corpus: Corpus,
    options: DenseOptions,
    resolved: ResolvedEncoder,
    progress: Progress,
) -> None:
    """Encode all units, chunk by chunk, straight into the file that the index maps."""
    encoder = load_text_encoder(resolved, options.dtype, options.device, options.max_tokens)
    prompt = encoder.prompt("document", options.document_prompt)

    def encode(texts: list[str]) -> Arrays:
        return {"vectors": encoder.embed(texts, prompt, options.batch_size, few_shapes=True)}

    fingerprint = f"{resolved.revision}|{options.dtype}|{options.max_tokens}|{prompt}"
    vectors = np.lib.format.open_memmap(
        build.folder / VECTORS, "w+", np.float32, (build.n_units, encoder.dimension)
    )
    begin = 0
    with progress.task(f"{spec.identity}: encoding", build.n_units) as task:
        walk = units(corpus, spec.granularity)
        for chunk in encode_in_chunks(walk, encode, build.folder, fingerprint, task):
            vectors[begin : begin + len(chunk.units)] = chunk.arrays["vectors"]
            begin += len(chunk.units)
    vectors.flush()
