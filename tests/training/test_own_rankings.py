"""What a policy's own ranking is worth, and the ideal order of the same documents, by hand."""

import numpy as np
import pytest

from arms.errors import LabelsError
from arms.records import Ranking
from oracle.labels import read_labels
from router.policy import Decisions, Plan
from tests.training.graded import graded_labels
from training.merged_quality import own_ceiling, own_quality
from training.recorded_runs import RecordedRuns

ROWS = np.array([3, 5])
IDEAL = 2.0 + 1.0 / np.log2(3)
"""nDCG@5's ideal gain: grades 2 and 1."""


def merged(runs, arms=("bm25", "text_dense")):
    """Row 3: bm25's documents that aren't relevant before those that are; row 5: an arm answers."""
    found, grades = runs.rankings("bm25")[3], runs.grades("bm25")[3]
    order = np.argsort(np.array(grades) > 0, kind="stable").tolist()
    documents = tuple(found.doc_ids[place] for place in order)
    own = Ranking(documents, tuple(-float(rank) for rank in range(len(documents))))
    plans = (Plan(arms, "merge"), Plan(("bm25",)))
    return Decisions(plans, np.ones((2, 1)), rankings=(own, None))


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    folder = graded_labels(tmp_path_factory.mktemp("own") / "labels", count=40)
    return RecordedRuns(folder, read_labels(folder))


def test_the_ceiling_is_the_ideal_order_of_what_was_ranked(runs):
    decided, found = merged(runs), sorted(runs.grades("bm25")[3], reverse=True)
    assert found[0] > 0 and len(found) == 12
    quality, ceiling = own_quality(runs, ROWS, decided), own_ceiling(runs, ROWS, decided)
    gain = found[0] + found[1] / np.log2(3)
    assert ceiling["nDCG@5"][0] == pytest.approx(gain / IDEAL) and quality["nDCG@5"][0] == 0.0
    assert ceiling["RR@5"][0] == 1.0 and quality["RR@5"][0] == 0.0
    assert np.isnan(ceiling["nDCG@5"][1]) and np.isnan(quality["nDCG@5"][1])


def test_no_ceiling_where_an_arm_always_answers(runs):
    single = Decisions((Plan(("bm25",)),), np.ones((1, 1)))
    assert own_ceiling(runs, ROWS[:1], single) is None
    assert own_ceiling(None, ROWS, merged(runs)) is None


def test_a_ceiling_needs_grades(tmp_path, runs):
    folder = graded_labels(tmp_path / "labels", count=40, grades=False)
    ungraded = RecordedRuns(folder, read_labels(folder))
    with pytest.raises(LabelsError, match="lack some: rerun l2r oracle"):
        own_ceiling(ungraded, ROWS, merged(runs))
