"""A policy that asks another only where validation queries say that choosing pays.

At each λ the gate is open or closed. Closed, the best single arm answers every query, and the inner
policy isn't run, so that deciding costs next to nothing. Open, the inner policy decides, and a
query leaves the best single arm only where the inner policy prefers another by a margin. A dataset
that training never saw has no validation queries: its gate is closed at every λ.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from arms.errors import RouterError
from arms.records import Ranking
from arms.reward import BoolArray, FloatArray, reward
from router.policies.files import read_policy_json, write_policy_json
from router.policy import NO_INPUTS, Decisions, Embeddings, Plan, Policy, PolicyInputs

INNER = "inner"
_DID_NOT_PAY = "choosing didn't pay at this λ on validation queries: the best single arm answers"
CLOSED_KEY = 0
"""Of :meth:`GatedPolicy.overhead_key` where the inner policy isn't run; its own keys follow."""


@dataclass(frozen=True, slots=True)
class Gate:
    """What validation queries said at one λ."""

    margin: float
    """By how much the log probability of the inner policy's arm must exceed that of the best single
    arm; infinite where the gate is closed."""
    gain: float
    """Mean reward with this margin minus that of the best single arm, overhead charged."""
    error: float
    """The standard error of ``gain``."""
    queries: int
    """How many validation queries said so."""

    @property
    def is_open(self) -> bool:
        """Whether the inner policy is asked."""
        return math.isfinite(self.margin)


