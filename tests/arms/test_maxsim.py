import json

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from arms.errors import ArmIndexError
from arms.indexes import maxsim as module
from arms.indexes.exact_index import ExactIndex
from arms.indexes.fold import UnitTable
from arms.indexes.maxsim import maxsim, rescore, score
from arms.indexes.token_vectors import HEADER, TokenVectors, TokenVectorWriter
from arms.records import Unit


def unit_vectors(generator, n, dimension=16):
    vectors = generator.standard_normal((n, dimension)).astype(np.float32)
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


def naive(query, documents):
    """One by one, in float64."""
    return np.array(
        [
            (query.astype(np.float64) @ document.astype(np.float64).T).max(axis=1).sum()
            if len(document) and len(query)
            else -np.inf
            for document in documents
        ]
    )


def collection(seed=0, n_units=60, n_queries=7, dimension=16):
    """Queries, documents (some without tokens), their vectors and where each begins."""
    generator = np.random.default_rng(seed)
    documents = [
        unit_vectors(generator, int(length), dimension)
        for length in generator.integers(0, 9, n_units)
    ]
    queries = [
        unit_vectors(generator, int(length), dimension)
        for length in generator.integers(1, 6, n_queries)
    ]
    return queries, documents, np.concatenate(documents), begins(documents)


def begins(documents):
    return np.cumsum([0, *map(len, documents)])


def test_hand_computed():
    query = np.array([[1, 0], [0, 1]], dtype=np.float32)
    vectors = np.array([[0.6, 0.8], [1, 0], [0, -1], [-1, 0]], dtype=np.float32)
    # unit 0: max(0.6, 1) + max(0.8, 0); unit 1: 0 − 1; unit 2: none; unit 3: −1 + 0
    scores = maxsim([query], vectors, np.array([0, 2, 3, 3, 4]))
    np.testing.assert_allclose(scores, [[1.8, -1.0, -np.inf, -1.0]], rtol=1e-6)


def test_no_queries_no_units_no_tokens():
    vectors, none = np.ones((2, 4), dtype=np.float32), np.empty((0, 4), dtype=np.float32)
    assert maxsim([], vectors, np.array([0, 2])).shape == (0, 1)
    assert maxsim([vectors], none, np.array([0])).shape == (1, 0)
    assert maxsim([vectors], none, np.array([0, 0])).tolist() == [[-np.inf]]
    assert maxsim([none, vectors], vectors, np.array([0, 2])).tolist() == [[-np.inf], [8.0]]


def test_equals_one_by_one():
    queries, documents, vectors, begin = collection()
    expected = np.stack([naive(query, documents) for query in queries])
    np.testing.assert_allclose(maxsim(queries, vectors, begin), expected, atol=1e-5)


def test_a_negative_score_stays_negative_beside_a_longer_unit():
    query = np.array([[1, 0]], dtype=np.float32)
    vectors = np.array([[-0.6, 0.8], [1, 0], [0, 1], [0, -1]], dtype=np.float32)
    assert maxsim([query], vectors, np.array([0, 1, 4]))[0, 0] == pytest.approx(-0.6)


@pytest.mark.parametrize(("similarities", "tokens"), [(1, 1), (40, 3), (100, 512)])
def test_blocks_change_nothing(monkeypatch, similarities, tokens):
    queries, documents, vectors, begin = collection()
    monkeypatch.setattr(module, "_BLOCK_SIMILARITIES", similarities)
    monkeypatch.setattr(module, "_QUERY_TOKENS_AT_ONCE", tokens)
    expected = np.stack([naive(query, documents) for query in queries])
    np.testing.assert_allclose(maxsim(queries, vectors, begin), expected, atol=1e-5)


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 10_000))
def test_order_batch_and_slice_change_nothing(seed):
    queries, documents, vectors, begin = collection(seed, n_units=12, n_queries=4)
    scores = maxsim(queries, vectors, begin)
    order = np.random.default_rng(seed).permutation(len(documents))
    shuffled = [documents[place] for place in order]
    reordered = maxsim(queries[::-1], np.concatenate(shuffled), begins(shuffled))
    np.testing.assert_allclose(reordered[::-1], scores[:, order], atol=1e-5)
    for row, query in enumerate(queries):
        np.testing.assert_allclose(maxsim([query], vectors, begin)[0], scores[row], atol=1e-5)
    part = maxsim(queries, vectors[begin[3] : begin[9]], begin[3:10] - begin[3])
    np.testing.assert_allclose(part, scores[:, 3:9], atol=1e-5)
    # Tokens of a query, and of a unit, come in any order.
    turned = maxsim([query[::-1].copy() for query in queries], vectors, begin)
    np.testing.assert_allclose(turned, scores, atol=1e-5)


