"""Three collections that no design choice has seen, as text collections in BEIR's layout.

    PYTHONPATH=. .venv/bin/python benchmarks/clean_suite.py
    l2r oracle benchmarks/clean-suite.yaml
    PYTHONPATH=. .venv/bin/python benchmarks/labels/write.py clean-suite
    PYTHONPATH=. .venv/bin/python benchmarks/evidence.py clean

Pages of PDFs by their text layer, charts by their titles, photographs by one caption (the other
captions are the queries). They are scored once, by ``benchmarks/evidence.py``, after everything
was chosen.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from benchmarks.results_file import ROOT

DATA = ROOT.parent / "shared" / "data"
OUT = ROOT / "runs" / "clean"
TEXT_OF: dict[str, Callable[[Mapping[str, Any]], str]] = {
    "mmlongbench-doc-pages": lambda document: document["text"],
    "opencqa-charts": lambda document: document["metadata"]["chart_title"],
    "flickr8k-1000": lambda document: document["metadata"]["alt_caption"],
}
"""Collection → what its documents' text becomes."""


def write_collection(
    source: Path, target: Path, text_of: Callable[[Mapping[str, Any]], str]
) -> None:
    """Write ``target`` from ``source``: documents with a text, queries, and their judgements."""
    (target / "qrels").mkdir(parents=True, exist_ok=True)
    kept, documents = set(), []
    for document in map(json.loads, _lines(source / "corpus.jsonl")):
        if text_of(document).strip():
            kept.add(document["_id"])
            documents.append({"_id": document["_id"], "title": "", "text": text_of(document)})
    rows = [row for path in sorted((source / "qrels").glob("*.tsv")) for row in _lines(path)[1:]]
    judged = [row for row in rows if row.split("\t")[1] in kept]
    wanted = {row.split("\t")[0] for row in judged}
    queries = [
        {"_id": query["_id"], "text": query["text"]}
        for query in map(json.loads, _lines(source / "queries.jsonl"))
        if query["_id"] in wanted
    ]
    for name, records in (("corpus", documents), ("queries", queries)):
        (target / f"{name}.jsonl").write_text(
            "".join(json.dumps(record) + "\n" for record in records), encoding="utf-8"
        )
    table = "\n".join(["query-id\tcorpus-id\tscore", *judged])
    (target / "qrels" / "all.tsv").write_text(table + "\n", encoding="utf-8")
    print(f"{target.name}: {len(documents)} documents, {len(queries)} queries")


def _lines(path: Path) -> list[str]:
    return [line for line in path.read_text(encoding="utf-8").split("\n") if line.strip()]


def main() -> None:
    """Write all three."""
    for name, text_of in TEXT_OF.items():
        write_collection(DATA / name, OUT / name, text_of)


if __name__ == "__main__":
    main()
