"""Features of rankings and of query texts, by hand."""

import math

import numpy as np
import pytest

from arms.records import Ranking
from router import probe_features as module
from router.probe_features import LIST_FEATURES, PAIR_FEATURES, as_lists, probe_feature_names
from router.query_features import SURFACE_FEATURES, surface_features


def probe_features(arms, found, depth, rows):
    return module.probe_features(arms, as_lists(arms, found, depth, rows))


def named(arms, found, depth=10):
    rows = max((len(rankings) for rankings in found.values()), default=1)
    values = probe_features(arms, found, depth, rows)
    names = probe_feature_names(arms)
    assert values.shape == (rows, len(names))
    return [dict(zip(names, row, strict=True)) for row in values.tolist()]


def test_one_ranking_by_hand():
    row = named(["bm25"], {"bm25": [Ranking(("a", "b", "c"), (6.0, 3.0, 3.0))]})[0]
    deviation = math.sqrt(2.0)
    assert row["bm25:found"] == 3
    assert (row["bm25:gap_1_2"], row["bm25:gap_2_3"]) == (3.0, 0.0)
    assert row["bm25:ratio_2_1"] == 0.5
    assert (row["bm25:mean"], row["bm25:deviation"]) == (4.0, pytest.approx(deviation))
    assert row["bm25:nqc"] == pytest.approx(deviation / 4)
    assert row["bm25:first_deviations"] == pytest.approx(2 / deviation)
    assert row["bm25:smv"] == pytest.approx((6 * math.log(1.5) + 2 * 3 * math.log(4 / 3)) / 3)
    assert math.isnan(row["bm25:score_5"])
    weights = [1.0, *2 * [math.exp(-3 / deviation)]]
    assert row["bm25:first_share"] == pytest.approx(weights[0] / sum(weights))


def test_a_pair_by_hand():
    a = Ranking(("x", "y", "z"), (3.0, 2.0, 1.0))
    b = Ranking(("y", "w"), (0.9, 0.5))
    row = named(["a", "b"], {"a": [a], "b": [b]})[0]
    assert row["a|b:same_first"] == 0
    assert [row[f"a|b:shared_{k}"] for k in (1, 3, 5, 10, "all")] == [0, 1, 1, 1, 1]
    assert [row[f"a|b:a_{place}_rank"] for place in (1, 2, 3)] == [10, 0, 10]
    assert [row[f"a|b:b_{place}_rank"] for place in (1, 2, 3)] == [1, 10, 10]
    # What b doesn't hold is taken to score as low as b's last.
    assert row["a|b:a_1_relative"] == pytest.approx(0.5 / 0.9)
    assert row["a|b:a_2_behind"] == 0
    assert row["a|b:b_1_behind"] == pytest.approx(1 / math.sqrt(2 / 3))


def test_absent_and_empty_rankings_are_missing_values():
    some = Ranking(("x",), (1.0,))
    absent, present = (
        named(["a", "b"], found, 12)[0] for found in ({"a": [some]}, {"a": [some], "b": [some]})
    )
    empty = named(["a", "b"], {"a": [some], "b": [Ranking((), ())]}, 12)[0]
    assert empty == pytest.approx(absent, nan_ok=True)
    assert empty["b:found"] == 0
    assert all(math.isnan(empty[f"a|b:{name}"]) for name in PAIR_FEATURES)
    assert all(math.isnan(empty[f"b:{name}"]) for name in LIST_FEATURES if name != "found")
    assert present["a|b:same_first"] == 1


def test_numbers_stay_finite_or_missing_whatever_the_scores():
    odd = [
        Ranking(("x", "y"), (0.0, 0.0)),
        Ranking(("x", "y"), (-1.0, -2.0)),
        Ranking(tuple(map(str, range(30))), tuple(range(30, 0, -1))),
    ]
    values = probe_features(["a", "b"], {"a": odd, "b": odd[::-1]}, 10, 3)
    assert not np.isinf(values).any()
    with np.errstate(all="raise"):  # the caller's own settings are left as they are
        np.testing.assert_array_equal(
            probe_features(["a", "b"], {"a": odd, "b": odd[::-1]}, 10, 3), values
        )


def test_a_query_has_the_same_features_in_any_batch():
    random = np.random.default_rng(0)

    def ranking():
        ids = random.permutation(15)[:10].astype(str)
        return Ranking(tuple(ids), tuple(np.sort(random.random(10))[::-1].tolist()))

    found = {arm: [ranking() for _ in range(6)] for arm in ("a", "b", "c")}
    whole = probe_features(list(found), found, 10, 6)
    for row in range(6):
        alone = probe_features(list(found), {arm: [one[row]] for arm, one in found.items()}, 10, 1)
        np.testing.assert_allclose(alone[0], whole[row], rtol=1e-12)


def test_refusals():
    with pytest.raises(ValueError, match="depth of at least 10, got 5"):
        probe_features(["a"], {}, 5, 1)
    with pytest.raises(ValueError, match="expected 2 rankings of a, got 1"):
        probe_features(["a"], {"a": [Ranking((), ())]}, 10, 2)


def test_what_a_text_shows():
    first, second = surface_features(["How many banks failed in 1998 and 'Ohio'?", "北京 😀"])
    row = dict(zip(SURFACE_FEATURES, first, strict=True))
    assert (row["words"], row["digits"], row["years"]) == (8, 4, 1)
    assert (row["capitalised_words"], row["question_mark"]) == (1, 1)
    assert (row["begins_how_many"], row["begins_how"], row["begins_what"]) == (1, 1, 0)
    assert dict(zip(SURFACE_FEATURES, second, strict=True))["not_ascii"] == 3
    assert surface_features([]).shape == (0, len(SURFACE_FEATURES))
    assert np.isfinite(surface_features(["", "?", " "])).all()
