"""One vector per token, ranked by MaxSim: exact in memory, or PLAID beyond a size.

Exact search is the default up to ``exact_limit`` token vectors (see :class:`LateOptions`), PLAID
finds candidates beyond. Either way the scores are exact MaxSim over the stored float16 vectors.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from pydantic import Field

from arms.arm import Arm, ArmSpec
from arms.clock import StageClock
from arms.corpora.corpus import Corpus
from arms.corpora.granularity import units
from arms.encoders.chunks import Arrays, encode_in_chunks
from arms.encoders.resolve import ResolvedEncoder, resolve
from arms.encoders.text_encoder import Dtype
from arms.encoders.token_encoder import TokenEncoder, TokenSettings, load_token_encoder
from arms.indexes import folder
from arms.indexes.fold import UnitTable
from arms.indexes.maxsim import ExactIndex
from arms.indexes.plaid_shape import PlaidShape
from arms.indexes.token_vectors import TokenVectors, TokenVectorWriter
from arms.progress import Progress
from arms.records import Ranking
from arms.settings import Settings, parse_options

if TYPE_CHECKING:
    from arms.indexes.plaid import PlaidIndex

TOKENS = "tokens"
PLAID = "plaid"
_FEWEST_FOR_PLAID = 256


class LateOptions(Settings):
    """Options of ``text_late``."""

    tokens: TokenSettings = Field(default=TokenSettings(), description="lengths, prefixes, …")
    dtype: Dtype = Field(
        default="float32",
        description="of the document encoder; bfloat16 is about twice as fast where the processor "
        "has it. Queries are always encoded in float32",
    )
    batch_size: int = Field(default=32, ge=1)
    device: str = Field(default="auto", description="auto, cpu, cuda, cuda:1 …")
    exact_limit: int = Field(
        default=4_000_000,
        ge=0,
        description="token vectors up to which MaxSim is exact over all units, in memory",
    )
    nbits: int = Field(default=4, ge=1, le=8, description="PLAID: bits per number of a residual")
    n_centroids: int | None = Field(default=None, ge=1, description="PLAID: default 4·√vectors")
    kmeans_iterations: int = Field(default=4, ge=1, description="PLAID")
    points_per_centroid: int = Field(default=32, ge=1, description="PLAID: k-means sample")
    seed: int = Field(default=42, ge=0, description="PLAID")
    n_ivf_probe: int = Field(default=4, ge=1, description="PLAID: lists read per query token")
    n_full_scores: int = Field(default=256, ge=1, description="PLAID: candidates scored in full")

    def recorded(self) -> dict[str, object]:
        """Return the options that shape the token vectors; PLAID's stand in its own folder."""
        return self.tokens.of_documents

    def searches_exactly(self, store: TokenVectors) -> bool:
        """Whether these vectors are few enough; a handful always are: PLAID needs some."""
        return store.n_vectors <= max(self.exact_limit, _FEWEST_FOR_PLAID)

    def plaid_shape(self) -> PlaidShape:
        """Return what PLAID is built with."""
        return PlaidShape(**self.model_dump(include=set(PlaidShape.model_fields)))


@dataclass(frozen=True, slots=True)
class LateParts:
    """The query encoder, the units of each document, and their token vectors."""

    encoder: TokenEncoder
    table: UnitTable
    store: TokenVectors

    @property
    def size_bytes(self) -> int:
        """Bytes of the token vectors and the unit table, mapped files included."""
        return self.table.size_bytes + self.store.size_bytes


