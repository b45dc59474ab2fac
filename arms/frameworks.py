"""Retrievers of other frameworks as arms: LangChain, LlamaIndex, Haystack, PyTerrier.

A framework returns passages, often several of one document. A document scores its best passage.
Where passages have no score, their order stands in for it. The frameworks themselves aren't
imported here: whoever has such a retriever has the framework.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from arms.errors import ArmError
from arms.own import from_function
from arms.settings import ArmSettings

Scored = list[tuple[str, float]]


def from_langchain(
    name: str, retriever: Any, *, id_key: str | None = "source", **kind: Any
) -> ArmSettings:
    """Make a LangChain ``BaseRetriever`` an arm.

    Args:
        name: of the arm.
        retriever: how many passages it returns is its own affair (``search_kwargs={"k": …}``); give
            it at least the oracle's ``k``.
        id_key: the metadata that holds the corpus's document id; None: the passage's own ``id``.
        kind: see :func:`arms.own.from_function`, e.g. ``architecture="dense"``.
    """

    def search(query: str, k: int) -> Scored:
        passages = retriever.invoke(query)
        return best_passages(
            (_id(one.metadata, one.id, id_key), one.metadata.get("score")) for one in passages
        )

    return from_function(name, search, **kind)


def from_llama_index(
    name: str, retriever: Any, *, id_key: str | None = None, **kind: Any
) -> ArmSettings:
    """Make a LlamaIndex ``BaseRetriever`` an arm; ``similarity_top_k`` is its own affair.

    ``id_key``: the metadata that holds the corpus's document id; None: the id of the document that
    a node was cut from, or the node's own. For the rest see :func:`from_langchain`.
    """

    def search(query: str, k: int) -> Scored:
        nodes = retriever.retrieve(query)
        return best_passages(
            (_id(one.node.metadata, one.node.ref_doc_id or one.node.node_id, id_key), one.score)
            for one in nodes
        )

    return from_function(name, search, **kind)


def from_haystack(
    name: str,
    pipeline: Any,
    *,
    component: str = "retriever",
    inputs: Callable[[str, int], Mapping[str, Any]] | None = None,
    id_key: str | None = None,
    **kind: Any,
) -> ArmSettings:
    """Make a Haystack pipeline an arm.

    Args:
        name: of the arm.
        pipeline: run once for each query.
        component: the one whose ``documents`` answer.
        inputs: ``(query, k)`` → the pipeline's inputs; default: query and ``top_k`` for
            ``component``.
        id_key: the metadata that holds the corpus's document id; None: the document's own ``id``.
        kind: see :func:`arms.own.from_function`.
    """

    def search(query: str, k: int) -> Scored:
        given = {component: {"query": query, "top_k": k}} if inputs is None else inputs(query, k)
        found = pipeline.run(given, include_outputs_from={component})
        if "documents" not in found.get(component, {}):
            raise ArmError(
                f"'{name}': expected documents of the component '{component}', the pipeline "
                f"returned {', '.join(found) or 'nothing'}; name the right component"
            )
        documents = found[component]["documents"]
        return best_passages((_id(one.meta, one.id, id_key), one.score) for one in documents)

    return from_function(name, search, **kind)


def from_pyterrier(name: str, transformer: Any, **kind: Any) -> ArmSettings:
    """Make a PyTerrier transformer an arm: queries in, a result frame out, in one batch.

    Its frame has ``qid``, ``docno`` and ``score``. See :func:`arms.own.from_function` for ``kind``.
    """

    def search(queries: Sequence[str], k: int) -> list[Scored]:
        import pandas as pd

        qids = [str(place) for place in range(len(queries))]
        frame = transformer.transform(pd.DataFrame({"qid": qids, "query": list(queries)}))
        found: dict[str, Scored] = {qid: [] for qid in qids}
        for qid, doc_id, score in zip(frame["qid"], frame["docno"], frame["score"], strict=True):
            found[str(qid)].append((str(doc_id), float(score)))
        return [best_passages(found[qid])[:k] for qid in qids]

    return from_function(name, search, batched=True, **kind)


def best_passages(passages: Iterable[tuple[str, float | None]]) -> Scored:
    """Return (document id, score of its best passage), the best first.

    Where any score is missing, the passage at rank r counts as 1 / r.
    """
    given = list(passages)
    if any(score is None for _, score in given):
        given = [(doc_id, 1.0 / rank) for rank, (doc_id, _) in enumerate(given, 1)]
    best: dict[str, float] = {}
    for doc_id, score in given:
        best[doc_id] = max(best.get(doc_id, float("-inf")), float(score or 0.0))
    return sorted(best.items(), key=lambda one: (-one[1], one[0]))


def _id(metadata: Mapping[str, Any], own: Any, key: str | None) -> str:
    found = own if key is None else metadata.get(key)
    if found is None:
        where = "an id of its own" if key is None else f"'{key}' in its metadata"
        raise ArmError(
            f"expected a passage with {where}, got metadata {dict(metadata)!r:.100}; id_key names "
            "where the corpus's document id stands"
        )
    return str(found)
