"""Exports the encoder of a policy, its adapter added in, to an ONNX graph with mean pooling."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from arms.encoders.onnx_graph import quiet_export, write_graph
from arms.errors import RouterError
from arms.extras import not_importable
from arms.sole_writer import writes
from router.artifact import add_policy, check_addable, policy_folder, read_router
from router.frozen_queries import ELSEWHERE, ENCODER_KEYS, same_encoder
from router.onnx_encoder import VECTOR, OnnxEncoder, OnnxSettings
from router.policies import load_policy
from router.policies.files import POLICY, lam_folder_name
from router.policies.onnx import OnnxPolicy

if TYPE_CHECKING:
    from router.policy import Policy
    from router.query_encoder import QueryEncoder

_TOLERANCE = 1e-3
"""How far a float32 graph's vectors may lie from PyTorch's, relative to their length."""
_PROBES = (
    "a",
    "what was the operating margin in 2019?",
    "list every river in germany and its length, and say which of them reach the sea " * 3,
)


@dataclass(frozen=True, slots=True)
class Exported:
    """What :func:`export_to_onnx` added to a router."""

    policy: str
    size_bytes: int
    """Of all its files."""
    difference: float
    """Largest distance of a vector from PyTorch's on a few texts, relative to its length."""


@writes("router_folder")
def export_to_onnx(
    router_folder: Path,
    policy: str | None = None,
    int8: bool = False,
    threads: int = 1,
    name: str | None = None,
) -> Exported:
    """Export a policy's encoder, and add the policy that uses the graph to the router.

    The graph holds the encoder's weights in float32 (in int8 about a quarter of them), and a
    policy with LoRA adapters has one graph for each λ. ``router.json`` lists the new policy once
    all its files are there.

    Args:
        router_folder: what ``l2r train`` wrote.
        policy: its name; default: the router's default policy.
        int8: quantise weights, and activations as they come; faster, vectors and so some choices
            differ. Queries are then embedded one at a time.
        threads: of ONNX Runtime when serving.
        name: of the new policy; default: ``<policy>_onnx`` or ``<policy>_onnx_int8``.

    Raises:
        RouterError: the policy isn't made of one encoder and heads, its tokeniser is a slow one, or
            a float32 graph doesn't give PyTorch's vectors.
        MissingExtraError: a package of the extra ``onnx-export`` is absent.
    """
    record = read_router(router_folder)
    source = record.defaults.select if policy is None else policy
    if source not in record.policies:
        raise RouterError(
            f"this router has the policies {', '.join(record.policies)}; got '{source}'"
        )
    wanted = name or f"{source}_onnx{'_int8' if int8 else ''}"
    check_addable(router_folder, record, wanted, OnnxPolicy.kind)
    if threads < 1:
        raise RouterError(f"threads must be at least 1, got {threads}")
    folder = policy_folder(router_folder, source)
    inner = load_policy(folder)
    with tempfile.TemporaryDirectory(dir=router_folder.resolve().parent) as work:
        added, difference = _exported(inner, folder, wanted, int8, threads, Path(work))
        add_policy(router_folder, added, like=None if int8 else source)
    written = policy_folder(router_folder, wanted)
    size = sum(path.stat().st_size for path in written.rglob("*") if path.is_file())
    return Exported(wanted, size, difference)


def _exported(
    inner: Policy, folder: Path, name: str, int8: bool, threads: int, work: Path
) -> tuple[OnnxPolicy, float]:
    described = _encoder_of(inner, folder)
    encoders: dict[float | None, OnnxEncoder] = {}
    differences = []
    for lam, encoder in _query_encoders(inner, folder, described):
        tokenizer = encoder.tokens.json
        if tokenizer is None:
            raise RouterError(
                f"the encoder '{described['encoder']}' has a slow tokeniser, which needs "
                "transformers; export a router whose encoder has a fast one"
            )
        settings = OnnxSettings(
            encoder.tokens.pad_id, encoder.tokens.padding_side, not int8, threads
        )
        graph = work / ("encoder" if lam is None else lam_folder_name(lam)) / "encoder.onnx"
        graph.parent.mkdir()
        export_pooled(encoder, graph)
        encoders[lam] = OnnxEncoder(graph, tokenizer, settings)
        if int8:
            quantised = graph.with_name("int8.onnx")
            quantise(graph, quantised)
            encoders[lam] = OnnxEncoder(quantised, tokenizer, settings)
        differences.append(_difference(encoder, encoders[lam], None if int8 else _TOLERANCE))
    provenance = {key: described[key] for key in ("encoder", "encoder_revision", "max_tokens")}
    precision = "int8" if int8 else "float32"
    return (
        OnnxPolicy(
            name, inner, encoders, {**provenance, "policy": inner.name, "precision": precision}
        ),
        max(differences),
    )


