"""One vector per page picture, ranked by inner product."""

from __future__ import annotations

from arms.architectures.dense import DenseArm, DenseSettings
from arms.arm import ArmSpec
from arms.corpora.corpus import Corpus
from arms.encoders.page_encoder import PageSettings
from arms.encoders.unit_encoder import UnitEncoder
from arms.indexes import folder


class DenseOptions(DenseSettings, PageSettings):
    """Options of ``mm_dense``."""

    def source(self, spec: ArmSpec, corpus: Corpus) -> folder.Source:
        """See :meth:`DenseSettings.source`."""
        recorded = {**self.recorded_shape(), **self.recorded(spec.encoder)}
        encoder, dtype = self.resolved(spec.encoder), self.dtype_of(spec.encoder)
        return folder.Source(spec, corpus, recorded, encoder, dtype)

    def load_encoder(self, spec: ArmSpec, *, for_queries: bool) -> UnitEncoder:
        """Load the one encoder of pages and queries."""
        return self.load(spec.encoder, self.device, one_vector_each=True, for_queries=for_queries)


class PipelineArm(DenseArm):
    """Dense retrieval of page pictures."""

    options_class = DenseOptions
