"""Tables of means: every policy at every λ, and the headroom each closes."""

from __future__ import annotations

from collections.abc import Sequence

from analysis.columns import LAM, POLICY, measure_title
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


def main_table(results: Results) -> Table:
    """Every policy that chooses, at every λ (table 2): quality, latency, headroom, regret."""
    metrics = _main_metrics(results.test.scores.evaluation.measures)
    closed = {
        (one.policy, one.lam): one
        for one in results.test.headrooms
        if one.metric == REWARD and one.own
    }
    chosen = sorted(
        (
            one
            for one in results.test.summaries
            if one.scope == MICRO and role_of(one.policy) != "static"
        ),
        key=lambda one: one.lam,
    )
    always = (results.router, ORACLE_ROUTER_ARMS)
    durations = [(OVERHEAD, "of that, own overhead"), *_reused(results.test.summaries)]
    rows: list[tuple[bool, Row]] = [
        (
            one.lam in results.shown_lams or one.policy in always,
            (
                one.lam,
                title_of(one.policy),
                one.n,
                *(one.means.get(key) for key, *_ in metrics),
                *(one.means.get(key) for key, _ in durations),
                *_closed(closed.get((one.policy, one.lam))),
                one.means.get(REGRET_A),
            ),
        )
        for one in chosen
    ]
    columns = (
        LAM,
        POLICY,
        Column("n", "n", "count"),
        *(Column(*metric) for metric in metrics),
        *(Column(key, heading, "ms") for key, heading in durations),
        Column("headroom_closed", "headroom closed", "share"),
        Column("ceiling", "ceiling"),
        Column(REGRET_A, "regret", "change"),
    )
    return Table(
        "main",
        "Every policy that chooses, by λ",
        columns,
        tuple(row for _, row in rows),
        tuple(row for shown, row in rows if shown),
        note="Means over test queries. Headroom closed, in reward: (policy − best static) / "
        f"(ceiling − best static). {CEILINGS} Regret: reward of the oracle over A minus the "
        "policy's; a policy that may use arms outside A, or that merges, can have less than none. "
        "Brackets: paired bootstrap intervals of "
        f"{results.settings.confidence:.0%}.",
        latex=True,
    )


def _closed(headroom: Headroom | None) -> tuple[Cell, Cell]:
    """Headroom closed and the ceiling that it is held against."""
    return (None, None) if headroom is None else (headroom.closed, title_of(headroom.ceiling))


def _reused(summaries: Sequence[Summary]) -> list[tuple[str, str]]:
    """The column of reused encoding, where there is any."""
    return [(REUSED, HEADING)] if reused_means(summaries) else []


def _main_metrics(measures: tuple[str, ...]) -> list[tuple[str, str, Kind]]:
    return [
        *((measure, measure_title(measure), "quality") for measure in measures),
        (LATENCY, "mean ms", "ms"),
        (P95, "P95 ms", "ms"),
    ]


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
        *((key, f"{heading} ms", "ms") for key, heading in _reused(summaries)),
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
            Column(key, heading, kind, shown=key not in (OVERHEAD, REUSED, REGRET_P))
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


def splits_table(
    results: Results, folds: EvaluationResults, name: str = "splits", side: str = "folds"
) -> Table:
    """Pooled folds beside the fixed test split; document folds beside ordinary ones.

    Means over queries. Without ordinary folds, document folds stand beside the test split.
    """
    first, against = results.test, "test split"
    if folds is not results.folds and results.folds is not None:
        first, against = results.folds, "folds"
    measure = results.labels.primary_measure
    metrics: tuple[tuple[str, str, Kind], ...] = (
        ("n", "n", "count"),
        (measure, measure, "quality"),
        (LATENCY, "mean ms", "ms"),
        (REWARD, "reward", "quality"),
        (REGRET_A, "regret", "change"),
    )
    columns = [LAM, POLICY]
    for title in (against, side):
        key = title.removesuffix(" split").replace(" ", "_")
        columns += [
            Column(f"{key}_{m}", f"{title}: {heading}", kind) for m, heading, kind in metrics
        ]
    pooled = {(one.policy, one.lam): one for one in folds.summaries if one.scope == MICRO}
    names = [key for key, *_ in metrics[1:]]
    rows: list[tuple[float, Row]] = []
    for one in sorted(first.summaries, key=lambda one: one.lam):
        beside = pooled.get((one.policy, one.lam))
        if one.scope == MICRO and beside is not None:
            sides: list[Cell] = []
            for summary in (one, beside):
                sides += [summary.n, *(summary.means.get(metric) for metric in names)]
            rows.append((one.lam, (one.lam, title_of(one.policy), *sides)))
    return Table(
        name,
        f"{'Folds' if first is results.folds else 'The fixed test split'} beside the pooled {side}",
        tuple(columns),
        tuple(row for _, row in rows),
        tuple(row for lam, row in rows if lam in results.shown_lams),
    )
