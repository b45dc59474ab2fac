"""Many vectors per page picture, one per line read or per patch, ranked by MaxSim."""

from __future__ import annotations

from arms.architectures.late import LateArm, LateSettings
from arms.arm import ArmSpec
from arms.corpora.corpus import Corpus
from arms.encoders.page_encoder import PageSettings
from arms.encoders.unit_encoder import UnitEncoder
from arms.indexes import folder


class LateOptions(LateSettings, PageSettings):
    """Options of ``mm_late``."""

    def source(self, spec: ArmSpec, corpus: Corpus) -> folder.Source:
        """See :meth:`LateSettings.source`."""
        encoder, dtype = self.resolved(spec.encoder), self.dtype_of(spec.encoder)
        recorded = {**self.recorded(spec.encoder), **self.recorded_storage()}
        return folder.Source(spec, corpus, recorded, encoder, dtype)

    def load_encoder(self, spec: ArmSpec, *, for_queries: bool) -> UnitEncoder:
        """Load the one encoder of pages and queries."""
        return self.load(spec.encoder, self.device, one_vector_each=False, for_queries=for_queries)


class PipelineArm(LateArm):
    """Late interaction of page pictures."""

    options_class = LateOptions
