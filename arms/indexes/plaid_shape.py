"""What a PLAID index is built with, apart from its back end."""

from __future__ import annotations

from arms.settings import Settings


class PlaidShape(Settings):
    """Equal shapes over equal vectors give equal indexes."""

    nbits: int = 4
    n_centroids: int | None = None
    """None: see :func:`arms.indexes.plaid.default_centroids`."""
    kmeans_iterations: int = 4
    points_per_centroid: int = 32
    seed: int = 42
