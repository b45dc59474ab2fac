"""From labels and decisions on disk to a folder with the whole report."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from html import escape
from pathlib import Path

from analysis.calibration import expected_quality
from analysis.content import ReportContent
from analysis.decision_codes import read_decision_batches
from analysis.details import ReportInputs
from analysis.facts import (
    config_text,
    defaults_and_policies,
    input_facts,
    latency_notes,
    read_router_record,
    router_facts,
)
from analysis.figures import write_figures
from analysis.gates import closed_gates
from analysis.latex import write_latex
from analysis.lost_queries import read_found_documents
from analysis.markdown import write_markdown
from analysis.page import write_page
from analysis.query_facts import read_query_facts
from analysis.results import Results, compute_results
from analysis.samples import modelled_share, read_latency_samples
from analysis.sections import Provenance, report_content
from analysis.settings import ReportSettings
from analysis.table import write_csv
from arms.atomic import atomic_folder, write_json
from arms.errors import SettingsError
from arms.sole_writer import writes
from oracle.labels import read_labels
from router.artifact import DECISIONS

RECORD = "report.json"
FORMAT_VERSION = 1


@dataclass(frozen=True, slots=True)
class ReportPaths:
    """Where the report lies."""

    folder: Path
    html: Path
    markdown: Path
    csv: tuple[Path, ...]
    figures: tuple[Path, ...]
    """PNG files; an SVG lies beside each."""

    def __repr__(self) -> str:
        return f"Report: {self.html} ({len(self.csv)} tables, {len(self.figures)} figures)"

    def _repr_html_(self) -> str:
        page = escape(self.html.read_text(encoding="utf-8"))
        style = "width: 100%; height: 45em; border: 1px solid #8888"
        return f'<iframe srcdoc="{page}" style="{style}" title="Routing report"></iframe>'


@writes("report_folder")
def write_report(
    labels_folder: Path,
    router_folder: Path,
    report_folder: Path,
    settings: ReportSettings | None = None,
) -> ReportPaths:
    """Write the report: whole or not at all.

    That is index.html, report.md, a CSV per table, LaTeX for the main tables, PNG and SVG per
    figure.

    Args:
        labels_folder: a complete labels folder.
        router_folder: the folder that holds ``decisions.parquet``, or that file itself.
        report_folder: made or replaced; an existing folder must be an earlier report, or empty.
        settings: what to compare; the defaults where None.

    Raises:
        LabelsError, RouterError: the input is missing, unfinished, or doesn't fit together.
        SettingsError: ``report_folder`` holds something else, or a setting can't be met.
        MissingExtraError: matplotlib isn't installed.
    """
    chosen = settings or ReportSettings()
    decisions = router_folder if router_folder.is_file() else router_folder / DECISIONS
    check_replaceable(report_folder)
    labels = read_labels(labels_folder)
    record = read_router_record(decisions.parent)
    facts = read_query_facts(labels_folder, labels)
    results = compute_results(
        labels,
        read_decision_batches(decisions),
        chosen,
        read_latency_samples(labels_folder, labels),
        latency_notes(labels.manifest, modelled_share(labels_folder)),
        lambda router: ReportInputs(
            facts,
            expected_quality(record, router),
            closed_gates(record, router),
            *defaults_and_policies(record),
        ),
    )
    provenance = Provenance(
        router_facts=router_facts(record),
        input_facts=input_facts(labels_folder, decisions, chosen),
        commands=_commands(results),
        config=config_text(labels.manifest),
        found=read_found_documents(labels_folder, results.details.lost),
    )
    with atomic_folder(report_folder) as folder:
        content = _write_all(results, provenance, folder)
        inputs = {"labels": labels_folder, "decisions": decisions}
        write_json(folder / RECORD, _record(results, inputs, report_folder))
    names = [table.name for table in content.tables]
    figures = [figure.name for figure in content.figures]
    return ReportPaths(
        folder=report_folder,
        html=report_folder / "index.html",
        markdown=report_folder / "report.md",
        csv=tuple(report_folder / f"{name}.csv" for name in names),
        figures=tuple(report_folder / f"{name}.png" for name in figures),
    )


def check_replaceable(report_folder: Path) -> None:
    """Raise ``SettingsError`` if writing the report would delete something that isn't a report."""
    if report_folder.is_dir():
        if any(report_folder.iterdir()) and not (report_folder / RECORD).is_file():
            raise SettingsError(
                f"{report_folder} holds files but no {RECORD}, so it isn't an earlier report; a "
                "report replaces its folder: name a new one, or empty this"
            )
    elif report_folder.exists():
        raise SettingsError(f"{report_folder} is a file; name a folder for the report")


def _write_all(results: Results, provenance: Provenance, folder: Path) -> ReportContent:
    figures = write_figures(results, folder)
    content = report_content(results, figures, provenance)
    for table in content.tables:
        if table.latex:
            (folder / f"{table.name}.tex").write_text(write_latex(table), encoding="utf-8")
        (folder / f"{table.name}.csv").write_text(write_csv(table), encoding="utf-8", newline="")
    (folder / "report.md").write_text(write_markdown(content), encoding="utf-8")
    svgs = {name: (folder / f"{name}.svg").read_text(encoding="utf-8") for name in figures}
    (folder / "index.html").write_text(write_page(content, svgs), encoding="utf-8")
    return content


def _record(results: Results, inputs: Mapping[str, Path], report_folder: Path) -> dict[str, object]:
    """What a comparison of reports needs; inputs are named from the report's folder."""
    evaluation = results.test.scores.evaluation
    return {
        "format_version": FORMAT_VERSION,
        "settings": results.settings.model_dump(mode="json"),
        "lams": list(results.lams),
        "policies": list(results.test.scores.policies),
        "test_queries": len(evaluation),
        "test_queries_left_out": evaluation.failed_queries,
        **{
            name: Path(os.path.relpath(path, report_folder)).as_posix()
            for name, path in inputs.items()
        },
    }


def _commands(results: Results) -> str:
    lams = " ".join(f"{lam:g}" for lam in results.lams)
    imported = "imported" in results.labels.manifest
    labelled = () if imported else ("l2r index  run.yaml", "l2r oracle run.yaml")
    trained = (f"l2r train  run.yaml --lam {lams}", "l2r report run.yaml")
    return "\n".join((*labelled, *trained, "l2r audit  labels router  # what to object to"))
