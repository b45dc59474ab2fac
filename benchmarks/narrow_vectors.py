"""What int8 and binary multi-vectors lose of nDCG@5, on the vectors that a run has indexed."""

from __future__ import annotations

import random
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from arms.catalogue import arm_class, spec_of
from arms.corpora.corpus import Dataset
from arms.errors import ArmIndexError
from arms.indexes.exact_index import ExactIndex
from arms.indexes.token_vectors import TokenVectors, TokenVectorWriter
from arms.indexes.vector_storage import Storage
from l2r import read_datasets, read_run
from oracle.quality import query_quality

LATE = ("text_late", "mm_late")
MEASURE = "nDCG@5"
MOST_QUERIES = 200
_COPIED_UNITS = 2000


def losses(run_file: Path) -> Iterator[tuple[str, dict[str, float]]]:
    """Yield ``dataset:arm`` and its nDCG@5 by storage, for every late index that the run has.

    Exact search over all units. At most ``MOST_QUERIES`` queries of each dataset, drawn with a
    fixed seed.
    """
    run = read_run(run_file)
    for dataset in read_datasets(run):
        for arm in run.arms:
            if arm.arm in LATE and (arm.only is None or dataset.name in arm.only):
                try:
                    found = _measure(dataset, spec_of(arm), run.output / "index" / dataset.name)
                except ArmIndexError as error:
                    print(f"{dataset.name}: {error}", flush=True)
                else:
                    yield f"{dataset.name}:{spec_of(arm).identity}", found


def _measure(dataset: Dataset, spec: Any, index_root: Path) -> dict[str, float]:
    parts = arm_class(spec.name).open_parts(spec, dataset.corpus, index_root)  # type: ignore[attr-defined]
    queries = [query for query in dataset.queries if dataset.qrels.get(query.query_id)]
    random.Random(42).shuffle(queries)
    queries = queries[:MOST_QUERIES]
    vectors = parts.encoder.encode_queries([query.text for query in queries])
    quality: dict[str, float] = {}
    for storage in ("float16", "int8", "binary"):
        with tempfile.TemporaryDirectory() as place:
            store = parts.store if storage == "float16" else stored_as(parts.store, storage, place)
            rankings = ExactIndex(store).rank(vectors, parts.table, 5)
        by_id = dict(zip((query.query_id for query in queries), rankings, strict=True))
        values = query_quality(dataset.qrels, by_id, [MEASURE])[MEASURE].values()
        quality[storage] = float(np.mean(list(values)))
    return quality


def stored_as(store: TokenVectors, storage: Storage, place: str | Path) -> TokenVectors:
    """Copy a store into ``place``, its vectors in another type."""
    with TokenVectorWriter(Path(place), store.dimension, storage) as writer:
        for first in range(0, store.n_units, _COPIED_UNITS):
            last = min(first + _COPIED_UNITS, store.n_units)
            begin = store.begin[first : last + 1]
            writer.add(store.decoded(int(begin[0]), int(begin[-1])), np.diff(begin))
        return writer.close()


def relative_loss(quality: dict[str, float], storage: str) -> float:
    """Share of float16's quality that ``storage`` loses; negative where it gains."""
    return (quality["float16"] - quality[storage]) / quality["float16"]
