"""Everything a report shows, computed once; drawing and writing read this and nothing else."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from analysis.best_static import hindsight_outcomes, trained_outcomes
from analysis.bootstrap import Resamples
from analysis.claims import Claim, claims
from analysis.comparison import Comparison, compare_policies
from analysis.decided import DOCUMENT_FOLDS, FOLDS, TEST, JoinedDecisions, join_decisions
from analysis.decision_codes import VALIDATION
from analysis.deployment import Deployment, deployments
from analysis.details import Details, ReportInputs, details
from analysis.evaluation import Evaluation, Failures, FloatArray, IntArray, evaluate_queries
from analysis.failed_arms import without_dead_arms
from analysis.frontier_areas import FrontierAreas, frontier_areas
from analysis.headroom import Headroom, headrooms
from analysis.mean_table import MeanTable
from analysis.oracle_policy import oracle_outcomes
from analysis.outcomes import Outcome, Scores, decided_alike, static_outcomes
from analysis.roles import BEST_STATIC_ON_TEST, role_of
from analysis.routing_share import RoutingShare, routing_shares
from analysis.settings import ReportSettings
from analysis.significance import Significance, significance
from analysis.summary import Summary, summarise
from analysis.uncertainty import Uncertainty, clusterings, uncertainties
from arms.errors import LabelsError, RouterError, SettingsError
from oracle.labels import Labels
from oracle.split_leaks import LeakCounts, leaks_of
from router.artifact import Defaults
from router.policy_names import BEST_STATIC, PER_LAM_LORA, ROUTER


@dataclass(frozen=True, eq=False)
class EvaluationResults:
    """The numbers of one evaluation."""

    scores: Scores
    summaries: tuple[Summary, ...]
    per_dataset: tuple[Summary, ...]
    headrooms: tuple[Headroom, ...]
    comparisons: tuple[Comparison, ...]
    claims: tuple[Claim, ...]
    shares: tuple[RoutingShare, ...]
    areas: FrontierAreas | None
    """None where all operating points are equally fast."""
    significance: Significance
    """Of the fixed test split; empty for folds."""
    leaks: LeakCounts
    """Of its queries: what the other sides of the split tell of them."""
    uncertainties: tuple[Uncertainty, ...] = ()


@dataclass(frozen=True, eq=False)
class Results:
    """The fixed test split; the folds and the worst-case count where there are any."""

    labels: Labels
    settings: ReportSettings
    router: str
    lams: tuple[float, ...]
    """Every λ decided, ascending."""
    shown_lams: tuple[float, ...]
    """The λ of the text: the settings' where decided, else all."""
    test: EvaluationResults
    folds: EvaluationResults | None
    document_folds: EvaluationResults | None
    """Of the policies decided there: those that learn about documents, the default, baselines."""
    worst_case: tuple[Summary, ...]
    """The test split again, failed queries counted; empty where nothing failed."""
    details: Details
    notes: tuple[str, ...]
    defaults: Defaults
    deployments: tuple[Deployment, ...]
    picked_on_validation: bool
    mean_total_ms: float
    """Mean over labelled queries of what normalises latency: the sum over the declared arms."""
    closed: frozenset[float] = frozenset()
    """λ where the router isn't asked, and the best single arm answers."""


def compute_results(
    labels: Labels,
    decisions: pa.Table | Iterable[pa.RecordBatch],
    settings: ReportSettings,
    samples_ms: FloatArray | None = None,
    notes: tuple[str, ...] = (),
    beside: Callable[[str], ReportInputs] | None = None,
) -> Results:
    """Join, score and compare; ``notes`` of the caller stand before those found here.

    ``beside`` tells, for the router reported on, what is known of queries and expected of arms;
    nothing where None.

    Raises:
        LabelsError: no test query without a failure.
        RouterError: the decisions don't fit the labels, or lack the router to be reported on.
        SettingsError: a declared arm that the labels don't have.
    """
    labels, samples_ms, dead = without_dead_arms(labels, samples_ms)
    decided = join_decisions(decisions, labels)
    lams = decided.lams
    router = _router_of(decided, settings)
    declared = _declared_arms(labels, settings)
    test_rows = np.flatnonzero(labels.splits == TEST)

    def scored(rows: IntArray, name: str, failures: Failures) -> Scores:
        samples = None if failures == "worst" else samples_ms
        evaluation = evaluate_queries(labels, rows, name, declared, failures, samples)
        return score_all(labels, decided, evaluation, lams)

    test = scored(test_rows, TEST, "exclude")
    if not len(test.evaluation):
        raise LabelsError(
            f"none of the {len(test_rows)} test queries can be evaluated (an arm failed on each, "
            "or the split is empty); a report needs at least one: add queries, or rerun l2r oracle"
        )
    failed = test.evaluation.failed_queries
    everything = evaluate_queries(labels, np.arange(len(labels.query_ids)), "all", declared)
    validation_rows = decided.label_rows(VALIDATION)
    validation = scored(validation_rows, VALIDATION, "exclude") if len(validation_rows) else None
    if validation is not None and not len(validation.evaluation):
        validation = None
    shown_lams = tuple(lam for lam in settings.lams if lam in lams) or lams
    known = beside(router) if beside else ReportInputs()
    evaluated, looked_into = _test_split(labels, test, router, shown_lams, known, settings)
    fold_rows = decided.label_rows(FOLDS)  # after the test split: each holds its own resamples
    folds = scored(fold_rows, FOLDS, "exclude") if len(fold_rows) else None
    document_rows = decided.label_rows(DOCUMENT_FOLDS)
    document_folds = None
    if len(document_rows):
        document_folds = scored(document_rows, DOCUMENT_FOLDS, "exclude")
    return Results(
        labels=labels,
        settings=settings,
        router=router,
        lams=lams,
        shown_lams=shown_lams,
        test=evaluated,
        folds=_folds(labels, decided, folds, router, settings),
        document_folds=_folds(labels, decided, document_folds, router, settings),
        worst_case=tuple(summarise(scored(test_rows, TEST, "worst"))[0]) if failed else (),
        details=looked_into,
        notes=(*notes, *dead, *decided.notes, *test.notes),
        defaults=known.defaults or Defaults(router),
        deployments=deployments(
            MeanTable(
                test,
                Resamples(len(test.evaluation), settings.n_resamples, settings.seed),
                settings.confidence,
            ),
            validation or test,
            known.served,
            lams,
        ),
        picked_on_validation=validation is not None,
        mean_total_ms=float(everything.total_latency_ms.mean()),
        closed=known.closed,
    )


