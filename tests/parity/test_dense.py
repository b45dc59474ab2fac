"""Dense rankings equal sentence-transformers plus brute force in numpy."""

import numpy as np
import pytest

from arms.arm import ArmSpec
from arms.catalogue import build_arm, open_arm
from arms.contract import ODD_QUERIES, QUERIES, contract_corpus
from arms.corpora.granularity import units
from arms.encoders.resolve import resolve
from arms.encoders.text_encoder import load_text_encoder, quiet_loading
from arms.indexes.faiss_index import Shape, VectorIndex, write_index
from arms.indexes.fold import UnitTable
from arms.records import Unit

K = 5


@pytest.fixture(scope="module")
def reference():
    from sentence_transformers import SentenceTransformer

    with quiet_loading():
        return SentenceTransformer(resolve().path, device="cpu")


@pytest.fixture(scope="module")
def encoder():
    return load_text_encoder(resolve(), device="cpu")


def test_vectors_equal_those_of_sentence_transformers(reference, encoder):
    texts = [*QUERIES, *ODD_QUERIES, QUERIES[0], "a"]
    expected = reference.encode(texts, normalize_embeddings=True, show_progress_bar=False)
    ours = encoder.embed(texts, batch_size=4)
    assert ours.dtype == np.float32
    np.testing.assert_allclose(ours, expected, atol=2e-6)
    np.testing.assert_array_equal(ours[0], ours[len(QUERIES) + len(ODD_QUERIES)])
    assert encoder.embed([]).shape == (0, 384)


def test_a_single_query_gets_the_very_vector(reference, encoder):
    expected = reference.encode(QUERIES[:1], normalize_embeddings=True, show_progress_bar=False)
    np.testing.assert_array_equal(encoder.embed(QUERIES[:1]), expected)


def test_padding_to_few_shapes_changes_nothing(encoder):
    texts = [*QUERIES, "word " * 300, "x"]
    padded = encoder.embed(texts, batch_size=3, few_shapes=True)
    np.testing.assert_allclose(padded, encoder.embed(texts, batch_size=3), atol=2e-6)


def test_a_prompt_stands_before_the_text(reference, encoder):
    expected = reference.encode(
        QUERIES[:1], prompt="query: ", normalize_embeddings=True, show_progress_bar=False
    )
    np.testing.assert_array_equal(encoder.embed(QUERIES[:1], "query: "), expected)


@pytest.mark.parametrize("granularity", ["document", "paragraph"])
def test_flat_rankings_equal_brute_force(reference, granularity, tmp_path):
    corpus = contract_corpus(granularity)
    of_corpus = list(units(corpus, granularity))
    options = {"normalize_embeddings": True, "show_progress_bar": False}
    scores = (
        reference.encode(list(QUERIES), **options)
        @ reference.encode([unit.text for unit in of_corpus], **options).T
    )
    spec = ArmSpec("text_dense", granularity)
    build_arm(spec, corpus, tmp_path)
    for of_query, ranking in zip(
        scores, open_arm(spec, corpus, tmp_path).rank(QUERIES, K), strict=True
    ):
        best: dict[str, float] = {}
        for unit, score in zip(of_corpus, of_query.tolist(), strict=True):
            best[unit.doc_id] = max(score, best.get(unit.doc_id, -1.0))
        expected = sorted(best.items(), key=lambda found: (-found[1], found[0]))[:K]
        assert ranking.doc_ids == tuple(doc_id for doc_id, _ in expected)
        np.testing.assert_allclose(ranking.scores, [score for _, score in expected], atol=2e-6)


