"""Claims as differences in reward, query by query, with paired intervals."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from analysis.bootstrap import Estimate, Resamples, estimate_means
from analysis.evaluation import BoolArray, FloatArray
from analysis.outcomes import Outcome
from analysis.roles import BEST_STATIC, role_of

SIMPLE = ("reciprocal_ranks", "tuned_fusion")
"""Policies that fuse what arms found by a rule of a few weights, without document history."""
STRONGEST = "strongest simple baseline"


@dataclass(frozen=True, eq=False)
class ClaimOnQueries:
    """``policy`` against ``over`` at one λ."""

    policy: str
    over: str
    lam: float
    difference: FloatArray
    """(N,) reward of ``policy`` minus that of ``over``; NaN where one of them decided nothing."""

    def on(self, members: BoolArray, resamples: Resamples, confidence: float) -> Estimate:
        """Return the mean over some of the queries, with its interval."""
        values = np.where(members, self.difference, np.nan)[:, None]
        return estimate_means(values, resamples, confidence)[0]


def claims_of(outcomes: Mapping[tuple[str, float], Outcome], over: str) -> list[ClaimOnQueries]:
    """Return every learned policy against ``over``, at each λ that both have."""
    return [
        ClaimOnQueries(policy, over, lam, outcome.reward - outcomes[over, lam].reward)
        for (policy, lam), outcome in outcomes.items()
        if (over, lam) in outcomes and policy != over and role_of(policy) == "routed"
    ]


def strongest_simple(outcomes: Mapping[tuple[str, float], Outcome], lam: float) -> Outcome | None:
    """Return the best of the best static arm and the simple fusions at λ, on these very queries.

    That favours the baseline, as a reviewer would.
    """
    names = (BEST_STATIC, *SIMPLE)
    found = [outcomes[name, lam] for name in names if (name, lam) in outcomes]
    return max(found, key=lambda one: float(np.nanmean(one.reward)), default=None)


def lams_of(outcomes: Mapping[tuple[str, float], Outcome]) -> Sequence[float]:
    """Return the λ at which anything was decided, ascending."""
    return sorted({lam for _, lam in outcomes})
