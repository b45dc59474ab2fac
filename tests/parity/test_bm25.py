"""BM25 rankings equal bm25s's own, on random texts full of ties."""

import bm25s
import numpy as np
import pytest
import Stemmer

from arms.arm import ArmSpec
from arms.catalogue import build_arm, open_arm
from arms.corpora.corpus import MemoryCorpus
from arms.records import Document

WORDS = """
tide moon coast lava crust hive flower glacier valley knight bread flour lock canal dream
running runs ran cities city the of and
""".split()  # noqa: SIM905
N_DOCUMENTS, N_QUERIES, K = 120, 40, 7


def texts(seed, count, longest):
    draw = np.random.default_rng(seed)
    sizes = draw.integers(1, longest, size=count)
    return [" ".join(draw.choice(WORDS, size=size)) for size in sizes]


@pytest.fixture(scope="module")
def corpus():
    of_documents = enumerate(texts(1, N_DOCUMENTS, 25))
    documents = [Document(f"d{n * 37 % N_DOCUMENTS}", "", text) for n, text in of_documents]
    return MemoryCorpus("random", [*documents, Document("rare", "", "obsidian moon")])


def tokens(some_texts, return_ids):
    return bm25s.tokenize(
        some_texts,
        stopwords="en",
        stemmer=Stemmer.Stemmer("english"),
        return_ids=return_ids,
        show_progress=False,
    )


@pytest.mark.parametrize("method", ["lucene", "robertson", "atire", "bm25l", "bm25+"])
def test_scores_and_order_equal_bm25s(corpus, method, tmp_path):
    reference = bm25s.BM25(k1=1.2, b=0.6, method=method)
    reference.index(tokens([one.full_text for one in corpus], True), show_progress=False)
    spec = ArmSpec("bm25", options={"k1": 1.2, "b": 0.6, "method": method})
    build_arm(spec, corpus, tmp_path)
    queries = [*texts(2, N_QUERIES, 6), "moon moon moon", "unheard moon", "obsidian"]
    rankings = open_arm(spec, corpus, tmp_path).rank(queries, K)
    holds = {one.doc_id: set(tokens([one.full_text], False)[0]) for one in corpus}
    compared = 0
    for query, ranking in zip(queries, rankings, strict=True):
        known = [term for term in tokens([query], False)[0] if term in reference.vocab_dict]
        if not known:
            assert ranking.doc_ids == ()
            continue
        expected = sorted(
            (-score, doc_id)
            for doc_id, score in zip(holds, reference.get_scores(known).tolist(), strict=True)
            if score > 0 and holds[doc_id] & set(known)
        )[:K]
        ours = zip(ranking.scores, ranking.doc_ids, strict=True)
        assert [(-score, doc_id) for score, doc_id in ours] == expected
        compared += 1
    assert compared > N_QUERIES / 2


def test_the_scores_retrieved_equal_those_of_bm25s_retrieve(corpus, tmp_path):
    reference = bm25s.BM25()
    reference.index(tokens([one.full_text for one in corpus], True), show_progress=False)
    build_arm(ArmSpec("bm25"), corpus, tmp_path)
    queries = ["moon tide", "running city", "lava crust hive flower"]
    retrieved = reference.retrieve(tokens(queries, True), k=K, show_progress=False)
    ours = open_arm(ArmSpec("bm25"), corpus, tmp_path).rank(queries, K)
    assert retrieved.scores.min() > 0
    np.testing.assert_array_equal([one.scores for one in ours], retrieved.scores)
