"""Where queries go: stacked bars of routing share over λ."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from analysis.figure_style import arm_styles, new_figure, text_colour
from analysis.results import Results
from analysis.roles import ORACLE_ROUTER_ARMS, title_of
from analysis.routing_share import RoutingShare
from analysis.summary import MICRO

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_SMALLEST_WRITTEN = 0.06


def draw_shares(results: Results) -> Figure:
    """Draw the router's shares beside the oracle's, one bar per λ, arms in the order of P."""
    policies = (results.router, ORACLE_ROUTER_ARMS)
    figure = new_figure(7.6, 3.8)
    panels = figure.subplots(1, len(policies), sharey=True)
    for axes, policy in zip(panels, policies, strict=True):
        own = [one for one in results.test.shares if one.policy == policy and one.scope == MICRO]
        _draw(axes, results, own, [f"{one.lam:g}" for one in own], "λ", title_of(policy))
    _dress(figure, panels)
    return figure


def draw_group_shares(results: Results, grouping: str) -> Figure:
    """Draw the router's shares by group of queries, a panel for each shown λ."""
    figure = new_figure(1.2 + 3.4 * len(results.shown_lams), 3.8)
    panels = figure.subplots(1, len(results.shown_lams), sharey=True, squeeze=False)[0]
    for axes, lam in zip(panels, results.shown_lams, strict=True):
        own = [
            one
            for one in results.details.group_shares[grouping]
            if one.policy == results.router and one.lam == lam
        ]
        groups = [one.scope for one in own]
        _draw(axes, results, own, groups, grouping, f"{title_of(results.router)}, λ = {lam:g}")
    _dress(figure, panels)
    return figure


def _dress(figure: Figure, panels: Sequence[Axes]) -> None:
    panels[0].set_ylabel("share of test queries")
    handles, titles = panels[0].get_legend_handles_labels()
    figure.legend(handles, titles, loc="outside lower center", ncols=4, fontsize=8)


def _draw(
    axes: Axes,
    results: Results,
    own: Sequence[RoutingShare],
    groups: Sequence[str],
    axis: str,
    title: str,
) -> None:
    shares = np.array([one.shares for one in own]).reshape(len(own), -1)
    places = np.arange(len(own))
    used = set(results.labels.router_arms)
    base = np.zeros(len(own))
    for column, (arm, (colour, hatch)) in enumerate(arm_styles(results.labels.pipelines).items()):
        heights = shares[:, column] if len(own) else np.zeros(0)
        if arm not in used and not heights.any():
            continue
        axes.bar(
            places,
            heights,
            0.78,
            bottom=base,
            color=colour,
            hatch=hatch,
            label=arm,
            edgecolor="white",
            linewidth=0.6,
        )
        for place, height, bottom in zip(places, heights, base, strict=True):
            if height >= _SMALLEST_WRITTEN:
                axes.text(
                    place,
                    bottom + height / 2,
                    f"{100 * height:.0f}",
                    ha="center",
                    va="center",
                    fontsize=7.5,
                    color=text_colour(colour),
                )
        base = base + heights
    axes.set_xticks(places, groups)
    axes.set_xlabel(axis)
    axes.set_ylim(0, 1)
    axes.set_yticks(np.linspace(0, 1, 6), [f"{percent} %" for percent in range(0, 101, 20)])
    axes.set_title(title)
