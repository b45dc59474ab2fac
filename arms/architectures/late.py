"""Late interaction: many vectors per unit, MaxSim; exact, or PLAID beyond a size.

Vectors are stored as float16, int8 or binary, and may be pooled. Exact search is the default up to
``exact_limit`` vectors (see :class:`LateSettings`), PLAID finds candidates beyond. Either way the
scores are exact MaxSim over the stored vectors.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from pydantic import Field

from arms.architectures.encoding import count_units, encode_corpus
from arms.arm import Arm, ArmSpec
from arms.clock import StageClock
from arms.corpora.corpus import Corpus
from arms.encoders.unit_encoder import UnitEncoder
from arms.indexes import folder
from arms.indexes.exact_index import ExactIndex
from arms.indexes.fold import UnitTable
from arms.indexes.plaid_shape import PlaidShape
from arms.indexes.token_pooling import pool
from arms.indexes.token_vectors import TokenVectors, TokenVectorWriter
from arms.indexes.vector_storage import Storage
from arms.progress import Progress
from arms.records import Ranking, Unit
from arms.settings import Settings, parse_options

if TYPE_CHECKING:
    from arms.indexes.plaid import PlaidIndex

TOKENS = "tokens"
PLAID = "plaid"
_FEWEST_FOR_PLAID = 256
_EXACT_NUMBERS = 4_000_000 * 384


class LateSettings(Settings):
    """Options of every late-interaction arm; an arm adds those of its encoder."""

    batch_size: int = Field(default=32, ge=1)
    device: str = Field(default="auto", description="auto, cpu, cuda, cuda:1 …")
    storage: Storage = Field(
        default="float16", description="of vectors: float16, int8 (half of it), binary (a 16th)"
    )
    pool_factor: int = Field(
        default=1, ge=1, description="merge like vectors of a unit, so that one in so many is left"
    )
    exact_limit: int | None = Field(
        default=None,
        ge=0,
        description="vectors up to which MaxSim is exact over all units; default: 1.5 billion "
        "numbers, so 4 million vectors of 384, or 12 million of 128",
    )
    nbits: int = Field(default=4, ge=1, le=8, description="PLAID: bits per number of a residual")
    n_centroids: int | None = Field(default=None, ge=1, description="PLAID: default 4·√vectors")
    kmeans_iterations: int = Field(default=4, ge=1, description="PLAID")
    points_per_centroid: int = Field(default=32, ge=1, description="PLAID: k-means sample")
    seed: int = Field(default=42, ge=0, description="PLAID")
    n_ivf_probe: int = Field(default=4, ge=1, description="PLAID: lists read per query token")
    n_full_scores: int = Field(default=256, ge=1, description="PLAID: candidates scored in full")

    def searches_exactly(self, store: TokenVectors) -> bool:
        """Whether these vectors are few enough; a handful always are: PLAID needs some."""
        limit = self.exact_limit
        if limit is None:
            limit = _EXACT_NUMBERS // store.dimension
        return store.n_vectors <= max(limit, _FEWEST_FOR_PLAID)

    def recorded_storage(self) -> dict[str, object]:
        """Return how vectors are stored, as the record holds it: what differs from the default."""
        changed = self.model_dump(include={"storage", "pool_factor"}, exclude_defaults=True)
        return dict(sorted(changed.items()))

    def plaid_shape(self) -> PlaidShape:
        """Return what PLAID is built with."""
        return PlaidShape(**self.model_dump(include=set(PlaidShape.model_fields)))

    @abstractmethod
    def source(self, spec: ArmSpec, corpus: Corpus) -> folder.Source:
        """Return what an index of ``corpus`` is made from; PLAID's options stand elsewhere."""

    @abstractmethod
    def load_encoder(self, spec: ArmSpec, *, for_queries: bool) -> UnitEncoder:
        """Load the encoder of queries, or that of units."""


@dataclass(frozen=True, slots=True)
class LateParts:
    """The query encoder, the units of each document, and their vectors."""

    encoder: UnitEncoder
    table: UnitTable
    store: TokenVectors

    @property
    def size_bytes(self) -> int:
        """Bytes of the vectors and the unit table, mapped files included."""
        return self.table.size_bytes + self.store.size_bytes


