"""The claim in a sentence per λ, with numbers, whatever they say."""

from __future__ import annotations

import numpy as np

from analysis.bootstrap import Estimate
from analysis.claims import Claim
from analysis.collapse import collapse_sentences, collapses
from analysis.columns import counted
from analysis.comparison import Comparison
from analysis.outcomes import Outcome
from analysis.results import Results
from analysis.roles import role_of, title_of
from analysis.split_text import split_sentences
from analysis.table import Kind, write_number
from router.policy_names import BEST_STATIC, STRONGEST_SIMPLE

FEW_QUERIES = 30
"""Test queries below which a report says that they are too few: resampling so few queries gives
intervals that are too narrow."""


def claim_answer(claim: Claim) -> str:
    """``yes`` (both intervals clear of 0), ``in the mean, within noise``, or ``none``."""
    if claim.point is None:
        return "none"
    return "yes" if claim.point.certain else "in the mean, within noise"


def short_answer(results: Results) -> str:
    """The claim in a breath: arms beaten in both respects, and where the best static arm stands."""
    own = [claim for claim in results.test.claims if claim.router == results.router]
    beaten = sum(claim_answer(claim) == "yes" for claim in own)
    arms, router = counted(len(own), "single arm"), results.router
    sentence = f"At no λ is {router} both more accurate and faster than any of {arms}."
    if beaten:
        sentence = f"At the best λ for each, {router} is more accurate and faster than {beaten} "
        sentence += f"of {arms}."
    n = len(results.test.scores.evaluation)
    if n < FEW_QUERIES:
        said = counted(n, "test query", "test queries")
        sentence += f" With only {said} this settles nothing."
    verdicts: dict[str, list[str]] = {}
    for one in results.test.comparisons:
        if one.policy == BEST_STATIC and one.lam in results.shown_lams:
            verdicts.setdefault(verdict(one.reward_difference), []).append(f"{one.lam:g}")
    if not verdicts:
        return sentence
    parts = [
        f"{said} of the best single arm at λ = {' and '.join(lams)}"
        for said, lams in verdicts.items()
    ]
    return f"{sentence} By reward it is {', '.join(parts)}."


def headline(results: Results) -> tuple[str, ...]:
    """The short answer, a sentence per shown λ (against the best static arm), others, the split, a
    warning.

    The warning: at which λ the router has stopped choosing.
    """
    found = collapses(results.test.shares, results.labels.pipelines)
    own = [one for one in found if one.policy == results.router]
    return (
        short_answer(results),
        *_beside_best_static(results),
        *_beside_simple(results),
        *_others(results),
        *split_sentences(results.labels, results.test.leaks),
        *collapse_sentences(own),
    )


def _others(results: Results) -> tuple[str, ...]:
    """Which other policies are clearly ahead of the router at the shown λ; nothing where none is.

    Each with its mean reward, the router's less its own, and at how many arms it is better in both
    respects.
    """
    parts = []
    for lam in results.shown_lams:
        ahead = [
            one
            for one in results.test.comparisons
            if one.lam == lam
            and role_of(one.policy) == "routed"
            and one.reward_difference.high is not None
            and one.reward_difference.high < 0.0
        ]
        told = [
            f"{title_of(one.policy)} ({_difference(one)})"
            for one in sorted(ahead, key=lambda one: (-one.reward, one.policy))
        ]
        parts += [f"at λ = {lam:g} {', '.join(told)}"] if told else []
    if not parts:
        return ()
    sentence = f"Other policies clearly ahead of {results.router} by reward: {'; '.join(parts)}."
    n_arms = len(results.labels.pipelines)
    beaten: dict[str, int] = {}
    for claim in results.test.claims:
        if claim.router != results.router and claim_answer(claim) == "yes":
            beaten[claim.router] = beaten.get(claim.router, 0) + 1
    most = max(beaten.values(), default=0)
    best = [title_of(policy) for policy, count in beaten.items() if count == most]
    if most:
        sentence += (
            f" At the best λ for each, {' and '.join(best)} "
            f"{'is' if len(best) == 1 else 'are'} more accurate and faster than {most} of "
            f"{counted(n_arms, 'single arm')}."
        )
    return (sentence,)


