"""Tables of operating points, of the areas under frontiers, and of significance."""

from __future__ import annotations

from analysis.columns import LAM, POLICY
from analysis.operating_points import pareto_points
from analysis.results import Results
from analysis.roles import role_of, title_of
from analysis.table import Column, Row, Table


def points_table(results: Results) -> Table:
    """Every point of the Pareto figure."""
    measure = results.labels.primary_measure
    columns = (
        POLICY,
        LAM,
        Column("latency_ms", "mean ms", "ms"),
        Column("quality", measure, "quality"),
        Column("on_frontier", "on the frontier"),
        Column("complete", "on all queries"),
    )
    rows = tuple(
        (
            title_of(one.policy),
            None if role_of(one.policy) == "static" else one.lam,
            one.latency_ms,
            one.quality,
            "yes" if one.on_frontier else "no",
            "no" if one.incomplete else "yes",
        )
        for one in pareto_points(results.test)
    )
    return Table(
        "pareto_points", "The points of the figure", columns, rows, rows, folded=True, latex=False
    )


def areas_table(results: Results) -> Table | None:
    """Hypervolume and area under the frontier; None where they aren't defined."""
    areas = results.test.areas
    if areas is None:
        return None
    columns = (
        POLICY,
        Column("points", "points", "count"),
        Column("hypervolume", "hypervolume", "quality"),
        Column("area", "area under the frontier", "quality"),
        Column("hypervolume_difference", "router − policy: hypervolume", "change"),
        Column("area_difference", "router − policy: area", "change"),
        Column("n", "n", "count", shown=False),
    )
    rows = tuple(
        (
            title_of(one.policy),
            one.points,
            one.hypervolume,
            one.area,
            one.hypervolume_difference,
            one.area_difference,
            one.n,
        )
        for one in areas.areas
    )
    left_out = ", ".join(title_of(policy) for policy in areas.left_out)
    return Table(
        "frontier_areas",
        "Hypervolume and area under the frontier",
        columns,
        rows,
        rows,
        note=f"The best {results.labels.primary_measure} to be had within a latency budget, "
        f"averaged over budgets: spread evenly from 0 to {areas.reference_ms:.4g} ms, a tenth "
        "beyond the slowest operating point (hypervolume, divided by its range), and spread evenly "
        f"in the logarithm from {areas.fastest_ms:.3g} ms, the fastest, to the same end (area). 0 "
        "counts where a policy answers nothing within the budget, so one that starts late covers "
        "less. Brackets: paired bootstrap intervals of "
        f"{results.settings.confidence:.0%}; the range stays fixed."
        + (f" Left out, as they lack results: {left_out}." if left_out else ""),
        latex=True,
    )


def significance_table(results: Results) -> Table:
    """The router against every arm and baseline, tested."""
    columns = (
        LAM,
        Column("policy", "router against"),
        Column("metric", "metric"),
        Column("n", "n", "count"),
        Column("mean_difference", "router − policy", "change"),
        Column("normality_p", "normality p", "p"),
        Column("test", "test"),
        Column("effect", "effect size", "change"),
        Column("p_value", "p", "p"),
        Column("holm_p", "p, Holm", "p"),
    )
    pairs: list[tuple[float, Row]] = [
        (
            one.lam,
            (
                one.lam,
                title_of(one.policy),
                "mean ms" if one.metric == "latency_ms" else one.metric,
                one.result.n,
                one.mean_difference,
                one.result.normality_p,
                one.result.test,
                one.result.effect,
                one.result.p_value,
                one.holm_p,
            ),
        )
        for one in results.test.significance.tests
    ]
    return Table(
        "significance",
        f"{results.router} against arms and baselines",
        columns,
        tuple(row for _, row in pairs),
        tuple(row for lam, row in pairs if lam in results.shown_lams),
        note="Normality: D'Agostino–Pearson on the paired differences. Where it isn't rejected at "
        "0.05, a paired t-test with Cohen's d; elsewhere a two-sided Wilcoxon signed-rank test "
        "with the rank-biserial correlation, which looks at the order of differences rather than "
        "at their mean. Holm's correction runs over all λ and policies of one metric.",
        latex=True,
    )
