"""Leave-one-dataset-out as Markdown and CSV."""

from __future__ import annotations

from pathlib import Path

from analysis.columns import LAM, POLICY, counted
from analysis.holdout import ALL, ROUTER, HeldOutScore, HoldOut
from analysis.markdown import escape, markdown_table
from analysis.roles import title_of
from analysis.split_text import SPLIT_NAMES
from analysis.table import Column, Row, Table, write_csv, write_number
from arms.atomic import atomic_file
from router.artifact import Defaults

MARKDOWN = "holdout.md"


def policy_table(found: HoldOut) -> Table:
    """Every policy at every λ: all datasets in the text, each dataset too in the CSV."""
    rows = [(one, _row(one)) for one in found.scores]
    return Table(
        "holdout",
        "In domain beside out of domain, all datasets",
        _columns(found),
        tuple(row for _, row in rows),
        tuple(row for one, row in rows if one.scope == ALL),
    )


def dataset_table(found: HoldOut, lams: tuple[float, ...]) -> Table:
    """The default policies on each dataset that was left out."""
    rows = tuple(
        _row(one)
        for one in found.scores
        if one.policy in (ROUTER, found.domains["search"]) and one.scope != ALL and one.lam in lams
    )
    title = "The default policies on each dataset that was left out"
    return Table("holdout_datasets", title, _columns(found), rows, rows)


def domain_table(found: HoldOut) -> Table:
    """How well distance tells each left-out dataset's queries from in-domain ones."""
    rows = tuple(
        (
            ", ".join(one["datasets"]),
            int(one["queries"]),
            float(one["auroc"]),
            float(one["flagged_share"]),
            float(one["threshold"]),
        )
        for one in found.domains["datasets"]
    )
    columns = (
        Column("dataset", "left out"),
        Column("n", "n", "count"),
        Column("auroc", "AUROC", "quality"),
        Column("flagged_share", "called foreign", "share"),
        Column("threshold", "threshold", "quality"),
    )
    return Table("holdout_domains", "Distance to the nearest training query", columns, rows, rows)


def _in_words(found: HoldOut) -> str:
    """What the folds in domain keep together, and where they don't."""
    said = []
    for split in found.splits:
        fallbacks = found.domains["splits"][split]["fallbacks"]
        loosened = ", ".join(
            f"{dataset} by {SPLIT_NAMES[one['used']]}" for dataset, one in fallbacks.items()
        )
        said.append(f"by {SPLIT_NAMES[split]}{f' ({loosened})' if loosened else ''}")
    return " and ".join(said)


def _columns(found: HoldOut) -> tuple[Column, ...]:
    return (
        LAM,
        POLICY,
        Column("scope", "left out"),
        Column("n", "n", "count"),
        *(
            Column(f"in_domain_reward_{one}", f"in domain, {SPLIT_NAMES[one]} split", "quality")
            for one in found.splits
        ),
        Column("out_of_domain_reward", "out of domain", "quality"),
        *(
            Column(f"difference_{one}", f"out − in, {SPLIT_NAMES[one]} split", "change")
            for one in found.splits
        ),
        Column("over_best_static", "out: − best static", "change"),
        Column("over_simple", "out: − strongest simple", "change"),
        Column("out_of_domain_quality", found.measure, "quality"),
        Column("out_of_domain_latency_ms", "ms", "ms"),
    )


def _row(one: HeldOutScore) -> Row:
    return (
        one.lam,
        title_of(one.policy),
        one.scope,
        one.n,
        *one.in_domain,
        one.out_of_domain,
        *one.differences,
        one.over_best_static,
        one.over_simple,
        one.quality,
        one.latency_ms,
    )


def write_holdout(found: HoldOut, shown_lams: tuple[float, ...]) -> str:
    """Return the comparison as Markdown."""
    tables = [policy_table(found), dataset_table(found, shown_lams), domain_table(found)]
    datasets = counted(len(found.datasets), "dataset")
    shared = ", a query vector that policy and arm share counted once" if found.reuses else ""
    left = (
        "all of these left out at once" if found.domains["together"] else "one left out at a time"
    )
    parts = [
        "# Datasets left out" if found.domains["together"] else "# Leave one dataset out",
        f"{counted(found.n, 'query', 'queries')} of {datasets}, each decided by policies that "
        f"never saw it: in domain, by cross-validation {_in_words(found)}; and out of domain, by "
        f"policies fitted on other datasets, {left}. Rewards are over the arms A, the overhead "
        f"charged{shared}; brackets are {found.confidence:.0%} intervals of a paired bootstrap "
        "over queries. The best static arm out of domain is the other datasets' best. By default "
        f"{Defaults(ROUTER, found.domains['search']).told}.",
    ]
    for table in tables:
        if table.shown_rows:
            parts += [f"## {escape(table.title)}", markdown_table(table)]
    parts += [_of_distance(found), *_of_guard(found)]
    return "\n\n".join(part for part in parts if part) + "\n"


def _of_distance(found: HoldOut) -> str:
    flagged = found.domains["datasets"]
    if not flagged:
        return ""
    macro = sum(one["auroc"] for one in flagged) / len(flagged)
    inside = found.domains["in_domain"]
    alarms = sum(one["flagged_share"] * one["queries"] for one in inside) / max(
        1, sum(one["queries"] for one in inside)
    )
    return (
        f"Mean AUROC {write_number('quality', macro)}. The threshold lets "
        f"{found.domains['false_alarm_rate']:.0%} of the validation queries lie beyond it; of "
        f"in-domain queries that were held out, {write_number('share_fine', alarms)} did."
    )


def _of_guard(found: HoldOut) -> list[str]:
    if not found.guard_gains:
        return []
    told = []
    for lam, gain in found.guard_gains:
        said = write_number("change", gain.value or 0.0)
        if gain.low is not None and gain.high is not None:
            low, high = write_number("change", gain.low), write_number("change", gain.high)
            said += f" [{low}, {high}]"
        told.append(f"{said} at λ = {lam:g}")
    return [
        "Handing queries called foreign to the best static arm changes the reward of the default "
        f"router out of domain by {'; '.join(told)}."
    ]


def save_holdout(found: HoldOut, shown_lams: tuple[float, ...], folder: Path) -> Path:
    """Write ``holdout.md`` and the CSV files; return the former."""
    with atomic_file(folder / MARKDOWN) as temporary:
        temporary.write_text(write_holdout(found, shown_lams), encoding="utf-8")
    for table in (policy_table(found), domain_table(found)):
        with atomic_file(folder / f"{table.name}.csv") as temporary:
            temporary.write_text(write_csv(table), encoding="utf-8", newline="")
    return folder / MARKDOWN
