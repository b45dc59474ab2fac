"""A policy whose query vectors come from an ONNX graph in place of its encoder.

It decides as the policy that was exported does. The graph is this policy's own file and holds the
encoder's weights, with the adapter added in where there is one: the encoder itself, torch and
transformers are not needed to serve it.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, ClassVar

from arms.atomic import atomic_file, write_json
from arms.errors import RouterError
from arms.reward import FloatArray
from router.frozen_queries import ELSEWHERE
from router.onnx_encoder import OnnxEncoder, OnnxSettings
from router.policies.files import POLICY, lam_folder_name, read_policy_json, write_policy_json
from router.policy import NO_INPUTS, Decisions, Embeddings, Policy, PolicyInputs

INNER, GRAPH, TOKENIZER = "inner", "encoder.onnx", "tokenizer.json"


class OnnxPolicy(Policy):
    """Embeds by ONNX Runtime, and lets ``inner`` decide on the vectors.

    Args:
        name: in reports, e.g. ``router_onnx``.
        inner: a policy that decides from the vectors it is given.
        encoders: λ → encoder, one for each λ of ``inner``'s adapters; or None → the one encoder.
        made_from: what the graphs were made of; kept, not read.

    Raises:
        RouterError: there is no encoder, or ``inner`` has another set of λ.
    """

    kind: ClassVar[str] = "onnx"

    def __init__(
        self,
        name: str,
        inner: Policy,
        encoders: Mapping[float | None, OnnxEncoder],
        provenance: Mapping[str, Any] | None = None,
    ) -> None:
        if set(encoders) not in ({None}, set(inner.lams or ())):
            raise RouterError(
                f"policy '{name}' needs one ONNX encoder, or one for each lam of "
                f"{list(inner.lams or ())}; got {list(encoders)}"
            )
        self.name, self.inner = name, inner
        self.arms, self.lams = inner.arms, inner.lams
        self.probes, self.probe_depth = inner.probes, inner.probe_depth
        self.encoders, self.provenance = dict(encoders), dict(provenance or {})

    @property
    def display_name(self) -> str:
        """Its kind, then the inner policy's."""
        return f"{self.kind} {self.inner.display_name}"

    def probabilities(
        self, queries: Sequence[str], lam: float, known: PolicyInputs = NO_INPUTS
    ) -> FloatArray:
        """See :class:`Policy`; vectors given are those of :meth:`embed` at the same λ."""
        return self.inner.probabilities(queries, lam, self.with_vectors(queries, lam, known))

    def decide(
        self, queries: Sequence[str], lam: float, known: PolicyInputs = NO_INPUTS
    ) -> Decisions:
        """See :class:`Policy`."""
        return self.inner.decide(queries, lam, self.with_vectors(queries, lam, known))

    def embed(self, queries: Sequence[str], lam: float) -> Embeddings:
        """(len(queries), d): what the exported policy's encoder gives, to float32's accuracy.

        In int8 the vectors differ visibly, and each query is embedded alone.
        """
        return self._encoder(lam).embed(queries)

    def prepare(self, lam: float) -> None:
        """Load ONNX Runtime and the graph of the nearest λ."""
        self._encoder(lam).load()

    def _encoder(self, lam: float) -> OnnxEncoder:
        return self.encoders[None if None in self.encoders else self.nearest_lam(lam)]

    def save(self, folder: Path) -> None:
        """Write ``policy.json``, the graphs, their tokeniser, and the inner policy into ``inner/``.

        The inner policy keeps its encoder's name, marked as not at hand.
        """
        one = next(iter(self.encoders.values()))
        content = {
            "name": self.name,
            "lams": None if None in self.encoders else sorted(map(float, self.lams or ())),
            "runtime": asdict(one.settings),
            "provenance": self.provenance,
        }
        write_policy_json(folder, self.kind, content)
        with atomic_file(folder / TOKENIZER) as temporary:
            temporary.write_text(one.tokenizer_json, encoding="utf-8")
        for lam, encoder in self.encoders.items():
            target = _graph(folder, lam)
            target.parent.mkdir(exist_ok=True)
            shutil.copyfile(encoder.graph, target)
        (folder / INNER).mkdir()
        self.inner.save(folder / INNER)
        _forget_encoder(folder / INNER)

    @classmethod
    def load(cls, folder: Path) -> OnnxPolicy:
        """Read what :meth:`save` wrote; graphs are loaded by :meth:`prepare`.

        Raises:
            RouterError: a file is absent or damaged.
        """
        from router.policies import load_policy

        content = read_policy_json(folder, ("name", "lams", "runtime", "provenance"))
        inner = load_policy(folder / INNER)
        lams: list[float | None] = [None] if content["lams"] is None else content["lams"]
        graphs = {lam: _graph(folder, lam) for lam in lams}
        missing = [path for path in (*graphs.values(), folder / TOKENIZER) if not path.is_file()]
        if missing:
            raise RouterError(
                f"{folder} lacks {', '.join(str(path.relative_to(folder)) for path in missing)}; "
                "copy the whole router folder, or export the policy again"
            )
        tokenizer = (folder / TOKENIZER).read_text(encoding="utf-8", errors="replace")
        settings = OnnxSettings(**content["runtime"])
        encoders = {lam: OnnxEncoder(path, tokenizer, settings) for lam, path in graphs.items()}
        return cls(content["name"], inner, encoders, content["provenance"])


def _graph(folder: Path, lam: float | None) -> Path:
    return (folder if lam is None else folder / lam_folder_name(lam)) / GRAPH


def _forget_encoder(folder: Path) -> None:
    """Mark the encoder of every policy under ``folder`` as not at hand."""
    for path in sorted(folder.rglob(POLICY)):
        content = json.loads(path.read_text(encoding="utf-8"))
        encoder = content.get("encoder")
        if encoder is not None and not encoder.startswith(ELSEWHERE):
            write_json(path, {**content, "encoder": f"{ELSEWHERE}{encoder}"})
