"""Analysis of trade-offs: frontiers, tables, figures, the report."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from analysis.write_report import ReportPaths
    from oracle.labels import Labels
    from router import Router

__all__ = ["report"]


def report(
    labels: Labels | str | Path,
    router: Router | str | Path,
    out: str | Path = "runs/report",
    **settings: Any,
) -> ReportPaths:
    """Write the Pareto report of a router on the test queries of its labels.

    What is returned shows the page in a notebook; ``.html`` is the page, ``.csv`` the tables.

    Args:
        labels: what :func:`oracle.label` or :func:`oracle.read_labels` returned, or their folder.
        router: what :func:`training.train` returned, or its folder.
        out: the report's folder; an existing one must be an earlier report, or empty.
        settings: what ``report:`` of a YAML file may hold, e.g. ``title="Our manuals"``.

    Raises:
        SettingsError: a setting is unknown or wrong, or ``out`` holds something else.
        LabelsError, RouterError: the input is unfinished, or doesn't fit together.
    """
    from analysis.settings import ReportSettings
    from analysis.write_report import write_report
    from arms.home import expanded
    from arms.settings import parse_options
    from oracle.labels import folder_of
    from router import Router

    source = router.folder if isinstance(router, Router) else expanded(router, "router")
    chosen = parse_options(ReportSettings, settings, "report")
    return write_report(folder_of(labels), source, expanded(out, "out"), chosen)
