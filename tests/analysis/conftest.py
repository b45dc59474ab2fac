"""One written suite and one report, shared by the tests that only read them."""

import pytest

from analysis.report import write_report
from analysis.results import compute_results
from analysis.samples import read_latency_samples
from analysis.settings import ReportSettings
from oracle.labels import read_labels
from router.decisions import read_decisions
from tests.analysis.synthetic import write_suite

SETTINGS = ReportSettings(n_resamples=200)


@pytest.fixture(scope="session")
def suite(tmp_path_factory):
    return write_suite(tmp_path_factory.mktemp("suite"))


@pytest.fixture(scope="session")
def results(suite):
    labels_folder, router_folder = suite
    labels = read_labels(labels_folder)
    return compute_results(
        labels,
        read_decisions(router_folder / "decisions.parquet"),
        SETTINGS,
        read_latency_samples(labels_folder, labels),
    )


@pytest.fixture(scope="session")
def report(suite, tmp_path_factory):
    return write_report(*suite, tmp_path_factory.mktemp("report") / "report", SETTINGS)
