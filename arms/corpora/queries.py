"""Labelled queries made from any unlabelled corpus, by rule and seed.

Three kinds, each with one relevant document (grade 1):

``sentence``  a sentence of the document, which is taken out of the indexed document. It has 5 to 24
              words (longer sentences and text without punctuation are cut into runs of at most
              24), at most half of the document's; at least 60 % of its characters are letters;
              and it stands nowhere else in the corpus.
``keywords``  the document's two or more most distinctive terms: highest count × ln(documents /
              documents with the term), most distinctive first. Terms that only this document has,
              whose query would be a mere look-up, are taken only where others don't suffice.
``title``     the document's title of two or more words, no other document's, which is taken out of
              the indexed document.

Documents are drawn without replacement; a document serves two kinds only where the corpus is small
for the number of queries. No two queries share their text. A query's kind and document stand in
its metadata: gold information, for reports and never for a router.
"""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from pydantic import Field, model_validator

from arms.corpora.corpus import Corpus, Dataset
from arms.corpora.edited import Edit, EditedCorpus
from arms.corpora.granularity import Span, pieces, words
from arms.errors import CorpusError
from arms.progress import Progress, SilentProgress
from arms.records import Document, Query
from arms.settings import Settings
from arms.text_form import normalised_text
from arms.words import is_letter, long_terms

Kind = Literal["sentence", "keywords", "title"]

SENTENCE_WORDS = (5, 24)
MIN_LETTERS_SHARE = 0.6
MIN_DOCUMENT_WORDS = 20
"""Shorter documents are left alone: taking a sentence out would leave too little."""
CANDIDATES_PER_DOCUMENT = 8


class QuerySettings(Settings):
    """How to make labelled queries from a corpus."""

    n_queries: int = Field(default=500, ge=1, description="of all kinds together, at most")
    kinds: tuple[Kind, ...] = Field(
        default=("sentence", "keywords"), min_length=1, description="sentence, keywords, title"
    )
    keyword_terms: int = Field(default=4, ge=1, le=20, description="terms in a keyword query")
    seed: int = Field(default=42, description="of the draw of documents and sentences")

    @model_validator(mode="after")
    def _kinds_differ(self) -> QuerySettings:
        if len(set(self.kinds)) < len(self.kinds):
            raise ValueError(f"kinds should differ, got {', '.join(self.kinds)}")
        return self


def make_queries(
    corpus: Corpus, settings: QuerySettings | None = None, progress: Progress | None = None
) -> Dataset:
    """Return the corpus, edited, with made queries and judgements, in the order of ``kinds``.

    The same corpus and settings give the same dataset. Fewer queries come back where the corpus
    has too few fitting documents. The corpus is walked three times; memory holds its vocabulary and
    the candidates of the drawn documents.

    Raises:
        CorpusError: the corpus is empty, or no query of any kind could be made.
    """
    settings = settings or QuerySettings()
    progress = progress or SilentProgress()
    survey = _survey(_walk(corpus, "query terms", progress))
    rows = _draw(survey, settings)
    drafts = _draft(_walk(corpus, "query drafts", progress), rows, survey, settings)
    if "sentence" in settings.kinds:
        drafts = _keep_unique(_walk(corpus, "query sentences", progress), drafts)
    chosen = _choose(drafts, settings)
    if not chosen:
        raise CorpusError(
            f"no query of the kinds {', '.join(settings.kinds)} can be made from corpus "
            f"'{corpus.name}': expected documents of at least {MIN_DOCUMENT_WORDS} words "
            f"(title queries: with a title of two words), found {survey.n_documents} documents"
        )
    return _dataset(corpus, chosen)


