import numpy as np
import pytest
import torch

from arms.indexes import position_major
from arms.indexes.maxsim import maxsim
from arms.indexes.position_major import PositionMajor, RoundingError
from tests.arms.test_maxsim import naive, store_of, unit_vectors

TYPES = [torch.float32, torch.bfloat16]


def units_of(generator, lengths, dimension=32):
    return [unit_vectors(generator, int(length), dimension) for length in lengths]


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("sizes", [(256, 32, 262_144), (8, 4, 64), (5, 2, 1)])
def test_no_unit_scores_above_its_bound_and_few_stay_far_below(tmp_path, monkeypatch, dtype, sizes):
    for name, size in zip(("_GROUP_UNITS", "_WIDTH_STEP", "_SIMILARITIES"), sizes, strict=True):
        monkeypatch.setattr(position_major, name, size)
    monkeypatch.setattr(position_major, "_QUERY_TOKENS_AT_ONCE", 20)
    generator = np.random.default_rng(7)
    documents = units_of(generator, generator.integers(0, 30, 90))
    queries = units_of(generator, [1, 7, 0, 30, 12])
    store = store_of(tmp_path, documents)
    stored = [store.of(unit) for unit in range(store.n_units)]
    bounds = PositionMajor(store, dtype).bounds(queries)
    for query, bound in zip(queries, bounds, strict=True):
        exact = naive(query, stored)
        assert (bound >= exact - 1e-6).all()
        assert np.array_equal(np.isneginf(bound), np.isneginf(exact))
        # Units whose every token is answered by something positive are bounded closely.
        positive = [
            len(query) > 0 and len(one) > 0 and bool(((query @ one.T).max(axis=1) > 0).all())
            for one in stored
        ]
        margin = 0.011 if dtype == torch.bfloat16 else 1e-5
        above = bound[positive] - exact[positive]
        assert above.max(initial=0) <= 2 * margin * len(query)


def test_what_is_negative_everywhere_counts_as_nothing(tmp_path):
    against = np.array([[-1.0, 0.0]], dtype=np.float32)
    store = store_of(tmp_path, [against, np.repeat(against, 3, axis=0)])
    bounds = PositionMajor(store, torch.bfloat16).bounds([-against, against])
    assert (bounds[0] >= 0).all() and (bounds[0] < 0.01).all()
    np.testing.assert_allclose(bounds[1], 1, atol=0.01)


@pytest.mark.parametrize("dtype", TYPES)
def test_rounding_stays_within_the_error_it_states(dtype):
    """Also for vectors along an axis, of unlike lengths, and for products just above 1."""
    generator = np.random.default_rng(8)
    units = np.concatenate([unit_vectors(generator, 500, 24), np.eye(24, dtype=np.float32) * 1.001])
    units[:100] *= generator.uniform(0.1, 3, (100, 1)).astype(np.float32)
    for kind in (units, units[:100], units[100:]):
        error = RoundingError(dtype, 24)
        error.see(torch.from_numpy(kind), torch.from_numpy(kind).to(dtype))
        for query in units[::7]:
            true = kind.astype(np.float64) @ query.astype(np.float64)
            product = torch.from_numpy(kind).to(dtype) @ torch.from_numpy(query).to(dtype)
            worst = np.abs(true - product.double().numpy()).max()
            assert worst <= error.of(query[None])


def test_bfloat16_rounds_visibly():
    """The tests above can fail: without an error the bounds would be too low."""
    generator = np.random.default_rng(7)
    unit, query = unit_vectors(generator, 40, 32), unit_vectors(generator, 30, 32)
    begin = np.array([0, 40])
    exact = maxsim([query], unit, begin)[0, 0]
    coarse = maxsim([query], torch.from_numpy(unit).bfloat16(), begin)[0, 0]
    assert abs(exact - coarse) > 1e-4


def test_memory_is_a_copy_and_little_more(tmp_path):
    generator = np.random.default_rng(9)
    store = store_of(tmp_path, units_of(generator, generator.integers(1, 60, 600), 8))
    copied = store.n_vectors * 8 * 2
    assert copied <= PositionMajor(store, torch.bfloat16).size_bytes <= 1.1 * copied


def test_nothing_to_copy(tmp_path):
    empty = np.empty((0, 8), dtype=np.float32)
    query = unit_vectors(np.random.default_rng(1), 2, 8)
    bounds = PositionMajor(store_of(tmp_path, [empty, empty]), torch.bfloat16).bounds([query])
    assert np.isneginf(bounds).all()
