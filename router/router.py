"""Choose an arm for a query, and run it: what a serving machine uses."""

from __future__ import annotations

import numbers
import threading
import time
from collections.abc import Collection, Iterable, Sequence
from pathlib import Path

from arms.arm import check_query
from arms.errors import QueryError, RouterError
from arms.home import name_the_user
from arms.html_table import html_table
from arms.read_errors import why_absent
from arms.records import without as leave_out
from router.arm_pool import ArmPool
from router.artifact import Defaults, RouterRecord, policy_folder, read_router
from router.calibration import CalibratedPoint
from router.choice import (
    DEFAULT_LAM,
    Choice,
    SearchResult,
    Target,
    check_lam_number,
    check_one_target,
)
from router.execution import ProbeResults, answer
from router.policies import load_policy
from router.policy import Expected, Policy
from router.selection import Expectations, Request, Selected, select
from router.targets import lam_for_latency, lam_for_quality

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
        self._expectations = Expectations(record)
        self._open_arms = None if index is None else ArmPool(index, record)

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
        wish = Target(lam, max_latency_ms, max_quality_loss)
        dataset, allowed = self._resolve_arms(dataset, wish, arms, policy)
        return self._selected([query], wish, allowed, policy, dataset).choices[0]

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
        wish = Target(lam, max_latency_ms, max_quality_loss)
        dataset, allowed = self._resolve_arms(dataset, wish, arms, policy)
        return self._selected(list(queries), wish, allowed, policy, dataset).choices

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
        wish = Target(lam, max_latency_ms, max_quality_loss)
        dataset, allowed = self._arms_in_dataset(dataset, self._allowed(arms, wish))
        left_out = frozenset([without] if isinstance(without, str) else without)
        depth = int(k) + len(left_out)
        selected = self._selected([query], wish, allowed, policy, dataset, depth)
        choice, probed = selected.choices[0], selected.probed
        opened.open_all(dataset, choice.plan.arms)
        begin_ns = time.perf_counter_ns()
        found = answer(choice.plan, query, depth, opened, dataset, probed, selected.rankings[0])
        ranking = leave_out(found, left_out, int(k))
        elapsed_ms = (time.perf_counter_ns() - begin_ns) / 1e6
        return SearchResult(
            choice,
            ranking,
            probed.elapsed_ms + choice.overhead_ms + elapsed_ms,
            0 if probed.vectors is None else probed.vectors.taken,
        )

    def _selected(
        self,
        queries: Sequence[str],
        wish: Target,
        allowed: tuple[str, ...],
        policy: str | None,
        dataset: str | None,
        depth: int = 0,
    ) -> Selected:
        """Check the request and choose; ``depth`` is how deep arms will be run, 0: not at all."""
        begin_ns = time.perf_counter_ns()
        chooser = self._policy(policy)
        lam, promised = self._lam_of(wish, chooser)
        checked = [check_query(query) for query in queries]
        if not checked:
            return Selected([], ProbeResults(), ())
        request = Request(checked, chooser, lam, promised, allowed, dataset, depth, begin_ns)
        return select(request, self.arms, self._expectations, self._to_probe)

    def _lam_of(self, wish: Target, chooser: Policy) -> tuple[float, CalibratedPoint | None]:
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

    def _arms_in_dataset(
        self, dataset: str | None, allowed: Sequence[str]
    ) -> tuple[str, tuple[str, ...]]:
        """Return the dataset, and those of ``allowed`` that it has: one at least."""
        dataset, there = self._opened().candidates(dataset, allowed)
        if not there:
            has = self.record.datasets.get(dataset, self.arms)
            raise RouterError(
                f"the dataset '{dataset}' has none of the arms that may answer, "
                f"{', '.join(allowed)}; allow one that it has: {', '.join(has) or 'none'}"
            )
        return dataset, there

    def _resolve_arms(
        self, dataset: str | None, wish: Target, arms: Sequence[str] | None, policy: str | None
    ) -> tuple[str | None, tuple[str, ...]]:
        """Those of the dataset, where an index is at hand and it matters; else as allowed."""
        allowed = self._allowed(arms, wish)
        if self._open_arms is None:
            return dataset, allowed
        if dataset is None:
            chooser = self._policy(policy)
            used = chooser.nearest_lam(self._lam_of(wish, chooser)[0])
            if not chooser.probes_at(used, allowed):
                return dataset, allowed
        return self._arms_in_dataset(dataset, allowed)

    def _opened(self) -> ArmPool:
        if self._open_arms is None:
            raise RouterError(
                f"search needs an index, and none lies beside {self.folder}; name the run's index/ "
                "(Router.load(..., index=...), --index)"
            )
        return self._open_arms

    def _to_probe(self, chooser: Policy, dataset: str | None) -> tuple[ArmPool, str]:
        """Return the open arms and the dataset in which a policy's probes run."""
        if self._open_arms is None:
            raise RouterError(
                f"the policy '{chooser.name}' looks at what {', '.join(chooser.probes)} find "
                f"before it decides, and no index lies beside {self.folder}; name the run's index/ "
                "(Router.load(..., index=...), --index), or another policy"
            )
        return self._open_arms, self._open_arms.candidates(dataset, ())[0]

    def expected(self, arm: str, lam: float, policy: str | None = None) -> Expected | None:
        """What held-out labels say of ``arm`` where a policy chooses it.

        It is that of the recorded λ nearest to ``lam`` that has the arm; None where none is
        recorded of this policy, which may have been added after training.

        Args:
            arm: its identity.
            lam: in [0, 1].
            policy: by name; default: the one that :meth:`select` asks.
        """
        return self._expectations.of_arm(arm, lam, policy or self.defaults.select)

    def _allowed(self, arms: Sequence[str] | None, wish: Target) -> tuple[str, ...]:
        check_one_target(wish, arms is not None)
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
