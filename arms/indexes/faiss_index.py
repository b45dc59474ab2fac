"""Unit vectors under inner product, with faiss: flat (exact), HNSW or IVF.

Flat keeps ``vectors.npy``, which faiss searches where it lies, memory-mapped. HNSW and IVF keep
``index.faiss``, opened memory-mapped as well.
"""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import faiss
import numpy as np
from numpy.typing import NDArray

from arms.indexes.fold import FloatArray, RowArray, UnitTable, search_documents
from arms.records import Ranking
from arms.settings import Settings

VECTORS = "vectors.npy"
_INDEX = "index.faiss"
_SEED = 42
_GPU_LARGEST_DEPTH = 2048
_ROUNDING = 4e-6
"""How far two float32 inner products of unit vectors may stray from one another by rounding."""

Structure = Literal["flat", "hnsw", "ivf"]


class Shape(Settings):
    """What an index is built with."""

    index: Structure = "flat"
    hnsw_m: int = 32
    ef_construction: int = 200
    n_lists: int | None = None


def write_index(folder: Path, shape: Shape) -> None:
    """Turn ``folder/vectors.npy`` into the index; flat, and no vector at all, leave it as it is.

    Built on one thread, since HNSW's graph depends on the order in which threads insert.
    """
    if shape.index == "flat":
        return
    vectors = np.load(folder / VECTORS, mmap_mode="r", allow_pickle=False)
    if len(vectors) == 0:
        return
    threads = faiss.omp_get_max_threads()
    faiss.omp_set_num_threads(1)
    try:
        index = _hnsw(vectors, shape) if shape.index == "hnsw" else _ivf(vectors, shape)
        for begin in range(0, len(vectors), 4096):
            index.add(np.ascontiguousarray(vectors[begin : begin + 4096]))
    finally:
        faiss.omp_set_num_threads(threads)
    faiss.write_index(index, str(folder / _INDEX))
    (folder / VECTORS).unlink()


def _hnsw(vectors: NDArray, shape: Shape) -> faiss.Index:
    index = faiss.IndexHNSWFlat(vectors.shape[1], shape.hnsw_m, faiss.METRIC_INNER_PRODUCT)
    index.hnsw.efConstruction = shape.ef_construction
    return index


def _ivf(vectors: NDArray, shape: Shape) -> faiss.Index:
    """Train on at most 256 vectors a list; a small corpus gets fewer lists."""
    n, dimension = vectors.shape
    n_lists = max(1, min(shape.n_lists or round(4 * n**0.5), n // 8))
    index = faiss.IndexIVFFlat(
        faiss.IndexFlatIP(dimension), dimension, n_lists, faiss.METRIC_INNER_PRODUCT
    )
    index.cp.min_points_per_centroid = 1  # else faiss complains on standard error
    index.cp.seed = _SEED
    sample = np.arange(n)
    if n > 256 * n_lists:
        generator = np.random.default_rng(_SEED)
        sample = np.sort(generator.choice(n, size=256 * n_lists, replace=False))
    index.train(np.ascontiguousarray(vectors[sample]))
    return index


class VectorIndex:
    """An opened index."""

    def __init__(
        self,
        folder: Path,
        structure: Structure,
        ef_search: int = 128,
        n_probe: int = 16,
        device: str = "cpu",
    ) -> None:
        self._vectors: NDArray[np.float32] | None = None
        self._index: faiss.Index | None = None
        self._gpu: faiss.Index | None = None
        self._ef_search, self._n_probe = ef_search, n_probe
        if structure == "flat" or (folder / VECTORS).is_file():
            mapped = np.load(folder / VECTORS, mmap_mode="r", allow_pickle=False)
            self._vectors = np.asarray(mapped)  # still mapped
            self.size_bytes = mapped.nbytes
            if (device == "auto" or device.startswith("cuda")) and has_gpu():
                self._gpu = _on_gpus(self._vectors)
        else:
            path = folder / _INDEX
            self.size_bytes = path.stat().st_size
            try:
                self._index = faiss.read_index(
                    str(path), faiss.IO_FLAG_MMAP_IFC | faiss.IO_FLAG_READ_ONLY
                )
            except RuntimeError as error:
                raise ValueError(f"{path} is damaged") from error

    def rank(self, queries: NDArray[np.float32], table: UnitTable, k: int) -> list[Ranking]:
        """(m, d) queries → the best ``k`` documents of each; exact for flat, ties included."""
        tolerance = _ROUNDING if self._vectors is not None else 0.0

        def search(positions: NDArray[np.intp], depth: int) -> tuple[FloatArray, RowArray]:
            return self.search(queries[positions], depth)

        return search_documents(search, len(queries), table, k, tolerance)

    def search(self, queries: NDArray[np.float32], depth: int) -> tuple[FloatArray, RowArray]:
        """(m, d) queries → (m, depth) scores and units, best first up to rounding; −1: no unit."""
        if self._vectors is not None:
            return self._search_flat(self._vectors, queries, depth)
        assert self._index is not None
        if isinstance(self._index, faiss.IndexHNSW):
            wide = faiss.SearchParametersHNSW(efSearch=max(self._ef_search, depth))
            return self._index.search(queries, depth, params=wide)
        return self._search_ivf(self._index, queries, depth)

    def _search_flat(
        self, vectors: NDArray[np.float32], queries: NDArray[np.float32], depth: int
    ) -> tuple[FloatArray, RowArray]:
        """Find by faiss, score again in a fixed order: equal vectors then tie to the last bit."""
        if self._gpu is not None and depth <= _GPU_LARGEST_DEPTH:
            _, units = self._gpu.search(queries, depth)
        else:
            _, units = faiss.knn(queries, vectors, depth, metric=faiss.METRIC_INNER_PRODUCT)
        scores = np.empty(units.shape, dtype=np.float32)
        for row, query in enumerate(queries):
            scores[row] = (vectors[units[row]] * query).sum(axis=1)
        return scores, units

    def _search_ivf(
        self, index: faiss.Index, queries: NDArray[np.float32], depth: int
    ) -> tuple[FloatArray, RowArray]:
        """Probe ``n_probe`` lists, and all of them for the queries that this leaves short."""
        few = faiss.SearchParametersIVF(nprobe=min(self._n_probe, index.nlist))
        scores, units = index.search(queries, depth, params=few)
        short = np.flatnonzero((units < 0).any(axis=1))
        if len(short):
            every = faiss.SearchParametersIVF(nprobe=index.nlist)
            scores[short], units[short] = index.search(queries[short], depth, params=every)
        return scores, units


def has_gpu() -> bool:
    """Whether the installed faiss can use a GPU that is here (the extra ``faiss-gpu``)."""
    return hasattr(faiss, "StandardGpuResources") and faiss.get_num_gpus() > 0


def _on_gpus(vectors: NDArray[np.float32]) -> faiss.Index:
    index = faiss.IndexFlatIP(vectors.shape[1])
    index.add(vectors)
    return faiss.index_cpu_to_all_gpus(index)