class GatedPolicy(Policy):
    """Asks ``inner`` where its gate is open; the best single arm answers otherwise.

    Args:
        name: in reports.
        inner: the policy that is asked.
        gates: λ → its gate; between them the nearest counts, the smaller of two equally near.
        quality: (A,) mean of each arm over training and validation queries; 0 counts for a query
            whose dataset lacks the arm.
        latency_share: (A,) mean normalised latency over the same queries; 1 for a lacking one.
        datasets: those it was trained on; a query of another isn't decided by ``inner``.

    Raises:
        RouterError: there is no gate, a gate isn't of a λ that ``inner`` takes, or the means don't
            fit its arms.
    """

    kind: ClassVar[str] = "gated"

    def __init__(
        self,
        name: str,
        inner: Policy,
        gates: Mapping[float, Gate],
        quality: FloatArray,
        latency_share: FloatArray,
        datasets: Collection[str],
    ) -> None:
        self.name, self.inner = name, inner
        self.arms, self.lams, self.queries = inner.arms, inner.lams, inner.queries
        self.probes, self.probe_depth = inner.probes, inner.probe_depth
        self.gates = {float(lam): gates[lam] for lam in sorted(gates)}
        self.datasets = frozenset(datasets)
        if quality.shape != (len(self.arms),) or latency_share.shape != (len(self.arms),):
            raise RouterError(f"policy '{name}' needs a mean for each of {', '.join(self.arms)}")
        if not self.gates or (self.lams is not None and set(self.gates) != set(self.lams)):
            raise RouterError(
                f"policy '{name}' needs a gate for each λ of '{inner.name}' "
                f"({', '.join(map(str, self.lams or ())) or 'one at least'}), got "
                f"{', '.join(map(str, self.gates)) or 'none'}"
            )
        self._quality, self._latency_share = quality, latency_share
        self._best_at = lru_cache(maxsize=256)(self._best_alone)

    @property
    def learns_documents(self) -> bool:
        """Whether the inner policy does."""
        return self.inner.learns_documents

    @property
    def display_name(self) -> str:
        """Its kind, then the inner policy's."""
        return f"{self.kind} {self.inner.display_name}"

    def gate_at(self, lam: float) -> Gate:
        """Return the gate of the nearest λ that has one, ties downwards."""
        found = self.gates.get(lam)
        if found is not None:
            return found
        nearest = min(self.gates, key=lambda one: (round(abs(one - lam), 12), one))
        return self.gates[nearest]

    def asks_at(self, lam: float, dataset: str | None = None) -> bool:
        """Whether the inner policy is run at λ for queries of ``dataset``."""
        return self.gate_at(lam).is_open and self._is_known(dataset)

    def _is_known(self, dataset: str | None) -> bool:
        """Whether training saw the dataset; where a caller names none, it is taken to have."""
        return dataset is None or dataset in self.datasets

    def probes_at(
        self, lam: float, allowed: Collection[str] | None = None, dataset: str | None = None
    ) -> tuple[str, ...]:
        """Return the inner policy's where its gate is open, else none."""
        return self.inner.probes_at(lam, allowed, dataset) if self.gate_at(lam).is_open else ()

    def overhead_key(self, lam: float, dataset: str | None = None) -> int:
        """Return ``CLOSED_KEY`` where the gate is closed, else one more than the inner key."""
        is_open = self.gate_at(lam).is_open
        return 1 + self.inner.overhead_key(lam, dataset) if is_open else CLOSED_KEY

    def overhead_keys(self) -> dict[int, float]:
        """Each :meth:`overhead_key` there is → a λ where it is met."""
        inner = self.inner.overhead_keys()
        found = {
            self.overhead_key(lam): lam
            for lam in [*reversed(self.gates), *reversed(inner.values())]
        }
        return dict(sorted(found.items()))

    def probabilities(
        self, queries: Sequence[str], lam: float, known: PolicyInputs = NO_INPUTS
    ) -> FloatArray:
        """(len(queries), len(arms)) of the inner policy; 1 for the arm that answers unasked."""
        unmasked = replace(known, competes=None, preference=None)
        return self.decide(queries, lam, unmasked).probabilities

    def decide(
        self, queries: Sequence[str], lam: float, known: PolicyInputs = NO_INPUTS
    ) -> Decisions:
        """See :class:`Policy`; a query that stays with the best single arm has its reason."""
        gate, asked = self.gate_at(lam), self._asked(lam, known, len(queries))
        if not asked.any():
            return self._unasked(lam, known, len(queries))
        best = best_arms(self._quality, self._latency_share, lam, known.competes, len(queries))
        plans = [Plan((self.arms[column],)) for column in best.tolist()]
        rows = np.eye(len(self.arms))[best]
        reasons = self._reasons(known, len(queries))
        where = np.flatnonzero(asked)
        part = self.inner.decide([queries[row] for row in where.tolist()], lam, known.rows(where))
        stays = behind(part, best[where], self.arms, gate.margin)
        quality = np.full(len(queries), np.nan)
        if part.predicted_quality is not None:
            quality[where] = np.where(stays, np.nan, part.predicted_quality)
        rankings: list[Ranking | None] = [None] * len(queries)
        for place, row in enumerate(where.tolist()):
            rows[row] = part.probabilities[place]
            if stays[place]:
                plans[row] = staying(part.plans[place], self.arms[best[row]], self.probes)
                reasons[row] = "no other arm is preferred by the margin that pays at this λ"
                continue
            plans[row] = part.plans[place]
            reasons[row] = None if part.reasons is None else part.reasons[place]
            rankings[row] = None if part.rankings is None else part.rankings[place]
        return Decisions(
            tuple(plans),
            rows,
            None if part.predicted_quality is None else quality,
            tuple(reasons),
            None if part.rankings is None else tuple(rankings),
            unasked=~asked,
        )

    def _unasked(self, lam: float, known: PolicyInputs, n: int) -> Decisions:
        """Answer n queries with the best single arm; made to cost next to nothing."""
        reasons = tuple(self._reasons(known, n))
        unasked = np.ones(n, dtype=bool)
        if known.competes is None and n:
            plan, row = self._best_at(lam)
            return Decisions((plan,) * n, np.repeat(row, n, 0), reasons=reasons, unasked=unasked)
        best = best_arms(self._quality, self._latency_share, lam, known.competes, n)
        plans = tuple(Plan((self.arms[column],)) for column in best.tolist())
        return Decisions(plans, np.eye(len(self.arms))[best], reasons=reasons, unasked=unasked)

    def _best_alone(self, lam: float) -> tuple[Plan, FloatArray]:
        """The plan of the best single arm of all, and its (1, A) probabilities."""
        column = best_arms(self._quality, self._latency_share, lam, None, 1)
        return Plan((self.arms[int(column[0])],)), np.eye(len(self.arms))[column]

    def _reasons(self, known: PolicyInputs, n: int) -> list[str | None]:
        """(n,) why the best single arm answers, where it does."""
        if known.datasets is None:
            return [_DID_NOT_PAY] * n
        return [
            _DID_NOT_PAY
            if self._is_known(one)
            else f"no training query is of '{one}': {self.name} doesn't choose there, and the best "
            "single arm answers"
            for one in known.datasets
        ]

    def _asked(self, lam: float, known: PolicyInputs, n: int) -> BoolArray:
        """(n,) whether the inner policy is run for the query."""
        if known.datasets is None:
            return np.full(n, self.asks_at(lam))
        return np.array([self.asks_at(lam, one) for one in known.datasets], dtype=bool)

    def frozen_encoder(self) -> str | None:
        """Return the inner policy's."""
        return self.inner.frozen_encoder()

    @property
    def reads_vectors(self) -> bool:
        """False: not at every λ."""
        return False

    def embed(self, queries: Sequence[str], lam: float) -> Embeddings | None:
        """(n, d) the inner policy's query vectors; None where its gate is closed."""
        if not self.gate_at(lam).is_open:
            return None
        self.inner.device = self.device
        return self.inner.embed(queries, lam)

    def embeds_at(self, lam: float, dataset: str | None = None) -> bool:
        """Whether the inner policy is asked, and embeds the query."""
        return self.gate_at(lam).is_open and self.inner.embeds_at(lam, dataset)

    def prepare(self, lam: float) -> None:
        """Load what the inner policy needs, where its gate is open."""
        if self.gate_at(lam).is_open:
            self.inner.device = self.device
            self.inner.prepare(lam)

    def save(self, folder: Path) -> None:
        """Write ``policy.json`` and the inner policy into ``inner/``."""
        content: dict[str, Any] = {
            "name": self.name,
            "datasets": sorted(self.datasets),
            "quality": self._quality.tolist(),
            "latency_share": self._latency_share.tolist(),
            "gates": [{"lam": float(lam), **one} for lam, one in described_gates(self).items()],
        }
        write_policy_json(folder, self.kind, content)
        (folder / INNER).mkdir()
        self.inner.save(folder / INNER)

    @classmethod
    def load(cls, folder: Path) -> GatedPolicy:
        """Read what :meth:`save` wrote."""
        from router.policies import load_policy

        keys = ("name", "datasets", "quality", "latency_share", "gates")
        content = read_policy_json(folder, keys)
        inner = load_policy(folder / INNER)
        try:
            gates = {float(one["lam"]): _gate(one) for one in content["gates"]}
            quality, share = (
                np.array(content[key], dtype=np.float64) for key in ("quality", "latency_share")
            )
        except (KeyError, TypeError, ValueError) as error:
            raise RouterError(
                f"{folder} holds a damaged gate ({error!r}); rerun l2r train"
            ) from error
        if not (np.isfinite(quality).all() and np.isfinite(share).all()):
            raise RouterError(f"{folder} holds means that are no numbers; rerun l2r train")
        return cls(content["name"], inner, gates, quality, share, content["datasets"])


