"""What arms save where the policy's query vector is the one they would make themselves.

A search hands that vector to them (:meth:`router.Router.search`), so a plan's latency is that of
its arms and of deciding, less the encoding that isn't done again. What is saved is an arm's own
``encode_ms`` in the labels, of the dense arm that it holds where it is no dense arm itself.

An arm makes one pass of an encoder for all its parts (:func:`arms.encoders.query_states.one_pass`).
So parts that make the same vector save that pass once, and nothing is saved where the arm makes it
anyway: for late interaction, which needs a state for every token, as reranking does. A policy's
vector doesn't hold those.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from arms.arm import ArmSpec
from arms.catalogue import arm_class, spec_of
from arms.encoders.query_encoding import PLAIN_QUERY_TOKENS, QueryEncoding, text_encoding
from arms.encoders.resolve import ResolvedEncoder
from arms.errors import MissingExtraError
from arms.reward import BoolArray, FloatArray
from arms.settings import ArmSettings
from oracle.labels import Labels, read_columns
from oracle.latency_model import predict_latency_ms
from router.query_encoder import QueryEncoder
from training.table import RoutingTable

DENSE, LATE = "text_dense", "text_late"


def reusable_encode_ms(
    labels_folder: Path, labels: Labels, every: RoutingTable, encoder: QueryEncoder
) -> FloatArray:
    """(Q, P) milliseconds that each arm saves by taking the query's vector from ``encoder``.

    0 where the arm makes no such vector, or may make another (see
    :meth:`QueryEncoding.same_vector`), or reads the query's token states from the same pass, and
    where the labels don't say what encoding took. For
    queries whose latency was modelled, so is the encoding, in the same way. Never more than the
    arm's latency.

    Args:
        labels_folder: the labels' files.
        labels: the same, opened.
        every: all labelled queries over P.
        encoder: a policy's frozen encoder.
    """
    found = np.zeros_like(every.latency_ms)
    shared = shared_parts(labels.manifest, encoder)
    if not any(shared.parts.values()):
        return found
    encode_ms = _encode_ms(labels_folder, every)
    texts = every.texts.tolist()
    tokens = np.array([len(one) for one in encoder.tokens(texts)])
    plain = np.array([text == text.strip() for text in texts])
    for arm, parts in shared.parts.items():
        taken = {
            part.identity: encode_ms[:, every.arms.index(part.identity)] * plain for part in parts
        }
        saved = saved_ms(parts, shared.states[arm], encoder.encoding, tokens, taken)
        found[:, every.arms.index(arm)] = saved
    latency_ms = np.where(every.competes & np.isfinite(every.latency_ms), every.latency_ms, 0.0)
    return np.minimum(found, latency_ms)


@dataclass(frozen=True)
class VectorPart:
    """A dense arm that makes a policy's query vectors, alone or as a part of another arm."""

    identity: str
    encoding: QueryEncoding
    backend: str
    """As its options name it: parts of other back ends don't share a pass."""


@dataclass(frozen=True)
class StatesPart:
    """A late-interaction part over the policy's encoder, whose tokens are the query's own."""

    max_tokens: int
    backend: str

    def reads(self, tokens: NDArray[np.int64], cut_at: int) -> BoolArray:
        """Whether it reads the tokens that a dense part does, of which a policy counted these."""
        whole = tokens < cut_at if cut_at != self.max_tokens else np.ones(len(tokens), dtype=bool)
        return np.asarray(whole & (tokens <= self.max_tokens))


def saved_ms(
    parts: Sequence[VectorPart],
    states: Sequence[StatesPart],
    encoding: QueryEncoding,
    tokens: NDArray[np.int64],
    encode_ms: Mapping[str, FloatArray],
) -> FloatArray:
    """(Q,) milliseconds of encoding that one arm doesn't do where it is given the query's vector.

    Args:
        parts: its parts that make the vector.
        states: its parts that need the query's token states.
        encoding: how the vector was made.
        tokens: (Q,) how many tokens went into it.
        encode_ms: part → (Q,) what encoding takes where it stands alone; NaN where unknown.
    """
    of_pass: dict[str, FloatArray] = {}
    for part in parts:
        same = _same_vector(encoding, part.encoding, tokens)
        for late in states:
            if late.backend == part.backend:
                same &= ~late.reads(tokens, encoding.max_tokens)
        known = same & np.isfinite(encode_ms[part.identity])
        saved = np.where(known, encode_ms[part.identity], 0.0)
        of_pass[part.backend] = np.maximum(of_pass.get(part.backend, 0.0), saved)
    return np.sum(list(of_pass.values()), axis=0) if of_pass else np.zeros(len(tokens))


@dataclass(frozen=True)
class SharedParts:
    """Which arms make a policy's query vectors."""

    parts: Mapping[str, Sequence[VectorPart]]
    """Arm of P → its dense arms that make them."""
    states: Mapping[str, Sequence[StatesPart]]
    """Arm of P → its late-interaction arms that take token states from the same pass."""
    apart: tuple[str, ...]
    """A sentence for each arm whose encoder has the same weights and yet makes other vectors."""


