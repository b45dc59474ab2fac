"""The report's tables of policies: results in, typed tables out."""

from __future__ import annotations

from analysis.claims import Claim, OperatingPoint
from analysis.comparison import Comparison
from analysis.headroom import SMALLEST_HEADROOM
from analysis.outcomes import LATENCY, OVERHEAD, REWARD
from analysis.results import EvaluationResults, Results
from analysis.roles import ORACLE_ROUTER_ARMS, role_of, title_of
from analysis.routing_share import RoutingShare
from analysis.summary import MACRO, MICRO, P95, P95_SAMPLES, REGRET_A, REGRET_P, Summary
from analysis.table import Cell, Column, Kind, Row, Table

LAM = Column("lam", "λ", "lam")
POLICY = Column("policy", "policy")


def measure_title(measure: str) -> str:
    """Return how reports write a measure: RR is called MRR once averaged."""
    return "M" + measure if measure.startswith("RR") else measure


def claim_table(results: Results) -> Table:
    """Each static arm: is there a λ at which the router is more accurate and faster?"""
    columns = (
        Column("router", "router", shown=False),
        Column("arm", "static arm"),
        Column("answer", "router both more accurate and faster?"),
        LAM,
        Column("router_quality", "router", "quality"),
        Column("arm_quality", "arm", "quality"),
        Column("quality_gain", f"{results.labels.primary_measure} gained", "change"),
        Column("router_latency_ms", "router ms", "ms"),
        Column("arm_latency_ms", "arm ms", "ms"),
        Column("latency_gain_ms", "ms saved", "change_ms"),
        Column("speed_up", "faster", "times"),
        Column("lams_dominating", "λ that hold"),
        Column("lams_certain", "λ, both intervals clear of 0", shown=False),
        Column("n", "n", "count"),
    )
    rows = [(claim, _claim_row(claim)) for claim in results.test.claims]
    return Table(
        "claims",
        f"For each static arm: is {results.router} at some λ more accurate and faster?",
        columns,
        tuple(row for _, row in rows),
        tuple(row for claim, row in rows if claim.router == results.router),
        note="λ is the one whose gains are surest, then largest, picked on these test queries. "
        "Where there is none, the row shows the most accurate λ that is faster, or else the "
        f"fastest. Brackets: paired bootstrap intervals of {results.settings.confidence:.0%}.",
    )


def _claim_row(claim: Claim) -> Row:
    point = claim.point or claim.nearest
    if claim.point is None:
        answer = "none"
    else:
        answer = "yes" if claim.point.certain else "in the mean, within noise"
    return (
        claim.router,
        claim.arm,
        answer,
        *(_point_cells(point) if point else (None,) * 8),
        _lams(claim.lams_dominating),
        _lams(claim.lams_certain),
        point.quality_gain.n if point else 0,
    )


def _point_cells(point: OperatingPoint) -> tuple[Cell, ...]:
    return (
        point.lam,
        point.router_quality,
        point.arm_quality,
        point.quality_gain,
        point.router_latency_ms,
        point.arm_latency_ms,
        point.latency_gain_ms,
        point.speed_up,
    )


def _lams(lams: tuple[float, ...]) -> str:
    return ", ".join(f"{lam:g}" for lam in lams) or "none"


def comparison_table(
    results: Results, evaluated: EvaluationResults, name: str, title: str
) -> Table:
    """The router beside every other policy, with intervals of the difference."""
    measure = results.labels.primary_measure
    columns = (
        LAM,
        POLICY,
        Column("n", "n", "count"),
        Column("reward", "reward", "quality"),
        Column("quality", measure, "quality"),
        Column("latency_ms", "ms", "ms"),
        Column("router_reward", "router's reward", "quality", shown=False),
        Column("router_quality", "router's quality", "quality", shown=False),
        Column("router_latency_ms", "router's ms", "ms", shown=False),
        Column("reward_difference", "router − policy: reward", "change"),
        Column("quality_difference", f"router − policy: {measure}", "change"),
        Column("latency_difference_ms", "router − policy: ms", "change_ms"),
    )
    pairs = [
        (
            one,
            (
                one.lam,
                title_of(one.policy),
                one.n,
                one.reward,
                one.quality,
                one.latency_ms,
                one.router_reward,
                one.router_quality,
                one.router_latency_ms,
                *_differences(one),
            ),
        )
        for one in evaluated.comparisons
    ]
    shown = [
        row
        for one, row in pairs
        if one.lam in results.shown_lams and role_of(one.policy) != "static"
    ]
    return Table(
        name,
        title,
        columns,
        tuple(row for _, row in pairs),
        tuple(shown),
        note="Each row is over the n queries that both policies have. Brackets: paired bootstrap "
        f"intervals of {results.settings.confidence:.0%}.",
    )


def _differences(one: Comparison) -> tuple[Cell, ...]:
    if one.policy == one.router:
        return (None, None, None)
    return (one.reward_difference, one.quality_difference, one.latency_difference_ms)


