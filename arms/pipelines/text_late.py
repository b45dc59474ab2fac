"""One vector per token of a text, ranked by MaxSim, with any PyLate model or plain encoder."""

from __future__ import annotations

from pydantic import Field

from arms.architectures.late import LateArm, LateSettings
from arms.arm import ArmSpec
from arms.corpora.corpus import Corpus
from arms.encoders.resolve import resolve
from arms.encoders.text_encoder import Dtype
from arms.encoders.token_encoder import TokenSettings, load_token_encoder
from arms.encoders.unit_encoder import UnitEncoder
from arms.indexes import folder


class LateOptions(LateSettings):
    """Options of ``text_late``."""

    tokens: TokenSettings = Field(default=TokenSettings(), description="lengths, prefixes, …")
    dtype: Dtype = Field(
        default="float32",
        description="of the document encoder; bfloat16 is about twice as fast where the processor "
        "has it. Queries are always encoded in float32",
    )

    def source(self, spec: ArmSpec, corpus: Corpus) -> folder.Source:
        """See :meth:`LateSettings.source`."""
        recorded = {**self.tokens.of_documents, **self.recorded_storage()}
        return folder.Source(spec, corpus, recorded, resolve(spec.encoder), self.dtype)

    def load_encoder(self, spec: ArmSpec, *, for_queries: bool) -> UnitEncoder:
        """See :meth:`LateSettings.load_encoder`."""
        dtype: Dtype = "float32" if for_queries else self.dtype
        return load_token_encoder(resolve(spec.encoder), self.tokens, dtype, self.device)


class PipelineArm(LateArm):
    """Late interaction of texts."""

    options_class = LateOptions
