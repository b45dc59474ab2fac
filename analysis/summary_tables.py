"""Tables of means: every policy at every λ, and the headroom that each closes."""

from __future__ import annotations

from collections.abc import Sequence

from analysis.columns import LAM, POLICY, measure_title
from analysis.comparison import Comparison
from analysis.headroom import SMALLEST_HEADROOM, Headroom
from analysis.merging import CEILINGS
from analysis.outcomes import LATENCY, OVERHEAD, REUSED, REWARD
from analysis.results import EvaluationResults, Results
from analysis.reuse import HEADING, reused_means
from analysis.roles import ORACLE_ROUTER_ARMS, role_of, title_of
from analysis.summary import MACRO, MICRO, P95, P95_SAMPLES, REGRET_A, REGRET_P, Summary
from analysis.table import Cell, Column, Kind, Row, Table


def arms_main_table(results: Results) -> Table:
    """Every arm on its own (RetrievalRouter, table 1): quality and latency don't depend on λ."""
    measures = results.test.scores.evaluation.measures
    metrics = _main_metrics(measures)
    first = results.lams[0]
    rows = tuple(
        (
            title_of(one.policy),
            "yes" if title_of(one.policy) in results.labels.router_arms else "no",
            one.n,
            *(one.means.get(key) for key, *_ in metrics),
        )
        for one in results.test.summaries
        if one.scope == MICRO and one.lam == first and role_of(one.policy) == "static"
    )
    columns = (
        Column("arm", "arm"),
        Column("in_router_arms", "router may choose it"),
        Column("n", "n", "count"),
        *(Column(*metric) for metric in metrics),
    )
    return Table(
        "main_arms",
        "Every arm on its own",
        columns,
        rows,
        rows,
        note="Means over test queries. n below the number of queries: a dataset lacks the arm.",
        latex=True,
    )


def means_table(
    results: Results,
    summaries: Sequence[Summary],
    name: str,
    title: str,
    evaluated: EvaluationResults | None = None,
    note: str = "",
) -> Table:
    """Every policy at every λ: quality, latency, reward, headroom, regret; the router beside it.

    The report shows means over queries of the policies that choose, the CSV means over datasets
    and single arms too.

    Args:
        results: of the report.
        summaries: the means.
        name: of the table's files.
        title: of the table.
        evaluated: what else is known of the same queries; None: nothing.
        note: stands before the general one.
    """
    headrooms = () if evaluated is None else evaluated.headrooms
    comparisons = () if evaluated is None else evaluated.comparisons
    closed = {(one.policy, one.lam): one for one in headrooms if one.metric == REWARD and one.own}
    beside = {(one.policy, one.lam): one for one in comparisons if one.policy != one.router}
    metrics: list[tuple[str, str, Kind]] = [
        *_main_metrics(results.test.scores.evaluation.measures),
        (P95_SAMPLES, "P95 ms, single timings", "ms"),
        (OVERHEAD, "of that, own overhead", "ms"),
        *_reused(summaries),
        (REWARD, "reward", "quality"),
        (REGRET_A, "regret", "change"),
        (REGRET_P, "regret against P", "change"),
    ]
    columns = (
        LAM,
        POLICY,
        Column("mean_over", "mean over", shown=False),
        Column("n", "n", "count"),
        Column("n_queries", "queries", "count", shown=False),
        *(
            Column(key, heading, kind, shown=key not in (P95_SAMPLES, REGRET_P))
            for key, heading, kind in metrics
        ),
        Column("reward_difference", "router − policy: reward", "change"),
        Column("quality_difference", "router − policy: quality", "change", shown=False),
        Column("latency_difference_ms", "router − policy: ms", "change_ms", shown=False),
        Column("headroom_closed", "headroom closed", "share"),
        Column("ceiling", "ceiling"),
    )
    always = (results.router, ORACLE_ROUTER_ARMS)
    rows: list[tuple[bool, Row]] = []
    for one in sorted(summaries, key=lambda one: one.lam):
        key, micro = (one.policy, one.lam), one.scope == MICRO
        shown = micro and role_of(one.policy) != "static"
        rows.append(
            (
                shown and (one.lam in results.shown_lams or one.policy in always),
                (
                    one.lam,
                    title_of(one.policy),
                    {MICRO: "queries", MACRO: "datasets"}.get(one.scope, one.scope),
                    one.n,
                    one.n_queries,
                    *(one.means.get(metric) for metric, *_ in metrics),
                    *_differences(beside.get(key) if micro else None),
                    *_closed(closed.get(key), micro),
                ),
            )
        )
    return Table(
        name,
        title,
        columns,
        tuple(row for _, row in rows),
        tuple(row for shown, row in rows if shown),
        note=f"{note}Means over queries; the CSV has means over datasets, each counting once, and "
        "single arms too. Headroom closed, in reward: (policy − best static) / (ceiling − best "
        f"static). {CEILINGS} Regret: reward of the oracle over A minus the policy's; a policy "
        "that may use arms outside A, or that merges, can have less than none. n below the number "
        "of queries: some dataset lacks the arm. Brackets: paired bootstrap intervals of "
        f"{results.settings.confidence:.0%}.",
        latex=name == "main",
    )


