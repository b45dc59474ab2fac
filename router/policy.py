"""The policy contract: a query in, a distribution over arms out."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from arms.records import Ranking
from arms.reward import BoolArray, FloatArray, check_lam

if TYPE_CHECKING:
    from router.frozen_queries import FrozenQueries

Embeddings = NDArray[np.float32]
"""(queries, d) vectors of a frozen encoder."""
Probed = Mapping[str, Sequence[Ranking]]
"""Arm that was run before deciding → one ranking per query."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyInputs:
    """What a caller knows about n queries beside their text; any part may be missing."""

    embeddings: Embeddings | None = None
    """(n, d) as :meth:`Policy.embed` gives them."""
    probed: Probed | None = None
    """What the policy's probes found; an arm that the dataset lacks is absent."""
    competes: BoolArray | None = None
    """(n, A) arms that may answer; None: all."""
    preference: FloatArray | None = None
    """(A,) what to prefer where a policy gives every arm that may answer 0."""
    datasets: Sequence[str] | None = None
    """(n,) the dataset that each query is asked of; None where a caller doesn't say."""

    def rows(self, wanted: NDArray[np.intp]) -> PolicyInputs:
        """Return what is known of some of the queries, in the order given."""
        probed = self.probed
        return PolicyInputs(
            embeddings=None if self.embeddings is None else self.embeddings[wanted],
            probed=None
            if probed is None
            else {arm: [one[row] for row in wanted.tolist()] for arm, one in probed.items()},
            competes=None if self.competes is None else self.competes[wanted],
            preference=self.preference,
            datasets=None
            if self.datasets is None
            else [self.datasets[row] for row in wanted.tolist()],
        )


NO_INPUTS = PolicyInputs()


Combine = Literal["single", "fuse", "cascade", "merge"]
_MARKS: dict[Combine, str] = {"single": "", "fuse": "+", "cascade": ">", "merge": "&"}


@dataclass(frozen=True, slots=True)
class Plan:
    """The arms to run for a query, in order, and how their results combine.

    ``single``: the one arm's ranking. ``fuse``: all of them fused, named in descending order of
    preference: the policy's own ranking where it made one, reciprocal-rank fusion elsewhere.
    ``cascade``: probes, then the arm whose ranking answers, last. ``merge``: the policy's own
    ranking of what all of them found; last stands the arm whose ranking would have answered alone.
    """

    arms: tuple[str, ...]
    combine: Combine = "single"

    @property
    def answering_arm(self) -> str:
        """The arm whose ranking answers; of fused or merged arms the one preferred."""
        return self.arms[0] if self.combine == "fuse" else self.arms[-1]

    def __str__(self) -> str:
        """As ``decisions.parquet`` has it: arms joined by ``+`` (fuse), ``>`` or ``&`` (merge).

        One arm whose documents are merged with none, only ranked anew, is ``a&``.
        """
        written = _MARKS[self.combine].join(self.arms)
        return f"{written}&" if self.combine == "merge" and len(self.arms) == 1 else written


@dataclass(frozen=True, slots=True)
class Decisions:
    """What a policy decided for n queries; all parts run parallel."""

    plans: tuple[Plan, ...]
    probabilities: FloatArray
    """(n, A) over the policy's arms, 0 where masked; rows sum to 1."""
    predicted_quality: FloatArray | None = None
    """(n,) quality expected of the plan's answer; None where the policy predicts none."""
    reasons: tuple[str | None, ...] | None = None
    """(n,) why, where a plan is not the policy's plain preference."""
    rankings: tuple[Ranking | None, ...] | None = None
    """(n,) the answer, where the policy ranks what its arms found (plans that merge, and fused ones
    that it fuses itself): documents by the names they have in what was probed, by descending score,
    then name. None where an arm answers."""
    unasked: BoolArray | None = None
    """(n,) True where the answer follows without running the policy's model, so that deciding costs
    next to nothing and no query vector is made; None: nowhere."""


@dataclass(frozen=True, slots=True)
class Expected:
    """What held-out labels say of a chosen arm, or of a plan: means over queries."""

    quality: float | None
    """Mean quality in [0, 1]; None where nothing was held out."""
    latency_ms: float | None
    """Mean milliseconds. Of an arm: its own, without the router's overhead; of a plan that merges:
    of all its arms, and of deciding."""
    queries: int = 0
    """How many held-out queries the means are over."""

    @property
    def told(self) -> str:
        """What is known, in words."""
        quality = [] if self.quality is None else [f"quality {self.quality:.3f}"]
        latency = [] if self.latency_ms is None else [f"latency {self.latency_ms:.1f} ms"]
        return ", ".join(quality + latency) or "unknown"


