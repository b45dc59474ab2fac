from dataclasses import replace

import numpy as np
import pyarrow as pa

from analysis.results import compute_results
from analysis.sections import Provenance, report_content
from analysis.settings import ReportSettings
from analysis.split_text import split_sentences
from oracle.split_leaks import LeakCounts
from tests.analysis.synthetic import decide, make_world, suite_decisions

CLEAN = LeakCounts(40, 0, 0, 12)


def test_the_split_is_said_in_words_with_where_it_falls_back(tmp_path):
    labels = make_world(n=60).write(tmp_path)
    entry = {
        "by": "document",
        "fallbacks": {
            "claims": {"used": "near_duplicate", "because": "one document group holds 59%"}
        },
    }
    split = replace(labels, manifest={**labels.manifest, "split": entry})
    assert split_sentences(split, CLEAN) == (
        "Split by document: queries of equal text, and those with a relevant document in common, "
        "are never on two sides of train, validation and test. Looser where that doesn't serve: "
        "claims by near-duplicate (one document group holds 59%). Of 40 test queries, 0 have a "
        "query of the same text on another side, 0 have a near-duplicate there, and 12 share a "
        "relevant document with a query on another side.",
    )
    given = replace(labels, manifest={**labels.manifest, "split": {"by": "query", "given": True}})
    assert split_sentences(given, CLEAN)[0].startswith(
        "Train, validation and test were given with the labels. Of 40 test queries,"
    )
    assert split_sentences(labels, CLEAN)[0].startswith("Split by query: queries of equal text are")


def test_a_report_names_its_split_and_counts_what_leaks(tmp_path):
    labels = make_world(n=300).write(tmp_path)
    groups = labels.text_groups.copy()
    test, train = (np.flatnonzero(labels.splits == split) for split in ("test", "train"))
    groups[test[:3]] = groups[train[:3]]
    relevant = np.fromiter([(f"d{row // 2}",) for row in range(300)], dtype=object, count=300)
    labels = replace(labels, text_groups=groups, relevant_ids=relevant)
    folds = np.array([f"doc{row // 2 % 3}" for row in range(300)], dtype=object)
    column = labels.columns_of(["bm25"])[0]
    decided = [
        decide(labels, name, 0.1, np.full(300, column), 0.0, folds)
        for name in ("merging", "best_static")
    ]
    decisions = pa.concat_tables([suite_decisions(labels, (0.1,)), *decided])
    results = compute_results(labels, decisions, ReportSettings(n_resamples=200))
    assert results.test.leaks.exact == 3
    paired = labels.datasets == labels.datasets[np.arange(300) ^ 1]
    shared = sum(paired[row] and labels.splits[row ^ 1] != "test" for row in test)
    assert results.test.leaks.shared_document == shared
    assert results.folds.leaks.shared_document == paired.sum()
    assert results.document_folds.leaks.shared_document == 0
    content = report_content(results, Figures(), Provenance())
    claim = content.sections[0].paragraphs
    said = next(one for one in claim if one.startswith("Split by query"))
    assert "3 have a query of the same text on another side" in said
    section = next(one for one in content.sections if one.title == "Document split")
    assert "and 0 share a relevant document" in section.paragraphs[1]
    assert [table.name for table in section.tables] == ["document_folds", "document_uncertainty"]
    assert {row[1] for row in section.tables[0].rows} >= {"best static", "bm25"}


class Figures(dict):
    """Stands for figures that nobody looks at."""

    def __missing__(self, name):
        from analysis.content import FigureEntry

        return FigureEntry(name, name)
