"""Queries that stand among the documents under the same id."""

import pytest

from arms.corpora.reader import read_dataset
from arms.settings import ArmSettings, DatasetSettings
from oracle import runner
from oracle.labels import read_labels
from oracle.settings import LatencySettings, OracleSettings
from tests.arms.corpora.folders import write_folder

ARGUMENTS = [
    {"_id": "a1", "title": "", "text": "cars should pay for harbour roads"},
    {"_id": "c1", "title": "", "text": "harbour roads are paid by cars already"},
    {"_id": "a2", "title": "", "text": "glaciers melt faster than before"},
    {"_id": "c2", "title": "", "text": "glaciers melt in cycles, faster and slower"},
    {"_id": "a3", "title": "", "text": "tea is better than coffee"},
    {"_id": "c3", "title": "", "text": "coffee is better than any tea"},
]
ASKED = [{"_id": one["_id"], "text": one["text"]} for one in ARGUMENTS[::2]]
JUDGED = "query-id\tcorpus-id\tscore\na1\tc1\t1\na2\tc2\t1\na3\tc3\t1\n"


def read(folder, **options):
    return read_dataset(DatasetSettings(path=folder, name="arguments", **options))


def test_where_documents_are_the_queries_they_are_left_out(tmp_path, caplog):
    folder = write_folder(tmp_path, ARGUMENTS, ASKED, JUDGED)
    assert read(folder).without_own == {"a1", "a2", "a3"}
    assert "left out of the rankings of 3 of 3 queries" in caplog.text
    assert read(folder, exclude_query_id=False).without_own == frozenset()


def test_ids_that_are_equal_by_chance_leave_nothing_out(tmp_path):
    asked = [{"_id": "a1", "text": "who melts?"}, {"_id": "a2", "text": "who pays?"}]
    folder = write_folder(tmp_path, ARGUMENTS, asked, "a1\tc2\t1\na2\tc1\t1\n")
    assert read(folder).without_own == frozenset()
    assert read(folder, exclude_query_id=True).without_own == {"a1", "a2"}


def test_a_document_that_is_judged_relevant_stays(tmp_path):
    folder = write_folder(tmp_path, ARGUMENTS, ASKED, JUDGED + "a2\ta2\t1\n")
    assert read(folder).without_own == {"a1", "a3"}


@pytest.mark.parametrize(("wish", "quality"), [("auto", 1.0), (False, 0.6309)])
def test_labels_count_the_document_only_where_it_is_kept(tmp_path, wish, quality):
    folder = write_folder(tmp_path / "in", ARGUMENTS, ASKED, JUDGED)
    settings = OracleSettings(latency=LatencySettings(warm_up=0, repeats=1))
    dataset = read(folder, exclude_query_id=wish)
    arms = [ArmSettings(arm="bm25"), ArmSettings(arm="bm25", granularity="paragraph")]
    runner.run_oracle([dataset], arms, tmp_path / "index", tmp_path / "labels", settings)
    labels = read_labels(tmp_path / "labels")
    # The query's own document stands first; the answer second: 1 / log2(3).
    assert labels.quality["nDCG@5"].round(4).tolist() == [[quality] * 2] * 3
    kept = 0 if wish is False else 3
    assert labels.manifest["datasets"]["arguments"]["without_own_document"] == kept
