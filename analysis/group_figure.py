"""Figures of groups of queries: quality and regret with intervals, predicted beside observed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from analysis.bootstrap import Estimate
from analysis.figure_style import INK, PALETTE, QUIET, new_figure
from analysis.results import Results
from analysis.roles import ORACLE_ROUTER_ARMS, role_of, title_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_MARKERS = ("o", "s", "^", "D", "v", "P", "X", "<", ">")


def draw_group_quality(results: Results, grouping: str) -> Figure:
    """Quality of each arm, of the router and of the oracle over the groups, in order."""
    means = [one for one in results.details.group_quality if one.grouping == grouping]
    groups = results.details.groupings[grouping]
    figure = new_figure(7.6, 4.4)
    axes = figure.subplots()
    places = np.arange(len(groups.groups))
    for i, policy in enumerate(dict.fromkeys(one.policy for one in means)):
        own = [one.estimate for one in means if one.policy == policy]
        values = np.array([np.nan if one.value is None else one.value for one in own])
        main = role_of(policy) != "static"
        axes.plot(
            places,
            values,
            marker=_MARKERS[i % len(_MARKERS)],
            ms=5,
            lw=2.4 if main else 1.2,
            ls="--" if policy == ORACLE_ROUTER_ARMS else "-",
            color=INK if main else PALETTE[i % len(PALETTE)],
            label=title_of(policy),
        )
    n_of = {one.group: one.estimate.n for one in means}  # the same for every policy
    axes.set_xticks(places, [f"{name}\nn = {n_of.get(name, 0):,}" for name in groups.groups])
    axes.set_xlabel(grouping)
    axes.set_ylabel(f"mean {results.labels.primary_measure}")
    axes.grid(alpha=0.25, linewidth=0.6, axis="y")
    figure.legend(loc="outside lower center", ncols=4, fontsize=8)
    return figure


def draw_group_regret(results: Results, grouping: str) -> Figure:
    """Regret of the router and the best static arm per group, a panel for each shown λ."""
    means = [one for one in results.details.group_regret if one.grouping == grouping]
    groups = results.details.groupings[grouping]
    lams = list(dict.fromkeys(one.lam for one in means))
    figure = new_figure(2.2 + 2.9 * len(lams), 1.5 + 0.34 * len(groups.groups))
    panels = figure.subplots(1, len(lams), sharey=True, squeeze=False)[0]
    places = np.arange(len(groups.groups))
    for axes, lam in zip(panels, lams, strict=True):
        policies = list(dict.fromkeys(one.policy for one in means if one.lam == lam))
        for i, policy in enumerate(policies):
            own = [one.estimate for one in means if (one.policy, one.lam) == (policy, lam)]
            offset = (i - (len(policies) - 1) / 2) * 0.26
            main = policy == results.router
            colour, marker = (PALETTE[0], "o") if main else (QUIET, "s")
            _intervals(axes, own, places + offset, colour, marker, title_of(policy))
        axes.set_title(f"λ = {lam:g}")
        axes.set_xlabel("mean regret")
        ends = [end for one in means if one.lam == lam for end in _ends(one.estimate)]
        lowest = min(ends, default=0.0)  # below 0 where arms outside A, or merged, pass the oracle
        axes.set_xlim(left=0.0 if lowest >= 0.0 else None)
        axes.grid(alpha=0.25, linewidth=0.6, axis="x")
    names = [f"{name}  (n = {n:,})" for name, n in zip(groups.groups, groups.counts, strict=True)]
    panels[0].set_yticks(places, names)
    panels[0].invert_yaxis()
    handles, titles = panels[0].get_legend_handles_labels()
    figure.legend(handles, titles, loc="outside lower center", ncols=4, fontsize=8)
    return figure


def _ends(estimate: Estimate) -> list[float]:
    return [end for end in (estimate.value, estimate.low) if end is not None]


def _intervals(
    axes: Axes,
    estimates: Sequence[Estimate],
    places: np.ndarray,
    colour: str,
    marker: str,
    label: str,
) -> None:
    for estimate, place in zip(estimates, places, strict=True):
        if estimate.low is not None and estimate.high is not None:
            axes.plot([estimate.low, estimate.high], [place, place], color=colour, lw=1.4)
    values = [np.nan if one.value is None else one.value for one in estimates]
    axes.plot(values, places, ls="", marker=marker, ms=5, color=colour, label=label)


def draw_calibration(results: Results) -> Figure:
    """Observed over predicted quality, a panel for each shown λ; on the diagonal they agree."""
    found = results.details.calibration
    assert found is not None
    figure = new_figure(1.0 + 3.4 * len(results.shown_lams), 3.7)
    panels = figure.subplots(1, len(results.shown_lams), sharey=True, squeeze=False)[0]
    for axes, lam in zip(panels, results.shown_lams, strict=True):
        axes.plot([0, 1], [0, 1], color=QUIET, lw=0.8, ls=":")
        own = [one for one in found.points if one.lam == lam]
        for i, one in enumerate(own):
            low, high = one.observed.low, one.observed.high
            if low is not None and high is not None:
                axes.plot([one.predicted] * 2, [low, high], color=QUIET, lw=1.2)
            axes.plot(
                [one.predicted],
                [one.observed.value],
                marker=_MARKERS[i % len(_MARKERS)],
                ls="",
                ms=6,
                color=PALETTE[0] if found.per_query else PALETTE[i % len(PALETTE)],
                label=None if found.per_query else one.group,
            )
        axes.set(xlim=(0, 1), ylim=(0, 1), xlabel="predicted quality")
        axes.set_title(f"λ = {lam:g}")
        axes.grid(alpha=0.25, linewidth=0.6)
        if not found.per_query and own:
            axes.legend(fontsize=7, loc="upper left")
    panels[0].set_ylabel(f"observed {results.labels.primary_measure}")
    return figure