def summary_table(
    results: Results,
    summaries: tuple[Summary, ...],
    name: str,
    title: str,
    shown_scopes: tuple[str, ...] = (MICRO, MACRO),
    note: str = "",
) -> Table:
    """Quality, latency, reward and regret per policy and λ."""
    measures = results.test.scores.evaluation.measures
    metrics: list[tuple[str, str, Kind]] = [
        *((measure, measure_title(measure), "quality") for measure in measures),
        (LATENCY, "mean ms", "ms"),
        (P95, "P95 ms", "ms"),
        (P95_SAMPLES, "P95 ms, single timings", "ms"),
        (OVERHEAD, "overhead ms", "ms"),
        (REWARD, "reward", "quality"),
        (REGRET_A, "regret", "change"),
        (REGRET_P, "regret against P", "change"),
    ]
    columns = (
        LAM,
        POLICY,
        Column("mean_over", "mean over"),
        Column("n", "n", "count"),
        Column("n_queries", "queries", "count", shown=False),
        *(
            Column(key, heading, kind, shown=key not in (OVERHEAD, REGRET_P))
            for key, heading, kind in metrics
        ),
    )
    ordered = sorted(summaries, key=lambda one: one.lam)
    rows = [(one, _summary_row(one, [key for key, *_ in metrics])) for one in ordered]
    return Table(
        name,
        title,
        columns,
        tuple(row for _, row in rows),
        tuple(
            row for one, row in rows if one.lam in results.shown_lams and one.scope in shown_scopes
        ),
        note=note,
    )


def _summary_row(summary: Summary, metrics: list[str]) -> Row:
    scope = {"micro": "queries", "macro": "datasets"}.get(summary.scope, summary.scope)
    means = (summary.means.get(metric) for metric in metrics)
    return (summary.lam, title_of(summary.policy), scope, summary.n, summary.n_queries, *means)


def headroom_table(results: Results, evaluated: EvaluationResults, name: str, title: str) -> Table:
    """Headroom closed by routers and baselines, per λ and measure, under both oracles."""
    columns = (
        LAM,
        POLICY,
        Column("measure", "measure"),
        Column("oracle", "oracle"),
        Column("policy_mean", "policy", "quality"),
        Column("best_static_mean", "best static", "quality"),
        Column("oracle_mean", "oracle", "quality"),
        Column("headroom_closed", "headroom closed", "share"),
        Column("defined", "defined", shown=False),
        Column("n", "n", "count"),
    )
    pairs = [
        (
            one,
            (
                one.lam,
                title_of(one.policy),
                one.metric if one.metric == REWARD else measure_title(one.metric),
                title_of(one.oracle),
                one.policy_mean,
                one.best_static_mean,
                one.oracle_mean,
                one.closed,
                "no" if one.closed.value is None else "yes",
                one.closed.n,
            ),
        )
        for one in sorted(evaluated.headrooms, key=lambda one: one.lam)
    ]
    shown = [
        row
        for one, row in pairs
        if one.lam in results.shown_lams
        and (
            one.metric == REWARD
            or (one.metric == results.labels.primary_measure and one.oracle == ORACLE_ROUTER_ARMS)
        )
        and not (one.lam == 0.0 and one.metric != REWARD)  # the reward is the measure there
    ]
    return Table(
        name,
        title,
        columns,
        tuple(row for _, row in pairs),
        tuple(shown),
        note="(policy − best static) / (oracle − best static) on the queries that all three have; "
        "the best static arm was picked on train and validation queries. Undefined where the "
        f"oracle is less than {SMALLEST_HEADROOM:g} ahead. Oracles maximise the reward, not each "
        "measure. Brackets: paired bootstrap intervals, left out where the ratio is undefined in "
        "over 5 % of resamples.",
    )


def share_table(results: Results) -> Table:
    """Share of queries that each policy sends to each arm."""
    arms = results.labels.pipelines
    columns = (
        LAM,
        POLICY,
        Column("scope", "queries of"),
        Column("n", "n", "count"),
        *(Column(f"share_{arm}", arm, "share") for arm in arms),
    )
    pairs: list[tuple[RoutingShare, Row]] = [
        (one, (one.lam, title_of(one.policy), _scope_title(one.scope), one.n, *one.shares))
        for one in results.test.shares
    ]
    shown = [
        row
        for one, row in pairs
        if one.scope == MICRO and one.policy in (results.router, ORACLE_ROUTER_ARMS)
    ]
    return Table(
        "routing_share",
        "Share of test queries answered by each arm",
        columns,
        tuple(row for _, row in pairs),
        tuple(shown),
    )


def _scope_title(scope: str) -> str:
    return "all datasets" if scope == MICRO else scope


def splits_table(results: Results, folds: EvaluationResults) -> Table:
    """The fixed test split beside the pooled folds, means over queries."""
    measure = results.labels.primary_measure
    metrics: tuple[tuple[str, str, Kind], ...] = (
        ("n", "n", "count"),
        (measure, measure, "quality"),
        (LATENCY, "mean ms", "ms"),
        (REWARD, "reward", "quality"),
        (REGRET_A, "regret", "change"),
    )
    columns = [LAM, POLICY]
    for key, title in (("test", "test split"), ("folds", "folds")):
        columns += [
            Column(f"{key}_{m}", f"{title}: {heading}", kind) for m, heading, kind in metrics
        ]
    pooled = {(one.policy, one.lam): one for one in folds.summaries if one.scope == MICRO}
    names = [key for key, *_ in metrics[1:]]
    rows: list[tuple[float, Row]] = []
    for one in sorted(results.test.summaries, key=lambda one: one.lam):
        beside = pooled.get((one.policy, one.lam))
        if one.scope == MICRO and beside is not None:
            sides: list[Cell] = []
            for side in (one, beside):
                sides += [side.n, *(side.means.get(name) for name in names)]
            rows.append((one.lam, (one.lam, title_of(one.policy), *sides)))
    return Table(
        "splits",
        "The fixed test split beside the pooled folds",
        tuple(columns),
        tuple(row for _, row in rows),
        tuple(row for lam, row in rows if lam in results.shown_lams),
    )
