"""Choose an arm for a query, and run it: what a serving machine uses."""

from __future__ import annotations

import numbers
import threading
import time
from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from functools import lru_cache
from pathlib import Path

import numpy as np

from arms.arm import check_query
from arms.errors import QueryError, RouterError
from arms.home import name_the_user
from arms.html_table import html_table
from arms.read_errors import why_absent
from arms.records import Ranking
from arms.records import without as leave_out
from arms.reward import BoolArray, FloatArray, normalised_latency, reward
from router.artifact import Defaults, RouterRecord, policy_folder, read_router
from router.calibration import CalibratedPoint
from router.choice import (
    DEFAULT_LAM,
    Choice,
    SearchResult,
    Wish,
    check_lam_number,
    check_one_wish,
    known_quality,
)
from router.opening import OpenArms
from router.policies import load_policy
from router.policy import Decided, Expected, Known, Plan, Policy
from router.running import Probing, answer, probe
from router.wishes import lam_for_latency, lam_for_quality

NO_RETRIEVAL = "none"
"""Chosen only where a caller names it among ``arms``."""


class Router:
    """A trained router: chooses an arm per query and, given indexes, runs it.

    Read-only and safe to share between threads. Make it with :meth:`load`.
    """

    def __init__(self, folder: Path, record: RouterRecord, index: Path | None, device: str) -> None:
        self.folder, self.record, self.index = folder, record, index
        self.arms: tuple[str, ...] = record.arms
        self.defaults = record.defaults
        self._device = device
        self._policies: dict[str, Policy] = {}
        self._lock = threading.Lock()
        self._expected_at = lru_cache(maxsize=256)(self._nearest_expected)
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
            policy: the policy to use by default, e.g. ``tfidf``; default: the router's own, one to
                select and perhaps another to search (:attr:`defaults`).
            device: where an encoder runs, as torch names it.

        The model that selects by default is loaded now, others when first asked for.

        Raises:
            RouterError: the artifact is absent, damaged, newer or of another encoder, or it has
                arms or a policy that are not there.
        """
        name_the_user()  # torch asks
        folder = Path(folder)
        record = read_router(folder)
        if index is None:
            beside = folder / (record.index or "../index")
            index = beside if beside.is_dir() else None
        elif not Path(index).is_dir():
            raise RouterError(
                f"the index root {why_absent(Path(index), 'folder')}; give what l2r index wrote"
            )
        router = cls(folder, record, None if index is None else Path(index), device)
        if policy is not None:
            router.defaults = Defaults(policy)
        ready = router._policy(None)
        ready.prepare(ready.lams[0] if ready.lams else 0.0)
        return router

    def __repr__(self) -> str:
        searches = "no index" if self.index is None else f"index {self.index}"
        return (
            f"Router in {self.folder}: chooses among {', '.join(self.arms)}; "
            f"{self.defaults.told}; {searches}"
        )

    def _repr_html_(self) -> str:
        known = self.record.expected.get(self.defaults.select, {})
        rows = [
            (f"{lam:g}", arm, *(expected.told.split(", ")))
            for lam, by_arm in sorted(known.items())
            for arm, expected in by_arm.items()
            if expected.queries
        ]
        header = ("λ", "arm chosen", "quality", "latency")
        return html_table(repr(self), header, rows, 'router.select("a query", lam=0.1)')

    @property
    def probes(self) -> tuple[str, ...]:
        """Arms that run before the default policy selects; selecting then needs an index."""
        return self._policy(None).probes

    def select(
        self,
        query: str,
        lam: float | None = None,
        arms: Sequence[str] | None = None,
        policy: str | None = None,
        dataset: str | None = None,
        max_latency_ms: float | None = None,
        max_quality_loss: float | None = None,
    ) -> Choice:
        """Choose an arm for ``query``.

        Args:
            query: any text with at least one visible character.
            lam: weight of latency against quality in [0, 1], 0.1 unless a wish is given. Between
                trained values the nearest one's model answers, the smaller of two equally near.
            arms: those allowed, e.g. what a corpus has; default: all but ``none``. A policy that
                probes may still run others, to look at what they find, one that merges runs no
                others; where one alone may answer, it runs none.
            policy: by name; default: ``defaults.select``, which needs no index.
            dataset: where there is an index, arms that this dataset lacks are never chosen, as in
                :meth:`search`; a policy that probes runs its probes there, and may go without it
                where the index has one dataset.
            max_latency_ms: instead of ``lam``: the mean milliseconds that a query may take, the
                router's own included. Answered with the smallest calibrated λ that is as fast.
            max_quality_loss: instead of ``lam``: the mean quality that may be given up against
                the best calibrated quality of this policy. Answered with the largest such λ.

        Both wishes are about means over the labels' mixture of datasets, with all arms allowed;
        :attr:`Choice.promised` says what was calibrated.

        Raises:
            QueryError: ``query`` is not text, is empty, or can't be written as UTF-8.
            RouterError: ``lam`` is no number in [0, 1], or an arm or policy is unknown, or no arm
                is allowed or the dataset has none of them, or the index lacks the dataset or an arm
                of it, or the policy probes and no index is at hand; a wish is given beside
                ``lam``, another wish or ``arms``, or can't be met (the message names the nearest
                that can), or the policy was never calibrated.
        """
        wish = Wish(lam, max_latency_ms, max_quality_loss)
        dataset, allowed = self._at_hand(dataset, wish, arms, policy)
        return self._choose([query], wish, allowed, policy, dataset)[0][0]

    def select_many(
        self,
        queries: Sequence[str],
        lam: float | None = None,
        arms: Sequence[str] | None = None,
        policy: str | None = None,
        dataset: str | None = None,
        max_latency_ms: float | None = None,
        max_quality_loss: float | None = None,
    ) -> list[Choice]:
        """Choose an arm for each query, in one batch through the encoder; see :meth:`select`.

        Each choice equals the one of :meth:`select`, to the accuracy of float32 arithmetic.
        """
        if isinstance(queries, str):
            raise QueryError("select_many takes a list of queries, got one text; use select")
        if not isinstance(queries, Iterable):
            raise QueryError(f"select_many takes a list of queries, got {type(queries).__name__}")
        wish = Wish(lam, max_latency_ms, max_quality_loss)
        dataset, allowed = self._at_hand(dataset, wish, arms, policy)
        return self._choose(list(queries), wish, allowed, policy, dataset)[0]

    def search(
        self,
        query: str,
        lam: float | None = None,
        k: int = 10,
        dataset: str | None = None,
        arms: Sequence[str] | None = None,
        policy: str | None = None,
        max_latency_ms: float | None = None,
        max_quality_loss: float | None = None,
        without: Collection[str] = (),
    ) -> SearchResult:
        """Choose an arm, then run it over one dataset's index.

        A query is embedded once for the policy and for the arms whose encoder would make the same
        vector (see :attr:`SearchResult.reused_vectors`); rankings are those of the arms alone, to
        the accuracy of float32 arithmetic, and the policy's own where its plan merges.

        Args:
            query: see :meth:`select`, as for ``lam``, ``arms`` (probes are the policy's own),
                ``policy`` and the wishes. Arms that the dataset lacks, by the router's record, are
                never chosen.
            lam: see above.
            k: how many documents at most.
            dataset: which one of the index root; may be left out where there is one.
            arms: see above.
            policy: by name; default: ``defaults.search``, which may run arms before it decides.
            max_latency_ms: see above.
            max_quality_loss: see above.
            without: ids of documents that aren't returned: the query's own, say, where a document
                is the query.

        Raises:
            RouterError: no index is at hand, it lacks an arm that may be chosen, or the dataset has
                none of those allowed.
            ArmIndexError: the arm's index is damaged.
        """
        if isinstance(k, bool) or not isinstance(k, numbers.Integral) or k < 1:
            raise RouterError(f"k must be a whole number of at least 1, got {k!r}")
        opened, policy = self._opened(), policy or self.defaults.search
        wish = Wish(lam, max_latency_ms, max_quality_loss)
        dataset, allowed = self._had(dataset, self._allowed(arms, wish))
        left_out = frozenset([without] if isinstance(without, str) else without)
        depth = int(k) + len(left_out)
        choices, probed, own = self._choose([query], wish, allowed, policy, dataset, depth)
        opened.open_all(dataset, choices[0].plan.arms)
        begin = time.perf_counter_ns()
        found = answer(choices[0].plan, query, depth, opened, dataset, probed, own[0])
        ranking = leave_out(found, left_out, int(k))
        elapsed_ms = (time.perf_counter_ns() - begin) / 1e6
        return SearchResult(
            choices[0],
            ranking,
            probed.elapsed_ms + choices[0].overhead_ms + elapsed_ms,
            0 if probed.vectors is None else probed.vectors.taken,
        )

    def _choose(
        self,
        queries: list[str],
        wish: Wish,
        allowed: Sequence[str],
        policy: str | None,
        dataset: str | None,
        depth: int = 0,
    ) -> tuple[list[Choice], Probing, Sequence[Ranking | None]]:
        """Return the choices, what is at hand for running them, and rankings already made.

        ``depth`` is how deep arms will be run, 0 where only probes are.
        """
        begin = time.perf_counter_ns()
        chooser = self._policy(policy)
        wanted, promised = self._lam_of(wish, chooser)
        queries = [check_query(query) for query in queries]
        if not queries:
            return [], Probing(), ()
        used = chooser.nearest_lam(wanted)
        asks = chooser.asks_at(used, dataset)
        probes = chooser.probes_at(used, allowed, dataset) if asks else ()
        everything = len(allowed) == len(self.arms)
        competes = None if everything else self._mask(allowed)
        known = Known(
            competes=None if competes is None else np.tile(competes, (len(queries), 1)),
            preference=None if competes is None else self._preference(used, chooser.name),
            datasets=None if dataset is None else [dataset] * len(queries),
        )
        probed = Probing()
        alone = bool(chooser.probes) and len(allowed) == 1  # whatever the probes would find
        if asks and (probes or depth) and not alone:  # arms run: they may take its query vectors
            known = chooser.with_vectors(queries, used, known)
            if chooser.queries is not None and known.embeddings is not None:
                vectors = chooser.queries.to_share(queries, known.embeddings, chooser.device)
                probed = replace(probed, vectors=vectors)
        if probes and not alone:
            dataset = self._probed_dataset(chooser, dataset)
            paused = time.perf_counter_ns()
            deep = max(depth, chooser.probe_depth)
            probed = probe(probes, queries, deep, self._opened(), dataset, probed.vectors)
            begin += time.perf_counter_ns() - paused  # probing, opening included, isn't deciding
            known = replace(
                known,
                probed=probed.cut(dataset, chooser.probe_depth),
                datasets=[dataset] * len(queries),
            )
        decided = (
            _only(allowed[0], self.arms, len(queries))
            if alone
            else chooser.decide(queries, used, known)
        )
        rows = decided.probabilities
        rows = (rows if competes is None else rows[:, competes]).tolist()
        overhead_ms = (time.perf_counter_ns() - begin) / 1e6
        nothing = (None,) * len(queries)
        predicted = nothing if decided.predicted_quality is None else decided.predicted_quality
        choices = [
            Choice(
                arm=plan.answering_arm,
                probabilities=dict(zip(allowed, row, strict=True)),
                expected=self._expected_of(plan, used, chooser),
                expects_plan=chooser.means_of(plan) is not None,
                lam=wanted,
                lam_used=used,
                policy=chooser.name,
                policy_kind=chooser.described,
                overhead_ms=overhead_ms,
                plan=plan,
                predicted_quality=known_quality(quality),
                reason=reason,
                promised=promised,
            )
            for row, plan, quality, reason in zip(
                rows, decided.plans, predicted, decided.reasons or nothing, strict=True
            )
        ]
        return choices, probed, decided.rankings or nothing

    def _lam_of(self, wish: Wish, chooser: Policy) -> tuple[float, CalibratedPoint | None]:
        """Return λ and, where a wish led to it, what is calibrated there."""
        if wish.max_latency_ms is None and wish.max_quality_loss is None:
            return check_lam_number(DEFAULT_LAM if wish.lam is None else wish.lam), None
        calibration = self.record.calibration.get(chooser.name)
        if calibration is None:
            known = ", ".join(self.record.calibration) or "none"
            raise RouterError(
                f"the policy '{chooser.name}' isn't calibrated (calibrated: {known}), so no "
                f"latency or quality can be asked of it; run l2r calibrate {self.folder} LABELS "
                f"--policy {chooser.name}, or give lam"
            )
        if wish.max_latency_ms is not None:
            point = lam_for_latency(calibration, wish.max_latency_ms)
        else:
            point = lam_for_quality(calibration, wish.max_quality_loss or 0.0)
        return point.lam, point

    def _had(self, dataset: str | None, allowed: Sequence[str]) -> tuple[str, tuple[str, ...]]:
        """Return the dataset, and those of ``allowed`` that it has: one at least."""
        dataset, there = self._opened().candidates(dataset, allowed)
        if not there:
            has = self.record.datasets.get(dataset, self.arms)
            raise RouterError(
                f"the dataset '{dataset}' has none of the arms that may answer, "
                f"{', '.join(allowed)}; allow one that it has: {', '.join(has) or 'none'}"
            )
        return dataset, there

    def _at_hand(
        self, dataset: str | None, wish: Wish, arms: Sequence[str] | None, policy: str | None
    ) -> tuple[str | None, tuple[str, ...]]:
        """As :meth:`_had` where an index is at hand and its dataset matters, else as allowed."""
        allowed = self._allowed(arms, wish)
        if self._open_arms is None:
            return dataset, allowed
        if dataset is None:
            chooser = self._policy(policy)
            used = chooser.nearest_lam(self._lam_of(wish, chooser)[0])
            if not chooser.probes_at(used, allowed):
                return dataset, allowed
        return self._had(dataset, allowed)

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

    def expected(self, arm: str, lam: float, policy: str | None = None) -> Expected | None:
        """What held-out labels say of ``arm`` where a policy chooses it.

        It is that of the recorded λ nearest to ``lam`` that has the arm; None where none is
        recorded of this policy, which may have been added after training.

        Args:
            arm: its identity.
            lam: in [0, 1].
            policy: by name; default: the one that :meth:`select` asks.
        """
        return self._expected_at(float(lam), policy or self.defaults.select).get(arm)

    def _expected_of(self, plan: Plan, lam: float, chooser: Policy) -> Expected | None:
        """Of the arm that answers; of a plan that its policy ranks as a whole, where it knows."""
        means = chooser.means_of(plan)
        if means is not None:
            return Expected(means.quality, means.latency_ms, means.queries)
        merged = plan.combine == "merge"
        return None if merged else self.expected(plan.answering_arm, lam, chooser.name)

    def _nearest_expected(self, lam: float, policy: str) -> dict[str, Expected]:
        """Arm → what is recorded of it at the λ nearest to ``lam`` that has it."""
        nearest: dict[str, Expected] = {}
        recorded = self.record.expected.get(policy, {})
        far_first = sorted(
            recorded, key=lambda trained: (round(abs(trained - lam), 12), trained), reverse=True
        )
        for trained in far_first:
            nearest.update(recorded[trained])
        return nearest

    def _allowed(self, arms: Sequence[str] | None, wish: Wish) -> tuple[str, ...]:
        check_one_wish(wish, arms is not None)
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

    def _preference(self, lam: float, policy: str) -> FloatArray:
        """(A,) expected reward per arm at ``lam``; 0 throughout where any is unknown.

        Where nothing is recorded of the policy, what its router's own default policy met counts.
        """
        told = policy if policy in self.record.expected else self.record.defaults.select
        known = [self.expected(arm, lam, told) for arm in self.arms]
        quality = np.array([entry.quality if entry else None for entry in known], dtype=float)
        latency = np.array([entry.latency_ms if entry else None for entry in known], dtype=float)
        if not (np.isfinite(quality) & np.isfinite(latency)).all():
            return np.zeros(len(self.arms))
        return reward(quality, normalised_latency(latency), lam)

    def _policy(self, name: str | None) -> Policy:
        wanted = self.defaults.select if name is None else name
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


def _only(arm: str, arms: Sequence[str], n: int) -> Decided:
    """Return what there is to decide for n queries where ``arm`` alone of ``arms`` may answer."""
    row = [float(one == arm) for one in arms]
    why = "no other arm may answer"
    return Decided((Plan((arm,)),) * n, np.tile(row, (n, 1)), reasons=(why,) * n)
