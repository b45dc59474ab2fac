"""Runs a query encoder's transformer the fastest way that is installed and gives the same vectors.

PyTorch spends most of a single short query around the arithmetic. ONNX Runtime and OpenVINO run the
same transformer from a graph that is exported once for each set of weights, kept by content in
:func:`arms.cache.cache_folder`, and compared with PyTorch whenever an encoder is opened. Where a
graph can't be had, or its vectors differ, PyTorch runs, and the reason is kept. Passages are always
encoded with PyTorch.
"""

from __future__ import annotations

import hashlib
import json
import logging
import shutil
import tempfile
import threading
import weakref
from abc import ABC, abstractmethod
from collections import OrderedDict
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from arms.atomic import write_json
from arms.cache import cache_folder
from arms.encoders.onnx_graph import INPUT_IDS, MASK, open_session, write_graph
from arms.encoders.query_encoding import Backend
from arms.encoders.query_states import Features

TOLERANCE = 1e-4
"""How far a graph's unit vectors may lie from PyTorch's."""
PROBES = (
    "a",
    "what was the operating margin in 2019?",
    "list every river in germany and its length, and say which of them reach the sea " * 3,
)
"""Texts on which a graph is compared, each alone and all in one batch."""

_LOG = logging.getLogger(__name__)
_STATES = "states"
_GRAPH, _MADE = "states.onnx", "made.json"
_LARGEST_BYTES = 1_500_000_000
"""Of weights: a graph of more can't hold them in its one file."""
_FEWEST_NUMBERS = 1_000_000
"""Weights from which a graph is exported unasked: an export takes seconds, whatever the size."""
_SESSIONS = 2
"""Numbers of threads that a graph is held open for."""
_LAYOUT = 1
"""Raised when the same weights would be exported differently."""

FloatArray = NDArray[np.float32]
IdArray = NDArray[np.int64]


class StatesGraph(ABC):
    """A transformer as a graph. Threads may share it.

    It computes with as many threads as PyTorch has at the time of a call, so that whoever fixes
    those fixes these.

    Args:
        path: the graph.
    """

    name: str

    def __init__(self, path: Path) -> None:
        self._path = path
        self._opened: OrderedDict[int, Any] = OrderedDict()
        self._lock = threading.Lock()

    def states(self, ids: IdArray, mask: IdArray) -> FloatArray:
        """(n, t, d) last hidden states of (n, t) ids; where the mask is 0 they mean nothing."""
        threads = torch.get_num_threads()
        opened = self._opened.get(threads)
        if opened is None:
            with self._lock:
                opened = self._opened.get(threads)
                if opened is None:
                    opened = self._opened[threads] = self._open(threads)
                    while len(self._opened) > _SESSIONS:
                        self._opened.popitem(last=False)
        return self._run(opened, ids, mask)

    @abstractmethod
    def _open(self, threads: int) -> Any:
        """Load the graph for so many threads a call."""

    @abstractmethod
    def _run(self, opened: Any, ids: IdArray, mask: IdArray) -> FloatArray:
        """Run it once."""


class OnnxStates(StatesGraph):
    """Runs the graph with ONNX Runtime."""

    name = "onnx"

    def _open(self, threads: int) -> Any:
        return open_session(self._path, threads)

    def _run(self, opened: Any, ids: IdArray, mask: IdArray) -> FloatArray:
        found: FloatArray = opened.run([_STATES], {INPUT_IDS: ids, MASK: mask})[0]
        return found


class OpenVinoStates(StatesGraph):
    """Runs the graph with OpenVINO, in float32."""

    name = "openvino"

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self._requests = threading.local()

    def _open(self, threads: int) -> Any:
        import openvino

        hints = {
            "INFERENCE_NUM_THREADS": threads,
            "INFERENCE_PRECISION_HINT": "f32",
            "PERFORMANCE_HINT": "LATENCY",
        }
        return openvino.Core().compile_model(str(self._path), "CPU", hints)

    def _run(self, opened: Any, ids: IdArray, mask: IdArray) -> FloatArray:
        held = getattr(self._requests, "held", None)  # a request serves one thread
        if held is None or held[0] is not opened:
            held = self._requests.held = (opened, opened.create_infer_request())
        found: FloatArray = np.array(held[1].infer({INPUT_IDS: ids, MASK: mask})[0])
        return found