def store_of(folder, documents):
    writer = TokenVectorWriter(folder, documents[0].shape[1])
    writer.add(np.concatenate(documents), np.array([len(one) for one in documents]))
    return writer.close()


def test_rescoring_reads_the_store_in_any_order(tmp_path, monkeypatch):
    queries, documents, _, _ = collection()
    store = store_of(tmp_path, documents)
    stored = [store.of(unit) for unit in range(store.n_units)]
    units = np.array([7, 3, 50, 0, 21])
    expected = naive(queries[0], [stored[unit] for unit in units])
    for block in (1, 10, 100_000):
        monkeypatch.setattr(module, "_RESCORED_VECTORS", block)
        (scores,) = rescore(queries[:1], store, [units])
        np.testing.assert_allclose(scores, expected, atol=1e-5)
    assert rescore(queries[:1], store, [np.array([], dtype=int)])[0].shape == (0,)


def test_a_batch_scores_each_querys_own_units(tmp_path):
    queries, documents, _, _ = collection()
    queries.insert(2, np.empty((0, 16), dtype=np.float32))
    store = store_of(tmp_path, documents)
    stored = [store.of(unit) for unit in range(store.n_units)]
    generator = np.random.default_rng(6)
    units = [generator.permutation(60)[:n] for n in (20, 1, 7, 60, 0, 33, 20, 20)]
    for query, its, scores in zip(queries, units, score(queries, store, units), strict=True):
        expected = naive(query, [stored[unit] for unit in its])
        np.testing.assert_allclose(scores, expected, atol=1e-5)
    assert [len(one) for one in score(queries, store, [units[4]] * 8)] == [0] * 8
    assert score([], store, []) == []


@pytest.mark.parametrize("batched", [False, True])
def test_equal_units_tie_to_the_last_bit(tmp_path, batched):
    generator = np.random.default_rng(1)
    twin = unit_vectors(generator, 5, 384)
    documents = []
    for _ in range(200):
        documents += [unit_vectors(generator, int(generator.integers(1, 40)), 384), twin]
    query = unit_vectors(generator, 11, 384)
    store, units = store_of(tmp_path, documents), np.arange(400)
    if batched:
        scores, again = rescore([query, query[:4]], store, [units, units[::-1]])
        assert len(set(again[::2].tolist())) == 1
    else:
        (scores,) = rescore([query], store, [units])
    assert len(set(scores[1::2].tolist())) == 1
    assert len(set(scores.tolist())) == 201


def table_of(folder, n_documents, units_each=1):
    folder.mkdir(exist_ok=True)
    ids = [f"d{place:04}" for place in np.random.default_rng(3).permutation(n_documents)]
    units = [Unit(f"{one}.{part}", one, "") for one in ids for part in range(units_each)]
    return UnitTable.write(folder, units), ids


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("units_each", [1, 3])
def test_the_exact_index_is_exact_in_either_type(tmp_path, dtype, units_each):
    """Close scores (vectors that differ by a little) that bfloat16 alone would swap."""
    generator = np.random.default_rng(2)
    base = unit_vectors(generator, 6, 64)
    documents = [
        base + 0.01 * generator.standard_normal(base.shape).astype(np.float32)
        for _ in range(90 * units_each)
    ]
    documents = [one / np.linalg.norm(one, axis=1, keepdims=True) for one in documents]
    store = store_of(tmp_path / "tokens", documents)
    table, ids = table_of(tmp_path / "table", 90, units_each)
    queries = [unit_vectors(generator, length, 64) for length in (1, 4, 9)]
    found = ExactIndex(store, dtype).rank(queries, table, 7)
    for query, ranking in zip(queries, found, strict=True):
        exact = naive(query, [store.of(unit) for unit in range(store.n_units)])
        of_document = exact.reshape(90, units_each).max(axis=1)
        expected = np.argsort(-of_document, kind="stable")[:7]
        assert ranking.doc_ids == tuple(ids[place] for place in expected)
        np.testing.assert_allclose(ranking.scores, of_document[expected], atol=1e-5)