def _test_split(
    labels: Labels,
    scores: Scores,
    router: str,
    shown_lams: Sequence[float],
    known: ReportInputs,
    settings: ReportSettings,
) -> tuple[EvaluationResults, Details]:
    resamples = Resamples(len(scores.evaluation), settings.n_resamples, settings.seed)
    confidence = settings.confidence
    tested = significance(scores, router)
    leaks = leaks_of(labels).counts(labels.splits == TEST)
    return (
        _evaluate(labels, scores, router, resamples, settings, tested, leaks),
        details(labels, scores, router, shown_lams, known, resamples, confidence),
    )


def _folds(
    labels: Labels,
    decided: JoinedDecisions,
    folds: Scores | None,
    router: str,
    settings: ReportSettings,
) -> EvaluationResults | None:
    if folds is None or not len(folds.evaluation):
        return None
    sides = decided.sides(folds.evaluation.name, len(labels.query_ids))
    leaks = leaks_of(labels, sides.tolist()).counts(sides >= 0)
    resamples = Resamples(len(folds.evaluation), settings.n_resamples, settings.seed)
    untested = Significance((), {})  # a fold's model differs from the next one's
    return _evaluate(labels, folds, router, resamples, settings, untested, leaks)


def _router_of(decided: JoinedDecisions, settings: ReportSettings) -> str:
    policies = sorted({group.policy for group in decided.groups if group.evaluation == TEST})
    routed = [policy for policy in policies if role_of(policy) == "routed"]
    preferred = (ROUTER, PER_LAM_LORA, *routed) if settings.router is None else (settings.router,)
    found = [policy for policy in preferred if policy in policies]
    if not found or not decided.lams:
        raise RouterError(
            f"the decisions hold nothing by '{settings.router or 'a router'}' on test queries; "
            f"they hold: {', '.join(policies) or 'no policy'}. Name one of these as the report's "
            "router, or rerun l2r train"
        )
    return found[0]


def _declared_arms(labels: Labels, settings: ReportSettings) -> Sequence[str]:
    declared = settings.reward_arms if settings.reward_arms is not None else labels.router_arms
    unknown = [arm for arm in declared if arm not in labels.pipelines]
    if unknown or not declared:
        raise SettingsError(
            f"report.reward_arms must name arms of the labels ({', '.join(labels.pipelines)}), "
            f"got {', '.join(unknown) or 'none'}"
        )
    return declared


def score_all(
    labels: Labels, decided: JoinedDecisions, evaluation: Evaluation, lams: tuple[float, ...]
) -> Scores:
    """Score all policies, static arms and oracles on the queries of ``evaluation``."""
    outcomes = decided.outcomes(evaluation, lams)
    notes: tuple[str, ...] = ()
    if not any(outcome.policy == BEST_STATIC for outcome in outcomes):
        outcomes += trained_outcomes(labels, evaluation, lams)
        notes = (
            "The decisions hold no best static arm; it was picked here, by mean reward on the "
            "train and validation queries of the labels.",
        )
    outcomes += static_outcomes(evaluation, lams)
    outcomes += oracle_outcomes(evaluation, lams)
    outcomes += _distinct_from(hindsight_outcomes(evaluation, lams), outcomes)
    return Scores(
        evaluation, lams, {(outcome.policy, outcome.lam): outcome for outcome in outcomes}, notes
    )


def _distinct_from(hindsight: list[Outcome], others: list[Outcome]) -> list[Outcome]:
    """The best static arm in hindsight, at the λ where it isn't the one picked beforehand."""
    before = {other.lam: other for other in others if other.policy == BEST_STATIC}
    return [
        outcome
        for outcome in hindsight
        if outcome.policy == BEST_STATIC_ON_TEST
        and (outcome.lam not in before or not decided_alike(before[outcome.lam], outcome))
    ]


def _evaluate(
    labels: Labels,
    scores: Scores,
    router: str,
    resamples: Resamples,
    settings: ReportSettings,
    tested: Significance,
    leaks: LeakCounts,
) -> EvaluationResults:
    means = MeanTable(scores, resamples, settings.confidence)
    clusters = clusterings(labels, scores.evaluation)
    summaries, per_dataset = summarise(scores)
    return EvaluationResults(
        scores=scores,
        summaries=tuple(summaries),
        per_dataset=tuple(per_dataset),
        headrooms=tuple(headrooms(means)),
        comparisons=tuple(compare_policies(means, router)),
        claims=tuple(claims(means)),
        shares=tuple(routing_shares(scores)),
        areas=frontier_areas(means, router),
        significance=tested,
        uncertainties=tuple(uncertainties(means, clusters, settings.n_resamples, settings.seed)),
        leaks=leaks,
    )
