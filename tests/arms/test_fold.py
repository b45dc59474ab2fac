"""Folding units to documents: hand-computed cases, and equality with sorting everything."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from arms.errors import CorpusError
from arms.indexes.fold import UnitTable, search_documents, top_documents, top_positions
from arms.records import Ranking, Unit


def table_of(tmp_path, *doc_ids):
    return UnitTable.write(
        tmp_path, (Unit(f"{doc_id}#{n}", doc_id, "") for n, doc_id in enumerate(doc_ids))
    )


@pytest.fixture
def table(tmp_path):
    """Rows b (units 0, 1), a (2), é (3, 4, 5)."""
    return table_of(tmp_path, "b", "b", "a", "é", "é", "é")


def test_the_table_knows_units_rows_and_ids(table):
    assert (table.n_units, table.n_documents) == (6, 3)
    assert [table.doc_id(row) for row in range(3)] == ["b", "a", "é"]
    assert [table.row_of(doc_id) for doc_id in ("é", "a", "b")] == [2, 1, 0]
    assert [list(table.units_of(row)) for row in range(3)] == [[0, 1], [2], [3, 4, 5]]
    assert table.tie_rank.tolist() == [1, 0, 2]
    assert table.rows_of_units(np.array([5, 0, 2, 1])).tolist() == [2, 0, 1, 0]
    with pytest.raises(KeyError):
        table.row_of("c")


def test_ids_order_as_python_orders_text(tmp_path):
    doc_ids = ["ü", "z", "Z", "😀", "\uffee", "10", "9", "\ud800"]
    table = table_of(tmp_path, *doc_ids)
    by_rank = sorted(range(len(doc_ids)), key=table.tie_rank.__getitem__)
    assert [table.doc_id(row) for row in by_rank] == sorted(doc_ids)
    assert [table.row_of(doc_id) for doc_id in doc_ids] == list(range(len(doc_ids)))


def test_fold_takes_the_maximum_per_document(table):
    scores = np.array([1.0, 3.0, 2.0, -1.0, -5.0, -2.0])
    assert table.fold(scores).tolist() == [3.0, 2.0, -1.0]


def test_scattered_units_of_a_document_are_refused(tmp_path):
    with pytest.raises(CorpusError, match="3 groups of units for 2 document ids"):
        table_of(tmp_path, "a", "b", "a")


def test_a_corpus_without_units_is_refused(tmp_path):
    with pytest.raises(CorpusError, match="no text to index"):
        UnitTable.write(tmp_path, iter(()))


def test_top_positions_breaks_ties_across_the_cut():
    scores = np.array([1.0, 2.0, 2.0, 2.0, 0.0])
    tie_rank = np.array([0, 4, 2, 3, 1])
    assert top_positions(scores, tie_rank, 2).tolist() == [2, 3]
    assert top_positions(scores, tie_rank, 9).tolist() == [2, 3, 1, 0, 4]
    assert top_positions(scores, tie_rank, 9, above=0.0).tolist() == [2, 3, 1, 0]
    assert top_positions(scores, tie_rank, 4, above=1.0).tolist() == [2, 3, 1]
    assert top_positions(scores[:0], tie_rank[:0], 3).tolist() == []


def test_top_documents_by_hand(table):
    found = top_documents(np.array([0.5, 0.9, 0.9, 0.1]), np.array([3, 0, 2, 1]), table, 2)
    assert found == Ranking(("a", "b"), (0.9, 0.9))


@settings(max_examples=60, deadline=None)
@given(
    counts=st.lists(st.integers(1, 9), min_size=1, max_size=12),
    levels=st.integers(1, 6),
    k=st.integers(1, 15),
    seed=st.integers(0, 999),
)
def test_searching_deeper_equals_sorting_everything(tmp_path_factory, counts, levels, k, seed):
    doc_ids = [f"d{n * 7 % len(counts)}" for n in range(len(counts))]
    doc_ids = [f"{doc_id}-{n}" for n, doc_id in enumerate(doc_ids)]
    table = table_of(
        tmp_path_factory.mktemp("table"),
        *[doc_id for doc_id, count in zip(doc_ids, counts, strict=True) for _ in range(count)],
    )
    draw = np.random.default_rng(seed)
    scores = draw.integers(0, levels, size=(3, table.n_units)).astype(np.float32)
    depths = []

    def search(positions, depth):
        depths.append(depth)
        # ties in an order that has nothing to do with ids
        shuffled = draw.permutation(table.n_units)
        order = np.stack([shuffled[np.argsort(-scores[one][shuffled])] for one in positions])
        order = order[:, :depth]
        return np.take_along_axis(scores[positions], order, axis=1), order

    found = search_documents(search, 3, table, k, first_depth=1)
    for ranking, of_query in zip(found, scores, strict=True):
        best = {}
        for row, doc_id in enumerate(doc_ids):
            best[doc_id] = max(of_query[list(table.units_of(row))].tolist())
        expected = sorted(best.items(), key=lambda item: (-item[1], item[0]))[:k]
        assert list(zip(ranking.doc_ids, ranking.scores, strict=True)) == expected
    assert depths[-1] <= table.n_units


def test_unfilled_places_end_the_search(table):
    def search(positions, depth):
        scores = np.full((len(positions), depth), -np.inf, dtype=np.float32)
        found = np.full((len(positions), depth), -1)
        scores[:, 0], found[:, 0] = 1.0, 4
        return scores, found

    assert search_documents(search, 2, table, 3, first_depth=2) == [Ranking(("é",), (1.0,))] * 2
