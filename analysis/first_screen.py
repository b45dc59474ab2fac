"""What a report says first: what answers by default, what λ means, and what to deploy."""

from __future__ import annotations

from analysis.deployment import Deployed, Deployment
from analysis.headline import FEW_QUERIES
from analysis.outcomes import LATENCY, Outcome
from analysis.results import Results
from analysis.roles import role_of, title_of
from analysis.table import Column, Row, Table, write_number
from arms.reward import exchange_sentence
from router.choice import DEFAULT_LAM
from router.policy_names import BEST_STATIC


def first_sentences(results: Results) -> tuple[str, ...]:
    """The defaults with their numbers, then what λ means on these arms."""
    return _defaults_told(results), _lam_told(results)


def _shown_lam(results: Results) -> float:
    return DEFAULT_LAM if DEFAULT_LAM in results.lams else results.shown_lams[0]


def _defaults_told(results: Results) -> str:
    lam, scores, defaults = _shown_lam(results), results.test.scores, results.defaults
    measure = results.labels.primary_measure

    def told(outcome: Outcome | None) -> str:
        if outcome is None:
            return "nothing decided"
        quality, ms = (outcome.values(one)[outcome.evaluated].mean() for one in (measure, LATENCY))
        return f"{measure} {write_number('quality', quality)} in {write_number('ms', ms)} ms"

    best = scores.get(BEST_STATIC, lam)
    beside = "" if best is None else f"; the best single arm reaches {told(best)}"
    if defaults.select == defaults.search:
        reached = told(scores.get(defaults.select, lam))
        said = f"select and search both ask {defaults.select}: {reached}"
    else:
        said = " and ".join(
            f"{call} asks {name} ({told(scores.get(name, lam))})"
            for call, name in (("select", defaults.select), ("search", defaults.search))
        )
    few = ""
    if (n := len(scores.evaluation)) < FEW_QUERIES:
        few = f" With only {n} test queries this settles nothing."
    return f"By default, at λ = {lam:g}, {said}{beside}.{few}"


def _lam_told(results: Results) -> str:
    evaluation = results.test.scores.evaluation
    mean_ms = results.mean_total_ms
    said = exchange_sentence(_shown_lam(results), mean_ms, evaluation.primary_measure)
    return f"{said[0].upper()}{said[1:]}, in the mean over the labelled queries."


def deploy_table(results: Results) -> Table:
    """Every row of :mod:`analysis.deployment`; the CSV has the numbers in columns of their own."""
    measure = results.labels.primary_measure
    has_simple = any(one.simple is not None for one in results.deployments)
    columns = (
        Column("wanted", "you want"),
        Column("policy", "run this"),
        Column("lam", "at λ", "lam"),
        Column("quality", measure, "quality"),
        Column("latency_ms", "mean ms", "ms"),
        *_beside_columns("single_arm", "best single arm", measure),
        *_beside_columns("simple", "strongest simple baseline", measure, has_simple),
    )
    rows = tuple(map(_row, results.deployments))
    picked = (
        "Each row is picked on validation queries"
        if results.picked_on_validation
        else "The decisions hold no validation queries, so each row is picked on the test queries "
        "that score it, which flatters it"
    )
    return Table(
        "deploy",
        "What to deploy",
        columns,
        rows,
        rows,
        note=f"{picked}, by {measure} within a budget of mean ms and by reward at a λ; the numbers "
        f"are of {len(results.test.scores.evaluation):,} test queries, with "
        f"{results.settings.confidence:.0%} intervals, the policy's own time included. "
        f"Run it with policy=…, lam=…; where you name no policy, {results.defaults.told}.",
    )


def _beside_columns(key: str, heading: str, measure: str, shown: bool = True) -> tuple[Column, ...]:
    return (
        Column(key, heading, shown=False),
        Column(f"{key}_quality", measure, "quality", shown=False),
        Column(f"{key}_latency_ms", "ms", "ms", shown=False),
        Column(f"{key}_told", heading, shown=shown),
    )


def _row(one: Deployment) -> Row:
    wanted = f"λ = {one.lam:g}" if one.budget_ms is None else f"at most {one.budget_ms:g} ms"
    fixed = role_of(one.best.policy) == "static"
    return (
        wanted,
        f"{title_of(one.best.policy)} alone" if fixed else one.best.policy,
        None if fixed else one.best.lam,
        one.best.quality,
        one.best.latency_ms,
        *_beside(one.single),
        *_beside(one.simple),
    )


def _beside(one: Deployed | None) -> Row:
    if one is None or one.quality.value is None or one.latency_ms.value is None:
        return (None, None, None, None)
    quality, ms = (
        write_number("quality", one.quality.value),
        write_number("ms", one.latency_ms.value),
    )
    name = title_of(one.policy) if role_of(one.policy) == "static" else f"λ = {one.lam:g}"
    return name, one.quality, one.latency_ms, f"{name}: {quality}, {ms} ms"
