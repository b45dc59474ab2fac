"""Add the groups of queries, and the relevant documents, to labels that are kept here.

For labels that were made before there were such columns: nothing is ranked or timed, and train,
val and test stay as they are. The texts and judgements come from the collections that the suite's
recipe names; a query whose text isn't the labelled one is refused.

    PYTHONPATH=. .venv/bin/python benchmarks/labels/add_groups.py text-suite
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from arms.atomic import write_json
from arms.corpora.corpus import Dataset
from oracle.groups import group_queries, groups_in_force, split_entry
from oracle.labels import MANIFEST, SPLIT, read_labels
from oracle.quality import relevant_ids_of
from oracle.redact import attach_texts
from oracle.tables import GROUP_COLUMNS, QUERY_SCHEMA, RELEVANT_IDS, write_table

HERE = Path(__file__).parent
RECIPES = HERE.parent.parent / "training" / "recipes"


def add_groups(folder: Path, datasets: list[Dataset]) -> dict[str, int]:
    """Rewrite ``queries.parquet`` and the manifest of ``folder``; return groups per strength."""
    labels = read_labels(folder)
    judged = {one.name: one.qrels for one in datasets}
    texts = {(one.name, query.query_id): query.text for one in datasets for query in one.queries}
    labels = attach_texts(labels, texts)
    keys = list(zip(labels.datasets.tolist(), labels.query_ids.tolist(), strict=True))
    relevant = [relevant_ids_of(judged[dataset][query_id]) for dataset, query_id in keys]
    assert labels.texts is not None
    found = group_queries(
        labels.datasets.tolist(), labels.text_groups.tolist(), labels.texts.tolist(), relevant
    )
    queries = pq.read_table(folder / "queries.parquet")
    place = {key: row for row, key in enumerate(keys)}
    order = [
        place[key]
        for key in zip(queries["dataset"].to_pylist(), queries["query_id"].to_pylist(), strict=True)
    ]
    columns = {name: queries[name] for name in queries.column_names}
    for name, values in zip(GROUP_COLUMNS[1:], (found.near_duplicate, found.document), strict=True):
        columns[name] = pa.array(values[order].tolist(), pa.string())
    columns[RELEVANT_IDS] = pa.array([relevant[row] for row in order], pa.list_(pa.string()))
    names = [name for name in QUERY_SCHEMA.names if name in columns]
    names += [name for name in columns if name not in names]
    table = pa.table({name: columns[name] for name in names})
    write_table(folder / "queries.parquet", table, table.schema)
    manifest = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))
    manifest.setdefault(SPLIT, split_entry(groups_in_force(found, "query")))
    write_json(folder / MANIFEST, manifest)
    return {name: len(set(found.of(name))) for name in ("query", "near_duplicate", "document")}


def main() -> None:
    import l2r

    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("suite")
    suite = parser.parse_args().suite
    datasets = list(l2r.read_datasets(l2r.read_run(RECIPES / f"{suite}.yaml")))
    print(add_groups(HERE / suite, datasets))


if __name__ == "__main__":
    main()
