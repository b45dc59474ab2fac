"""The console commands over a finished router and its labels: calibrate.

Nothing heavy is imported before a command is called.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from arms.errors import SettingsError

if TYPE_CHECKING:
    from router.calibration import CalibratedPoint, Calibration

SPLITS = ("val", "test")


def calibrate(
    router: Annotated[Path, typer.Argument(help="the router/ folder of a run")],
    labels: Annotated[Path, typer.Argument(help="a labels folder with the router's arms")],
    policy: Annotated[str | None, typer.Option(help="default: the router's own")] = None,
    split: Annotated[
        str, typer.Option(help="val; test only to report what can no longer be tested on")
    ] = "val",
) -> None:
    """Measure λ ↔ mean latency, P95, quality and share per arm, with 95 % intervals.

    The curve is kept in router.json; --max-latency-ms and --max-quality-loss of l2r select read
    it. l2r train calibrates the default policy; this does another one, or other labels.

    Example: l2r calibrate runs/router runs/labels --policy tfidf
    """
    from arms.progress import ConsoleProgress
    from router.artifact import read_router
    from training.calibrate_router import calibrate_router

    if split not in SPLITS:
        raise SettingsError(f"--split is one of {', '.join(SPLITS)}, got {split!r}")
    record = read_router(router)
    found = calibrate_router(router, labels, policy, split, progress=ConsoleProgress())
    _print_curve(policy or record.defaults.select, found)
    if found.labels_hash != record.labels_hash:
        typer.echo(
            "These are not the labels that the router was trained on: its training queries may be "
            f"among the split '{split}' of these."
        )
    typer.echo(f"kept in {router / 'router.json'}")


def _print_curve(policy: str, found: Calibration) -> None:
    from rich.console import Console
    from rich.table import Table

    mixture = ", ".join(f"{name} {count}" for name, count in found.datasets.items())
    table = Table(
        title=f"{policy} on {found.queries:,} queries of the split '{found.split}'",
        caption=f"Means over {mixture}. Brackets: bootstrap intervals of {found.confidence:.0%}. "
        "Latency holds probes and the router's own overhead.",
    )
    for heading in ("λ", "mean ms", "P95 ms", "quality"):
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("answered by")
    for point in found.points:
        table.add_row(*_cells(point))
    Console(width=None if sys.stdout.isatty() else 160).print(table)


def _cells(point: CalibratedPoint) -> tuple[str, ...]:
    def spread(measured: Any, digits: str) -> str:
        low, high = format(measured.low, digits), format(measured.high, digits)
        return f"{measured.value:{digits}} \\[{low}, {high}]"

    shares = sorted(point.share.items(), key=lambda one: -one[1].value)
    told = [f"{arm} {share.value:.0%}" for arm, share in shares if share.value >= 0.005]
    return (
        f"{point.lam:.4g}",
        spread(point.latency_ms, ".1f"),
        spread(point.latency_p95_ms, ".1f"),
        spread(point.quality, ".3f"),
        ", ".join(told),
    )
