"""Decisions of a policy that merges, beside a router and baselines."""

import numpy as np
import pyarrow as pa

from analysis.settings import ReportSettings
from tests.analysis.synthetic import decide, suite_decisions, with_answers, with_ceilings

SETTINGS = ReportSettings(n_resamples=200, router="merging", lams=(0.0, 0.3))

ROOM = 0.05
"""How much better the ideal order of what is merged is than the policy's, up to 1."""


def merging_in(labels, lam, gain=0.1, alone=lambda n: n % 4 == 0, **options):
    """Merges bm25 and text_dense but where one answers ``alone``; better than the best by ``gain``.

    Of merged arms text_dense would have answered alone; alone answers text_dense.
    """
    n = len(labels.query_ids)
    single = alone(np.arange(n))
    best = np.nanmax(labels.quality["nDCG@5"], axis=1)
    table = decide(labels, "merging", lam, np.ones(n, int), 1.0, **options)
    plans = np.where(single, "text_dense", "bm25&text_dense").tolist()
    own = {
        name: np.where(single, np.nan, np.clip(share * best + gain, 0, 1))
        for name, share in (("nDCG", 1.0), ("RR", 0.9), ("R", 0.8))
    }
    ideal = {name: np.clip(values + ROOM, 0, 1) for name, values in own.items()}
    return with_ceilings(with_answers(table, plans, **own), **ideal)


def suite_with(labels, **options):
    """Router and baselines at two λ, and the policy that merges, on the test split and on folds."""
    lams = (0.0, 0.3)
    folds = np.array([f"cv{row % 5}" for row in range(len(labels.query_ids))], dtype=object)
    tables = [suite_decisions(labels, lams=lams)]
    for lam in lams:
        tables += [merging_in(labels, lam, **options)]
        tables += [merging_in(labels, lam, splits=folds, **options)]
    return pa.concat_tables(tables, promote_options="default")
