"""A corpus with parts taken out of some documents, because they became queries."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from arms.corpora.corpus import Corpus
from arms.records import Document


@dataclass(frozen=True, slots=True)
class Edit:
    """What is taken out of an indexed document because it became a query.

    Pictures of its pages stay as they are: an image arm still sees the sentence.
    """

    span: tuple[int, int] | None = None
    drop_title: bool = False

    def apply(self, document: Document) -> Document:
        """Return the document without the span and, where it served, without its title."""
        begin, end = self.span or (0, 0)
        text = document.text[:begin] + document.text[end:]
        title = "" if self.drop_title else document.title
        return replace(document, title=title, text=text)


class EditedCorpus(Corpus):
    """Another corpus with some documents edited as it is walked; it holds only the edits."""

    def __init__(self, source: Corpus, edits: Mapping[str, Edit]) -> None:
        self.name = source.name
        self.language = source.language
        self._source = source
        self._edits = edits

    def __iter__(self) -> Iterator[Document]:
        for document in self._source:
            edit = self._edits.get(document.doc_id)
            yield edit.apply(document) if edit else document

    def __len__(self) -> int:
        return len(self._source)
