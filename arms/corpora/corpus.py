"""What every reader yields: a corpus that can be walked any number of times, and a dataset."""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from arms.html_table import html_table
from arms.records import Document, Qrels, Query


class Corpus(ABC):
    """A collection of documents, streamed: walking it keeps one document in memory at a time."""

    name: str
    language: str = "english"

    @abstractmethod
    def __iter__(self) -> Iterator[Document]:
        """Yield the documents in their stored order, the same on every walk."""

    @abstractmethod
    def __len__(self) -> int:
        """Return the number of documents."""

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 over ids, titles, texts and page pictures in order; an index records it."""
        digest = hashlib.sha256()
        for document in self:
            pictures = (page.key for page in document.pages)
            for part in (document.doc_id, document.title, document.text, *pictures):
                digest.update(part.encode("utf-8", "surrogatepass"))
                digest.update(b"\x00")
        return digest.hexdigest()


class MemoryCorpus(Corpus):
    """A corpus held in memory: for tests, demos and small generated collections."""

    def __init__(self, name: str, documents: Sequence[Document], language: str = "english") -> None:
        self.name = name
        self.language = language
        self._documents = tuple(documents)

    def __iter__(self) -> Iterator[Document]:
        return iter(self._documents)

    def __len__(self) -> int:
        return len(self._documents)


@dataclass(frozen=True)
class Dataset:
    """A corpus with queries and judgements; what was dropped on reading stands in ``dropped``."""

    name: str
    corpus: Corpus
    queries: tuple[Query, ...]
    qrels: Qrels
    dropped: Mapping[str, int] = field(default_factory=dict)
    """Problem kind → how many items lenient reading left out."""
    without_own: frozenset[str] = frozenset()
    """Ids of queries that stand among the documents under the same id: as answers to themselves
    those documents are left out."""

    def __repr__(self) -> str:
        judged = sum(1 for query in self.queries if self.qrels.get(query.query_id))
        counts = f"{len(self.corpus):,} documents, {len(self.queries):,} queries"
        return f"Dataset '{self.name}': {counts}, {judged:,} of them judged"

    def _repr_html_(self) -> str:
        left_out = [(f"left out: {kind}", f"{count:,}") for kind, count in self.dropped.items()]
        rows = [
            ("documents", f"{len(self.corpus):,}"),
            ("queries", f"{len(self.queries):,}"),
            ("judged queries", f"{sum(map(bool, self.qrels.values())):,}"),
            *left_out,
        ]
        return html_table(f"Dataset '{self.name}'", ("", ""), rows, "oracle.label(dataset)")