class PipelineArm(Arm):
    """Late interaction with any PyLate model, or with a plain encoder's token vectors."""

    def __init__(
        self, spec: ArmSpec, options: LateOptions, parts: LateParts, index: ExactIndex | PlaidIndex
    ) -> None:
        self.spec = spec
        self._batch_size = options.batch_size
        self._parts = parts
        self._index = index

    @classmethod
    def build(cls, spec: ArmSpec, corpus: Corpus, index_root: Path, progress: Progress) -> None:
        """Encode the corpus in chunks that outlive a kill, then index (see :meth:`Arm.build`)."""
        options = parse_options(LateOptions, spec.options, spec.identity)
        encoder = resolve(spec.encoder)
        source = folder.Source(spec, corpus, options.recorded(), encoder, options.dtype)
        if folder.finished(source, index_root):
            _add_plaid(index_root / spec.folder_name, spec, options, progress)
            return
        with folder.building(source, index_root) as build:
            table = UnitTable.write(build.folder, units(corpus, spec.granularity))
            build.n_units = table.n_units
            store = _write_tokens(build, spec, corpus, options, encoder, progress)
            if not options.searches_exactly(store):
                _write_plaid(build.folder, store, spec, options, progress)

    @classmethod
    def open(cls, spec: ArmSpec, corpus: Corpus, index_root: Path) -> PipelineArm:
        """Open the index and load the query encoder (see :meth:`Arm.open`)."""
        options = parse_options(LateOptions, spec.options, spec.identity)
        parts = cls.open_parts(spec, corpus, index_root)
        place = index_root / spec.folder_name
        return cls(spec, options, parts, _open_index(place, parts.store, options))

    @classmethod
    def open_parts(cls, spec: ArmSpec, corpus: Corpus, index_root: Path) -> LateParts:
        """Open what scoring given documents needs, without the index that searches all of them.

        Raises:
            ArmIndexError: the index is absent, unfinished, or made from something else.
        """
        options = parse_options(LateOptions, spec.options, spec.identity)
        resolved = resolve(spec.encoder)
        source = folder.Source(spec, corpus, options.recorded(), resolved, options.dtype)
        place = folder.open_folder(source, index_root)
        encoder = load_token_encoder(resolved, options.tokens, "float32", options.device)
        return LateParts(encoder, UnitTable(place), TokenVectors(place / TOKENS))

    def rank_batch(self, queries: Sequence[str], k: int, clock: StageClock) -> list[Ranking]:
        """Encode the queries, search, fold units to documents by their maximum."""
        with clock.stage("encode"):
            vectors = self._parts.encoder.encode_queries(queries, self._batch_size)
        with clock.stage("search"):
            return self._index.rank(vectors, self._parts.table, k)

    def memory_bytes(self) -> int:
        """Return the bytes of the index, the token vectors and the unit table, mapped included."""
        return self._index.size_bytes + self._parts.size_bytes


def _open_index(place: Path, store: TokenVectors, options: LateOptions) -> ExactIndex | PlaidIndex:
    if options.searches_exactly(store):
        return ExactIndex(store)
    from arms.indexes.plaid import PlaidIndex

    return PlaidIndex(
        place / PLAID, store, options.plaid_shape(), options.n_ivf_probe, options.n_full_scores
    )


def _add_plaid(place: Path, spec: ArmSpec, options: LateOptions, progress: Progress) -> None:
    """Give a whole index the PLAID folder that ``options`` ask for; its vectors stay."""
    store = TokenVectors(place / TOKENS)
    if options.searches_exactly(store):
        return
    from arms.indexes.plaid import has_plaid

    if has_plaid(place / PLAID, options.plaid_shape()):
        return
    record = folder.read_record(place)
    (place / folder.RECORD).unlink()  # unfinished until the new PLAID folder stands
    _write_plaid(place, store, spec, options, progress)
    size_bytes = sum(path.stat().st_size for path in place.rglob("*") if path.is_file())
    folder.write_record(place, replace(record, size_bytes=size_bytes))


def _write_plaid(
    place: Path, store: TokenVectors, spec: ArmSpec, options: LateOptions, progress: Progress
) -> None:
    from arms.indexes.plaid import write_plaid

    with progress.task(f"{spec.identity}: PLAID", 1) as task:
        write_plaid(place / PLAID, store, options.plaid_shape())
        task.advance()


def _write_tokens(
    build: folder.Build,
    spec: ArmSpec,
    corpus: Corpus,
    options: LateOptions,
    resolved: ResolvedEncoder,
    progress: Progress,
) -> TokenVectors:
    """Encode all units, chunk by chunk, into the store."""
    encoder = load_token_encoder(resolved, options.tokens, options.dtype, options.device)

    def encode(texts: list[str]) -> Arrays:
        encoded = encoder.encode_documents(texts, options.batch_size)
        lengths = np.array([len(vectors) for vectors in encoded], dtype=np.int64)
        return {"vectors": np.concatenate(encoded).astype(np.float16), "lengths": lengths}

    shape = sorted(options.tokens.of_documents.items())
    fingerprint = f"{resolved.revision}|{options.dtype}|{shape}"
    with (
        TokenVectorWriter(build.folder / TOKENS, encoder.dimension) as writer,
        progress.task(f"{spec.identity}: encoding", build.n_units) as task,
    ):
        walk = units(corpus, spec.granularity)
        for chunk in encode_in_chunks(walk, encode, build.folder, fingerprint, task):
            writer.add(chunk.arrays["vectors"], chunk.arrays["lengths"])
        return writer.close()
