"""Texts to one unit vector per token, with PyLate's ColBERT models or any plain encoder.

A PyLate or Stanford ColBERT checkpoint loads as it is: prefixes, lengths, skip-list and query
expansion are its own. A plain encoder becomes a ColBERT model of explicit modules (transformer,
identity), because PyLate would add a randomly initialised projection and new prefix tokens to it:
two loads of MiniLM would then differ by 0.39. Its settings, measured untrained with MiniLM on
train queries (``docs/log.md``): no prefix, no skip-list, no query expansion, and a query's
``[CLS]`` and ``[SEP]`` don't score.
"""

from __future__ import annotations

import json
import threading
import weakref
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from pydantic import Field
from pylate.models import ColBERT, Dense
from sentence_transformers.models import Transformer

from arms.bfloat16 import warn_where_slow
from arms.encoders.chunks import length_sorted_batches
from arms.encoders.query_backend import (
    PROBES,
    TORCH,
    QueryBackend,
    StatesGraph,
    choose_backend,
)
from arms.encoders.query_encoding import PLAIN_QUERY_TOKENS, Backend
from arms.encoders.query_states import (
    Features,
    TransformerPass,
    passed_features,
    shared_features,
)
from arms.encoders.resolve import ResolvedEncoder
from arms.encoders.text_encoder import Dtype, on_device, pick_device, quiet_loading
from arms.encoders.unit_encoder import Encoded, UnitEncoder
from arms.errors import SettingsError
from arms.out_of_memory import is_out_of_memory, out_of_memory
from arms.records import Unit
from arms.settings import Settings

PLAIN_DOCUMENT_TOKENS = 256

_loaded: weakref.WeakValueDictionary[tuple[Any, ...], TokenEncoder] = weakref.WeakValueDictionary()
_loading = threading.Lock()


class TokenSettings(Settings):
    """What changes a text's token vectors. None: the checkpoint's own, or the plain default."""

    max_document_tokens: int | None = Field(default=None, ge=4, description="plain: 256")
    max_query_tokens: int | None = Field(default=None, ge=4, description="plain: 128")
    query_prefix: str | None = Field(default=None, description="one token; plain: none")
    document_prefix: str | None = Field(default=None, description="one token; plain: none")
    query_expansion: bool | None = Field(default=None, description="plain: off")
    skip_words: tuple[str, ...] | None = Field(
        default=None, description="tokens of documents that don't score; plain: none"
    )
    score_query_specials: bool | None = Field(
        default=None, description="whether [CLS], [SEP] … of a query score; plain: no"
    )

    @property
    def of_documents(self) -> dict[str, Any]:
        """The settings that change documents' vectors."""
        return self.model_dump(include={"max_document_tokens", "document_prefix", "skip_words"})


def load_token_encoder(
    encoder: ResolvedEncoder,
    settings: TokenSettings,
    dtype: Dtype = "float32",
    device: str = "auto",
) -> TokenEncoder:
    """Load an encoder, or return the one that another opened arm of this process holds."""
    place = pick_device(device)
    key = (encoder, settings, dtype, place)
    with _loading:
        found = _loaded.get(key)
        if found is None:
            warn_where_slow(encoder.encoder_id, dtype, place)
            found = _loaded[key] = TokenEncoder(encoder, settings, dtype, place)
        return found


