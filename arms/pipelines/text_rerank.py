"""``text_dense`` top 100, then MaxSim over the token vectors of ``text_late``."""

from __future__ import annotations

from arms.architectures.rerank import RerankArm


class PipelineArm(RerankArm):
    """Reranking of texts."""

    dense_name = "text_dense"
    late_name = "text_late"
