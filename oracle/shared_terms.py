"""A warning where an index that goes by words has next to none of the queries' words."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from pathlib import Path

from arms.catalogue import kind_of, open_arm, spec_of
from arms.corpora.corpus import Dataset
from arms.settings import ArmSettings

_log = logging.getLogger(__name__)

TOLERATED = 0.5
"""Share of a dataset's queries without a term of the index above which a warning is due."""


def warn_of_strangers(
    datasets: Sequence[Dataset], arms: Sequence[ArmSettings], index_folder: Path
) -> None:
    """Log a warning for each dataset and sparse arm that knows no term of most queries.

    Such an arm answers most queries with nothing: documents and queries are in two languages or
    scripts, or the words are cut differently from what they need.

    Raises:
        ArmIndexError: an index can't be opened.
    """
    for dataset in datasets:
        for one in arms:
            absent = one.only is not None and dataset.name not in one.only
            if absent or kind_of(one.arm).architecture != "sparse":
                continue
            spec = spec_of(one)
            arm = open_arm(spec, dataset.corpus, index_folder / dataset.name)
            known = [arm.shares_terms(query.text) for query in dataset.queries]
            strangers = [
                query.text
                for query, shared in zip(dataset.queries, known, strict=True)
                if shared is False
            ]
            if len(strangers) > TOLERATED * len(dataset.queries):
                _log.warning(
                    "dataset '%s': %s has no term of %d of %d queries and will find nothing for "
                    "them, e.g. '%s'; check that queries and documents are in one language, and "
                    "the options language, stop_words and token_pattern",
                    *(dataset.name, spec.identity, len(strangers), len(dataset.queries)),
                    strangers[0][:80],
                )