class TokenEncoder(UnitEncoder):
    """A loaded encoder. Read-only after loading, so threads may share it."""

    def __init__(
        self,
        encoder: ResolvedEncoder,
        settings: TokenSettings | None = None,
        dtype: Dtype = "float32",
        device: str = "cpu",
    ) -> None:
        """Load the encoder.

        Raises:
            SettingsError: it can't be loaded, or a prefix isn't one token of its vocabulary.
        """
        settings = settings or TokenSettings()
        try:
            with quiet_loading():
                self.is_checkpoint = is_late_checkpoint(encoder)
                build = _checkpoint if self.is_checkpoint else _plain
                self._model: ColBERT = build(encoder, settings, device)
        except (OSError, ValueError, KeyError, RuntimeError, TypeError, AttributeError) as error:
            if is_out_of_memory(error):
                raise out_of_memory(error, f"load the encoder '{encoder.encoder_id}'") from error
            raise SettingsError(
                f"the encoder '{encoder.encoder_id}' can't be loaded as a late-interaction "
                f"encoder: {error}"
            ) from error
        self._model.to(getattr(torch, dtype)).eval()
        keep = settings.score_query_specials
        self._score_specials = self.is_checkpoint if keep is None else keep
        # PyLate has made the mask token the padding token, which is special as well.
        special = set(self._model.tokenizer.all_special_ids)
        prefixes = {self._model.query_prefix_id, self._model.document_prefix_id} - {None}
        self._specials = torch.tensor(sorted(special | prefixes), dtype=torch.long)
        skipped = {token for token in self._model.skiplist if token is not None}
        self._skipped = torch.tensor(sorted(skipped), dtype=torch.long)
        self._tokenising = threading.Lock()
        place = "late" if self.is_checkpoint else "root"
        self._weights = (place, encoder, dtype, str(self._model.device))
        self._place, self._revision, self._settings = place, encoder.revision, settings

    @property
    def dimension(self) -> int:
        """Length of a vector."""
        return int(self._model[-1].out_features)

    @property
    def pylate_model(self) -> ColBERT:
        """The PyLate model, for parity tests, benchmarks and training."""
        return self._model

    def backend(self, wanted: Backend) -> QueryBackend:
        """Return what may run the transformer for queries, compared with PyTorch."""

        def distance(graph: StatesGraph) -> float:
            given = QueryBackend(graph)
            torch_vectors = self.encode_queries(PROBES)
            alone = [self.encode_queries([text], backend=given)[0] for text in PROBES]
            return max(
                float(np.linalg.norm(got - wanted, axis=-1).max())
                for found in (alone, self.encode_queries(PROBES, backend=given))
                for got, wanted in zip(found, torch_vectors, strict=True)
            )

        return choose_backend(wanted, self._place, self._revision, self._model[0], distance)

    def encode_queries(
        self, queries: Sequence[str], batch_size: int = 32, backend: QueryBackend = TORCH
    ) -> list[NDArray[np.float32]]:
        """One (tokens, dimension) float32 array per query, in order; at least one token each.

        ``backend`` runs the transformer; see :meth:`backend`.
        """
        return self._encode(queries, batch_size, self._pass(backend))

    def encode_units(self, units: Sequence[Unit], batch_size: int = 32) -> Encoded:
        """One (tokens, dimension) array per unit's text."""
        return Encoded(self.encode_documents([unit.text for unit in units], batch_size))

    def encode_documents(
        self, texts: Sequence[str], batch_size: int = 32
    ) -> list[NDArray[np.float32]]:
        """One (tokens, dimension) float32 array per text, in order; at least one token each."""
        return self._encode(texts, batch_size, None)

    def _pass(self, backend: QueryBackend) -> TransformerPass:
        """The encoder's first part as queries go through it, whose states arms may share."""
        return TransformerPass(
            (*self._weights, backend.name),
            ("late", self._settings),
            lambda texts: self._tokenized(texts, True),
            lambda features: backend.run(features, self._torch_states),
            keeps_padding=bool(self._model.do_query_expansion),
        )

    def _torch_states(self, features: Features) -> Features:
        found: Features = self._model[0](on_device(features, self._model.device))
        return found

    def _encode(
        self, texts: Sequence[str], batch_size: int, queries: TransformerPass | None
    ) -> list[NDArray[np.float32]]:
        """Encode equal texts once, so that they get equal vectors; batches have like lengths.

        ``queries`` reads them where they are queries.
        """
        unique = list(dict.fromkeys(texts))
        vectors: dict[str, NDArray[np.float32]] = {}
        for batch in length_sorted_batches([len(text) for text in unique], batch_size):
            batch_texts = [unique[position] for position in batch]
            encoded = self._encode_batch(batch_texts, queries)
            vectors.update(zip(batch_texts, encoded, strict=True))
        return [vectors[text] for text in texts]

    def _encode_batch(
        self, texts: list[str], queries: TransformerPass | None
    ) -> list[NDArray[np.float32]]:
        is_query = queries is not None
        with torch.inference_mode():
            features = shared_features(queries, texts) if queries is not None else None
            passed = features is not None
            if features is None:
                features = self._tokenized(texts, is_query)
            kept = self._kept(features["input_ids"], features["attention_mask"].bool(), is_query)
            if queries is None:
                features = self._torch_states(features)
            elif not passed:
                features = passed_features(queries, features)
            features = on_device(features, self._model.device)
            for module in list(self._model)[1:]:
                features = module(features)
            flat = features["token_embeddings"].float()[kept.to(self._model.device)]
            flat = torch.nn.functional.normalize(flat, dim=-1).cpu()
        lengths = kept.sum(dim=1).tolist()
        return [part.numpy() for part in torch.split(flat, lengths)]

    def _tokenized(self, texts: list[str], is_query: bool) -> Features:
        with self._tokenising:  # a fast tokeniser refuses two threads
            return self._model.tokenize(texts, is_query=is_query)

    def _kept(self, ids: torch.Tensor, real: torch.Tensor, is_query: bool) -> torch.Tensor:
        """(n, tokens) which vectors count. A text with no other token keeps all its real ones."""
        if is_query and self._model.do_query_expansion:
            return torch.ones_like(real)
        left_out = self._skipped
        if is_query:
            left_out = self._specials[:0] if self._score_specials else self._specials
        if len(left_out) == 0:
            return real
        kept = real & ~torch.isin(ids, left_out)
        return torch.where(kept.any(dim=1, keepdim=True), kept, real)