def _differences(one: Comparison | None) -> tuple[Cell, Cell, Cell]:
    if one is None:
        return (None, None, None)
    return (one.reward_difference, one.quality_difference, one.latency_difference_ms)


def _closed(headroom: Headroom | None, micro: bool) -> tuple[Cell, Cell]:
    """Headroom closed and the ceiling that it is held against."""
    if headroom is None:
        return (None, None)
    return (headroom.closed if micro else headroom.closed_macro, title_of(headroom.ceiling))


def _reused(summaries: Sequence[Summary]) -> list[tuple[str, str, Kind]]:
    """The column of reused encoding, where there is any."""
    return [(REUSED, HEADING, "ms")] if reused_means(summaries) else []


def _main_metrics(measures: tuple[str, ...]) -> list[tuple[str, str, Kind]]:
    return [
        *((measure, measure_title(measure), "quality") for measure in measures),
        (LATENCY, "mean ms", "ms"),
        (P95, "P95 ms", "ms"),
    ]


def headroom_table(results: Results, evaluated: EvaluationResults, name: str, title: str) -> Table:
    """Headroom closed by routers and baselines, per λ and measure, under every ceiling."""
    columns = (
        LAM,
        POLICY,
        Column("measure", "measure"),
        Column("ceiling", "ceiling"),
        Column("own_ceiling", "own ceiling", shown=False),
        Column("policy_mean", "policy", "quality"),
        Column("best_static_mean", "best static", "quality"),
        Column("ceiling_mean", "ceiling's", "quality"),
        Column("headroom_closed", "headroom closed", "share"),
        Column("headroom_closed_macro", "macro", "share"),
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
                title_of(one.ceiling),
                "yes" if one.own else "no",
                one.policy_mean,
                one.best_static_mean,
                one.ceiling_mean,
                one.closed,
                one.closed_macro,
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
        and (one.metric == REWARD or (one.metric == results.labels.primary_measure and one.own))
        and not (one.lam == 0.0 and one.metric != REWARD)  # the reward is the measure there
    ]
    return Table(
        name,
        title,
        columns,
        tuple(row for _, row in pairs),
        tuple(shown),
        note="(policy − best static) / (ceiling − best static) on the queries that all three have; "
        f"the best static arm was picked on train and validation queries. {CEILINGS} The first row "
        "of each policy is against its own ceiling. macro: of means over datasets, each counting "
        f"once. Undefined where the ceiling is less than {SMALLEST_HEADROOM:g} ahead. Oracles "
        "maximise the reward, not each measure. Brackets: paired bootstrap intervals, left out "
        "where the ratio is undefined in over 5 % of resamples.",
    )
