"""Predicts each arm's quality for a query, and so its reward at any λ; may look at probes first.

Boosted trees read what the query's text shows, its vector's principal components and, where the
policy probes, what the probes' rankings tell. Beside them stands what each arm earned on the
nearest training queries, weighted by how near they are. Both predict the arm's quality relative to
the query's mean over arms; on validation queries non-negative weights were fitted to add them up.
With an arm's mean latency L_a, the reward is ``(1−λ)·q_a + λ·(1 − L_a / Σ_j L_j)``, where an arm
that was probed costs nothing more: its ranking is at hand. Probes are charged by whoever keeps the
accounts, in full.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from arms.errors import RouterError
from arms.reward import BoolArray, FloatArray, latency_share, reward, total_latency
from router.boosters import Boosters
from router.frozen_queries import ENCODER_KEYS, FrozenQueries
from router.policies.files import (
    POLICY,
    check_numbers,
    read_arrays,
    read_policy_json,
    well_described,
    write_arrays,
    write_policy_json,
)
from router.policies.over_vectors import softmax_over
from router.policy import NO_INPUTS, Decisions, Plan, Policy, PolicyInputs, Probed, masked
from router.probe_features import LEAST_DEPTH, Lists, as_lists
from router.quality_model import QualityModel, feature_count, model_features, without_pairs
from router.query_vectors import QueryVectors, array_shapes
from router.relevance import RelevanceModel

_KEYS = (
    "name",
    "arms",
    "probes",
    "probe_depth",
    "k",
    "temperature",
    "tau",
    "boosters",
    "encoder",
    "relevance",
)


class QualityPolicy(Policy):
    """Chooses the arm with the greatest predicted reward, at any λ.

    Args:
        name: in reports, e.g. ``router_quality``, ``probing``, ``cascade``.
        arms: the arms to choose from, in column order.
        model: fitted to these arms and probes.
        queries: the frozen encoder; None exactly where the model reads no query vectors.
        probes: arms of ``arms`` to run first, in this order; empty: the query alone is read.
        probe_depth: how many documents of each probe are read.
        tau: of the softmax that turns rewards into probabilities.

    Raises:
        RouterError: model, arms, probes and encoder don't fit together.
    """

    kind: ClassVar[str] = "quality"

    def __init__(
        self,
        name: str,
        arms: Sequence[str],
        model: QualityModel,
        queries: FrozenQueries | None,
        probes: Sequence[str] = (),
        probe_depth: int = 10,
        tau: float = 0.1,
    ) -> None:
        self.name, self.arms, self.lams = name, tuple(arms), None
        self.model, self.queries, self.tau = model, queries, tau
        self.probes, self.probe_depth = tuple(probes), probe_depth if probes else 0
        self._last: tuple[Any, ...] | None = None
        self._check()

    def _check(self) -> None:
        model, n_arms = self.model, len(self.arms)
        unknown = [probe for probe in self.probes if probe not in self.arms]
        if unknown:
            raise RouterError(
                f"policy '{self.name}' may probe only the arms it chooses from, "
                f"{', '.join(self.arms)}; got {', '.join(unknown)}"
            )
        vectors = model.vectors
        components = 0 if vectors is None else len(vectors.components)
        fits = (
            len(model.boosters.texts) == n_arms + 1
            and model.boosters.features == feature_count(components, self.probes)
            and model.usual.shape == model.latency_ms.shape == (n_arms,)
            and model.weights.shape == (2,)
            and (vectors is None) == (self.queries is None)
            and (vectors is None or vectors.relative.shape == (len(vectors.neighbours), n_arms))
        )
        if not fits:
            raise RouterError(
                f"policy '{self.name}' has a model of other arms, probes or encoder: "
                f"{len(model.boosters.texts)} boosters over {model.boosters.features} features for "
                f"{n_arms} arms and {feature_count(components, self.probes)} features"
            )

    def quality(self, queries: Sequence[str], known: PolicyInputs = NO_INPUTS) -> FloatArray:
        """(n, A) predicted quality of each arm, the same at every λ.

        The last batch is remembered, for callers that ask at several λ.
        """
        embeddings, probed = known.embeddings, known.probed
        if self.probes and probed is None:
            raise RouterError(
                f"the policy '{self.name}' looks at what {', '.join(self.probes)} find before it "
                "decides; give their rankings (Known.probed), or choose a policy without probes"
            )
        last = self._last
        if last and last[0] == queries and last[1] is embeddings and last[2] is probed:
            found: FloatArray = last[3]
            return found
        vectors = self.model.vectors
        components = nearby = None
        if vectors is not None and self.queries is not None:
            read = self.queries.embed(queries, self.device) if embeddings is None else embeddings
            components, nearby = vectors.project(read), vectors.nearby(read)
        lists = {}
        if self.probes:
            lists = as_lists(self.probes, probed or {}, self.probe_depth, len(queries))
        features = model_features(queries, components, self.probes, lists)
        predicted = self.model.boosters.predict(features)
        found = predicted[:, -1:] + self.model.combine(predicted[:, :-1], nearby)
        if self.model.relevance is not None and vectors is not None:
            of_query = without_pairs(features, self.probes)
            expected = self.model.relevance.expected(self.probes, lists, of_query, vectors, read)
            found = self._looked_at(found, expected, lists, probed or {})
        if len(queries) > 1:
            self._last = (list(queries), embeddings, probed, found)
        return found

    def _looked_at(
        self,
        predicted: FloatArray,
        expected: FloatArray,
        lists: Mapping[str, Lists],
        probed: Probed,
    ) -> FloatArray:
        """(n, A) quality: ``expected`` (n, probes) where a list was seen, else ``predicted``.

        Predictions for unseen arms shift by the mean correction on seen arms: difficulty is shared.
        """
        columns = [self.arms.index(probe) for probe in self.probes]
        seen = np.column_stack([lists[probe].documents[:, 0] >= 0 for probe in self.probes])
        moved = np.where(seen, expected - predicted[:, columns], 0.0).sum(axis=1)
        quality = predicted + (moved / np.maximum(seen.sum(axis=1), 1))[:, None]
        for place, (column, probe) in enumerate(zip(columns, self.probes, strict=True)):
            if probe in probed:  # an empty list has 0, as far as its dataset has the arm at all
                quality[:, column] = expected[:, place]
        return quality

    def rewards(self, quality: FloatArray, lam: float, competes: BoolArray | None) -> FloatArray:
        """(n, A) reward of going on with each arm; −inf where it doesn't compete."""
        there = np.ones(quality.shape, dtype=bool) if competes is None else competes
        total_ms = total_latency(self.model.latency_ms, there)[:, None]
        is_probe = np.array([arm in self.probes for arm in self.arms])
        further_ms = np.broadcast_to(np.where(is_probe, 0.0, self.model.latency_ms), quality.shape)
        share = latency_share(further_ms, total_ms)
        return np.where(there, reward(quality, share, lam), -np.inf)

    @property
    def learns_documents(self) -> bool:
        """Whether its model of documents does."""
        relevance = self.model.relevance
        return relevance is not None and relevance.learns_documents

    def probabilities(
        self, queries: Sequence[str], lam: float, known: PolicyInputs = NO_INPUTS
    ) -> FloatArray:
        """(len(queries), len(arms)) softmax of predicted rewards / τ."""
        return softmax_over(self.rewards(self.quality(queries, known), lam, None), self.tau)

    def decide(
        self, queries: Sequence[str], lam: float, known: PolicyInputs = NO_INPUTS
    ) -> Decisions:
        """Choose the greatest predicted reward; ties to the earlier arm. See :meth:`Policy.decide`.

        A plan names the probes that were run, then the arm that answers; a probe that answers
        stands last and isn't run again.
        """
        quality = self.quality(queries, known)
        rewards = self.rewards(quality, lam, known.competes)
        rows = masked(softmax_over(rewards, self.tau), known)
        chosen = rewards.argmax(axis=1) if len(rewards) else np.zeros(0, dtype=np.intp)
        plans = tuple(
            self._plan(row, self.arms[column], known) for row, column in enumerate(chosen.tolist())
        )
        expected = quality[np.arange(len(chosen)), chosen].clip(0.0, 1.0)
        return Decisions(plans, rows, expected)

    def _plan(self, row: int, arm: str, known: PolicyInputs) -> Plan:
        competes, probed = known.competes, known.probed
        ran = tuple(
            probe
            for probe in self.probes
            if probe != arm
            and probed is not None
            and probe in probed
            # A dataset that lacks the probe has an empty ranking of it, and it wasn't run.
            and (
                competes is None
                or competes[row, self.arms.index(probe)]
                or probed[probe][row].doc_ids
            )
        )
        return Plan((*ran, arm), "cascade" if ran else "single")

    def prepare(self, lam: float) -> None:
        """Load LightGBM, the models and the encoder."""
        self.model.boosters.load()
        if self.model.relevance is not None:
            self.model.relevance.booster.load()
        if self.queries is not None:
            self.queries.load(self.device)

    def save(self, folder: Path) -> None:
        """Write ``policy.json``, ``model.safetensors`` and LightGBM's text files."""
        model, vectors = self.model, self.model.vectors
        arrays: dict[str, NDArray[Any]] = {
            "usual": model.usual,
            "weights": model.weights,
            "latency_ms": model.latency_ms,
        }
        if vectors is not None:
            arrays |= vectors.arrays()
        write_arrays(folder / "model.safetensors", arrays)
        content = {
            "name": self.name,
            "arms": list(self.arms),
            "probes": list(self.probes),
            "probe_depth": self.probe_depth,
            "k": None if vectors is None else vectors.k,
            "temperature": None if vectors is None else vectors.temperature,
            "tau": self.tau,
            "boosters": model.boosters.save(folder),
            "encoder": None if self.queries is None else self.queries.describe(),
            "relevance": None
            if model.relevance is None
            else model.relevance.save(folder / "relevance"),
        }
        write_policy_json(folder, self.kind, content)

    @classmethod
    def load(cls, folder: Path) -> QualityPolicy:
        """Read what :meth:`save` wrote; LightGBM and the encoder are loaded later."""
        content = read_policy_json(folder, _KEYS)
        with well_described(folder, "arms, models or encoder"):
            return cls._read(folder, content)

    @classmethod
    def _read(cls, folder: Path, content: Mapping[str, Any]) -> QualityPolicy:
        place, described = str(folder / POLICY), content["encoder"]
        depth = {"probe_depth": LEAST_DEPTH} if content["probes"] else {}
        nearby = {} if described is None else {"k": 1}
        positive = ("tau",) if described is None else ("tau", "temperature")
        check_numbers(place, content, depth | nearby, positive)
        n_arms = len(content["arms"])
        shapes: dict[str, tuple[int | None, ...]] = {
            "usual": (n_arms,),
            "weights": (2,),
            "latency_ms": (n_arms,),
        }
        if described is not None:
            if set(described) != set(ENCODER_KEYS):
                raise RouterError(f"{folder} describes its encoder wrongly; rerun l2r train")
            shapes |= array_shapes(n_arms)
        arrays = read_arrays(folder / "model.safetensors", shapes)
        fitted = {name: arrays.pop(name) for name in ("usual", "weights", "latency_ms")}
        vectors = None
        if described is not None:
            vectors = QueryVectors.of(arrays, content["k"], content["temperature"])
        components = 0 if vectors is None else len(vectors.components)
        features = feature_count(components, content["probes"])
        boosters = Boosters.read(folder, content["boosters"], features)
        relevance = None
        if content["relevance"] is not None:
            relevance = RelevanceModel.read(
                folder / "relevance", content["relevance"], content["probes"], components
            )
        model = QualityModel(boosters, **fitted, vectors=vectors, relevance=relevance)
        queries = None if described is None else FrozenQueries.read(described)
        settings = (content["probes"], content["probe_depth"] or 10, content["tau"])
        return cls(content["name"], content["arms"], model, queries, *settings)
