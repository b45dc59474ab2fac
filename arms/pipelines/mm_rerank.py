"""``mm_dense`` top 100, then MaxSim over the vectors of ``mm_late``."""

from __future__ import annotations

from arms.architectures.rerank import RerankArm


class PipelineArm(RerankArm):
    """Reranking of page pictures."""

    dense_name = "mm_dense"
    late_name = "mm_late"
