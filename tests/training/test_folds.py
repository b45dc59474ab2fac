import numpy as np

from tests.training.tables import make_table
from training.folds import fold_of_queries, held_out_share


def grouped_table():
    count = 200
    groups = [f"g{n % 150}" for n in range(count)]
    datasets = ["small" if n < 20 else "large" for n in range(count)]
    return make_table(np.zeros((count, 2)), groups=groups, datasets=datasets)


def test_equal_texts_share_a_fold_and_datasets_are_spread():
    table = grouped_table()
    folds = fold_of_queries(table, 5, seed=42)
    by_group = {}
    for group, fold in zip(table.text_groups, folds, strict=True):
        assert by_group.setdefault(group, fold) == fold
    assert set(folds[table.datasets == "small"]) == {0, 1, 2, 3, 4}
    sizes = np.bincount(folds)
    assert sizes.max() - sizes.min() <= 12


def test_folds_depend_on_the_seed_and_not_on_row_order():
    table = grouped_table()
    folds = fold_of_queries(table, 5, seed=42)
    order = np.random.default_rng(0).permutation(len(table))
    np.testing.assert_array_equal(fold_of_queries(table.rows(order), 5, seed=42), folds[order])
    assert (fold_of_queries(table, 5, seed=7) != folds).any()


def test_fewer_groups_than_folds():
    table = make_table(np.zeros((2, 2)))
    assert sorted(fold_of_queries(table, 5, seed=0)) == [0, 1]
    assert fold_of_queries(make_table(np.zeros((0, 2))), 5, seed=0).shape == (0,)


def test_the_inner_validation_share_is_grouped_and_near_its_size():
    table = grouped_table()
    held_out = held_out_share(table, 0.1, seed=1)
    assert not set(table.text_groups[held_out]) & set(table.text_groups[~held_out])
    assert 0.05 < held_out.mean() < 0.15
