"""Narrower vectors and fewer of them."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from arms.arm import ArmSpec
from arms.catalogue import build_arm, open_arm
from arms.contract import QUERIES, ArmContract, contract_corpus
from arms.errors import ArmIndexError
from arms.indexes import exact_index
from arms.indexes import maxsim as module
from arms.indexes.exact_index import ExactIndex
from arms.indexes.fold import UnitTable
from arms.indexes.folder import read_record
from arms.indexes.maxsim import StreamedVectors, maxsim, rescore
from arms.indexes.token_pooling import pool
from arms.indexes.token_vectors import TokenVectors, TokenVectorWriter
from arms.indexes.vector_storage import STORAGES, decode, encode, row_type
from arms.records import Unit


def unit_vectors(n, dimension=16, seed=0):
    vectors = np.random.default_rng(seed).standard_normal((n, dimension)).astype(np.float32)
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


def test_bytes_of_a_vector():
    sizes = {storage: row_type(storage, 128).itemsize for storage in STORAGES}
    assert sizes == {"float16": 256, "int8": 130, "binary": 16}
    assert row_type("binary", 12).itemsize == 2


def test_hand_computed():
    vectors = np.array([[1.27, -0.005, 0.016], [0, 0, 0]], dtype=np.float32)
    rows = encode(vectors, "int8")
    assert rows["codes"].tolist() == [[127, 0, 2], [0, 0, 0]]
    np.testing.assert_allclose(decode(rows, "int8", 3)[0], [1.27, 0, 0.02], atol=1e-3)
    signs = decode(encode(vectors, "binary"), "binary", 3) * np.sqrt(3)
    np.testing.assert_allclose(signs, [[1, -1, 1], [-1, -1, -1]], rtol=1e-6)


@settings(max_examples=30, deadline=None)
@given(st.integers(1, 70), st.integers(0, 9), st.integers(0, 10_000))
def test_what_is_read_back_is_near(dimension, n, seed):
    vectors = unit_vectors(n, dimension, seed)
    halves = decode(encode(vectors, "float16"), "float16", dimension)
    np.testing.assert_array_equal(halves, vectors.astype(np.float16))
    bytes_ = decode(encode(vectors, "int8"), "int8", dimension)
    step = np.abs(vectors).max(axis=1, initial=0, keepdims=True) / 127
    assert (np.abs(bytes_ - vectors) <= 0.57 * step + 1e-7).all()  # half, and the scale's rounding
    bits = decode(encode(vectors, "binary"), "binary", dimension)
    assert ((bits > 0) == (vectors > 0)).all()
    np.testing.assert_allclose(np.linalg.norm(bits, axis=1), 1, rtol=1e-5)


def stored(folder, storage, documents):
    writer = TokenVectorWriter(folder, documents[0].shape[1], storage)
    writer.add(np.concatenate(documents), np.array([len(one) for one in documents]))
    return writer.close()


@pytest.fixture
def documents():
    lengths = np.random.default_rng(1).integers(0, 9, 60)
    return [unit_vectors(int(n), 24, seed) for seed, n in enumerate(lengths)]


@pytest.fixture
def table(tmp_path, documents):
    (tmp_path / "table").mkdir()
    units = [Unit(f"d{n:02}", f"d{n:02}", "") for n in range(len(documents))]
    return UnitTable.write(tmp_path / "table", units)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("storage", STORAGES)
@pytest.mark.parametrize("streamed", [False, True])
def test_exact_search_over_what_is_stored(
    tmp_path, documents, table, storage, dtype, streamed, monkeypatch
):
    if streamed:
        monkeypatch.setattr(exact_index, "_COPY_LIMIT_BYTES", 0)
        monkeypatch.setattr(module, "_BLOCK_VECTORS", 7)
    store = stored(tmp_path / "tokens", storage, documents)
    index = ExactIndex(store, dtype)
    in_memory = storage == "float16" and not streamed
    assert (index.size_bytes > 0) == in_memory
    queries = [unit_vectors(n, 24, 90 + n) for n in (1, 4)]
    for query, ranking in zip(queries, index.rank(queries, table, 8), strict=True):
        read = [store.of(unit).astype(np.float64) for unit in range(store.n_units)]
        exact = np.array(
            [(query @ one.T).max(axis=1).sum() if len(one) else -np.inf for one in read]
        )
        best = np.sort(exact)[::-1][:8]
        np.testing.assert_allclose(ranking.scores, best, atol=1e-5)
        units = np.array([int(one[1:]) for one in ranking.doc_ids])
        np.testing.assert_allclose(rescore([query], store, [units])[0], ranking.scores, atol=1e-5)


def test_streaming_gives_the_ranking_of_a_copy(tmp_path, documents, table, monkeypatch):
    store = stored(tmp_path / "tokens", "float16", documents)
    queries = [unit_vectors(n, 24, 90 + n) for n in (1, 4, 6)]
    copied = ExactIndex(store).rank(queries, table, 20)
    monkeypatch.setattr(exact_index, "_COPY_LIMIT_BYTES", 0)
    assert ExactIndex(store).rank(queries, table, 20) == copied


def test_streamed_scores_mask_units_without_vectors(tmp_path, documents):
    store = stored(tmp_path / "tokens", "int8", documents)
    scores = maxsim([unit_vectors(2, 24)], StreamedVectors(store, torch.float32), store.begin)[0]
    empty = np.array([len(one) == 0 for one in documents])
    assert np.isneginf(scores[empty]).all() and np.isfinite(scores[~empty]).all()


def test_a_store_written_before_there_were_others_opens(tmp_path):
    """What a release with float16 alone wrote, byte by byte."""
    vectors = unit_vectors(3, 4)
    (tmp_path / "vectors.bin").write_bytes(vectors.astype("<f2").tobytes())
    np.save(tmp_path / "begin.npy", np.array([0, 1, 3]))
    (tmp_path / "token_vectors.json").write_text(
        '{"dimension": 4, "dtype": "float16", "format_version": 1, "n_units": 2, "n_vectors": 3}'
    )
    store = TokenVectors(tmp_path)
    np.testing.assert_array_equal(store.of(1), vectors[1:].astype(np.float16))
    again = stored(tmp_path / "again", "float16", [vectors[:1], vectors[1:]])
    assert (tmp_path / "again" / "vectors.bin").read_bytes() == (
        tmp_path / "vectors.bin"
    ).read_bytes()
    assert again.size_bytes == store.size_bytes


def test_a_type_of_a_later_release_is_refused(tmp_path):
    stored(tmp_path, "int8", [unit_vectors(2, 4)])
    header = tmp_path / "token_vectors.json"
    header.write_text(header.read_text().replace("int8", "int4"))
    with pytest.raises(ArmIndexError, match=r"data type int4; this release reads .* binary"):
        TokenVectors(tmp_path)


@pytest.mark.filterwarnings("ignore:The symmetric non-negative hollow")  # theirs, not ours
@pytest.mark.parametrize(("n", "factor"), [(40, 3), (7, 2), (3, 2), (5, 1), (2, 9)])
def test_pooling_equals_colpali_engine(n, factor):
    pytest.importorskip("colpali_engine")
    from colpali_engine.compression.token_pooling import HierarchicalTokenPooler

    vectors = unit_vectors(n, 12, n)
    theirs = HierarchicalTokenPooler().pool_embeddings(
        [torch.from_numpy(vectors)], pool_factor=factor
    )[0]
    np.testing.assert_allclose(pool(vectors, factor), theirs.numpy(), atol=1e-6)


def test_pooling_leaves_one_and_merges_equals():
    (one,) = unit_vectors(1, 8)
    np.testing.assert_array_equal(pool(one[None], 4), one[None])
    np.testing.assert_allclose(pool(np.stack([one] * 6), 3), [one], atol=1e-6)


class TestInt8(ArmContract):
    fills_k = True

    @pytest.fixture(params=[{"storage": "int8"}, {"storage": "binary", "pool_factor": 2}], ids=str)
    def spec(self, request):
        return ArmSpec("text_late", options=request.param)


def test_narrow_vectors_rank_alike_in_less_space(tmp_path):
    corpus = contract_corpus()
    sizes, rankings = {}, {}
    for storage in STORAGES:
        spec = ArmSpec("text_late", options={"storage": storage})
        build_arm(spec, corpus, tmp_path / storage)
        arm = open_arm(spec, corpus, tmp_path / storage)
        rankings[storage] = [one.doc_ids for one in arm.rank(QUERIES, 3)]
        store = TokenVectors(tmp_path / storage / "text_late" / "tokens")
        sizes[storage] = (
            store.size_bytes,
            read_record(tmp_path / storage / "text_late").size_bytes,
        )
        assert arm.memory_bytes() >= store.size_bytes
    assert rankings["int8"] == rankings["float16"]
    assert [one[0] for one in rankings["binary"]] == [one[0] for one in rankings["float16"]]
    for place in (0, 1):
        assert sizes["binary"][place] < sizes["int8"][place] < 0.6 * sizes["float16"][place]


def test_the_default_storage_leaves_the_record_as_it_was(tmp_path):
    corpus = contract_corpus()
    build_arm(ArmSpec("text_late"), corpus, tmp_path)
    before = read_record(tmp_path / "text_late").options
    assert "storage" not in before and "pool_factor" not in before
    open_arm(ArmSpec("text_late", options={"storage": "float16"}), corpus, tmp_path)
    with pytest.raises(ArmIndexError, match="options"):
        open_arm(ArmSpec("text_late", options={"storage": "int8"}), corpus, tmp_path)
