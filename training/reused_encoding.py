"""What arms save where the policy's query vector is the one they would make themselves.

A search hands that vector to them (:meth:`router.Router.search`), so a plan's latency is that of
its arms and of deciding, less the encoding that isn't done again. What is saved is an arm's own
``encode_ms`` in the labels, of the dense arm that it holds where it is no dense arm itself.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from arms.arm import ArmSpec
from arms.catalogue import arm_class, spec_of
from arms.encoders.query_encoding import QueryEncoding, text_encoding
from arms.encoders.resolve import ResolvedEncoder
from arms.errors import MissingExtraError
from arms.reward import BoolArray, FloatArray
from arms.settings import ArmSettings
from oracle.labels import Labels, read_columns
from oracle.latency_model import predict_latency_ms
from router.query_encoder import QueryEncoder
from training.table import RoutingTable

DENSE = "text_dense"


def reusable_encode_ms(
    labels_folder: Path, labels: Labels, every: RoutingTable, encoder: QueryEncoder
) -> FloatArray:
    """(Q, P) milliseconds that each arm saves by taking the query's vector from ``encoder``.

    0 where the arm makes no such vector, or may make another (see
    :meth:`QueryEncoding.same_vector`), and where the labels don't say what encoding took. For
    queries whose latency was modelled, so is the encoding, in the same way. Never more than the
    arm's latency.

    Args:
        labels_folder: the labels' files.
        labels: the same, opened.
        every: all labelled queries over P.
        encoder: a policy's frozen encoder.
    """
    found = np.zeros_like(every.latency_ms)
    shared = shared_parts(labels.manifest, encoder).parts
    if not any(shared.values()):
        return found
    encode_ms = _encode_ms(labels_folder, every)
    texts = every.texts.tolist()
    tokens = np.array([len(one) for one in encoder.tokens(texts)])
    plain = np.array([text == text.strip() for text in texts])
    for arm, parts in shared.items():
        column = every.arms.index(arm)
        for part, encoding in parts.items():
            same = plain & _same_vector(encoder.encoding, encoding, tokens)
            saved = encode_ms[:, every.arms.index(part)]
            found[:, column] += np.where(same & np.isfinite(saved), saved, 0.0)
    latency_ms = np.where(every.competes & np.isfinite(every.latency_ms), every.latency_ms, 0.0)
    return np.minimum(found, latency_ms)


@dataclass(frozen=True)
class SharedParts:
    """Which arms make a policy's query vectors."""

    parts: Mapping[str, Mapping[str, QueryEncoding]]
    """Arm of P → its dense arms that make them, and how they do it."""
    apart: tuple[str, ...]
    """A sentence for each arm whose encoder has the same weights and yet makes other vectors."""


def shared_parts(manifest: Mapping[str, Any], encoder: QueryEncoder) -> SharedParts:
    """Read off the labels' manifest which arms make ``encoder``'s query vectors."""
    settings = manifest.get("config", {}).get("arms", ())
    specs = [spec_of(ArmSettings.model_validate(one)) for one in settings]
    revisions = _revisions(manifest)
    found: dict[str, dict[str, QueryEncoding]] = {}
    told: list[str] = []
    for spec in specs:
        found[spec.identity] = {}
        for part in _dense_parts(spec):
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
                found[spec.identity][part.identity] = encoding
    kept = {arm: parts for arm, parts in found.items() if arm in manifest["pipelines"]}
    return SharedParts(kept, tuple(told))


def _same_vector(mine: QueryEncoding, its: QueryEncoding, tokens: np.ndarray) -> BoolArray:
    return np.array([mine.same_vector(its, count) for count in tokens.tolist()], dtype=bool)


def _dense_parts(spec: ArmSpec) -> Sequence[ArmSpec]:
    """The arms ``text_dense`` that it is, or reads the index of."""
    if spec.name == DENSE:
        return (spec,)
    try:
        parts = arm_class(spec.name).parts(spec)
    except MissingExtraError:  # its back end isn't installed here, so it can't be served either
        return ()
    return [one for part in parts for one in _dense_parts(part)]


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
