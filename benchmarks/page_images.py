"""Multi-vector search over pages: speed and memory at 10,000 pages, and what narrow vectors cost.

    OMP_NUM_THREADS=1 python -m benchmarks.page_images --runs training/recipes/text-suite.yaml

10,000 pages of 700 random unit vectors of 128 numbers go through the arms' own build and open, in
a process for each size, so that the peak is of that size. Then nDCG@5 with int8 and binary vectors
is compared with float16, on every late index that the named runs have built; without ``--runs``
the losses measured last stay.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from arms.architectures.dense import DenseArm, DenseSettings
from arms.architectures.late import LateArm, LateSettings
from arms.architectures.rerank import RerankArm, RerankOptions
from arms.arm import Arm, ArmSpec
from arms.corpora.corpus import Corpus
from arms.encoders.unit_encoder import Encoded, FloatArray, UnitEncoder
from arms.indexes.folder import Source, peak_rss_mb, read_record
from arms.progress import SilentProgress
from arms.records import Document, Page, Unit
from benchmarks.narrow_vectors import losses, relative_loss
from benchmarks.results_file import RESULTS, ROOT, write_result

SIZES = (1_000, 10_000)
PATCHES, DIMENSION, QUERY_TOKENS = 700, 128, 20
K, N_QUERIES = 10, 7
DENSE = ArmSpec("mm_dense", "page")
LATE = {
    storage: ArmSpec("mm_late", "page", options={"storage": storage})
    for storage in ("float16", "int8", "binary")
}


class RandomPatches(UnitEncoder):
    """Random unit vectors, drawn from a page's key or a query's text."""

    chunk_units = 128

    def __init__(self, *, one_vector_each: bool) -> None:
        self._one = one_vector_each

    @property
    def dimension(self) -> int:
        return DIMENSION

    def encode_units(self, units: Sequence[Unit], batch_size: int = 32) -> Encoded:
        return Encoded([self._drawn(unit.unit_id, PATCHES) for unit in units])

    def encode_queries(self, queries: Sequence[str], batch_size: int = 32) -> list[FloatArray]:
        return [self._drawn(query, QUERY_TOKENS) for query in queries]

    def _drawn(self, seed: str, n: int) -> FloatArray:
        generator = np.random.default_rng(list(hashlib.sha256(seed.encode()).digest()[:8]))
        vectors = generator.standard_normal((n, DIMENSION), dtype=np.float32)
        vectors = vectors.mean(axis=0, keepdims=True) if self._one else vectors
        return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


class _DenseOptions(DenseSettings):
    def source(self, spec: ArmSpec, corpus: Corpus) -> Source:
        return Source(spec, corpus)

    def load_encoder(self, spec: ArmSpec, *, for_queries: bool) -> UnitEncoder:
        return RandomPatches(one_vector_each=True)


class _LateOptions(LateSettings):
    def source(self, spec: ArmSpec, corpus: Corpus) -> Source:
        return Source(spec, corpus)

    def load_encoder(self, spec: ArmSpec, *, for_queries: bool) -> UnitEncoder:
        return RandomPatches(one_vector_each=False)


class _Dense(DenseArm):
    options_class = _DenseOptions


class _Late(LateArm):
    options_class = _LateOptions


class Pages(Corpus):
    """So many documents of one page; nothing reads the pictures."""

    name = "random pages"

    def __init__(self, n_pages: int) -> None:
        self._n_pages = n_pages

    def __iter__(self) -> Iterator[Document]:
        for number in range(self._n_pages):
            page = Page(Path("page.png"), None, f"{number:064x}")
            yield Document(f"p{number:06d}", "", "", pages=(page,))

    def __len__(self) -> int:
        return self._n_pages


def measure(n_pages: int, index_root: Path) -> dict[str, float]:
    """Build and search everything at one size; seconds per query are medians of single queries."""
    corpus, figures = Pages(n_pages), {}
    _Dense.build(DENSE, corpus, index_root, SilentProgress())
    dense = _Dense.open(DENSE, corpus, index_root)
    for storage, spec in LATE.items():
        _Late.build(spec, corpus, index_root, SilentProgress())
        record = read_record(index_root / spec.folder_name)
        late = _Late.open(spec, corpus, index_root)
        figures |= {
            f"{storage}_build_s": record.build_seconds,
            f"{storage}_disk_mb": round(record.size_bytes / 1e6, 1),
            f"{storage}_memory_mb": round(late.memory_bytes() / 1e6, 1),
            **seconds_per_query(late, f"{storage}_late"),
        }
        parts = late._parts
        del late
        rerank = RerankArm(
            ArmSpec("mm_rerank", "page"),
            RerankOptions(),
            dense,
            parts.encoder,
            parts.table,
            parts.store,
        )
        figures |= seconds_per_query(rerank, f"{storage}_rerank")
        figures[f"{storage}_peak_mb"] = peak_rss_mb()
    return figures


def seconds_per_query(arm: Arm, name: str) -> dict[str, float]:
    """Wall-clock time, and processor time, which other processes disturb less."""
    arm.rank(["warm-up"], K)
    elapsed_s, processor_s = [], []
    for number in range(N_QUERIES):
        begin_s = time.perf_counter(), time.process_time()
        (ranking,) = arm.rank([f"query {number}"], K)
        elapsed_s.append(time.perf_counter() - begin_s[0])
        processor_s.append(time.process_time() - begin_s[1])
        assert len(ranking.doc_ids) == K
    return {
        f"{name}_s_per_query": round(median(elapsed_s), 4),
        f"{name}_cpu_s_per_query": round(median(processor_s), 4),
    }


def in_child(n_pages: int) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as root:
        child = subprocess.run(
            [sys.executable, "-m", "benchmarks.page_images", "--stage", str(n_pages), root],
            cwd=ROOT,
            check=True,
            stdout=subprocess.PIPE,
            text=True,
        )
    found: dict[str, Any] = json.loads(child.stdout.splitlines()[-1])
    return found


def search_figures() -> dict[str, float]:
    found = {n_pages: in_child(n_pages) for n_pages in SIZES}
    small, large = SIZES
    figures = {
        "mm_late_10k_s_per_query": found[large]["float16_late_s_per_query"],
        "mm_rerank_10k_s_per_query": found[large]["float16_rerank_s_per_query"],
        "peak_mb": max(one for key, one in found[large].items() if key.endswith("_peak_mb")),
    }
    for arm in ("late", "rerank"):
        key = f"float16_{arm}_cpu_s_per_query"
        figures[f"mm_{arm}_growth_1k_to_10k"] = round(found[large][key] / found[small][key], 2)
    for n_pages, values in found.items():
        figures |= {f"{key}_{n_pages // 1000}k_pages": one for key, one in values.items()}
    print(json.dumps(figures, indent=2), flush=True)
    return figures


def loss_figures(runs: Sequence[Path]) -> dict[str, float]:
    """Each index's quality and losses; those of earlier measurements stay."""
    figures = {key: one for key, one in _last().items() if ":" in key}
    for run_file in runs:
        for name, quality in losses(run_file):
            print(name, {key: round(one, 4) for key, one in quality.items()}, flush=True)
            figures[f"float16_ndcg5:{name}"] = round(quality["float16"], 4)
            for storage in ("int8", "binary"):
                loss = round(relative_loss(quality, storage), 5)
                figures[f"{storage}_relative_loss:{name}"] = loss
    for storage in ("int8", "binary"):
        each = [one for key, one in figures.items() if key.startswith(f"{storage}_relative_loss:")]
        if each:
            figures[f"{storage}_relative_loss"] = max(each)
            figures[f"{storage}_relative_loss_mean"] = round(float(np.mean(each)), 5)
    return figures


def _last() -> dict[str, float]:
    """The figures of the last measurement."""
    path = RESULTS / "page_images.json"
    found: dict[str, float] = {}
    if path.is_file():
        found = json.loads(path.read_text(encoding="utf-8"))["figures"]
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=Path, nargs="*", default=[], help="YAML files of runs")
    parser.add_argument("--no-search", action="store_true", help="keep speed as last measured")
    parser.add_argument("--stage", nargs=2, metavar=("PAGES", "FOLDER"), help="one size, here")
    given = parser.parse_args()
    if given.stage:
        print(json.dumps(measure(int(given.stage[0]), Path(given.stage[1]))))
        return
    settings = {
        "pages": f"{PATCHES} vectors of {DIMENSION} numbers each",
        "queries": f"{QUERY_TOKENS} vectors, one at a time, k = {K}, median of {N_QUERIES}",
        "growth": "of processor time",
        "relative_loss": "the largest of any dataset; nDCG@5, up to 200 queries of each",
    }
    search = _last() if given.no_search else search_figures()
    print(write_result("page_images", {**search, **loss_figures(given.runs), **settings}))


if __name__ == "__main__":
    main()
