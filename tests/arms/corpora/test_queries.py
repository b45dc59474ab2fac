import math
from collections import Counter

import pytest

from arms.corpora.beir import write_beir
from arms.corpora.corpus import MemoryCorpus
from arms.corpora.granularity import words
from arms.corpora.queries import QuerySettings, keywords, make_queries, terms
from arms.corpora.reader import read_dataset
from arms.errors import CorpusError
from arms.records import Document
from arms.settings import DatasetSettings

_NAMES = "otter badger heron falcon beetle salmon walrus gibbon lemur iguana puffin marmot"
SUBJECTS = _NAMES.split()


def animals(n_documents=12) -> MemoryCorpus:
    documents = []
    for number, subject in enumerate(SUBJECTS[:n_documents]):
        other = SUBJECTS[(number + 1) % len(SUBJECTS)]
        text = (
            f"The {subject} lives near rivers and is rarely seen by day. "
            f"Every {subject} builds a nest of twigs, moss and {other} hair. "
            f"Farmers have feared it for centuries, as number {number} of the old book says. "
            "Nobody knows how many of them there still are."
        )
        documents.append(Document(f"d{number}", f"About the {subject}", text))
    return MemoryCorpus("animals", documents)


def transcripts() -> MemoryCorpus:
    documents = [
        Document(f"v{n}", "", " ".join(f"{a}{b}" for a in SUBJECTS[n:] for b in "xyzuvw"))
        for n in range(4)
    ]
    return MemoryCorpus("transcripts", documents)


def test_a_sentence_query_is_taken_out_of_its_document_and_only_there():
    corpus = animals()
    dataset = make_queries(corpus, QuerySettings(n_queries=8, kinds=("sentence",)))
    edited = {document.doc_id: document for document in dataset.corpus}
    original = {document.doc_id: document for document in corpus}
    assert len(dataset.queries) == 8
    for query in dataset.queries:
        (doc_id,) = dataset.qrels[query.query_id]
        assert query.text in original[doc_id].text
        assert query.text not in edited[doc_id].text
        rest = Counter(words(original[doc_id].text)) - Counter(words(query.text))
        assert Counter(words(edited[doc_id].text)) == rest
        assert query.metadata == {"kind": "sentence", "document": doc_id}
    untouched = set(original) - {q.metadata["document"] for q in dataset.queries}
    assert untouched
    assert all(edited[doc_id] == original[doc_id] for doc_id in untouched)
    assert dataset.corpus.fingerprint != corpus.fingerprint
    assert len(dataset.corpus) == len(corpus)


def test_a_sentence_that_stands_elsewhere_is_no_query():
    dataset = make_queries(animals(), QuerySettings(n_queries=12, kinds=("sentence",)))
    assert not [query for query in dataset.queries if query.text.startswith("Nobody")]


def test_a_sentence_of_more_than_half_the_document_is_no_query():
    long = " ".join(f"{subject}s" for subject in SUBJECTS).capitalize() + "."  # 12 words
    documents = [Document("d", "", f"{long} Here are eight more words of one document.")]
    (query,) = make_queries(
        MemoryCorpus("c", documents), QuerySettings(kinds=("sentence",))
    ).queries
    assert query.text.startswith("Here are")
    assert len(words(documents[0].text)) == 20


def test_keywords_are_the_terms_of_highest_weight():
    settings = QuerySettings(keyword_terms=2)
    frequency = {"tea": 10, "pot": 5, "the": 100, "lid": 2, "unique": 1}
    # tea 3·ln 10 = 6.9, lid 1·ln 50 = 3.9, pot 1·ln 20 = 3.0, the 4·ln 1 = 0, unique only last
    text = "the tea the pot the tea the tea lid unique unique unique"
    assert 3 * math.log(10) > math.log(50) > math.log(20)
    assert keywords(text, frequency, 100, settings) == "tea lid"
    # unique, the only term left, is taken after all, and stands first by its weight
    assert keywords("the tea unique unique", frequency, 100, settings) == "unique tea"
    assert keywords("the the tea", frequency, 100, settings) == ""


def test_terms_fold_case_and_pair_chinese():
    assert terms("The TEA-pot, 3 of 42 ok größe") == ["the", "tea", "pot", "größe"]
    assert terms("北京大学 x") == ["北京", "京大", "大学"]


def test_a_title_query_leaves_its_document_without_title():
    dataset = make_queries(animals(), QuerySettings(n_queries=5, kinds=("title",)))
    edited = {document.doc_id: document for document in dataset.corpus}
    for query in dataset.queries:
        assert query.text.startswith("About the ")
        assert edited[query.metadata["document"]].title == ""
    assert sum(not document.title for document in edited.values()) == 5


def test_titles_that_documents_share_are_no_queries():
    documents = [Document(f"d{n}", "The same title", f"text {n}") for n in range(3)]
    documents.append(Document("d3", "Another title", "text"))
    settings = QuerySettings(kinds=("title",))
    dataset = make_queries(MemoryCorpus("c", documents), settings)
    assert [query.text for query in dataset.queries] == ["Another title"]


def test_the_seed_decides_and_nothing_else():
    kinds = ("sentence", "keywords", "title")
    first = make_queries(animals(), QuerySettings(n_queries=9, kinds=kinds))
    again = make_queries(animals(), QuerySettings(n_queries=9, kinds=kinds))
    other = make_queries(animals(), QuerySettings(n_queries=9, kinds=kinds, seed=7))
    assert first.queries == again.queries
    assert first.corpus.fingerprint == again.corpus.fingerprint
    assert first.queries != other.queries
    assert Counter(q.metadata["kind"] for q in first.queries) == dict.fromkeys(kinds, 3)


def test_shares_add_up_to_the_number_wanted():
    dataset = make_queries(animals(), QuerySettings(n_queries=5))
    assert Counter(q.metadata["kind"] for q in dataset.queries) == {"sentence": 2, "keywords": 3}


def test_text_without_punctuation_gives_sentence_queries():
    dataset = make_queries(transcripts(), QuerySettings(n_queries=4, kinds=("sentence",)))
    assert dataset.queries
    assert all(5 <= len(words(query.text)) <= 24 for query in dataset.queries)


def test_what_is_made_writes_and_reads_back(tmp_path):
    dataset = make_queries(animals(), QuerySettings(n_queries=10))
    write_beir(dataset, tmp_path / "made")
    back = read_dataset(DatasetSettings(path=tmp_path / "made"))
    assert back.queries == dataset.queries
    assert back.qrels == dataset.qrels
    assert back.corpus.fingerprint == dataset.corpus.fingerprint
    assert len({query.text for query in back.queries}) == len(back.queries)


@pytest.mark.parametrize("documents", [[], [Document("d", "", "too short")]])
def test_no_query_at_all_is_a_clear_error(documents):
    with pytest.raises(CorpusError, match="no query of the kinds sentence, keywords can be made"):
        make_queries(MemoryCorpus("tiny", documents))


def test_settings_are_checked():
    with pytest.raises(ValueError, match="kinds should differ"):
        QuerySettings(kinds=("sentence", "sentence"))