def _difference(one: Comparison) -> str:
    """Its reward, and the router's less that, with the interval."""
    difference = one.reward_difference
    assert difference.value is not None
    assert difference.low is not None and difference.high is not None
    low, high = (write_number("change", value) for value in (difference.low, difference.high))
    less = write_number("change", difference.value)
    return f"{write_number('quality', one.reward)}, router less this {less} [{low}, {high}]"


def _beside_best_static(results: Results) -> tuple[str, ...]:
    found = {one.lam: one for one in results.test.comparisons if one.policy == BEST_STATIC}
    return tuple(
        _sentence(results, lam, found[lam])
        if lam in found
        else f"At λ = {lam:g} there is nothing to compare: {results.router} and a best static arm "
        "have no test query in common."
        for lam in results.shown_lams
    )


def _beside_simple(results: Results) -> tuple[str, ...]:
    """How the router stands to the strongest simple baseline at the shown λ, where there is one."""
    found = [
        one
        for one in results.test.comparisons
        if one.policy == STRONGEST_SIMPLE and one.lam in results.shown_lams
    ]
    if not found:
        return ()
    told = [
        f"{verdict(one.reward_difference)} at λ = {one.lam:g} "
        f"({write_number('quality', one.router_reward)} against "
        f"{write_number('quality', one.reward)})"
        for one in found
    ]
    return (f"Beside the {title_of(STRONGEST_SIMPLE)} it is, by reward, {', '.join(told)}.",)


def verdict(reward_difference: Estimate) -> str:
    """``ahead``, ``not clearly ahead`` (the interval holds 0) or ``not ahead``, by reward."""
    if reward_difference.value is None or reward_difference.value <= 0.0:
        return "not ahead"
    return "ahead" if reward_difference.above_zero else "not clearly ahead"


def _sentence(results: Results, lam: float, one: Comparison) -> str:
    best_static = results.test.scores.get(BEST_STATIC, lam)
    named = arms_named(best_static) if best_static is not None else ""
    measure = results.labels.primary_measure
    parts = [
        _part("reward", "quality", "change", one.router_reward, one.reward, one.reward_difference),
        _part(
            measure, "quality", "change", one.router_quality, one.quality, one.quality_difference
        ),
        _part(
            "mean latency",
            "ms",
            "change_ms",
            one.router_latency_ms,
            one.latency_ms,
            one.latency_difference_ms,
            " ms",
        ),
    ]
    return (
        f"At λ = {lam:g}, {results.router} is {verdict(one.reward_difference)} of "
        f"the best static arm ({named}) on "
        f"{counted(one.n, 'test query', 'test queries')}: {'; '.join(parts)}. "
        f"Brackets: difference and its {results.settings.confidence:.0%} interval."
    )


def _part(
    name: str,
    kind: Kind,
    change: Kind,
    router: float,
    arm: float,
    difference: Estimate,
    unit: str = "",
) -> str:
    numbers = f"{name} {write_number(kind, router)} against {write_number(kind, arm)}{unit}"
    if difference.value is None:
        return numbers
    interval = ""
    if difference.low is not None and difference.high is not None:
        low, high = write_number(change, difference.low), write_number(change, difference.high)
        interval = f" [{low}, {high}]"
    return f"{numbers} ({write_number(change, difference.value)}{interval})"


def arms_named(outcome: Outcome) -> str:
    """Name the arms that answered, most frequent first: one, or several where some are absent."""
    answered = outcome.answering_arm[outcome.evaluated]
    counts = np.bincount(answered, minlength=len(outcome.evaluation.pipelines))
    order = [int(column) for column in np.argsort(-counts, kind="stable") if counts[column]]
    names = [outcome.evaluation.pipelines[column] for column in order]
    if len(names) < 2:
        return "".join(names) or "none"
    return f"{names[0]}; {', '.join(names[1:])} where a dataset lacks it"
