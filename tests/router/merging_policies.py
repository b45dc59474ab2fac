"""Policies that merge, made by hand: models that know every document's gain, or real small ones."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from router.arm_sets import ArmSet
from router.boosters import Boosters
from router.candidates import PROBE_COLUMNS, candidates
from router.history import DocumentHistory
from router.policies.merging import MergingPolicy
from router.probe_features import as_lists
from router.relevance import RelevanceModel, relevance_count

ARMS = ("a", "b", "c")


class Knows:
    """In place of boosters: a document's gain is the highest score that an arm gives it.

    The score that orders documents is that of the set's last arm, 0 where it lacks the document.
    """

    texts = ("gain", "order")

    def __init__(self, arms: Sequence[str]) -> None:
        self.features, self.asked = relevance_count(0, arms, False), 0
        self._scores = [
            place * len(PROBE_COLUMNS) + PROBE_COLUMNS.index("score") for place in range(len(arms))
        ]

    def predict(self, columns):
        self.asked += 1
        assert columns.shape[1] == self.features
        scores = np.nan_to_num(columns[:, self._scores], nan=0.0)
        return np.column_stack([scores.max(axis=1, initial=0.0), scores[:, -1]])

    def load(self):
        return []


def no_past() -> DocumentHistory:
    """Of one training query without any relevant document."""
    seen = candidates(["a"], as_lists(["a"], {"a": []}, 10, 0), 5)
    assert not len(seen.rows)
    return DocumentHistory(
        np.array([-5], dtype=np.int64),
        np.array([0, 1], dtype=np.int64),
        np.zeros(1, dtype=np.int32),
        np.zeros(1, dtype=np.float32),
    )


def model_of(arms, booster=None, k=2, top=3, order_weight=0.0):
    return RelevanceModel(booster or Knows(arms), no_past(), k, top, order_weight)


def arm_set(*arms, quality=0.9, share=0.5, **options):
    return ArmSet(tuple(arms), quality, share, model_of(arms, **options))


def alone(arms=ARMS, quality=0.5, share=0.2):
    return [ArmSet((arm,), quality, share) for arm in arms]


def merging(*arm_sets, arms=ARMS, depth=10):
    """The arm sets that merge, after every arm alone."""
    return MergingPolicy("merging", arms, [*alone(arms), *arm_sets], None, None, depth)


def real_arm_set(*arms, quality=0.9, share=0.5, k=2, top=5, history=True):
    """An arm set whose models are LightGBM's own, fitted to numbers without meaning."""
    import lightgbm

    features = relevance_count(0, arms, False, with_history=history)
    random = np.random.default_rng(0)
    columns, given = random.normal(size=(200, features)), {"verbosity": -1, "num_threads": 1}
    texts = []
    for objective, target in (
        ("cross_entropy", random.random(200)),
        ("regression", random.normal(size=200)),
    ):
        data = lightgbm.Dataset(columns, target, params=given)
        trained = lightgbm.train({**given, "objective": objective}, data, 5)
        texts.append(trained.model_to_string())
    booster = Boosters(texts, features)
    return arm_set(*arms, quality=quality, share=share, booster=booster, k=k, top=top)