@dataclass
class _Survey:
    """What the first walk learns: document frequencies, and rows that may serve each kind."""

    n_documents: int = 0
    document_frequency: Counter[str] = field(default_factory=Counter)
    long_rows: list[int] = field(default_factory=list)
    titled_rows: dict[int, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _Draft:
    """One possible query; ``span`` is the sentence's place in the text."""

    kind: Kind
    doc_id: str
    text: str
    span: Span | None = None


_Drafts = dict[Kind, list[list[_Draft]]]
"""Kind → one list of alternatives per drawn document, in the order of the draw."""


def _walk(corpus: Corpus, description: str, progress: Progress) -> Iterator[Document]:
    with progress.task(description, total=len(corpus)) as task:
        for document in corpus:
            yield document
            task.advance()


def terms(text: str) -> list[str]:
    """Return the text's terms: lower-case runs of 3 or more letters; Chinese as pairs."""
    return long_terms(text.lower())


def _survey(documents: Iterator[Document]) -> _Survey:
    survey = _Survey()
    for row, document in enumerate(documents):
        survey.n_documents += 1
        survey.document_frequency.update(set(terms(document.text)))
        if len(words(document.text)) >= MIN_DOCUMENT_WORDS:
            survey.long_rows.append(row)
        if len(words(document.title)) > 1 and document.text.strip():
            survey.titled_rows[row] = normalised_text(document.title)
    copies = Counter(survey.titled_rows.values())
    survey.titled_rows = {r: title for r, title in survey.titled_rows.items() if copies[title] == 1}
    return survey


def _draw(survey: _Survey, settings: QuerySettings) -> dict[Kind, list[int]]:
    """Draw rows per kind, twice as many as wanted, since some turn out not to fit.

    Each kind begins at another place of the same shuffled order, so kinds rarely share documents.
    """
    rng = random.Random(settings.seed)
    wanted = 2 * -(-settings.n_queries // len(settings.kinds)) + 20
    drawn: dict[Kind, list[int]] = {}
    order = list(range(survey.n_documents))
    rng.shuffle(order)
    long_rows = frozenset(survey.long_rows)
    for number, kind in enumerate(settings.kinds):
        begin = number * len(order) // len(settings.kinds)
        fitting = survey.titled_rows if kind == "title" else long_rows
        rows = [row for row in order[begin:] + order[:begin] if row in fitting]
        drawn[kind] = rows[:wanted]
    return drawn


def _draft(
    documents: Iterator[Document],
    rows: Mapping[Kind, Sequence[int]],
    survey: _Survey,
    settings: QuerySettings,
) -> _Drafts:
    wanted = {kind: set(drawn) for kind, drawn in rows.items()}
    made: dict[tuple[Kind, int], list[_Draft]] = {}
    for row, document in enumerate(documents):
        for kind in (kind for kind, drawn in wanted.items() if row in drawn):
            rng = random.Random(f"{settings.seed} {kind} {row}")
            made[kind, row] = _drafts_of(kind, document, survey, settings, rng)
    return {kind: [made[kind, row] for row in drawn] for kind, drawn in rows.items()}


def _drafts_of(
    kind: Kind, document: Document, survey: _Survey, settings: QuerySettings, rng: random.Random
) -> list[_Draft]:
    if kind == "title":
        return [_Draft(kind, document.doc_id, " ".join(document.title.split()))]
    if kind == "keywords":
        text = keywords(document.text, survey.document_frequency, survey.n_documents, settings)
        return [_Draft(kind, document.doc_id, text)] if text else []
    spans = list(_sentence_candidates(document.text))
    return [
        _Draft(kind, document.doc_id, " ".join(document.text[begin:end].split()), (begin, end))
        for begin, end in rng.sample(spans, min(len(spans), CANDIDATES_PER_DOCUMENT))
    ]


def keywords(
    text: str, document_frequency: Mapping[str, int], n_documents: int, settings: QuerySettings
) -> str:
    """Return the text's most distinctive terms, or nothing where fewer than two are distinctive.

    Weight: count × ln(documents / documents with the term); ties in alphabetical order.
    """
    counts = Counter(terms(text))
    weights = {t: n * math.log(n_documents / document_frequency[t]) for t, n in counts.items()}
    order = sorted(counts, key=lambda t: (document_frequency[t] < 2, -weights[t], t))
    chosen = [term for term in order if weights[term] > 0][: settings.keyword_terms]
    chosen.sort(key=lambda t: (-weights[t], t))
    return " ".join(chosen) if len(chosen) >= min(2, settings.keyword_terms) else ""


def _sentence_candidates(text: str) -> Iterator[Span]:
    fewest, most = SENTENCE_WORDS
    half = len(words(text)) // 2
    for begin, end, n_words in pieces(text, most):
        if fewest <= n_words <= half and _is_prose(text[begin:end]):
            yield begin, end


def _is_prose(sentence: str) -> bool:
    letters = sum(is_letter(mark) for mark in sentence)
    return letters >= MIN_LETTERS_SHARE * sum(not mark.isspace() for mark in sentence)


def _keep_unique(documents: Iterator[Document], drafts: _Drafts) -> _Drafts:
    """Keep the sentences that stand once in the corpus: else another document holds the answer."""
    sentences = {
        normalised_text(draft.text) for drafts_of in drafts["sentence"] for draft in drafts_of
    }
    seen: Counter[str] = Counter()
    for document in documents:
        for begin, end, _ in pieces(document.text, SENTENCE_WORDS[1]):
            sentence = normalised_text(document.text[begin:end])
            if sentence in sentences:
                seen[sentence] += 1
    unique = [
        [draft for draft in drafts_of if seen[normalised_text(draft.text)] == 1]
        for drafts_of in drafts["sentence"]
    ]
    return {**drafts, "sentence": unique}


def _choose(drafts: _Drafts, settings: QuerySettings) -> list[_Draft]:
    """Take the first usable draft of each document until each kind has its share."""
    chosen: list[_Draft] = []
    texts: set[str] = set()
    for number, kind in enumerate(settings.kinds):
        share = (settings.n_queries + number) // len(settings.kinds)
        taken = 0
        for drafts_of in drafts[kind]:
            fresh = [draft for draft in drafts_of if normalised_text(draft.text) not in texts]
            if fresh and taken < share:
                chosen.append(fresh[0])
                texts.add(normalised_text(fresh[0].text))
                taken += 1
    return chosen


def _dataset(corpus: Corpus, chosen: Sequence[_Draft]) -> Dataset:
    edits: dict[str, Edit] = {}
    queries: list[Query] = []
    qrels: dict[str, dict[str, int]] = {}
    numbers: Counter[str] = Counter()
    for draft in chosen:
        query_id = f"{draft.kind}-{numbers[draft.kind]:05d}"
        numbers[draft.kind] += 1
        queries.append(Query(query_id, draft.text, {"kind": draft.kind, "document": draft.doc_id}))
        qrels[query_id] = {draft.doc_id: 1}
        if draft.kind != "keywords":
            edit = edits.get(draft.doc_id, Edit())
            edits[draft.doc_id] = Edit(
                edit.span or draft.span, edit.drop_title or draft.kind == "title"
            )
    return Dataset(corpus.name, EditedCorpus(corpus, edits), tuple(queries), qrels)
