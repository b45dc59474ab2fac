"""In domain beside out of domain: the same queries, decided by policies that knew their dataset's
other queries, and by policies that knew only other datasets."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from analysis.bootstrap import Estimate, FloatArray, Resamples, estimate_means
from analysis.decided import FOLDS, JoinedDecisions, join_decisions
from analysis.decision_codes import read_decision_batches
from analysis.evaluation import Evaluation, evaluate_queries
from analysis.oracle_policy import oracle_outcomes
from analysis.outcomes import LATENCY, Outcome
from analysis.roles import in_report_order, role_of
from analysis.settings import ReportSettings
from arms.errors import RouterError
from arms.read_errors import damage
from oracle.groups import STRENGTHS
from oracle.labels import read_labels
from router.policy_names import BEST_STATIC, RANDOM_SAME_MIX, ROUTER, STRONGEST_SIMPLE

ALL = "all datasets"
GUARDED = "router_guarded"


@dataclass(frozen=True, slots=True)
class HeldOutScore:
    """One policy at one λ on one dataset, or on all together; estimates over the same queries."""

    scope: str
    policy: str
    lam: float
    n: int
    in_domain: tuple[Estimate, ...]
    """Mean reward in folds of each of :attr:`HoldOut.splits`."""
    differences: tuple[Estimate, ...]
    """Out of domain minus each of them."""
    out_of_domain: Estimate
    over_best_static: Estimate
    """Out of domain: reward minus that of the best static arm of the other datasets."""
    over_simple: Estimate
    """Out of domain: reward minus that of the strongest simple baseline."""
    quality: Estimate
    latency_ms: Estimate
    """Both out of domain."""


@dataclass(frozen=True, slots=True)
class HoldOut:
    """Everything that the tables show."""

    datasets: tuple[str, ...]
    splits: tuple[str, ...]
    """What folds in domain keep together: ``query``, ``near_duplicate``, ``document``."""
    n: int
    lams: tuple[float, ...]
    confidence: float
    measure: str
    scores: tuple[HeldOutScore, ...]
    """By λ, policy, scope; all datasets first."""
    guard_gains: tuple[tuple[float, Estimate], ...]
    """λ and, out of domain, the reward of the guarded router minus the unguarded one's."""
    domains: Mapping[str, Any]
    """What ``domains.json`` says of the distance."""
    reuses: bool = False
    """Whether any policy shares its query vector with an arm, which is then counted once."""


def read_holdout(labels_folder: Path, folder: Path, settings: ReportSettings) -> HoldOut:
    """Score what ``l2r holdout`` decided.

    Raises:
        LabelsError, RouterError: something is missing, damaged, or doesn't fit together.
    """
    labels = read_labels(labels_folder)
    domains = _read_domains(folder / "domains.json")
    splits = tuple(one for one in STRENGTHS if one in domains["splits"])
    outside, *inside = (
        join_decisions(read_decision_batches(folder / f"{name}.parquet"), labels)
        for name in ("out_of_domain", *(f"in_domain_{split}" for split in splits))
    )
    rows = outside.label_rows(FOLDS)
    for one in inside:
        rows = np.intersect1d(rows, one.label_rows(FOLDS))
    evaluation = evaluate_queries(labels, rows, FOLDS, labels.router_arms)
    if not len(evaluation):
        raise RouterError(f"{folder} decides no query both in and out of domain; rerun l2r holdout")
    lams = tuple(sorted(set(outside.lams).intersection(*(one.lams for one in inside))))
    theirs, *ours = (_by_policy(one, evaluation, lams) for one in (outside, *inside))
    oracle = {(one.policy, one.lam): one for one in oracle_outcomes(evaluation, lams)}
    resamples = Resamples(len(evaluation), settings.n_resamples, settings.seed)
    measured = _Measured(evaluation, resamples, settings.confidence)

    def baselines(lam: float) -> tuple[Outcome | None, Outcome | None]:
        return theirs.get((BEST_STATIC, lam)), theirs.get((STRONGEST_SIMPLE, lam))

    scores = [
        score
        for lam in lams
        for policy in in_report_order({name for name, at in theirs if at == lam}, labels.pipelines)
        if all((policy, lam) in one for one in ours) and _is_told(policy)
        for score in measured.scores(
            policy, lam, [one[policy, lam] for one in ours], theirs[policy, lam], baselines(lam)
        )
    ]
    scores += [
        score
        for (policy, lam), one in oracle.items()
        for score in measured.scores(policy, lam, [one] * len(splits), one, baselines(lam))
    ]
    gains = [
        (lam, measured.mean(theirs[GUARDED, lam].reward - theirs[ROUTER, lam].reward))
        for lam in lams
        if (GUARDED, lam) in theirs and (ROUTER, lam) in theirs
    ]
    return HoldOut(
        datasets=evaluation.dataset_names,
        splits=splits,
        n=len(evaluation),
        lams=lams,
        confidence=settings.confidence,
        measure=evaluation.primary_measure,
        scores=tuple(sorted(scores, key=lambda one: one.lam)),
        guard_gains=tuple(gains),
        domains=domains,
        reuses=any(
            one.reused_encode_ms.any()
            for by_policy in (theirs, *ours)
            for one in by_policy.values()
        ),
    )


def _is_told(policy: str) -> bool:
    """Arms are the same in and out of domain, and a dataset's best arm has no outside."""
    return role_of(policy) == "routed" or policy in (
        BEST_STATIC,
        STRONGEST_SIMPLE,
        RANDOM_SAME_MIX,
    )


def _by_policy(
    decided: JoinedDecisions, evaluation: Evaluation, lams: Sequence[float]
) -> dict[tuple[str, float], Outcome]:
    return {(one.policy, one.lam): one for one in decided.outcomes(evaluation, lams)}


@dataclass(frozen=True)
class _Measured:
    """Estimates over all queries, and over each dataset's own."""

    evaluation: Evaluation
    resamples: Resamples
    confidence: float

    def mean(self, values: FloatArray) -> Estimate:
        return estimate_means(values[:, None], self.resamples, self.confidence)[0]

    def scores(
        self,
        policy: str,
        lam: float,
        inside: Sequence[Outcome],
        outside: Outcome,
        baselines: tuple[Outcome | None, Outcome | None],
    ) -> list[HeldOutScore]:
        nothing = np.full(len(self.evaluation), np.nan)
        columns = np.column_stack(
            [
                *(one.reward for one in inside),
                *(outside.reward - one.reward for one in inside),
                outside.reward,
                *(nothing if one is None else outside.reward - one.reward for one in baselines),
                outside.values(self.evaluation.primary_measure),
                outside.values(LATENCY),
            ]
        )
        members = [(ALL, np.arange(len(self.evaluation)))]
        for code, name in enumerate(self.evaluation.dataset_names):
            members.append((name, np.flatnonzero(self.evaluation.dataset_codes == code)))
        found, n = [], len(inside)
        for scope, rows in members:
            estimates = estimate_means(columns[rows], self.resamples, self.confidence, rows)
            own, differences = estimates[:n], estimates[n : 2 * n]
            found.append(
                HeldOutScore(
                    scope,
                    policy,
                    lam,
                    len(rows),
                    tuple(own),
                    tuple(differences),
                    *estimates[2 * n :],
                )
            )
        return found


def _read_domains(path: Path) -> dict[str, Any]:
    try:
        content: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise RouterError(f"{damage(path, error)}; rerun l2r holdout") from error
    return content