_ENGINES: dict[str, tuple[str, type[StatesGraph]]] = {
    "onnx": ("onnxruntime", OnnxStates),
    "openvino": ("openvino", OpenVinoStates),
}
"""Back end → the package that it needs, and its class; the faster first."""
_graphs: weakref.WeakValueDictionary[tuple[str, str], StatesGraph] = weakref.WeakValueDictionary()
_loading = threading.RLock()


@dataclass(frozen=True)
class QueryBackend:
    """What runs a query encoder's transformer."""

    graph: StatesGraph | None
    """None: PyTorch."""
    reason: str = ""
    """Why it is PyTorch, where another was asked for."""

    @property
    def name(self) -> str:
        """``onnx``, ``openvino`` or ``torch``."""
        return "torch" if self.graph is None else self.graph.name

    def run(self, features: Features, by_torch: Callable[[Features], Features]) -> Features:
        """Add ``token_embeddings`` to tokenised texts; ``by_torch`` does it with PyTorch."""
        ids = features["input_ids"]
        if self.graph is None or not ids.numel():
            return by_torch(features)
        states = self.graph.states(ids.numpy(), features["attention_mask"].numpy())
        return {**features, "token_embeddings": torch.from_numpy(states)}

    @property
    def told(self) -> str:
        """The name, and the reason where there is one, for records."""
        return f"{self.name} ({self.reason})" if self.reason else self.name


TORCH = QueryBackend(None)
Distance = Callable[[StatesGraph], float]


def choose_backend(
    wanted: Backend, weights: Hashable, revision: str, module: Any, distance: Distance
) -> QueryBackend:
    """Return what runs a transformer: what is wanted where it can be had, else PyTorch.

    Args:
        wanted: see :data:`arms.encoders.query_encoding.BACKEND_HELP`.
        weights: tells transformers of one revision apart; equal for equal ones.
        revision: of the encoder's weights.
        module: sentence-transformers' ``Transformer``.
        distance: returns how far an encoder's unit vectors on :data:`PROBES` lie from PyTorch's
            when a graph runs it: the greatest distance.
    """
    if wanted == "torch":
        return TORCH
    if wanted == "auto" and _numbers(module) < _FEWEST_NUMBERS:
        return QueryBackend(None, f"fewer than {_FEWEST_NUMBERS:,} weights")
    names = list(_ENGINES) if wanted == "auto" else [wanted]
    reasons = []
    for name in names:
        with _loading:
            found = _try(name, weights, revision, module, distance)
        if isinstance(found, StatesGraph):
            return QueryBackend(found)
        reasons.append(found)
    reason = "; ".join(dict.fromkeys(reasons))
    level = logging.INFO if wanted == "auto" else logging.WARNING
    _LOG.log(level, "queries are encoded with PyTorch: %s", reason)
    return QueryBackend(None, reason)


def _numbers(module: Any) -> int:
    return sum(one.numel() for one in module.parameters())


def _try(
    name: str, weights: Hashable, revision: str, module: Any, distance: Distance
) -> StatesGraph | str:
    """Return a graph that was compared, or why there is none."""
    package, engine = _ENGINES[name]
    model = getattr(module, "auto_model", None)
    unfit = _unfit(package, model)
    if unfit:
        return unfit
    folder = cache_folder("graphs") / _key(weights, revision, model)
    for attempt in ("kept", "new"):
        made = _read(folder)
        if made is None or attempt == "new":
            attempt = "new"
            made = _export(module, folder)
        if "reason" in made:
            return str(made["reason"])
        try:
            graph = _graphs.get((str(folder), name)) or engine(folder / _GRAPH)
            away = distance(graph)
        except Exception as error:
            problem = f"{name} can't run its graph ({_brief(error)})"
        else:
            if away <= TOLERANCE:
                _graphs[str(folder), name] = graph
                return graph
            problem = f"{name} gives vectors {away:.2g} away from PyTorch's, over {TOLERANCE:g}"
        if attempt == "new" or _sha256(folder / _GRAPH) == made.get("sha256"):
            return problem  # else the kept file is damaged, and made anew
    return problem