class Policy(ABC):
    """Maps queries to plans over ``arms``. Read-only once made; shared by threads."""

    kind: ClassVar[str]
    """Names the class in ``policy.json``; ``router.policies`` maps it to a module."""
    query_dependent: ClassVar[bool] = True
    """Whether it is meant to tell queries apart; sending all to one arm is no fault otherwise."""
    name: str
    """Names the policy in reports; its folder under ``policies/``."""
    arms: tuple[str, ...]
    """The arms it chooses from, in column order."""
    lams: tuple[float, ...] | None
    """The λ it was trained for, ascending; None when it takes any λ."""
    device: str = "cpu"
    """Where its encoder runs, if it has one; set it before the first call."""
    queries: FrozenQueries | None = None
    """The frozen encoder whose query vectors it reads, if it reads any."""
    probes: tuple[str, ...] = ()
    """Arms that may be run before deciding; their latency counts in full."""
    probe_depth: int = 0
    """How many documents of each probe it looks at."""

    @property
    def learns_documents(self) -> bool:
        """Whether it knows which documents were relevant to training queries.

        What it gains from that, questions about other documents don't share.
        """
        return False

    @property
    def display_name(self) -> str:
        """What it is, in a word or two: its kind, and that of the policy it wraps."""
        return self.kind

    @abstractmethod
    def probabilities(
        self, queries: Sequence[str], lam: float, known: PolicyInputs = NO_INPUTS
    ) -> FloatArray:
        """(len(queries), len(arms)) rows that sum to 1. ``lam`` is one of ``lams`` where given.

        Of ``known`` only the query vectors and what was probed count: no arm is ruled out yet.
        """

    def decide(
        self, queries: Sequence[str], lam: float, known: PolicyInputs = NO_INPUTS
    ) -> Decisions:
        """Choose a plan for each query: here the one arm with the greatest probability.

        Ties go to the earlier arm; ``lam`` as for :meth:`probabilities`.
        """
        rows = masked(self.probabilities(queries, lam, known), known)
        chosen = rows.argmax(axis=1).tolist() if len(rows) else []
        return Decisions(tuple(Plan((self.arms[column],)) for column in chosen), rows)

    def probes_at(
        self, lam: float, allowed: Collection[str] | None = None, dataset: str | None = None
    ) -> tuple[str, ...]:
        """Return the probes that are run on every query at ``lam``: all, unless λ decides.

        ``allowed``: arms that may answer; a policy that answers with what all of its probes found
        runs no others. ``dataset`` that is asked, where it is known.
        """
        return self.probes

    def asks_at(self, lam: float, dataset: str | None = None) -> bool:
        """Whether deciding at ``lam`` for queries of ``dataset`` runs the policy's model.

        Where it doesn't, there is nothing to embed and nothing to probe.
        """
        return True

    def means_of(self, plan: Plan) -> Expected | None:
        """What a plan that the policy ranks itself comes to on held-out queries; None: unknown."""
        return None

    def overhead_key(self, lam: float, dataset: str | None = None) -> int:
        """Return a number that is equal for λ at which deciding takes equally long."""
        return 0

    def overhead_keys(self) -> dict[int, float]:
        """Each :meth:`overhead_key` there is → a λ where it is met."""
        return {0: self.nearest_lam(0.0)}

    def other_costs(self) -> Mapping[int, Policy]:
        """Each :meth:`overhead_key` that no λ meets here, but one may where it is fitted otherwise.

        → a policy that meets it at every λ, to time it with.
        """
        return {}

    def frozen_encoder(self) -> str | None:
        """Return the revision of the frozen encoder whose query vectors it reads, if it does."""
        return None if self.queries is None else self.queries.resolved.revision

    @property
    def reads_vectors(self) -> bool:
        """Whether :meth:`embed` gives vectors, the same at every λ; they may be its own."""
        return self.frozen_encoder() is not None

    def embed(self, queries: Sequence[str], lam: float) -> Embeddings | None:
        """(n, d) the query vectors that :meth:`decide` reads and takes; None where it has none.

        Of :meth:`frozen_encoder`, or the policy's own (see :attr:`reads_vectors`). A caller who
        asks at several λ, or has another use for them, embeds once.
        """
        return None if self.queries is None else self.queries.embed(queries, self.device)

    def embeds_at(self, lam: float, dataset: str | None = None) -> bool:
        """Whether :meth:`embed` gives the frozen encoder's vectors at ``lam``: arms may take them.

        Where it doesn't, the arms of a plan encode the query themselves.
        """
        return self.queries is not None

    def with_vectors(self, queries: Sequence[str], lam: float, known: PolicyInputs) -> PolicyInputs:
        """Return ``known`` with the query vectors that it lacks, where the policy reads any."""
        if known.embeddings is not None:
            return known
        return replace(known, embeddings=self.embed(queries, lam))

    @abstractmethod
    def save(self, folder: Path) -> None:
        """Write ``policy.json`` and weights (safetensors) into the existing empty ``folder``."""

    @classmethod
    @abstractmethod
    def load(cls, folder: Path) -> Policy:
        """Read what :meth:`save` wrote; raise ``RouterError`` on a missing or unexpected key."""

    def prepare(self, lam: float) -> None:  # noqa: B027 - most policies have nothing to load
        """Load now what the first call at ``lam`` would load; many policies have nothing."""

    def nearest_lam(self, lam: float) -> float:
        """Return the λ whose model answers for ``lam``: the nearest trained one, ties downwards.

        A policy that takes any λ answers for ``lam`` itself.
        """
        value = check_lam(lam)
        if self.lams is None or value in self.lams:
            return value
        # Rounded, so that 0.2 lies as far from 0.1 as from 0.3 in spite of binary fractions.
        return min(self.lams, key=lambda trained: (round(abs(trained - value), 12), trained))


def masked(rows: FloatArray, known: PolicyInputs) -> FloatArray:
    """(n, A) probabilities with 0 where an arm may not answer, renormalised to sum to 1.

    A row without any mass on the arms that may gives all to the one with the greatest
    ``preference`` (A,), ties to the earlier: a policy that knows only forbidden arms falls back on
    what held-out labels say. Without a preference that is the first arm allowed.
    """
    competes, preference = known.competes, known.preference
    if competes is None:
        return rows
    kept = np.where(competes, rows, 0.0)
    total = kept.sum(axis=1, keepdims=True)
    liked = np.zeros(rows.shape[1]) if preference is None else preference
    fallback = np.where(competes, liked, -np.inf).argmax(axis=1) if len(rows) else []
    shares = np.divide(kept, total, out=np.zeros_like(kept), where=total > 0)
    return np.where(total > 0, shares, np.eye(rows.shape[1])[fallback])
