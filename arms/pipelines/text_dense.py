"""One vector per text, ranked by inner product, with any sentence-transformers model."""

from __future__ import annotations

from collections.abc import Sequence

from pydantic import Field

from arms.architectures.dense import DenseArm, DenseSettings
from arms.arm import ArmSpec
from arms.corpora.corpus import Corpus
from arms.encoders.query_backend import TORCH, QueryBackend
from arms.encoders.query_encoding import BACKEND_HELP, Backend, QueryEncoding, text_encoding
from arms.encoders.resolve import resolve
from arms.encoders.text_encoder import Dtype, TextEncoder, load_text_encoder
from arms.encoders.unit_encoder import Encoded, FloatArray, UnitEncoder
from arms.indexes import folder
from arms.records import Unit


class DenseOptions(DenseSettings):
    """Options of ``text_dense``."""

    dtype: Dtype = Field(
        default="float32",
        description="of the document encoder; bfloat16 is faster where the processor has it. "
        "Queries are always encoded in float32",
    )
    max_tokens: int | None = Field(default=None, ge=4, description="default: the encoder's limit")
    query_prompt: str | None = Field(default=None, description="default: the encoder's own")
    document_prompt: str | None = Field(default=None, description="default: the encoder's own")
    backend: Backend = Field(default="auto", description=BACKEND_HELP)

    def source(self, spec: ArmSpec, corpus: Corpus) -> folder.Source:
        """See :meth:`DenseSettings.source`."""
        recorded = {
            **self.recorded_shape(),
            "max_tokens": self.max_tokens,
            "document_prompt": self.document_prompt,
        }
        return folder.Source(spec, corpus, recorded, resolve(spec.encoder), self.dtype)

    def load_encoder(self, spec: ArmSpec, *, for_queries: bool) -> UnitEncoder:
        """See :meth:`DenseSettings.load_encoder`."""
        dtype: Dtype = "float32" if for_queries else self.dtype
        resolved = resolve(spec.encoder)
        encoder = load_text_encoder(resolved, dtype, self.device, self.max_tokens)
        query_prompt = encoder.prompt("query", self.query_prompt)
        return TextUnits(
            encoder,
            query_prompt=query_prompt,
            document_prompt=encoder.prompt("document", self.document_prompt),
            query_encoding=text_encoding(resolved, self.max_tokens, self.query_prompt),
            backend=encoder.backend(self.backend, query_prompt) if for_queries else TORCH,
        )


class TextUnits(UnitEncoder):
    """One vector per text, with the prompts that its role asks for."""

    def __init__(
        self,
        encoder: TextEncoder,
        query_prompt: str = "",
        document_prompt: str = "",
        query_encoding: QueryEncoding | None = None,
        backend: QueryBackend = TORCH,
    ) -> None:
        self._encoder, self.query_encoding = encoder, query_encoding
        self._query_prompt, self._document_prompt = query_prompt, document_prompt
        self._backend, self.query_backend = backend, backend.told

    @property
    def dimension(self) -> int:
        """Length of a vector."""
        return self._encoder.dimension

    def encode_units(self, units: Sequence[Unit], batch_size: int = 32) -> Encoded:
        """One vector per unit's text."""
        texts = [unit.text for unit in units]
        prompt = self._document_prompt
        vectors = self._encoder.embed(texts, prompt, batch_size, few_shapes=True)
        return Encoded(list(vectors[:, None]))

    def encode_queries(self, queries: Sequence[str], batch_size: int = 32) -> list[FloatArray]:
        """One vector per query."""
        vectors = self._encoder.embed(
            queries, self._query_prompt, batch_size, backend=self._backend
        )
        return list(vectors[:, None])


class PipelineArm(DenseArm):
    """Dense retrieval of texts: unit vectors, inner product, faiss."""

    options_class = DenseOptions
