"""Choose an arm for a query, and run it: what a serving machine uses."""

from __future__ import annotations

import math
import numbers
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from arms.arm import check_query
from arms.errors import QueryError, RouterError
from arms.records import Ranking
from arms.reward import BoolArray, FloatArray, normalised_latency, reward
from router.artifact import Expected, RouterRecord, policy_folder, read_router
from router.opening import OpenArms
from router.policies import load_policy
from router.policy import Plan, Policy
from router.running import Probing, answer, probe

NO_RETRIEVAL = "none"
"""Chosen only where a caller names it among ``arms``."""


@dataclass(frozen=True, slots=True)
class Choice:
    """The plan chosen for one query."""

    arm: str
    """Whose ranking answers; of fused arms the most probable."""
    probabilities: Mapping[str, float]
    """Allowed arm → probability, in the router's order; sums to 1."""
    expected: Expected | None
    """Quality and latency_ms to expect from the arm, from held-out labels; None where unknown."""
    lam: float
    """As asked for."""
    lam_used: float
    """Whose model answered: the trained λ nearest to ``lam``, the smaller of two equally near."""
    policy: str
    overhead_ms: float
    """Wall-clock milliseconds of deciding, without the probes; of a batch, the whole batch's."""
    plan: Plan
    """The arms to run, in order: ``arm`` alone, after its probes, or fused with others."""
    predicted_quality: float | None = None
    """What the policy expects of this query's answer; None where it doesn't say."""
    reason: str | None = None
    """Why, where the plan is not the policy's plain preference."""


@dataclass(frozen=True, slots=True)
class SearchResult:
    """What :meth:`Router.search` found."""

    choice: Choice
    ranking: Ranking
    latency_ms: float
    """Wall-clock milliseconds of probing, choosing and searching; without opening the arms."""


