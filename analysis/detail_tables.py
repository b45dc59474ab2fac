"""Tables of groups of queries, of arms beside one another, and of single queries."""

from __future__ import annotations

from collections.abc import Sequence

from analysis.columns import LAM
from analysis.details import GroupMean
from analysis.lost_queries import FoundDocuments, LostQuery
from analysis.results import Results
from analysis.reward_map import RewardMap
from analysis.roles import title_of
from analysis.table import Cell, Column, Row, Table, write_number

_LONGEST_QUERY = 160


def group_quality_table(results: Results, grouping: str, name: str) -> Table:
    """Quality of arms, router and oracle in each group."""
    means = [one for one in results.details.group_quality if one.grouping == grouping]
    measure = results.labels.primary_measure
    title = f"{measure} by {grouping} at λ = {results.details.lost_lam:g}"
    note = "Over the queries that every arm has, counted as n. "
    return _wide(name, title, grouping, means, results, note)


def group_regret_table(results: Results, grouping: str, name: str) -> Table:
    """Regret of the router and the best static arm in each group, at every shown λ."""
    means = [one for one in results.details.group_regret if one.grouping == grouping]
    return _wide(name, f"Regret by {grouping}", grouping, means, results)


def _wide(
    name: str,
    title: str,
    scope: str,
    means: Sequence[GroupMean],
    results: Results,
    note: str = "",
) -> Table:
    """One row a group, one column per policy and λ, with intervals."""
    cells = {(one.group, one.policy, one.lam): one.estimate for one in means}
    series = list(dict.fromkeys((one.policy, one.lam) for one in means))
    one_lam = len({lam for _, lam in series}) == 1
    groups = results.details.groupings[scope].groups
    columns = [Column("group", scope), Column("n", "n", "count")]
    columns += [
        Column(
            policy if one_lam else f"{policy}_lam_{lam:g}",
            title_of(policy) if one_lam else f"{title_of(policy)}, λ = {lam:g}",
            "quality",
        )
        for policy, lam in series
    ]
    rows: tuple[Row, ...] = tuple(
        (group, max(one.n for one in own), *own)
        for group in groups
        if (own := [cells[group, policy, lam] for policy, lam in series])
    )
    note += f"Brackets: bootstrap intervals of {results.settings.confidence:.0%}."
    return Table(name, title, tuple(columns), rows, rows, note)


def reward_map_table(one: RewardMap, name: str) -> Table:
    """Mean reward of every arm on the queries sent to each arm."""
    columns = (
        Column("chosen", "arm chosen"),
        Column("n", "queries", "count"),
        *(Column(f"reward_{arm}", arm, "quality") for arm in one.arms),
    )
    rows: tuple[Row, ...] = tuple(
        (arm, int(n), *map(float, rewards))
        for arm, n, rewards in zip(one.rows, one.counts, one.rewards, strict=True)
        if n
    )
    title = f"Reward of every arm by the arm that {title_of(one.policy)} chose, λ = {one.lam:g}"
    return Table(name, title, columns, rows, rows, folded=True)


def answers_table(results: Results) -> Table:
    """What each arm answers, and what it alone answers."""
    found = results.details.agreement
    columns = (
        Column("arm", "arm"),
        Column("n", "n", "count"),
        Column("answers", "answers", "share"),
        Column("answers_alone", "it alone answers", "share_fine"),
        Column("best", "best, ties included", "share"),
        Column("best_alone", "best alone", "share_fine"),
    )
    rows = tuple(
        (
            arm,
            int(found.n[i]),
            float(found.answers[i]),
            float(found.answers_alone[i]),
            float(found.best[i]),
            float(found.best_alone[i]),
        )
        for i, arm in enumerate(found.arms)
    )
    measure = results.labels.primary_measure
    return Table(
        "arm_answers",
        "What each arm answers, and what it alone answers",
        columns,
        rows,
        rows,
        note=f"An arm answers a query when its {measure} is above 0. "
        f"{found.answered_by_none:,} test queries are answered by no arm.",
    )


def agreement_table(results: Results) -> Table:
    """Share of queries that two arms both answer, or both don't."""
    found = results.details.agreement
    columns = (
        Column("arm", "arm"),
        *(Column(f"agrees_{arm}", arm, "share") for arm in found.arms),
    )
    rows: tuple[Row, ...] = tuple(
        (arm, *map(float, shares)) for arm, shares in zip(found.arms, found.agreement, strict=True)
    )
    title = "Agreement: share of queries that both arms answer, or neither"
    return Table("arm_agreement", title, columns, rows, rows, folded=True)