def is_late_checkpoint(encoder: ResolvedEncoder) -> bool:
    """Whether the encoder is a trained late-interaction model, PyLate's or Stanford's."""
    config = _read_json(encoder, "config.json")
    if "HF_ColBERT" in (config.get("architectures") or ()):
        return True
    modules = _read_json(encoder, "modules.json")
    has_projection = any(module.get("type", "").endswith("Dense") for module in modules or ())
    own = _read_json(encoder, "config_sentence_transformers.json")
    return has_projection and ("query_prefix" in own or own.get("similarity_fn_name") == "MaxSim")


def _read_json(encoder: ResolvedEncoder, name: str) -> Any:
    if encoder.is_folder:
        path = Path(encoder.path) / name
        return json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
    from transformers.utils import cached_file

    found = cached_file(
        encoder.path,
        name,
        revision=encoder.hub_revision,
        _raise_exceptions_for_missing_entries=False,
    )
    return json.loads(Path(found).read_text(encoding="utf-8")) if found else {}


def _checkpoint(encoder: ResolvedEncoder, settings: TokenSettings, device: str) -> ColBERT:
    skip = settings.skip_words
    return ColBERT(
        encoder.path,
        device=device,
        revision=encoder.hub_revision,
        local_files_only=encoder.is_folder,
        query_prefix=settings.query_prefix,
        document_prefix=settings.document_prefix,
        query_length=settings.max_query_tokens,
        document_length=settings.max_document_tokens,
        do_query_expansion=settings.query_expansion,
        skiplist_words=None if skip is None else list(skip),
    )


def _plain(encoder: ResolvedEncoder, settings: TokenSettings, device: str) -> ColBERT:
    where = {"local_files_only": encoder.is_folder, "revision": encoder.hub_revision}
    transformer = Transformer(
        encoder.path, model_args=dict(where), tokenizer_args=dict(where), config_args=dict(where)
    )
    vocabulary = transformer.tokenizer.get_vocab()
    prefixes = [settings.query_prefix or "", settings.document_prefix or ""]
    for prefix in prefixes:
        if prefix and prefix not in vocabulary:
            raise ValueError(
                f"the prefix '{prefix}' isn't a token of its vocabulary, so it would get a random "
                "vector; choose an existing token, such as [unused0], or none"
            )
    limit = _position_limit(transformer)
    size = transformer.get_word_embedding_dimension()
    identity = Dense(size, size, bias=False, init_weight=torch.eye(size))
    return ColBERT(
        modules=[transformer, identity],
        device=device,
        query_prefix=prefixes[0],
        document_prefix=prefixes[1],
        query_length=min(limit, settings.max_query_tokens or PLAIN_QUERY_TOKENS),
        document_length=min(limit, settings.max_document_tokens or PLAIN_DOCUMENT_TOKENS),
        do_query_expansion=bool(settings.query_expansion),
        skiplist_words=list(settings.skip_words or ()),
    )


def _position_limit(transformer: Transformer) -> int:
    """How many tokens the encoder has positions for; effectively unlimited where it says none."""
    positions = getattr(transformer.auto_model.config, "max_position_embeddings", None)
    return int(positions or 1_000_000)
