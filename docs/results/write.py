"""Write a suite's report here: tables, figures and text, without the text of any query.

    PYTHONPATH=. .venv/bin/python docs/results/write.py text-suite

Reads ``runs/<suite>/labels`` and ``runs/<suite>/router``; fills ``docs/results/<suite>``.
"""

from __future__ import annotations

import argparse
import shutil
import tempfile
from pathlib import Path

from analysis.settings import ReportSettings
from analysis.write_report import write_report

HERE = Path(__file__).parent
KEPT = (".csv", ".md", ".png", ".tex")


def main() -> None:
    """Write the report, then take what is kept."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("suite")
    suite = parser.parse_args().suite
    run, target = HERE.parent.parent / "runs" / suite, HERE / suite
    with tempfile.TemporaryDirectory() as made:
        report = Path(made)
        settings = ReportSettings(query_text=False)
        write_report(run / "labels", run / "router", report, settings)
        target.mkdir(exist_ok=True)
        for old in target.iterdir():
            old.unlink()
        for path in sorted(report.iterdir()):
            if path.suffix in KEPT:
                shutil.copy(path, target / path.name)


if __name__ == "__main__":
    main()
