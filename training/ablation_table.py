"""An ablation's rows as a table to read, and as CSV and Markdown to keep."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from pathlib import Path

from arms.atomic import atomic_file
from training.ablation import AblationRow, Mean

HEADINGS = ("λ", "variant", "val reward", "test reward", "test − as configured", "nDCG", "ms")
_CSV = (
    "variant",
    "lam",
    "split",
    "queries",
    "reward",
    "reward_low",
    "reward_high",
    "difference",
    "difference_low",
    "difference_high",
    "quality",
    "latency_ms",
)


def table_cells(rows: Sequence[AblationRow]) -> list[tuple[str, ...]]:
    """Return a line per λ and variant, by λ, variants in the order trained.

    The highest validation reward of a λ is marked with an asterisk: it is the one to choose.
    Quality and latency are those of the test queries.
    """
    cells: list[tuple[str, ...]] = []
    for lam in sorted({row.lam for row in rows}):
        here = [row for row in rows if row.lam == lam]
        val = {row.variant: row for row in here if row.split == "val"}
        test = {row.variant: row for row in here if row.split == "test"}
        best = max((row.reward.value for row in val.values()), default=None)
        for variant in dict.fromkeys(row.variant for row in here):
            chosen, told = val.get(variant), test.get(variant)
            mark = "*" if chosen and chosen.reward.value == best else ""
            cells.append(
                (
                    f"{lam:g}",
                    variant,
                    f"{chosen.reward.value:.4f}{mark}" if chosen else "",
                    _spread(told.reward, "") if told else "",
                    _spread(told.difference, "+") if told else "",
                    f"{told.quality:.4f}" if told else "",
                    f"{told.latency_ms:.1f}" if told else "",
                )
            )
    return cells


def _spread(mean: Mean, sign: str) -> str:
    if mean.low is None or mean.high is None:
        return f"{mean.value:{sign}.4f}"
    return f"{mean.value:{sign}.4f} [{mean.low:{sign}.4f}, {mean.high:{sign}.4f}]"


def markdown(rows: Sequence[AblationRow], measure: str) -> str:
    """Return the table as Markdown."""
    headings = tuple(measure if one == "nDCG" else one for one in HEADINGS)
    lines = [headings, ("---",) * len(headings), *table_cells(rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines) + "\n"


def write_tables(rows: Sequence[AblationRow], measure: str, folder: Path) -> tuple[Path, Path]:
    """Write ``ablation.csv``, one line per variant, λ and split, and ``ablation.md``."""
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow(_CSV)
    for row in rows:
        reward, difference = row.reward, row.difference
        writer.writerow(
            (
                row.variant,
                row.lam,
                row.split,
                row.queries,
                *(reward.value, reward.low, reward.high),
                *(difference.value, difference.low, difference.high),
                row.quality,
                row.latency_ms,
            )
        )
    paths = folder / "ablation.csv", folder / "ablation.md"
    for path, content in zip(paths, (buffer.getvalue(), markdown(rows, measure)), strict=True):
        with atomic_file(path) as temporary:
            temporary.write_text(content, encoding="utf-8")
    return paths


def print_table(rows: Sequence[AblationRow], measure: str, width: int | None = None) -> None:
    """Print the table; ``width`` in characters, default: the terminal's."""
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    queries = {row.split: row.queries for row in rows}
    counted = ", ".join(f"{split} {count:,}" for split, count in queries.items())
    table = Table(
        caption=f"Queries: {counted}. Rewards by the paper's definition, 95 % bootstrap intervals; "
        "the router's own overhead isn't counted. * the best on validation."
    )
    for heading in HEADINGS:
        table.add_column(measure if heading == "nDCG" else heading, no_wrap=heading != "variant")
    for cells in table_cells(rows):
        table.add_row(*map(escape, cells))
    Console(width=width).print(table)
