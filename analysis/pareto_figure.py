"""The Pareto figure: quality over latency, every policy, the frontier drawn."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from analysis.columns import counted
from analysis.figure_style import INK, PALETTE, QUIET, new_figure
from analysis.label_layout import PointLabel, place_labels
from analysis.operating_points import ParetoPoint, pareto_points
from analysis.results import Results
from analysis.roles import ORACLE_PIPELINES, ORACLE_ROUTER_ARMS, role_of, title_of
from router.policy_names import BEST_STATIC, BEST_STATIC_PER_DATASET, RANDOM_SAME_MIX

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


def point_tips(results: Results) -> tuple[str, ...]:
    """What to say of each point, in the order of :func:`pareto_points`."""
    measure = results.labels.primary_measure
    return tuple(
        f"{title_of(one.policy)}"
        + ("" if role_of(one.policy) == "static" else f", λ = {one.lam:g}")
        + f"\n{measure} {one.quality:.3f}\n{one.latency_ms:.3g} ms"
        + ("\non the frontier" if one.on_frontier else "")
        + ("\nsome datasets lack it" if one.incomplete else "")
        for one in pareto_points(results.test)
    )


def draw_pareto(results: Results) -> Figure:
    """Draw all policies on the test split; latency on a logarithmic axis."""
    points = pareto_points(results.test)
    figure = new_figure(7.6, 5.0)
    axes = figure.add_subplot()
    if all(point.latency_ms > 0 for point in points):
        axes.set_xscale("log")
    _draw_frontier(axes, points)
    labels: list[PointLabel] = []
    routers = [policy for policy in results.test.scores.policies if role_of(policy) == "routed"]
    for policy in results.test.scores.policies:
        own = [point for point in points if point.policy == policy]
        if own:
            labels += _draw_policy(axes, policy, own, results.router, routers)
    for i, point in enumerate(points):  # nothing to see: where the page shows a point's numbers
        axes.plot(
            [point.latency_ms],
            [point.quality],
            marker="o",
            ms=11,
            alpha=0.0,
            ls="",
            color=INK,
            label="_point",
            gid=f"point-{i}",
            zorder=9,
        )
    _dress(figure, axes, results)
    place_labels(axes, labels, [(point.latency_ms, point.quality) for point in points])
    return figure


def _draw_frontier(axes: Axes, points: list[ParetoPoint]) -> None:
    best = sorted({(point.latency_ms, point.quality) for point in points if point.on_frontier})
    if best:
        slowest = max(point.latency_ms for point in points)
        x = [latency for latency, _ in best] + [slowest]
        y = [quality for _, quality in best] + [best[-1][1]]
        axes.step(
            x,
            y,
            where="post",
            color="#b9c0c8",
            linewidth=5,
            alpha=0.6,
            zorder=1,
            label="frontier without oracles",
        )


def _draw_policy(
    axes: Axes, policy: str, own: list[ParetoPoint], router: str, routers: list[str]
) -> list[PointLabel]:
    x = [point.latency_ms for point in own]
    y = [point.quality for point in own]
    axes.plot(x, y, label=_legend_title(policy, own), **_look(policy, router, routers, own))
    if role_of(policy) == "static":
        return [PointLabel(x[0], y[0], title_of(policy), INK)]
    if policy == router:
        return _lam_labels(axes, own, _router_colour(policy, router, routers))
    return []


def _legend_title(policy: str, own: list[ParetoPoint]) -> str:
    if role_of(policy) == "static":
        return "_arm"  # labelled in place
    title = "best static arm, by λ" if policy == BEST_STATIC else title_of(policy)
    return f"{title} (λ = {own[0].lam:g})" if len(own) == 1 else title


def _router_colour(policy: str, router: str, routers: list[str]) -> str:
    if policy == router:
        return PALETTE[0]
    others = [name for name in routers if name != router]
    colours = (PALETTE[1], PALETTE[5], PALETTE[4])
    return colours[others.index(policy) % len(colours)]


def _router_marker(policy: str, router: str, routers: list[str]) -> str:
    """Each colour's next marker, so that no two routers look alike before there are 21."""
    place = [name for name in routers if name != router].index(policy)
    return ("^", "v", "P", "X", "<", ">", "p")[place // 3 % 7]


def _look(policy: str, router: str, routers: list[str], own: list[ParetoPoint]) -> dict[str, Any]:
    role = role_of(policy)
    if role == "static":
        face = "white" if own[0].incomplete else INK
        return {
            "marker": "s",
            "color": INK,
            "markerfacecolor": face,
            "ls": "",
            "ms": 6,
            "zorder": 4,
        }
    if role == "routed":
        colour = _router_colour(policy, router, routers)
        main = policy == router
        return {
            "marker": "o" if main else _router_marker(policy, router, routers),
            "color": colour,
            "lw": 2.2 if main else 1.2,
            "ms": 6 if main else 5,
            "zorder": 5 if main else 3,
        }
    looks: dict[str, dict[str, Any]] = {
        BEST_STATIC: {
            "marker": "s",
            "color": QUIET,
            "mfc": "none",
            "ls": "",
            "ms": 11,
            "zorder": 4,
        },
        BEST_STATIC_PER_DATASET: {"marker": "D", "color": PALETTE[2], "lw": 1.0, "ms": 4.5},
        RANDOM_SAME_MIX: {"marker": "x", "color": PALETTE[3], "lw": 0.8, "ms": 5, "ls": ":"},
        ORACLE_ROUTER_ARMS: {"marker": "*", "color": QUIET, "lw": 1.0, "ms": 7, "ls": "--"},
        ORACLE_PIPELINES: {
            "marker": "*",
            "color": QUIET,
            "mfc": "white",
            "lw": 0.8,
            "ms": 7,
            "ls": ":",
        },
    }
    return looks.get(policy, {"marker": ".", "color": QUIET, "ls": ""})


def _lam_labels(axes: Axes, own: list[ParetoPoint], colour: str) -> list[PointLabel]:
    """One label per place: λ whose points fall together share one."""
    groups: list[list[ParetoPoint]] = []
    for point in own:
        if groups and _close(groups[-1][0], point):
            groups[-1].append(point)
        else:
            groups.append([point])
    return [
        PointLabel(
            group[0].latency_ms,
            group[0].quality,
            "λ = " + ", ".join(f"{point.lam:g}" for point in group),
            colour,
            bold=True,
        )
        for group in groups
    ]


def _close(a: ParetoPoint, b: ParetoPoint) -> bool:
    apart = abs(a.latency_ms - b.latency_ms) / max(a.latency_ms, b.latency_ms, 1e-9)
    return apart < 0.015 and abs(a.quality - b.quality) < 0.002


def _dress(figure: Figure, axes: Axes, results: Results) -> None:
    evaluation = results.test.scores.evaluation
    axes.set_xlabel("mean latency per query, router included [ms]")
    axes.set_ylabel(f"mean {evaluation.primary_measure}")
    axes.margins(x=0.12, y=0.10)
    axes.grid(alpha=0.25, linewidth=0.6)
    if axes.get_xscale() == "log":
        from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

        axes.xaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
        axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
        axes.xaxis.set_minor_formatter(NullFormatter())
    n_datasets = len(evaluation.dataset_names)
    axes.set_title(
        f"{counted(len(evaluation), 'test query', 'test queries')} of "
        f"{counted(n_datasets, 'dataset')}; up and left is better"
    )
    figure.legend(loc="outside lower center", ncols=3, fontsize=8)