@pytest.mark.parametrize("units_each", [1, 2])
def test_many_ties_across_the_cut_cost_few_single_scores(tmp_path, monkeypatch, units_each):
    """200 documents of equal or nearly equal score: ties still break by id at any k."""
    generator = np.random.default_rng(3)
    twin, worse = unit_vectors(generator, 5, 64), unit_vectors(generator, 5, 64)
    n_documents = 200
    documents = [twin if n % 2 else worse for n in range(n_documents) for _ in range(units_each)]
    table, ids = table_of(tmp_path / "table", n_documents, units_each)
    index = ExactIndex(store_of(tmp_path / "tokens", documents))
    alone = []
    monkeypatch.setattr(
        module, "_alone", lambda q, v, f=module._alone: (alone.append(1), f(q, v))[1]
    )
    for query in (unit_vectors(generator, 4, 64), twin):
        ranks_twin = naive(query, [twin])[0] > naive(query, [worse])[0]
        best = sorted(one for n, one in enumerate(ids) if n % 2 == ranks_twin)
        for k in (1, 7, 100):
            alone.clear()
            (found,) = index.rank([query], table, k)
            assert list(found.doc_ids) == best[:k]
            assert len(set(found.scores)) == 1
            assert len(alone) <= units_each * n_documents // 2  # none of the other half


def test_bfloat16_alone_would_swap_them():
    """The test above can fail: without the second pass these scores come in another order."""
    generator = np.random.default_rng(2)
    base = unit_vectors(generator, 6, 64)
    documents = [base + 0.01 * unit_vectors(generator, 6, 64) for _ in range(90)]
    vectors, begin = np.concatenate(documents), begins(documents)
    query = unit_vectors(generator, 9, 64)
    exact = maxsim([query], vectors, begin)[0]
    coarse = maxsim([query], torch.from_numpy(vectors).bfloat16(), begin)[0]
    assert np.argsort(-exact)[:7].tolist() != np.argsort(-coarse)[:7].tolist()
    assert np.abs(exact - coarse).max() < 9 * 6e-3


def test_documents_without_tokens_are_not_found(tmp_path):
    generator = np.random.default_rng(4)
    empty = np.empty((0, 16), dtype=np.float32)
    store = store_of(tmp_path / "tokens", [empty, unit_vectors(generator, 2), empty])
    table, ids = table_of(tmp_path / "table", 3)
    query = unit_vectors(generator, 2)
    (found, nothing) = ExactIndex(store).rank([query, empty], table, 3)
    assert found.doc_ids == (ids[1],)
    assert nothing.doc_ids == ()


def test_a_store_reads_back_what_was_written(tmp_path):
    generator = np.random.default_rng(5)
    documents = [unit_vectors(generator, length) for length in (3, 0, 1)]
    writer = TokenVectorWriter(tmp_path, 16)
    writer.add(np.concatenate(documents[:2]), np.array([3, 0]))
    writer.add(documents[2], np.array([1]))
    store = writer.close()
    assert (store.n_units, store.n_vectors, store.dimension) == (3, 4, 16)
    assert store.size_bytes == 4 * 16 * 2 + 4 * 8
    for unit, document in enumerate(documents):
        np.testing.assert_array_equal(store.of(unit), document.astype(np.float16))


def test_an_empty_store_opens(tmp_path):
    store = TokenVectorWriter(tmp_path, 8).close()
    assert (store.n_units, store.n_vectors) == (0, 0)


def test_an_unfinished_cut_or_newer_store_is_refused(tmp_path):
    with TokenVectorWriter(tmp_path, 4) as writer:
        writer.add(np.ones((2, 4)), np.array([2]))
        with pytest.raises(ArmIndexError, match="no finished token vectors"):
            TokenVectors(tmp_path)
        with pytest.raises(ValueError, match="expected 3 vectors of 4 numbers"):
            writer.add(np.ones((2, 4)), np.array([3]))
        writer.close()
    (tmp_path / "vectors.bin").write_bytes(b"\0" * 3)
    with pytest.raises(ArmIndexError, match="has 3 bytes, its header says 16"):
        TokenVectors(tmp_path)
    header = json.loads((tmp_path / HEADER).read_text())
    (tmp_path / HEADER).write_text(json.dumps(header | {"format_version": 99}))
    with pytest.raises(ArmIndexError, match="format version 99"):
        TokenVectors(tmp_path)