def random_index(folder, shape, n, dimension=32, copies=1, noise=0.0):
    """Unit vectors around 20 centres, each vector ``copies`` times; one document per vector."""
    draw = np.random.default_rng(3)
    centres = draw.standard_normal((20, dimension))
    vectors = centres[draw.integers(0, 20, n)] + 0.7 * draw.standard_normal((n, dimension))
    vectors = np.repeat(vectors / np.linalg.norm(vectors, axis=1, keepdims=True), copies, axis=0)
    vectors = (vectors + noise * draw.standard_normal(vectors.shape)).astype(np.float32)
    np.save(folder / "vectors.npy", vectors)
    write_index(folder, shape)
    doc_ids = [f"{number * 7919 % len(vectors):06d}" for number in range(len(vectors))]
    table = UnitTable.write(folder, (Unit(one, one, "") for one in doc_ids))
    queries = draw.standard_normal((30, dimension)).astype(np.float32)
    return vectors, queries / np.linalg.norm(queries, axis=1, keepdims=True), doc_ids, table


def exact(vectors, query, doc_ids, k):
    scores = (vectors * query).sum(axis=1)
    return tuple(
        doc_ids[row]
        for row in sorted(range(len(scores)), key=lambda row: (-scores[row], doc_ids[row]))[:k]
    )


def test_flat_breaks_exact_ties_across_the_cut(tmp_path):
    vectors, queries, doc_ids, table = random_index(tmp_path, Shape(), 300, copies=40)
    found = VectorIndex(tmp_path, "flat").rank(queries, table, 50)
    for ranking, query in zip(found, queries, strict=True):
        assert ranking.doc_ids == exact(vectors, query, doc_ids, 50)


def test_flat_orders_scores_that_differ_by_rounding(tmp_path):
    """faiss adds up in another order than the scores that are reported: near ties change places."""
    vectors, queries, doc_ids, table = random_index(
        tmp_path, Shape(), 40, dimension=384, copies=60, noise=3e-8
    )
    index = VectorIndex(tmp_path, "flat")
    batch = index.rank(queries, table, 25)
    for number, (ranking, query) in enumerate(zip(batch, queries, strict=True)):
        assert ranking.doc_ids == exact(vectors, query, doc_ids, 25)
        assert index.rank(queries[number : number + 1], table, 25) == [ranking]


def test_ivf_reads_every_list_where_a_few_leave_places_unfilled(tmp_path):
    shape = Shape(index="ivf", n_lists=30)
    vectors, queries, doc_ids, table = random_index(tmp_path, shape, 300)
    found = VectorIndex(tmp_path, "ivf", n_probe=1).rank(queries, table, 250)
    for ranking, query in zip(found, queries, strict=True):
        assert ranking.doc_ids == exact(vectors, query, doc_ids, 250)


@pytest.mark.parametrize("structure", ["hnsw", "ivf"])
def test_approximate_indexes_find_nearly_all(structure, tmp_path):
    vectors, queries, doc_ids, table = random_index(tmp_path, Shape(index=structure), 3000)
    found = VectorIndex(tmp_path, structure).rank(queries, table, 10)
    shared = [
        len(set(ranking.doc_ids) & set(exact(vectors, query, doc_ids, 10)))
        for ranking, query in zip(found, queries, strict=True)
    ]
    assert np.mean(shared) / 10 > 0.85
    assert not (tmp_path / "vectors.npy").exists()


@pytest.mark.parametrize("structure", ["hnsw", "ivf"])
@pytest.mark.parametrize("n", [1, 2, 9])
def test_approximate_indexes_of_a_few_vectors_are_exact(structure, n, tmp_path):
    vectors, queries, doc_ids, table = random_index(
        tmp_path, Shape(index=structure, n_lists=500), n
    )
    for ranking, query in zip(
        VectorIndex(tmp_path, structure).rank(queries, table, 20), queries, strict=True
    ):
        assert ranking.doc_ids == exact(vectors, query, doc_ids, 20)


def test_building_hnsw_again_gives_the_same_bytes(tmp_path):
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        random_index(tmp_path / name, Shape(index="hnsw"), 500)
    first, second = (tmp_path / name / "index.faiss" for name in ("one", "two"))
    assert first.read_bytes() == second.read_bytes()
