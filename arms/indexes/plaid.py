"""PLAID with fast-plaid: candidates from quantised token vectors, scored again from the store.

PLAID (Santhanam et al., CIKM 2022) keeps, for each token, its nearest centroid and a residual of a
few bits. Here it only finds candidate units: their scores come from the stored float16 vectors,
so they are those of exact MaxSim and equal texts tie.

fast-plaid's compiled functions are called directly, because its ``FastPlaid`` class pickles small
collections, rewrites files when an index is opened, and pads queries of one batch with zero
tokens, which makes a query's candidates depend on its neighbours.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from fast_plaid import fast_plaid_rust
from fast_plaid.search import fast_plaid as fast_plaid_python
from numpy.typing import NDArray

from arms.atomic import atomic_folder, write_json
from arms.errors import ArmIndexError
from arms.indexes.fold import UnitTable, search_documents
from arms.indexes.mapped_array import create_mapped
from arms.indexes.maxsim import FloatArray, rescore
from arms.indexes.plaid_shape import PlaidShape
from arms.indexes.token_vectors import TokenVectors
from arms.records import Ranking

_SHAPE = "shape.json"
_UNITS = "units.npy"
_WRITE_BATCH = 4096
_CODES = {"codes": (np.int64, torch.int64), "residuals": (np.uint8, torch.uint8)}


def write_plaid(folder: Path, store: TokenVectors, shape: PlaidShape) -> None:
    """Build the index over the units that have vectors; ``folder`` appears only when whole.

    The same store, shape and number of threads give the same files.
    """
    units = np.flatnonzero(np.diff(store.begin))
    vectors = [torch.from_numpy(store.of(unit)).half() for unit in units.tolist()]
    with atomic_folder(folder) as temporary, torch.random.fork_rng(devices=[]):
        torch.manual_seed(shape.seed)  # fast-plaid samples documents before it seeds
        fast_plaid_rust.create(
            index=str(temporary),
            torch_path=_start_torch(),
            device="cpu",
            embedding_dim=store.dimension,
            nbits=shape.nbits,
            embeddings=vectors,
            centroids=_centroids(vectors, store, shape),
            batch_size=_WRITE_BATCH,
            seed=shape.seed,
            compress_only=False,
        )
        _merge_chunks(temporary)
        np.save(temporary / _UNITS, units, allow_pickle=False)
        write_json(temporary / _SHAPE, shape.model_dump())


def has_plaid(folder: Path, shape: PlaidShape) -> bool:
    """Whether ``folder`` holds a whole index of this shape."""
    path = folder / _SHAPE
    return path.is_file() and json.loads(path.read_text()) == shape.model_dump()


def _centroids(vectors: list[torch.Tensor], store: TokenVectors, shape: PlaidShape) -> torch.Tensor:
    n_centroids = shape.n_centroids or default_centroids(store.n_vectors)
    per_unit = store.n_vectors / max(1, len(vectors))
    sample = math.ceil(n_centroids * shape.points_per_centroid / per_unit)
    return fast_plaid_python.compute_kmeans(
        documents_embeddings=vectors,
        dim=store.dimension,
        device="cpu",
        kmeans_niters=shape.kmeans_iterations,
        max_points_per_centroid=shape.points_per_centroid,
        seed=shape.seed,
        n_samples_kmeans=max(1, min(len(vectors), sample)),
        use_triton_kmeans=False,
        num_partitions=n_centroids,
    )


def default_centroids(n_vectors: int) -> int:
    """The power of two at or below 4·√vectors (fast-plaid's own rule has 16·√vectors)."""
    return max(1, 2 ** math.floor(math.log2(max(1.0, 4 * math.sqrt(n_vectors)))))


def _merge_chunks(folder: Path) -> None:
    """Join the chunk files, with rows of padding that the reader expects, and drop them."""
    n_chunks = int(json.loads((folder / "metadata.json").read_text())["num_chunks"])
    lengths = [
        length
        for chunk in range(n_chunks)
        for length in json.loads((folder / f"doclens.{chunk}.json").read_text())
    ]
    np.save(folder / "lengths.npy", np.array(lengths, dtype=np.int64), allow_pickle=False)
    padding = max(lengths) - lengths[-1]
    for name, (dtype, _) in _CODES.items():
        paths = [folder / f"{chunk}.{name}.npy" for chunk in range(n_chunks)]
        parts = [np.load(path, mmap_mode="r", allow_pickle=False) for path in paths]
        shape = (sum(lengths) + padding, *parts[0].shape[1:])
        merged = create_mapped(folder / f"{name}.npy", dtype, shape)
        first = 0
        for part, path in zip(parts, paths, strict=True):
            merged[first : first + len(part)] = part
            first += len(part)
            path.unlink()
        merged.flush()
    for leftover in (*folder.glob("doclens.*.json"), *folder.glob("[0-9]*.metadata.json")):
        leftover.unlink()


class PlaidIndex:
    """An opened index: codes and residuals memory-mapped, centroids and lists in memory."""

    def __init__(
        self,
        folder: Path,
        store: TokenVectors,
        shape: PlaidShape,
        n_probe: int,
        n_full_scores: int,
    ) -> None:
        """Open ``folder``; raise ``ArmIndexError`` if it isn't there or has another shape."""
        if not has_plaid(folder, shape):
            raise ArmIndexError(
                f"{folder} holds no PLAID index built with {shape}; run (or rerun) l2r index"
            )
        self._store, self._n_probe, self._n_full_scores = store, n_probe, n_full_scores
        self._units: NDArray[np.int64] = np.load(folder / _UNITS, allow_pickle=False)
        self._index, self._n_lists = _open(folder)
        self.size_bytes = sum(path.stat().st_size for path in folder.iterdir())

    def rank(self, queries: Sequence[FloatArray], table: UnitTable, k: int) -> list[Ranking]:
        """Return about the best ``k`` documents of each query, with exact MaxSim scores."""

        def search(positions: NDArray[np.intp], depth: int) -> tuple[FloatArray, NDArray[np.int64]]:
            found = [self.search(queries[position], depth) for position in positions.tolist()]
            scores, units = zip(*found, strict=True)
            return np.stack(scores), np.stack(units)

        first_depth = max(self._n_full_scores // 2, 2 * k)
        return search_documents(search, len(queries), table, k, first_depth=first_depth)

    def search(self, query: FloatArray, depth: int) -> tuple[FloatArray, NDArray[np.int64]]:
        """(tokens, d) query → (depth,) exact scores, best first, and units; −1: no unit."""
        scores = np.full(depth, -np.inf, dtype=np.float32)
        units = np.full(depth, -1, dtype=np.int64)
        if len(query):
            found = np.sort(self._units[self._candidates(query, depth)])
            (exact,) = rescore([query], self._store, [found])
            order = np.lexsort((found, -exact))
            scores[: len(found)], units[: len(found)] = exact[order], found[order]
        return scores, units

    def _candidates(self, query: FloatArray, depth: int) -> list[int]:
        """Probe ``n_probe`` lists a token, and all of them where that leaves too few units."""
        found = self._probe(query, depth, self._n_probe)
        if len(found) < min(depth, len(self._units)):
            found = self._probe(query, depth, self._n_lists)
        return found

    def _probe(self, query: FloatArray, depth: int, n_probe: int) -> list[int]:
        parameters = fast_plaid_rust.SearchParameters(
            batch_size=1,
            n_full_scores=max(self._n_full_scores, 4 * depth),
            top_k=depth,
            n_ivf_probe=min(n_probe, self._n_lists),
        )
        (result,) = fast_plaid_rust.pysearch(
            index=self._index,
            device="cpu",
            queries_embeddings=torch.from_numpy(query).half().unsqueeze(0),
            search_parameters=parameters,
            show_progress=False,
            subset=None,
        )
        return list(result.passage_ids)


@lru_cache(maxsize=1)
def _start_torch() -> str:
    """Tell fast-plaid which torch to use, once; return that library's path."""
    path: str = fast_plaid_python._load_torch_path(device="cpu")
    fast_plaid_rust.initialize_torch(torch_path=path)
    return path


def _open(folder: Path) -> tuple[Any, int]:
    _start_torch()

    def small(name: str, dtype: torch.dtype) -> torch.Tensor:
        return torch.from_numpy(np.load(folder / f"{name}.npy", allow_pickle=False)).to(dtype)

    def mapped(name: str) -> torch.Tensor:
        array = np.load(folder / f"{name}.npy", mmap_mode="c", allow_pickle=False)
        return torch.from_numpy(np.asarray(array))

    halves = ("centroids", "avg_residual", "bucket_cutoffs", "bucket_weights")
    tables = {name: small(name, torch.float16) for name in halves}
    index = fast_plaid_rust.construct_index(
        nbits=int(json.loads((folder / "metadata.json").read_text())["nbits"]),
        **tables,
        ivf=small("ivf", torch.int64),
        ivf_lengths=small("ivf_lengths", torch.int32),
        doc_codes=mapped("codes"),
        doc_residuals=mapped("residuals"),
        doc_lengths=small("lengths", torch.int64),
        device="cpu",
        low_memory=True,
    )
    return index, len(tables["centroids"])  # ivf_lengths may be longer, with empty lists
