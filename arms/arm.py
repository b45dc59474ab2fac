"""The arm contract: what every retrieval pipeline declares and does.

An arm is one retrieval pipeline: a view of the corpus (modality, granularity) and an architecture.
``Arm.build`` writes an index folder, ``Arm.open`` opens it without rebuilding, ``Arm.rank``
answers queries with labelled documents. ``arms.contract`` holds the tests that every arm passes.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from arms.clock import StageClock
from arms.corpora.corpus import Corpus
from arms.errors import QueryError
from arms.progress import Progress
from arms.records import Architecture, Granularity, Modality, Ranking
from arms.text_form import composed, is_visible

if TYPE_CHECKING:
    from arms.encoders.given_queries import QueryVectors
    from arms.indexes.folder import Source


@dataclass(frozen=True, slots=True)
class ArmKind:
    """What a pipeline of the catalogue is, as data, so that planning a run loads no back end."""

    name: str
    modality: Modality
    architecture: Architecture
    granularities: tuple[Granularity, ...]
    module: str = ""
    """Where its class ``PipelineArm`` lives, e.g. ``arms.pipelines.bm25``."""
    load: Callable[[], type[Arm]] | None = None
    """Returns its class, in place of ``module``."""
    requires: tuple[str, ...] = ()
    """Importable packages of its back end."""
    default_encoder_requires: tuple[str, ...] = ()
    """Those that only its default encoder needs, and only to build an index."""
    extra: str = ""
    """The extra of ``learning-to-route`` that installs them."""
    uses_encoder: bool = False
    searches: bool = True
    """Whether it looks something up when asked: a replayed run and ``none`` don't."""
    fuses: bool = False
    """Whether it merely fuses what other arms of the run find."""
    summary: str = ""

    @property
    def plain_view(self) -> Granularity:
        """The granularity that an arm's identity leaves out."""
        return "page" if self.modality == "page_image" else "document"

    @property
    def chosen_by_default(self) -> bool:
        """Whether a router may choose it unless the run says otherwise, as in RetrievalRouter."""
        return self.architecture not in ("late", "none")


@dataclass(frozen=True, slots=True)
class ArmSpec:
    """One arm of a run. Its identity is ``name@granularity#encoder``, short where that is plain.

    An ``own_name`` is the identity in its place, so that a run may hold several arms of one kind.
    ``@document`` and the default encoder are left out: ``bm25``, ``text_dense@paragraph``,
    ``text_dense#thenlper/gte-small``. Arms over page pictures have pages as their plain view
    (:attr:`ArmKind.plain_view`), so ``@page`` is left out there: ``mm_dense``.
    """

    name: str
    granularity: Granularity = "document"
    encoder: str | None = None
    options: Mapping[str, Any] = field(default_factory=dict)
    own_name: str | None = None

    @property
    def identity(self) -> str:
        """The arm's name in labels, routers and reports."""
        if self.own_name is not None:
            return self.own_name
        from arms.catalogue import find_kind  # imports this module

        kind = find_kind(self.name)
        plain = "document" if kind is None else kind.plain_view
        view = "" if self.granularity == plain else f"@{self.granularity}"
        return self.name + view + (f"#{self.encoder}" if self.encoder else "")

    @property
    def folder_name(self) -> str:
        """The identity as one path component."""
        return self.identity.replace("/", "--")


class Arm(ABC):
    """One opened retrieval pipeline. Arms are read-only and may be shared by threads."""

    spec: ArmSpec

    @classmethod
    @abstractmethod
    def build(cls, spec: ArmSpec, corpus: Corpus, index_root: Path, progress: Progress) -> None:
        """Write ``index_root/<folder_name>/`` with ``arm.json`` last; do nothing if it is whole.

        Arms that read other arms' indexes (rerank, fusion) build those first, in ``index_root``.
        A killed build is continued, losing at most the chunk in flight.
        """

    @classmethod
    @abstractmethod
    def open(cls, spec: ArmSpec, corpus: Corpus, index_root: Path) -> Arm:
        """Open the index; raise ``ArmIndexError`` if absent, unfinished or of another corpus."""

    @classmethod
    def parts(cls, spec: ArmSpec) -> Sequence[ArmSpec]:
        """Return the arms whose indexes this one reads, in the same index root; default: none."""
        return ()

    @classmethod
    def source(cls, spec: ArmSpec, corpus: Corpus) -> Source:
        """Return what its own index is made from; default: every option shapes it."""
        from arms.indexes.folder import Source

        return Source(spec, corpus)

    @abstractmethod
    def rank_batch(self, queries: Sequence[str], k: int, clock: StageClock) -> list[Ranking]:
        """Rank for checked queries; subclasses implement this, callers use :meth:`rank`."""

    def rank(
        self, queries: Sequence[str], k: int, clock: StageClock | None = None
    ) -> list[Ranking]:
        """Return one ranking of at most ``k`` distinct labelled documents per query.

        Ordered by descending score, then ascending document id. Fewer than ``k`` come back only
        when the arm found no more. The result for a query doesn't depend on its neighbours in the
        batch, to the accuracy of float32 arithmetic.

        Raises:
            QueryError: a query is not text, holds nothing but white space, or can't be written as
                UTF-8.
            ValueError: ``k`` is below 1.
        """
        if k < 1:
            raise ValueError(f"k must be at least 1, got {k}")
        checked = [check_query(query) for query in queries]
        return self.rank_batch(checked, k, clock or StageClock()) if checked else []

    def with_query_vectors(self, given: QueryVectors) -> Arm:
        """Return this arm, taking from ``given`` the query vectors that it would make the same.

        It ranks as before, to the accuracy of float32 arithmetic. For serving: while arms are
        timed they share nothing. Default: the arm itself, which makes no vectors to be shared.
        """
        return self

    def query_backends(self) -> dict[str, str]:
        """Return what runs the query encoders: arm or part of it → back end; default: none."""
        return {}

    def stated_latency_ms(self, query: str) -> float | None:
        """Milliseconds that stand for this arm's latency on ``query``; None: measure it.

        Only arms that replay someone's earlier run state it; labels flag such latencies.
        """
        return None

    def shares_terms(self, query: str) -> bool | None:
        """Whether the index has any term of the query; None: the arm doesn't go by terms."""
        return None

    def memory_bytes(self) -> int:
        """Bytes of memory that the opened index holds, memory-mapped files included."""
        return 0


def check_query(query: str) -> str:
    """Return ``query`` in composed Unicode form (NFC), as indexes hold their texts.

    Raises:
        QueryError: it isn't text, has no visible character, or can't be written as UTF-8.
    """
    if not isinstance(query, str):
        raise QueryError(f"a query must be text, got {type(query).__name__}")
    if not is_visible(query):
        raise QueryError("the query is empty; give at least one visible character")
    try:
        query.encode("utf-8")
    except UnicodeEncodeError as error:  # half a surrogate pair, which no tokeniser takes
        raise QueryError(
            "expected a query that can be written as UTF-8, got "
            f"{query[error.start]!a} at character {error.start + 1}; remove or replace it, or "
            "decode the text with the encoding it was written in"
        ) from error
    return composed(query)
