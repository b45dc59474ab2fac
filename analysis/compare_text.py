"""A comparison of two runs as Markdown and CSV."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from analysis.bootstrap import Estimate
from analysis.compare import Change, Compared, Only
from analysis.markdown import escape, markdown_table
from analysis.roles import role_of, title_of
from analysis.table import Column, Row, Table, write_csv, write_number
from arms.atomic import atomic_file

_COLUMNS = (
    Column("policy", "policy"),
    Column("lam", "λ", "lam"),
    Column("queries", "queries", "count"),
    Column("reward_a", "reward A", "quality"),
    Column("reward_b", "reward B", "quality"),
    Column("reward_change", "reward B − A", "change"),
    Column("quality_change", "quality B − A", "change"),
    Column("latency_change_ms", "ms B − A", "change_ms"),
    Column("other_arm", "other arm", "share"),
    Column("holm_p", "p (Holm)", "quality"),
    Column("verdict", "B is"),
)
_EXAMPLES = 5


def change_table(compared: Compared) -> Table:
    """Every change in the CSV; routers and whatever changed beyond noise in the text."""
    rows = [(change, _row(change)) for change in compared.changes]
    return Table(
        name="compare",
        title="Changes by policy and λ",
        columns=_COLUMNS,
        rows=tuple(row for _, row in rows),
        shown_rows=tuple(row for change, row in rows if _is_shown(change)),
    )


def _row(change: Change) -> Row:
    return (
        title_of(change.policy),
        change.lam,
        change.n,
        change.reward_a,
        change.reward_b,
        change.reward,
        change.quality,
        change.latency_ms,
        change.other_arm,
        change.holm_p,
        change.verdict,
    )


def _is_shown(change: Change) -> bool:
    return role_of(change.policy) == "routed" or change.verdict in ("better", "worse")


def write_comparison(compared: Compared) -> str:
    """Return the comparison as Markdown: the answer first."""
    table = change_table(compared)
    hidden = len(table.rows) - len(table.shown_rows)
    parts = [
        f"# {escape(compared.name_b)} (B) against {escape(compared.name_a)} (A)",
        _answer(compared),
        *([markdown_table(table)] if table.shown_rows else []),
        f"Over {compared.n:,} shared test queries; quality is {compared.measure}; intervals are "
        f"{compared.confidence:.0%} of a paired bootstrap. *B is* better or worse where the paired "
        "test of the reward, Holm-corrected over all that differ, says that it's more than "
        "noise."
        + (f" {hidden} policies at a λ that aren't shown changed no more." if hidden else ""),
        *(_forced_choice(compared, one) for one in compared.only),
        *(escape(note) for note in compared.notes),
    ]
    return "\n\n".join(parts) + "\n"


def _answer(compared: Compared) -> str:
    verdicts = Counter(change.verdict for change in compared.changes)
    total = len(compared.changes)
    if verdicts["the same"] == total:
        return f"Nothing changed: all {total} policies at all λ have the same rewards."
    beyond = [change for change in compared.changes if change.verdict in ("better", "worse")]
    if not beyond:
        return f"No change is more than noise ({total} policies at a λ compared)."
    routed = [change for change in beyond if role_of(change.policy) == "routed"]
    told = "; ".join(_sentence(change) for change in routed[:_EXAMPLES])
    return (
        f"{len(beyond)} of {total} policies at a λ changed by more than noise: "
        f"{verdicts['better']} better, {verdicts['worse']} worse." + (f" {told}." if told else "")
    )


def _sentence(change: Change) -> str:
    return (
        f"{escape(title_of(change.policy))} at λ = {change.lam:g} is {change.verdict} by "
        f"{_written(change.reward)} reward"
    )


def _written(estimate: Estimate) -> str:
    value = write_number("change", estimate.value or 0.0)
    if estimate.low is None or estimate.high is None:
        return value
    low, high = (write_number("change", end) for end in (estimate.low, estimate.high))
    return f"{value} [{low}, {high}]"


def _forced_choice(compared: Compared, one: Only) -> str:
    told = [
        f"only in {side}: {_some(names)}"
        for side, names in (("A", one.in_a), ("B", one.in_b))
        if names
    ]
    return escape(f"{one.what[0].upper()}{one.what[1:]} {'; '.join(told)}.")


def _some(names: tuple[str, ...]) -> str:
    rest = len(names) - _EXAMPLES
    return ", ".join(names[:_EXAMPLES]) + (f" and {rest:,} more" if rest > 0 else "")


def save_comparison(compared: Compared, path: Path) -> Path:
    """Write the Markdown to ``path`` and every change as CSV beside it; return the CSV's path."""
    table_path = path.with_suffix(".csv")
    with atomic_file(path) as temporary:
        temporary.write_text(write_comparison(compared), encoding="utf-8")
    with atomic_file(table_path) as temporary:
        temporary.write_text(write_csv(change_table(compared)), encoding="utf-8", newline="")
    return table_path