class Router:
    """A trained router: chooses an arm per query and, given indexes, runs it.

    Read-only and safe to share between threads. Make it with :meth:`load`.
    """

    def __init__(self, folder: Path, record: RouterRecord, index: Path | None, device: str) -> None:
        self.folder, self.record, self.index = folder, record, index
        self.arms: tuple[str, ...] = record.arms
        self.default_policy = record.default_policy
        self._device = device
        self._policies: dict[str, Policy] = {}
        self._lock = threading.Lock()
        self._open_arms = None if index is None else OpenArms(index, record)

    @classmethod
    def load(
        cls,
        folder: str | Path,
        index: str | Path | None = None,
        policy: str | None = None,
        device: str = "cpu",
    ) -> Router:
        """Load the router that ``l2r train`` wrote.

        Args:
            folder: the router's folder.
            index: the index root, for :meth:`search`; default: the one the router records, or
                ``index/`` beside the router's folder, where a run keeps it; none is needed to
                select.
            policy: the policy to use by default, e.g. ``tfidf``; default: the router's own.
            device: where an encoder runs, as torch names it.

        The default policy's model is loaded now, other policies' when first asked for.

        Raises:
            RouterError: the artifact is absent, damaged, newer or of another encoder, or it has
                arms or a policy that are not there.
        """
        folder = Path(folder)
        record = read_router(folder)
        if index is None:
            beside = folder / (record.index or "../index")
            index = beside if beside.is_dir() else None
        elif not Path(index).is_dir():
            raise RouterError(f"the index root {index} is not a folder; give what l2r index wrote")
        router = cls(folder, record, None if index is None else Path(index), device)
        router.default_policy = policy if policy is not None else record.default_policy
        ready = router._policy(None)
        ready.prepare(ready.lams[0] if ready.lams else 0.0)
        return router

    def select(
        self,
        query: str,
        lam: float = 0.1,
        arms: Sequence[str] | None = None,
        policy: str | None = None,
        dataset: str | None = None,
    ) -> Choice:
        """Choose an arm for ``query``.

        Args:
            query: any text with at least one visible character.
            lam: weight of latency against quality in [0, 1]. Between trained values the nearest
                one's model answers, the smaller of two equally near.
            arms: those allowed, e.g. what a corpus has; default: all but ``none``.
            policy: by name; default: the router's default.
            dataset: where a policy that probes runs its probes; see :meth:`search`.

        Raises:
            QueryError: ``query`` is not text or is empty.
            RouterError: ``lam`` is no number in [0, 1], or an arm or policy is unknown, or no arm
                is allowed, or the policy probes and no index is at hand.
        """
        return self._choose([query], lam, self._allowed(arms), policy, dataset)[0][0]

    def select_many(
        self,
        queries: Sequence[str],
        lam: float = 0.1,
        arms: Sequence[str] | None = None,
        policy: str | None = None,
        dataset: str | None = None,
    ) -> list[Choice]:
        """Choose an arm for each query, in one batch through the encoder; see :meth:`select`.

        Each choice equals the one of :meth:`select`, to the accuracy of float32 arithmetic.
        """
        if isinstance(queries, str):
            raise QueryError("select_many takes a list of queries, got one text; use select")
        return self._choose(list(queries), lam, self._allowed(arms), policy, dataset)[0]

    def search(
        self,
        query: str,
        lam: float = 0.1,
        k: int = 10,
        dataset: str | None = None,
        arms: Sequence[str] | None = None,
        policy: str | None = None,
    ) -> SearchResult:
        """Choose an arm, then run it over one dataset's index.

        Args:
            query: see :meth:`select`, as for ``lam``, ``arms`` and ``policy``. Arms that the
                dataset lacks, by the router's record, are never chosen.
            lam: see above.
            k: how many documents at most.
            dataset: which one of the index root; may be left out where there is one.
            arms: see above.
            policy: see above.

        Raises:
            RouterError: no index is at hand, or it lacks an arm that may be chosen.
            ArmIndexError: the arm's index is damaged.
        """
        if isinstance(k, bool) or not isinstance(k, numbers.Integral) or k < 1:
            raise RouterError(f"k must be a whole number of at least 1, got {k!r}")
        opened = self._opened()
        dataset, allowed = opened.candidates(dataset, self._allowed(arms))
        choices, probed = self._choose([query], lam, allowed, policy, dataset, int(k))
        opened.open_all(dataset, choices[0].plan.arms)
        begin = time.perf_counter_ns()
        ranking = answer(choices[0].plan, query, int(k), opened, dataset, probed)
        elapsed_ms = (time.perf_counter_ns() - begin) / 1e6
        return SearchResult(
            choices[0], ranking, probed.elapsed_ms + choices[0].overhead_ms + elapsed_ms
        )

    def _choose(
        self,
        queries: list[str],
        lam: float,
        allowed: Sequence[str],
        policy: str | None,
        dataset: str | None,
        depth: int = 1,
    ) -> tuple[list[Choice], Probing]:
        """Return the choices, and what the probes found, at least ``depth`` documents deep."""
        begin = time.perf_counter_ns()
        wanted = check_lam_number(lam)
        for query in queries:
            check_query(query)
        if not queries:
            return [], Probing()
        chooser = self._policy(policy)
        used = chooser.nearest_lam(wanted)
        probed = Probing()
        if chooser.probes:
            dataset = self._probed_dataset(chooser, dataset)
            probed = probe(chooser, queries, depth, self._opened(), dataset)
        competes, preference = self._mask(allowed), self._preference(used)
        decided = chooser.decide(
            queries,
            used,
            competes=None if competes.all() else np.tile(competes, (len(queries), 1)),
            probed=probed.cut(chooser.probe_depth) if chooser.probes else None,
            preference=preference,
        )
        rows = decided.probabilities[:, competes].tolist()
        overhead_ms = (time.perf_counter_ns() - begin) / 1e6 - probed.elapsed_ms
        nothing = (None,) * len(queries)
        predicted = nothing if decided.predicted_quality is None else decided.predicted_quality
        choices = [
            Choice(
                arm=plan.answering_arm,
                probabilities=dict(zip(allowed, row, strict=True)),
                expected=self.expected(plan.answering_arm, used),
                lam=wanted,
                lam_used=used,
                policy=chooser.name,
                overhead_ms=overhead_ms,
                plan=plan,
                predicted_quality=None if quality is None else float(quality),
                reason=reason,
            )
            for row, plan, quality, reason in zip(
                rows, decided.plans, predicted, decided.reasons or nothing, strict=True
            )
        ]
        return choices, probed

    def _opened(self) -> OpenArms:
        if self._open_arms is None:
            raise RouterError(
                f"search needs an index, and none lies beside {self.folder}; name the run's index/ "
                "(Router.load(..., index=...), --index)"
            )
        return self._open_arms

    def _probed_dataset(self, chooser: Policy, dataset: str | None) -> str:
        if self._open_arms is None:
            raise RouterError(
                f"the policy '{chooser.name}' looks at what {', '.join(chooser.probes)} find "
                f"before it decides, and no index lies beside {self.folder}; name the run's index/ "
                "(Router.load(..., index=...), --index), or another policy"
            )
        return self._open_arms.candidates(dataset, ())[0]

    def expected(self, arm: str, lam: float) -> Expected | None:
        """What held-out labels say of ``arm`` at the recorded λ nearest to ``lam``."""
        recorded = [trained for trained, by_arm in self.record.expected.items() if arm in by_arm]
        if not recorded:
            return None
        nearest = min(recorded, key=lambda trained: (round(abs(trained - lam), 12), trained))
        return self.record.expected[nearest][arm]

    def _allowed(self, arms: Sequence[str] | None) -> tuple[str, ...]:
        if arms is None:
            chosen = tuple(arm for arm in self.arms if arm != NO_RETRIEVAL)
        else:
            given = [arms] if isinstance(arms, str) else list(arms)
            unknown = [str(arm) for arm in given if arm not in self.arms]
            if unknown:
                raise RouterError(
                    f"this router knows the arms {', '.join(self.arms)}; got {', '.join(unknown)}"
                )
            chosen = tuple(arm for arm in self.arms if arm in given)
        if not chosen:
            raise RouterError(
                f"no arm is left to choose: allow at least one of {', '.join(self.arms)}"
            )
        return chosen

    def _mask(self, allowed: Sequence[str]) -> BoolArray:
        return np.array([arm in allowed for arm in self.arms], dtype=bool)

    def _preference(self, lam: float) -> FloatArray:
        """(A,) expected reward per arm at ``lam``; 0 throughout where any is unknown."""
        known = [self.expected(arm, lam) for arm in self.arms]
        quality = np.array([entry.quality if entry else None for entry in known], dtype=float)
        latency = np.array([entry.latency_ms if entry else None for entry in known], dtype=float)
        if not (np.isfinite(quality) & np.isfinite(latency)).all():
            return np.zeros(len(self.arms))
        return reward(quality, normalised_latency(latency), lam)

    def _policy(self, name: str | None) -> Policy:
        wanted = self.default_policy if name is None else name
        ready = self._policies.get(wanted)
        if ready is not None:
            return ready
        if wanted not in self.record.policies:
            raise RouterError(
                f"this router has the policies {', '.join(self.record.policies)}; got '{wanted}'"
            )
        with self._lock:
            if wanted not in self._policies:
                loaded = load_policy(policy_folder(self.folder, wanted), self._device)
                if loaded.arms != self.arms:
                    raise RouterError(
                        f"policy '{wanted}' chooses from {', '.join(loaded.arms)}; the router's "
                        f"arms are {', '.join(self.arms)}: its files are of another router"
                    )
                self._policies[wanted] = loaded
            return self._policies[wanted]


def check_lam_number(lam: float) -> float:
    """Return ``lam`` as a float; raise ``RouterError`` unless it is a number in [0, 1]."""
    is_number = isinstance(lam, numbers.Real) and not isinstance(lam, bool)
    value = float(lam) if is_number else math.nan
    if not 0.0 <= value <= 1.0:  # also false for NaN
        raise RouterError(
            f"lam must be a number in [0, 1] (0 = quality only, 1 = latency only), got {lam!r}"
        )
    return value
