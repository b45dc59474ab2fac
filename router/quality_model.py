"""What a quality predictor is made of, and the numbers it reads."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from arms.reward import FloatArray
from router.boosters import Boosters
from router.probe_features import (
    PAIR_FEATURES,
    Lists,
    all_list_features,
    probe_feature_names,
    probe_features,
)
from router.query_features import SURFACE_FEATURES, surface_features
from router.query_vectors import QueryVectors
from router.relevance import RelevanceModel


@dataclass(frozen=True)
class QualityModel:
    """Everything that was fitted."""

    boosters: Boosters
    """One model per arm for its relative quality, then one for the mean over arms."""
    usual: FloatArray
    """(A,) mean relative quality of each arm on training queries."""
    weights: FloatArray
    """(2,) of what the trees and the neighbours say beyond ``usual``."""
    latency_ms: FloatArray
    """(A,) mean milliseconds of each arm on training queries."""
    vectors: QueryVectors | None
    """None: the model doesn't read query vectors."""
    relevance: RelevanceModel | None = None
    """What it expects of the probes' lists goes before what the trees and the neighbours say."""

    def combine(self, trees: FloatArray, nearby: FloatArray | None) -> FloatArray:
        """(n, A) relative quality from (n, A) of the trees and of the neighbours."""
        relative = self.usual + self.weights[0] * (trees - self.usual)
        if nearby is not None:
            relative = relative + self.weights[1] * (nearby - self.usual)
        return np.asarray(relative)


def model_features(
    queries: Sequence[str],
    components: FloatArray | None,
    probes: Sequence[str],
    lists: Mapping[str, Lists],
) -> FloatArray:
    """(n, features) surface features, components of the vector, what the probes tell.

    What pairs of probes tell stands last.
    """
    parts = [surface_features(queries)]
    if components is not None:
        parts.append(components)
    if probes:
        parts.append(probe_features(probes, lists))
    return np.hstack(parts)


def query_columns(
    queries: Sequence[str],
    components: FloatArray | None,
    probes: Sequence[str],
    lists: Mapping[str, Lists],
) -> FloatArray:
    """(n, features) :func:`model_features` without what pairs of probes tell."""
    parts = [surface_features(queries)]
    if components is not None:
        parts.append(components)
    return np.hstack([*parts, all_list_features(probes, lists)])


def without_pairs(features: FloatArray, probes: Sequence[str]) -> FloatArray:
    """(n, features) :func:`query_columns`, cut out of :func:`model_features`."""
    pairs = len(probes) * (len(probes) - 1) // 2 * len(PAIR_FEATURES)
    return features[:, : features.shape[1] - pairs]


def feature_count(components: int, probes: Sequence[str]) -> int:
    """Columns of :func:`model_features`."""
    return len(SURFACE_FEATURES) + components + len(probe_feature_names(probes))
