"""One paired comparison: is the difference normal, which test, how large is the effect.

As in RetrievalRouter: D'Agostino–Pearson on the paired differences, then a paired t-test, or a
two-sided Wilcoxon signed-rank test where they aren't normal; Holm's correction over all planned
comparisons. The tests are scipy's, the correction statsmodels'.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from arms.errors import LabelsError
from arms.extras import not_importable

FloatArray = NDArray[np.float64]
Test = Literal["paired t", "Wilcoxon", "none"]

NORMALITY_ALPHA = 0.05
SMALLEST_NORMALITY_SAMPLE = 20
"""D'Agostino–Pearson's kurtosis term isn't to be trusted below this."""


@dataclass(frozen=True, slots=True)
class PairedTest:
    """A two-sided test of ``ours − theirs``."""

    n: int
    normality_p: float | None
    """None where it can't be tested: few queries, or all differences equal."""
    test: Test
    """``none``: every difference is 0, so there is nothing to test."""
    p_value: float
    effect: float
    """Cohen's d_z beside a t-test, matched-pairs rank-biserial correlation beside Wilcoxon's."""


def paired_test(ours: FloatArray, theirs: FloatArray) -> PairedTest:
    """Test (n,) values of two policies on the same queries, in the same order.

    Raises:
        LabelsError: another number of values on the two sides, or a missing one: an arm without a
            result is never scored as 0.
        MissingExtraError: scipy isn't installed.
    """
    _check_pairing(ours, theirs)
    stats = _scipy_stats()
    differences = np.asarray(ours, dtype=np.float64) - np.asarray(theirs, dtype=np.float64)
    n = len(differences)
    if not np.any(differences):
        return PairedTest(n, None, "none", 1.0, 0.0)
    constant = np.ptp(differences) == 0.0
    normality = None
    with warnings.catch_warnings():
        # scipy warns of nearly equal differences; they count as not normal, which is right.
        warnings.simplefilter("ignore", RuntimeWarning)
        if n >= SMALLEST_NORMALITY_SAMPLE and not constant:
            normality = float(stats.normaltest(differences).pvalue)
        if normality is not None and normality >= NORMALITY_ALPHA:
            p_value = float(stats.ttest_rel(ours, theirs).pvalue)
            return PairedTest(n, normality, "paired t", p_value, cohens_d(differences))
        p_value = float(stats.wilcoxon(differences).pvalue)
    return PairedTest(n, normality, "Wilcoxon", p_value, rank_biserial(differences))


def cohens_d(differences: FloatArray) -> float:
    """Cohen's d_z: mean of the paired differences over their standard deviation (n − 1)."""
    return float(differences.mean() / differences.std(ddof=1))


def rank_biserial(differences: FloatArray) -> float:
    """Matched-pairs rank-biserial correlation, ``(R₊ − R₋) / (R₊ + R₋)``, zeros left out.

    Kerby (2014), doi:10.2466/11.IT.3.1. In [−1, 1]; 0 where every difference is 0.
    """
    nonzero = differences[differences != 0.0]
    if not len(nonzero):
        return 0.0
    ranks = _scipy_stats().rankdata(np.abs(nonzero))
    return float((ranks * np.sign(nonzero)).sum() / ranks.sum())


def holm(p_values: Sequence[float]) -> list[float]:
    """Adjust p-values so that the family-wise error is controlled (Holm 1979)."""
    if not len(p_values):
        return []
    try:
        from statsmodels.stats.multitest import multipletests
    except ImportError as error:
        raise not_importable(error, "statsmodels", "report") from error
    return [float(p) for p in multipletests(list(p_values), method="holm")[1]]


def _check_pairing(ours: FloatArray, theirs: FloatArray) -> None:
    if len(ours) != len(theirs):
        raise LabelsError(
            f"a paired test needs the same queries on both sides, got {len(ours)} and "
            f"{len(theirs)}; cut both down to the queries they have in common"
        )
    missing = int((~np.isfinite(ours)).sum()), int((~np.isfinite(theirs)).sum())
    if any(missing) or not len(ours):
        raise LabelsError(
            f"a paired test needs a result for each of its {len(ours)} queries; {missing[0]} are "
            f"missing on one side, {missing[1]} on the other: leave the policy out, or those "
            "queries"
        )


def _scipy_stats():  # type: ignore[no-untyped-def]
    try:
        import scipy.stats
    except ImportError as error:
        raise not_importable(error, "scipy", "report") from error
    return scipy.stats