def described_gates(policy: Policy) -> dict[str, dict[str, float | None]]:
    """λ → ``margin`` (None where closed), ``gain``, ``error``, ``queries``; {} without gates."""
    if not isinstance(policy, GatedPolicy):
        return {}
    return {
        str(lam): {
            "margin": gate.margin if gate.is_open else None,
            "gain": gate.gain,
            "error": gate.error,
            "queries": gate.queries,
        }
        for lam, gate in policy.gates.items()
    }


def _gate(written: Mapping[str, Any]) -> Gate:
    margin = math.inf if written["margin"] is None else float(written["margin"])
    gate = Gate(margin, float(written["gain"]), float(written["error"]), int(written["queries"]))
    if not (gate.margin >= 0.0 and math.isfinite(gate.gain) and math.isfinite(gate.error)):
        raise ValueError(f"a margin of at least 0 and finite numbers, got {dict(written)}")
    return gate


def best_arms(
    quality: FloatArray,
    latency_share: FloatArray,
    lam: float,
    competes: BoolArray | None,
    n: int,
) -> NDArray[np.intp]:
    """(n,) column of the arm that may answer with the best mean reward at ``lam``.

    Args:
        quality: (A,) mean of each arm.
        latency_share: (A,) likewise.
        lam: the weight of latency.
        competes: (n, A) arms that may answer; None: all.
        n: how many queries.
    """
    rewards = np.tile(reward(quality, latency_share, lam), (n, 1))
    allowed = rewards if competes is None else np.where(competes, rewards, -np.inf)
    return np.asarray(allowed.argmax(axis=1), dtype=np.intp)


def staying(plan: Plan, arm: str, probes: Collection[str]) -> Plan:
    """Answer with ``arm``; the probes of ``plan`` were run and are paid for."""
    ran = tuple(one for one in plan.arms if one in probes and one != arm)
    return Plan((*ran, arm), "cascade" if ran else "single")


def behind(
    decided: Decisions, best: NDArray[np.intp], arms: Sequence[str], margin: float
) -> BoolArray:
    """(n,) whether the arm preferred is ahead of ``best`` by less than ``margin``.

    Args:
        decided: n plans over ``arms``, and their probabilities.
        best: (n,) columns of the best single arms.
        arms: the policy's.
        margin: of log probabilities.
    """
    column_of = {arm: column for column, arm in enumerate(arms)}
    preferred = np.array([column_of[plan.answering_arm] for plan in decided.plans], dtype=np.intp)
    at = np.arange(len(preferred))
    with np.errstate(divide="ignore"):
        logs = np.log(decided.probabilities)
    with np.errstate(invalid="ignore"):
        ahead = logs[at, preferred] - logs[at, best]  # both −∞: NaN, which isn't behind
    return np.asarray((ahead < margin) & (preferred != best))
