"""Fewer vectors per unit: like ones are merged before they are stored.

Hierarchical token pooling (Clavié, Chaffin and Adams, "Reducing the Footprint of Multi-Vector
Retrieval with Minimal Performance Impact via Token Pooling", 2024), as colpali-engine's
``HierarchicalTokenPooler`` does it: Ward's clustering of the rows of cosine distances.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float32]


def pool(vectors: FloatArray, factor: int) -> FloatArray:
    """(n, d) unit vectors → (at most max(n // factor, 1), d) normalised means of like ones.

    ``factor`` 1 keeps every vector, and so does a unit of one.
    """
    if factor == 1 or len(vectors) < 2:
        return vectors
    from scipy.cluster.hierarchy import fcluster, linkage
    from scipy.spatial.distance import pdist

    distances = 1 - vectors @ vectors.T
    tree = linkage(pdist(distances), method="ward")
    labels = fcluster(tree, t=max(len(vectors) // factor, 1), criterion="maxclust")
    means = np.stack([vectors[labels == label].mean(axis=0) for label in np.unique(labels)])
    pooled: FloatArray = means / np.linalg.norm(means, axis=1, keepdims=True).clip(1e-12)
    return pooled.astype(np.float32)
