"""One written suite and one report, shared by the tests that only read them."""

import pytest

from analysis.results import compute_results
from analysis.samples import read_latency_samples
from analysis.settings import ReportSettings
from analysis.write_report import write_report
from oracle.labels import read_labels
from router.decisions import read_decisions
from tests.analysis.merging_suite import SETTINGS as MERGING
from tests.analysis.merging_suite import suite_with
from tests.analysis.synthetic import make_world, write_suite

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


@pytest.fixture(scope="session")
def merging_folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("merging") / "labels"
    make_world(n=240, test_share=0.4).write(folder)
    return folder


@pytest.fixture(scope="session")
def merging_labels(merging_folder):
    return read_labels(merging_folder)


@pytest.fixture(scope="session")
def merging_results(merging_labels):
    return compute_results(merging_labels, suite_with(merging_labels), MERGING)