def shared_parts(manifest: Mapping[str, Any], encoder: QueryEncoder) -> SharedParts:
    """Read off the labels' manifest which arms make ``encoder``'s query vectors."""
    settings = manifest.get("config", {}).get("arms", ())
    specs = [spec_of(ArmSettings.model_validate(one)) for one in settings]
    revisions = _revisions(manifest)
    found: dict[str, list[VectorPart]] = {}
    states: dict[str, list[StatesPart]] = {}
    told: list[str] = []
    for spec in specs:
        found[spec.identity] = []
        states[spec.identity] = [
            one
            for part in _leaves(spec, LATE)
            if revisions.get(part.identity, {encoder.resolved.revision})
            == {encoder.resolved.revision}
            for one in _states_of(part)
        ]
        for part in _leaves(spec, DENSE):
            if revisions.get(part.identity) != {encoder.resolved.revision}:
                continue
            encoding = _encoding_of(part, encoder.resolved)
            apart = (
                ["how it encodes"] if encoding is None else encoder.encoding.differences(encoding)
            )
            if encoding is None or apart:
                told.append(
                    f"{spec.identity} reads the router's own encoder and makes other query "
                    f"vectors ({', '.join(apart)}): a search embeds the query twice"
                )
            else:
                found[spec.identity].append(VectorPart(part.identity, encoding, _backend(part)))
    kept = {arm: parts for arm, parts in found.items() if arm in manifest["pipelines"]}
    return SharedParts(kept, states, tuple(told))


def _states_of(part: ArmSpec) -> Iterator[StatesPart]:
    """Yield the late-interaction arm, unless it adds tokens of its own to a query's."""
    settings = part.options.get("tokens") or {}
    if settings.get("query_prefix") or settings.get("query_expansion"):
        return
    limit = settings.get("max_query_tokens") or PLAIN_QUERY_TOKENS
    yield StatesPart(int(limit), _backend(part))


def _backend(part: ArmSpec) -> str:
    return str(part.options.get("backend", "auto"))


def _same_vector(mine: QueryEncoding, its: QueryEncoding, tokens: np.ndarray) -> BoolArray:
    return np.array([mine.same_vector(its, count) for count in tokens.tolist()], dtype=bool)


def _leaves(spec: ArmSpec, name: str) -> Sequence[ArmSpec]:
    """The arms of this pipeline that it is, or reads the index of."""
    if spec.name == name:
        return (spec,)
    try:
        parts = arm_class(spec.name).parts(spec)
    except MissingExtraError:  # its back end isn't installed here, so it can't be served either
        return ()
    return [one for part in parts for one in _leaves(part, name)]


def _encoding_of(part: ArmSpec, encoder: ResolvedEncoder) -> QueryEncoding | None:
    """How the part encodes, its encoder being of the same revision as ``encoder``."""
    return text_encoding(encoder, part.options.get("max_tokens"), part.options.get("query_prompt"))


def _revisions(manifest: Mapping[str, Any]) -> dict[str, set[str | None]]:
    """Arm → the revisions of its encoder over all datasets, as their indexes recorded them."""
    found: dict[str, set[str | None]] = {}
    for dataset in (manifest.get("datasets") or {}).values():
        for arm, told in (dataset.get("arms") or {}).items():
            if told.get("index"):  # absent where the dataset lacks the arm
                found.setdefault(arm, set()).add(told["index"].get("encoder_revision"))
    return found


def _encode_ms(labels_folder: Path, every: RoutingTable) -> FloatArray:
    """(Q, P) as labelled, modelled where the latency is; NaN where unknown."""
    names, further = ("dataset", "query_id", "arm"), ("encode_ms", "latency_modelled")
    columns = read_columns(labels_folder / "labels.parquet", names, optional=further)
    found = np.full(every.latency_ms.shape, np.nan)
    if not set(further) <= set(columns.column_names):
        return found
    keys = zip(every.datasets.tolist(), every.query_ids.tolist(), strict=True)
    row_of = {key: row for row, key in enumerate(keys)}
    pairs = zip(columns["dataset"].to_pylist(), columns["query_id"].to_pylist(), strict=True)
    rows = np.array([row_of.get(pair, -1) for pair in pairs])
    column_of = {arm: column for column, arm in enumerate(every.arms)}
    arms = np.array([column_of.get(arm, -1) for arm in columns["arm"].to_pylist()])
    known = (rows >= 0) & (arms >= 0)
    modelled = np.zeros(found.shape, dtype=bool)
    taken = columns["encode_ms"].to_numpy(zero_copy_only=False)
    found[rows[known], arms[known]] = taken[known]
    flags = columns["latency_modelled"].to_numpy(zero_copy_only=False).astype(bool)
    modelled[rows[known], arms[known]] = flags[known]
    return _with_modelled(found, modelled, every)


def _with_modelled(encode_ms: FloatArray, modelled: BoolArray, every: RoutingTable) -> FloatArray:
    lengths = np.array([len(text) for text in every.texts.tolist()], dtype=np.float64)
    filled = encode_ms.copy()
    for dataset in set(every.datasets.tolist()):
        here = every.datasets == dataset
        for column in range(len(every.arms)):
            timed = np.flatnonzero(here & np.isfinite(encode_ms[:, column]))
            rest = np.flatnonzero(here & modelled[:, column] & np.isnan(encode_ms[:, column]))
            filled[rest, column] = predict_latency_ms(
                lengths[rest], lengths[timed], encode_ms[timed, column]
            )
    return filled
