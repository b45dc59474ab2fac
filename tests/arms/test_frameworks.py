"""Retrievers of other frameworks, each on the real library."""

import pytest

import arms
from arms.catalogue import build_arm, kind_of, open_arm, spec_of
from arms.corpora.corpus import MemoryCorpus
from arms.errors import ArmError
from arms.frameworks import best_passages
from arms.records import Document

TEXTS = {"a": "red bridges over rivers", "b": "blue boats on rivers", "c": "green hills"}
CORPUS = MemoryCorpus("c", [Document(one, "", text) for one, text in TEXTS.items()])


def ranked(settings, root, queries, k=2):
    spec = spec_of(settings)
    build_arm(spec, CORPUS, root)
    return [found.doc_ids for found in open_arm(spec, CORPUS, root).rank(queries, k)]


def shared(query, text):
    return len(set(query.split()) & set(text.split()))


def test_langchain(tmp_path):
    documents = pytest.importorskip("langchain_core.documents")
    retrievers = pytest.importorskip("langchain_core.retrievers")

    class Words(retrievers.BaseRetriever):
        def _get_relevant_documents(self, query, *, run_manager):
            best = sorted(TEXTS, key=lambda one: -shared(query, TEXTS[one]))
            return [
                documents.Document(page_content=TEXTS[one], metadata={"source": one})
                for one in [*best, best[0]]  # passages of one document may come twice
            ]

    arm = arms.from_langchain("langchain_words", Words(), architecture="sparse")
    assert kind_of(arm.arm).architecture == "sparse"
    assert ranked(arm, tmp_path, ["blue boats", "green"]) == [("b", "a"), ("c", "a")]
    nowhere = arms.from_langchain("langchain_nowhere", Words(), id_key="doc")
    with pytest.raises(ArmError, match=r"'doc' in its metadata.*id_key names"):
        ranked(nowhere, tmp_path, ["blue"])


def test_llama_index(tmp_path):
    retrievers = pytest.importorskip("llama_index.core.retrievers")
    schema = pytest.importorskip("llama_index.core.schema")

    def node(doc_id, part):
        source = schema.RelatedNodeInfo(node_id=doc_id)
        found = schema.TextNode(id_=f"{doc_id}-{part}", text=TEXTS[doc_id])
        found.relationships = {schema.NodeRelationship.SOURCE: source}
        return found

    class Words(retrievers.BaseRetriever):
        def _retrieve(self, query_bundle):
            query = query_bundle.query_str
            return [
                schema.NodeWithScore(node=node(one, part), score=shared(query, text) - part / 10)
                for one, text in TEXTS.items()
                for part in (1, 0)
            ]

    arm = arms.from_llama_index("llama_words", Words())
    assert ranked(arm, tmp_path, ["rivers with boats"], 3) == [("b", "a", "c")]


def test_haystack(tmp_path):
    haystack = pytest.importorskip("haystack")
    from haystack.components.retrievers.in_memory import InMemoryBM25Retriever
    from haystack.document_stores.in_memory import InMemoryDocumentStore

    store = InMemoryDocumentStore()
    store.write_documents([haystack.Document(id=one, content=TEXTS[one]) for one in TEXTS])
    pipeline = haystack.Pipeline()
    pipeline.add_component("retriever", InMemoryBM25Retriever(store))
    arm = arms.from_haystack("haystack_bm25", pipeline)
    assert ranked(arm, tmp_path, ["blue boats"])[0][0] == "b"
    wrong = arms.from_haystack(
        "haystack_wrong", pipeline, component="ranker",
        inputs=lambda query, k: {"retriever": {"query": query}},
    )  # fmt: skip
    with pytest.raises((ArmError, ValueError), match="ranker"):
        ranked(wrong, tmp_path, ["blue"])


def test_pyterrier(tmp_path):
    pyterrier = pytest.importorskip("pyterrier")
    pandas = pytest.importorskip("pandas")

    def transform(frame):
        rows = [
            {"qid": qid, "query": query, "docno": one, "score": float(shared(query, text))}
            for qid, query in zip(frame["qid"], frame["query"], strict=True)
            for one, text in TEXTS.items()
        ]
        return pandas.DataFrame(rows)

    arm = arms.from_pyterrier("terrier_words", pyterrier.apply.generic(transform))
    queries = ["hills that are green", "boats"]
    assert ranked(arm, tmp_path, queries, 1) == [("c",), ("b",)]


def test_the_best_passage_counts_and_ranks_stand_in_for_scores():
    assert best_passages([("a", 0.1), ("b", 0.5), ("a", 0.7)]) == [("a", 0.7), ("b", 0.5)]
    assert best_passages([("b", None), ("a", 0.7), ("b", 0.9)]) == [("b", 1.0), ("a", 0.5)]
    assert best_passages([("b", -2.0), ("a", -2.0)]) == [("a", -2.0), ("b", -2.0)]
    assert best_passages([]) == []
