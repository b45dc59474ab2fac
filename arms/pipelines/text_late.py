"""One vector per token of a text, ranked by MaxSim, with any PyLate model or plain encoder."""

from __future__ import annotations

from collections.abc import Sequence

from pydantic import Field
from pylate.models import ColBERT

from arms.architectures.late import LateArm, LateSettings
from arms.arm import ArmSpec
from arms.corpora.corpus import Corpus
from arms.encoders.query_backend import TORCH, QueryBackend
from arms.encoders.query_encoding import BACKEND_HELP, Backend
from arms.encoders.resolve import resolve
from arms.encoders.text_encoder import Dtype
from arms.encoders.token_encoder import TokenEncoder, TokenSettings, load_token_encoder
from arms.encoders.unit_encoder import Encoded, FloatArray, UnitEncoder
from arms.indexes import folder
from arms.records import Unit


class LateOptions(LateSettings):
    """Options of ``text_late``."""

    tokens: TokenSettings = Field(default=TokenSettings(), description="lengths, prefixes, …")
    dtype: Dtype = Field(
        default="float32",
        description="of the document encoder; bfloat16 is about twice as fast where the processor "
        "has it. Queries are always encoded in float32",
    )
    backend: Backend = Field(default="auto", description=BACKEND_HELP)

    def source(self, spec: ArmSpec, corpus: Corpus) -> folder.Source:
        """See :meth:`LateSettings.source`."""
        recorded = {**self.tokens.of_documents, **self.recorded_storage()}
        return folder.Source(spec, corpus, recorded, resolve(spec.encoder), self.dtype)

    def load_encoder(self, spec: ArmSpec, *, for_queries: bool) -> UnitEncoder:
        """See :meth:`LateSettings.load_encoder`."""
        dtype: Dtype = "float32" if for_queries else self.dtype
        encoder = load_token_encoder(resolve(spec.encoder), self.tokens, dtype, self.device)
        return TokenUnits(encoder, encoder.backend(self.backend) if for_queries else TORCH)


class TokenUnits(UnitEncoder):
    """One vector per token of a text; ``backend`` runs the transformer for queries."""

    def __init__(self, encoder: TokenEncoder, backend: QueryBackend = TORCH) -> None:
        self._encoder = encoder
        self._backend, self.query_backend = backend, backend.told

    @property
    def pylate_model(self) -> ColBERT:
        """See :attr:`TokenEncoder.pylate_model`."""
        return self._encoder.pylate_model

    @property
    def dimension(self) -> int:
        """Length of a vector."""
        return self._encoder.dimension

    def encode_units(self, units: Sequence[Unit], batch_size: int = 32) -> Encoded:
        """One (tokens, dimension) array per unit's text."""
        return self._encoder.encode_units(units, batch_size)

    def encode_queries(self, queries: Sequence[str], batch_size: int = 32) -> list[FloatArray]:
        """One (tokens, dimension) array per query."""
        return self._encoder.encode_queries(queries, batch_size, self._backend)


class PipelineArm(LateArm):
    """Late interaction of texts."""

    options_class = LateOptions