def _unfit(package: str, model: Any) -> str | None:
    """Why a transformer is left to PyTorch, as far as that can be told without an export."""
    config = getattr(model, "config", None)
    if not isinstance(model, torch.nn.Module) or config is None:
        return "the encoder's first part is no transformer"
    if hasattr(model, "peft_config"):
        return "the encoder carries an adapter"
    if model.training:
        return "the encoder is in training mode"
    weights = list(model.parameters())
    if any(one.device.type != "cpu" for one in weights):
        return f"the encoder is on {weights[0].device}"
    if any(one.dtype != torch.float32 for one in weights):
        return f"the encoder's weights are {weights[0].dtype}"
    if sum(one.nbytes for one in weights) > _LARGEST_BYTES:
        return f"its weights take more than {_LARGEST_BYTES / 1e9:.1f} GB"
    absent = [one for one in (package, "onnx", "onnxscript") if find_spec(one) is None]
    return f"not installed: {', '.join(absent)}" if absent else None


class _States(torch.nn.Module):
    """Ids and mask to last hidden states, as sentence-transformers' ``Transformer`` makes them."""

    def __init__(self, module: Any) -> None:
        super().__init__()
        self.model = module.auto_model
        told = getattr(module, "model_forward_params", ())
        self.given: dict[str, Any] = {"use_cache": False} if "use_cache" in told else {}

    def forward(self, input_ids: torch.Tensor, attention_mask: torch.Tensor) -> torch.Tensor:
        found = self.model(
            input_ids=input_ids, attention_mask=attention_mask, return_dict=True, **self.given
        )
        states: torch.Tensor = found[0]
        return states


def _export(module: Any, folder: Path) -> dict[str, Any]:
    """Write the graph, or why there is none, for good; return what the folder says."""
    _LOG.info("exporting the query encoder to %s, once", folder)
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".writing-", dir=folder.parent) as work:
        place = Path(work) / "graph"
        place.mkdir()
        try:
            write_graph(_States(module), module.auto_model, place / _GRAPH, _STATES)
            made: dict[str, Any] = {"sha256": _sha256(place / _GRAPH)}
        except Exception as error:  # torch's exporter raises whatever the model meets in it
            (place / _GRAPH).unlink(missing_ok=True)
            made = {"reason": f"the encoder can't be exported ({_brief(error)})"}
        write_json(place / _MADE, made)
        shutil.rmtree(folder, ignore_errors=True)
        try:
            place.rename(folder)
        except OSError:  # another process has just put the same there
            return _read(folder) or made
    return made


def _read(folder: Path) -> dict[str, Any] | None:
    """What the folder says of its graph; None where it is absent or damaged."""
    try:
        made = json.loads((folder / _MADE).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    if not isinstance(made, dict) or not ("reason" in made or (folder / _GRAPH).is_file()):
        return None
    return made


def _key(weights: Hashable, revision: str, model: Any) -> str:
    """Name everything that shapes the graph."""
    config = {name: value for name, value in model.config.to_dict().items() if name[0] != "_"}
    for name in ("dtype", "torch_dtype"):
        config.pop(name, None)
    named = model.named_parameters()  # the pooler isn't part of the graph, and may be dropped
    shapes = [(name, tuple(one.shape)) for name, one in named if not name.startswith("pooler.")]
    packages = ("torch", "transformers", "onnxscript", "onnxruntime")
    told = [_LAYOUT, repr(weights), revision, config, shapes, [_version(one) for one in packages]]
    content = json.dumps(told, sort_keys=True, default=str)
    return hashlib.sha256(content.encode()).hexdigest()[:40]


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "absent"


def _sha256(path: Path) -> str:
    try:
        with open(path, "rb") as stream:
            return hashlib.file_digest(stream, "sha256").hexdigest()
    except OSError:
        return "absent"


def _brief(error: Exception) -> str:
    first = str(error).strip().partition("\n")[0]
    return f"{type(error).__name__}: {first[:160]}"
