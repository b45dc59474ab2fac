"""A labelled corpus of a few dozen documents, written as a BEIR folder."""

import json
from pathlib import Path

PLACES = (
    "Lisbon",
    "Quito",
    "Oslo",
    "Hanoi",
    "Nairobi",
    "Perth",
    "Turin",
    "Lima",
    "Bergen",
    "Osaka",
)
THINGS = (
    ("bridge", "carries two lanes of traffic and a tramway across the river"),
    ("library", "keeps old maps, newspapers and a reading room for visitors"),
    ("market", "sells fruit, fish and spices from sunrise until noon"),
    ("museum", "shows ships, sails and navigation instruments of the harbour"),
    ("station", "connects the night trains with the coastal line"),
    ("garden", "grows orchids and ferns under a glass roof"),
)


def write_small_corpus(folder: Path) -> Path:
    """Write 60 documents, 120 queries and their judgements; return the folder."""
    documents, queries, judgements = [], [], []
    for place in PLACES:
        for thing, fact in THINGS:
            doc_id = f"{place}-{thing}".lower()
            text = f"The {thing} of {place} {fact}. It opened long ago. People of {place} like it."
            documents.append({"_id": doc_id, "title": f"{thing} of {place}", "text": text})
            for kind, words in (("name", f"{place} {thing}"), ("fact", f"what in {place} {fact}")):
                queries.append({"_id": f"{doc_id}-{kind}", "text": words})
                judgements.append((f"{doc_id}-{kind}", doc_id, 1))
    (folder / "qrels").mkdir(parents=True)
    for name, rows in (("corpus", documents), ("queries", queries)):
        lines = "".join(json.dumps(row) + "\n" for row in rows)
        (folder / f"{name}.jsonl").write_text(lines, encoding="utf-8")
    lines = "".join(f"{query}\t{doc}\t{grade}\n" for query, doc, grade in judgements)
    (folder / "qrels" / "all.tsv").write_text(f"query-id\tcorpus-id\tscore\n{lines}")
    return folder