def _encoder_of(inner: Policy, folder: Path) -> dict[str, Any]:
    """Return what the policy's files say of its encoder: the same in each of them."""
    found = _described(folder)
    if not _is_one_at_hand(found):
        others = [one.name for one in sorted(folder.parent.iterdir()) if _is_exportable(one)]
        raise RouterError(
            f"the policy '{inner.name}' can't be exported: only policies made of one encoder and "
            "heads over its query vectors can, and not twice; name another with --policy: "
            f"{', '.join(others) or 'this router has none'}"
        )
    adapted = any(one.get("adapters") for one in found)
    if inner.frozen_encoder() is None and not (adapted and len(found) == 1):
        raise RouterError(
            f"the policy '{inner.name}' can't decide from vectors that it is given; export another"
        )
    return {**found[0], "adapters": adapted}


def _described(folder: Path) -> list[dict[str, Any]]:
    """What the policy files below ``folder`` say that reads an encoder."""
    contents = (json.loads(path.read_text("utf-8")) for path in sorted(folder.rglob(POLICY)))
    return [one for one in contents if set(ENCODER_KEYS) <= set(one)]


def _is_one_at_hand(found: Sequence[Mapping[str, Any]]) -> bool:
    """Whether all describe the same encoder, one that isn't a graph already."""
    named = {tuple(one[key] for key in ENCODER_KEYS) for one in found}
    return len(named) == 1 and not found[0]["encoder"].startswith(ELSEWHERE)


def _is_exportable(folder: Path) -> bool:
    return folder.is_dir() and _is_one_at_hand(_described(folder))


def _query_encoders(
    inner: Policy, folder: Path, described: dict[str, Any]
) -> Iterator[tuple[float | None, QueryEncoder]]:
    """Yield the encoder in float32; with adapters, one for each λ, the adapter added in."""
    try:
        from router.query_encoder import QueryEncoder
    except ImportError as error:
        raise not_importable(error, "torch", "onnx-export") from error
    resolved = same_encoder(described["encoder"], described["encoder_revision"])
    base = QueryEncoder(resolved, described["max_tokens"])
    if not described["adapters"]:
        yield None, base
        return
    for lam in inner.lams or ():
        yield lam, base.with_adapter(folder / lam_folder_name(lam) / "adapter")


def export_pooled(encoder: QueryEncoder, path: Path) -> None:
    """Write the encoder with mean pooling as a graph for any number of queries and tokens."""
    import torch

    from router.pooling import accepts_positions, mean_pool, parameters_of, position_ids

    class Pooled(torch.nn.Module):
        def __init__(self, model: torch.nn.Module) -> None:
            super().__init__()
            self.model = model
            self.given: dict[str, Any] = (
                {"use_cache": False} if "use_cache" in parameters_of(model) else {}
            )
            self.positions = accepts_positions(model)

        def forward(self, input_ids: torch.Tensor, attention_mask: torch.Tensor) -> torch.Tensor:
            given = dict(self.given)
            if self.positions:
                given["position_ids"] = position_ids(attention_mask)
            hidden = self.model(input_ids=input_ids, attention_mask=attention_mask, **given)
            return mean_pool(hidden.last_hidden_state, attention_mask)

    write_graph(Pooled(encoder.model), encoder.model, path, VECTOR, encoder.tokens.pad_id)


def quantise(source: Path, target: Path) -> None:
    """Write ``source`` with weights in int8, a scale per channel; activations follow as they come.

    One scale per whole matrix loses much more: on the text suite's validation queries the vectors'
    mean cosine with float32's is .964 then, and .994 with one per channel.
    """
    try:
        from onnxruntime.quantization import QuantType, quantize_dynamic
    except ImportError as error:
        raise not_importable(error, "onnx", "onnx-export") from error
    with quiet_export():
        quantize_dynamic(
            source, target, per_channel=True, reduce_range=True, weight_type=QuantType.QInt8
        )


def _difference(encoder: QueryEncoder, exported: OnnxEncoder, tolerance: float | None) -> float:
    """Compare on a few texts, each alone and all in one batch."""
    wanted = encoder.embed(_PROBES)
    alone = np.concatenate([exported.embed([text]) for text in _PROBES])
    lengths = np.linalg.norm(wanted, axis=1).clip(min=1e-12)
    worst = max(
        float((np.linalg.norm(got - wanted, axis=1) / lengths).max())
        for got in (alone, exported.embed(_PROBES))
    )
    if tolerance is not None and not worst <= tolerance:
        raise RouterError(
            f"the exported graph gives vectors {worst:.2g} of their length away from PyTorch's, "
            f"expected at most {tolerance:g}; this encoder can't be exported faithfully"
        )
    return worst