class LateArm(Arm):
    """Any number of vectors per unit; a unit without one is not found."""

    options_class: ClassVar[type[LateSettings]]

    def __init__(
        self, spec: ArmSpec, options: LateSettings, parts: LateParts, index: ExactIndex | PlaidIndex
    ) -> None:
        self.spec = spec
        self._batch_size = options.batch_size
        self._parts = parts
        self._index = index

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
            _add_plaid(source, index_root, options, progress)
            return
        with folder.building(source, index_root) as build:
            build.n_units = count_units(source)
            encoder = options.load_encoder(spec, for_queries=False)
            store = _write_tokens(source, build, encoder, options, progress)
            if not options.searches_exactly(store):
                _write_plaid(build.folder, store, spec, options, progress)

    @classmethod
    def open(cls, spec: ArmSpec, corpus: Corpus, index_root: Path) -> LateArm:
        """Open the index and load the query encoder (see :meth:`Arm.open`)."""
        options = parse_options(cls.options_class, spec.options, spec.identity)
        parts = cls.open_parts(spec, corpus, index_root)
        place = index_root / spec.folder_name
        return cls(spec, options, parts, _open_index(place, parts.store, options))

    @classmethod
    def open_parts(cls, spec: ArmSpec, corpus: Corpus, index_root: Path) -> LateParts:
        """Open what scoring given documents needs, without the index that searches all of them.

        Raises:
            ArmIndexError: the index is absent, unfinished, or made from something else.
        """
        options = parse_options(cls.options_class, spec.options, spec.identity)
        place = folder.open_folder(options.source(spec, corpus), index_root)
        encoder = options.load_encoder(spec, for_queries=True)
        return LateParts(encoder, UnitTable(place), TokenVectors(place / TOKENS))

    def rank_batch(self, queries: Sequence[str], k: int, clock: StageClock) -> list[Ranking]:
        """Encode the queries, search, fold units to documents by their maximum."""
        with clock.stage("encode"):
            vectors = self._parts.encoder.encode_queries(queries, self._batch_size)
        with clock.stage("search"):
            return self._index.rank(vectors, self._parts.table, k)

    def query_backends(self) -> dict[str, str]:
        """See :meth:`Arm.query_backends`."""
        told = self._parts.encoder.query_backend
        return {self.spec.identity: told} if told else {}

    def memory_bytes(self) -> int:
        """Return the bytes of the index, the vectors and the unit table, mapped included."""
        return self._index.size_bytes + self._parts.size_bytes


def _open_index(place: Path, store: TokenVectors, options: LateSettings) -> ExactIndex | PlaidIndex:
    if options.searches_exactly(store):
        return ExactIndex(store)
    from arms.indexes.plaid import PlaidIndex

    return PlaidIndex(
        place / PLAID, store, options.plaid_shape(), options.n_ivf_probe, options.n_full_scores
    )


def _add_plaid(
    source: folder.Source, index_root: Path, options: LateSettings, progress: Progress
) -> None:
    """Give a whole index the PLAID folder that ``options`` ask for; its vectors stay."""
    place = index_root / source.spec.folder_name
    store = TokenVectors(place / TOKENS)
    if options.searches_exactly(store):
        return
    from arms.indexes.plaid import has_plaid

    if has_plaid(place / PLAID, options.plaid_shape()):
        return
    with folder.extending(source, index_root):
        _write_plaid(place, store, source.spec, options, progress)


def _write_plaid(
    place: Path, store: TokenVectors, spec: ArmSpec, options: LateSettings, progress: Progress
) -> None:
    from arms.indexes.plaid import write_plaid

    with progress.task(f"{spec.identity}: PLAID", 1) as task:
        write_plaid(place / PLAID, store, options.plaid_shape())
        task.advance()


def _write_tokens(
    source: folder.Source,
    build: folder.Build,
    encoder: UnitEncoder,
    options: LateSettings,
    progress: Progress,
) -> TokenVectors:
    """Encode all units, chunk by chunk, into the store; write the table of units beside it."""
    walked: list[Unit] = []
    chunks = encode_corpus(
        source,
        build,
        encoder,
        build.n_units,
        progress,
        batch_size=options.batch_size,
        dtype=np.float16,
        reduce=partial(pool, factor=options.pool_factor),
    )
    with TokenVectorWriter(build.folder / TOKENS, encoder.dimension, options.storage) as writer:
        for chunk in chunks:
            writer.add(chunk.vectors, chunk.lengths)
            walked += [replace(unit, text="") for unit in chunk.units]
        UnitTable.write(build.folder, walked)
        return writer.close()