def calibration_table(results: Results) -> Table | None:
    """Predicted beside observed quality; None where nothing was predicted."""
    found = results.details.calibration
    if found is None:
        return None
    columns = (
        LAM,
        Column("group", "predicted quality" if found.per_query else "arm chosen"),
        Column("predicted", "predicted", "quality"),
        Column("observed", "observed", "quality"),
        Column("difference", "observed − predicted", "change"),
        Column("n", "n", "count"),
    )
    pairs: list[tuple[float, Row]] = [
        (
            one.lam,
            (
                one.lam,
                one.group,
                one.predicted,
                one.observed,
                (one.observed.value or 0.0) - one.predicted,
                one.observed.n,
            ),
        )
        for one in found.points
    ]
    return Table(
        "calibration",
        "Predicted and observed quality",
        columns,
        tuple(row for _, row in pairs),
        tuple(row for lam, row in pairs if lam in results.shown_lams),
        note=f"Brackets: bootstrap intervals of {results.settings.confidence:.0%}.",
    )


def lost_table(results: Results) -> Table:
    """The queries on which the router lost most."""
    has_text = results.labels.texts is not None and results.settings.query_text
    columns = (
        Column("dataset", "dataset"),
        Column("query_id", "query id"),
        Column("text", "query", shown=has_text),
        Column("regret", "regret", "quality"),
        Column("chosen", "router chose"),
        Column("best", "oracle chose"),
    )
    rows = tuple(
        (
            one.dataset,
            one.query_id,
            _cut(one.text) if has_text else "",
            one.regret,
            one.chosen,
            one.best,
        )
        for one in results.details.lost
    )
    return Table(
        "lost_queries",
        f"Where {results.router} lost most, λ = {results.details.lost_lam:g}",
        columns,
        rows,
        rows,
        note="" if has_text else "The text of queries is left out, so ids stand alone.",
    )


def found_table(results: Results, found: FoundDocuments | None) -> Table:
    """What each arm found on those queries."""
    measure = results.labels.primary_measure
    columns = (
        Column("dataset", "dataset"),
        Column("query_id", "query id"),
        Column("arm", "arm"),
        Column("role", "chosen by"),
        Column("quality", measure, "quality"),
        Column("latency_ms", "ms", "ms"),
        Column("documents", "first documents", shown=found is not None),
    )
    rows = tuple(
        (
            one.dataset,
            one.query_id,
            arm.arm,
            _chosen_by(one, arm.arm),
            arm.quality,
            arm.latency_ms,
            ", ".join((found or {}).get((one.dataset, one.query_id, arm.arm), ())),
        )
        for one in results.details.lost
        for arm in one.arms
        if arm.quality is not None
    )
    note = "" if found is not None else "These labels hold no rankings, so documents aren't named."
    title = "What each arm found on those queries"
    return Table("lost_queries_found", title, columns, rows, rows, note, folded=True)


def _chosen_by(one: LostQuery, arm: str) -> str:
    by_router = one.merged or (one.chosen,)
    names = [name for name, own in (("router", by_router), ("oracle", (one.best,))) if arm in own]
    return " and ".join(names)


def _cut(text: str | None) -> Cell:
    if text is None:
        return ""
    flat = " ".join(text.split())
    return flat if len(flat) <= _LONGEST_QUERY else flat[: _LONGEST_QUERY - 1] + "…"


def calibration_sentence(results: Results) -> str:
    """Say where the predictions come from, and how far off they are at each shown λ."""
    found = results.details.calibration
    if found is None:
        return (
            f"Nothing that was written down says what quality {results.router} expects: the "
            "decisions hold no predictions, and the router's own file none for it."
        )
    source = (
        "Decisions hold a prediction per query; queries are put in ten groups of equal size by it."
        if found.per_query
        else "The router's file states, per λ and arm, the quality to expect where it chooses that "
        "arm, from validation queries; test queries put it to the proof."
    )
    errors = [
        f"{write_number('quality', error)} at λ = {lam:g}"
        for lam in results.shown_lams
        if (error := found.error(lam)) is not None
    ]
    gap = f" Mean gap over test queries: {', '.join(errors)}." if errors else ""
    return source + gap
