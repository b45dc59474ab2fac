"""Encoders as ONNX graphs: writing them from PyTorch, and opening them with ONNX Runtime."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from arms.extras import not_importable

if TYPE_CHECKING:
    import torch

INPUT_IDS, MASK = "input_ids", "attention_mask"
"""Names of a graph's inputs, (n, t) int64 each."""


def write_graph(
    module: torch.nn.Module, model: torch.nn.Module, path: Path, output: str, pad_id: int = 0
) -> None:
    """Write ``module`` as a graph for any number of texts and tokens, its weights inside.

    Args:
        module: takes ids and mask, (n, t) int64 each, and returns one tensor.
        model: the transformer of Hugging Face that it calls; unchanged afterwards.
        path: of the graph; not written atomically.
        output: what the graph calls its result.
        pad_id: a token that the model knows.

    Raises:
        MissingExtraError: the package onnxscript, which torch's exporter needs, is absent.
        Exception: whatever torch raises where the module can't be exported.
    """
    import torch

    try:
        import onnxscript  # noqa: F401
    except ImportError as error:
        raise not_importable(error, "onnxscript", "onnx-export") from error
    ids = torch.full((2, 7), pad_id, dtype=torch.int64)
    sizes = {0: torch.export.Dim("texts"), 1: torch.export.Dim("tokens")}
    with quiet_export(), _eager_attention(model):
        torch.onnx.export(
            module.eval(),
            (ids, torch.ones_like(ids)),
            str(path),
            dynamo=True,
            input_names=[INPUT_IDS, MASK],
            output_names=[output],
            dynamic_shapes={INPUT_IDS: sizes, MASK: sizes},
            external_data=False,
            verbose=False,
        )


def open_session(graph: Path, threads: int) -> Any:
    """Open a graph with ONNX Runtime, on the processor, with so many threads a call.

    Raises:
        MissingExtraError: onnxruntime is absent.
        Exception: whatever ONNX Runtime raises for a damaged file; its errors share no class.
    """
    try:
        import onnxruntime
    except ImportError as error:
        raise not_importable(error, "onnxruntime", "onnx") from error
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads = threads, 1
    options.log_severity_level = 3
    # Threads that wait by spinning slow down everything else on a small machine.
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    return onnxruntime.InferenceSession(str(graph), options, providers=["CPUExecutionProvider"])


@contextmanager
def _eager_attention(model: Any) -> Iterator[None]:
    """Let attention be written out plainly: as fused attention it exports as a third more nodes.

    ONNX Runtime fuses the plain form itself; a query of MiniLM takes 3 to 5 % less on one thread.
    """
    before = getattr(model.config, "_attn_implementation", None)
    if before is None or not hasattr(model, "set_attn_implementation"):
        yield
        return
    model.set_attn_implementation("eager")
    try:
        yield
    finally:
        model.set_attn_implementation(before)


@contextmanager
def quiet_export() -> Iterator[None]:
    """Silence the exporters' advice to developers for the length of the block."""
    root = logging.getLogger()
    level = root.level
    root.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        root.setLevel(level)
