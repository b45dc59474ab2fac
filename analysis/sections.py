"""The report's sections, in order, from results; no drawing, no files."""

from __future__ import annotations

from collections.abc import Mapping

from analysis.content import FigureEntry, ReportContent, Section
from analysis.dataset_tables import (
    arms_table,
    dataset_quality_table,
    datasets_table,
    per_dataset_table,
    storage_table,
)
from analysis.facts import manifest_facts
from analysis.figures import PARETO, QUALITY, SHARES, dataset_share_name
from analysis.headline import headline
from analysis.results import Results
from analysis.summary import MICRO
from analysis.tables import (
    claim_table,
    comparison_table,
    headroom_table,
    share_table,
    splits_table,
    summary_table,
)

Facts = tuple[tuple[str, str], ...]


def report_content(
    results: Results, figures: Mapping[str, FigureEntry], router_facts: Facts, commands: str
) -> ReportContent:
    """Put the report together: the claim, then what was run, then the numbers behind it."""
    sections = (
        _what_was_run(results),
        _claim(results, figures),
        _main(results),
        _headroom(results),
        _routing(results, figures),
        _per_dataset(results, figures),
        _folds(results),
        _storage(results),
        _repeat(results, router_facts, commands),
    )
    return ReportContent(
        results.settings.title, headline(results), tuple(one for one in sections if one)
    )


def _what_was_run(results: Results) -> Section:
    evaluation = results.test.scores.evaluation
    labels = results.labels
    lams = ", ".join(f"{lam:g}" for lam in results.lams)
    shown = ", ".join(f"{lam:g}" for lam in results.shown_lams)
    paragraphs = [
        f"{len(labels.query_ids):,} queries of {len(set(labels.datasets))} datasets, each run on "
        f"every arm its dataset has. Numbers are over the {len(evaluation):,} test queries; "
        f"{evaluation.failed_queries:,} more were left out for all arms because an arm failed on "
        "them.",
        f"A, the arms a router may choose: {', '.join(labels.router_arms)}. P, all arms that were "
        f"run: {', '.join(labels.pipelines)}.",
        "Reward = (1 − λ) · quality + λ · (1 − latency share). Every policy's latency, oracles' "
        "and the router's overhead included, is divided by the same sum: the latencies of "
        f"{', '.join(evaluation.declared_arms)} on that query. Quality is "
        f"{evaluation.primary_measure}.",
        f"Policies were decided at λ = {lams}; the text shows λ = {shown}, the CSV files all.",
        *results.notes,
    ]
    return Section(
        "What was run",
        tuple(paragraphs),
        tables=(datasets_table(results), arms_table(results)),
        facts=manifest_facts(labels.manifest),
    )


def _claim(results: Results, figures: Mapping[str, FigureEntry]) -> Section:
    return Section(
        "The claim, arm by arm", figures=(figures[PARETO],), tables=(claim_table(results),)
    )


def _main(results: Results) -> Section:
    tables = [
        comparison_table(
            results,
            results.test,
            "comparison",
            f"{results.router} beside the other policies",
        ),
        summary_table(
            results,
            results.test.summaries,
            "summary",
            "Test split: every policy",
            note="Mean over queries, and over datasets' means, each dataset counting once. n below "
            "the number of queries: some dataset lacks the arm. Regret is against the oracle over "
            "A; an arm outside A can have less than none. P95 of single timings shows tails that "
            "medians hide.",
        ),
    ]
    if results.worst_case:
        tables.append(
            summary_table(
                results,
                results.worst_case,
                "summary_failures_counted",
                "Test split, failed queries counted as the arm's worst case",
                (MICRO,),
                note="A failure counts as quality 0 and the longest latency seen of that arm (for "
                "a timeout, the time limit where that is longer), so that arms don't win by "
                "failing.",
            )
        )
    return Section("All policies", tables=tuple(tables))


def _headroom(results: Results) -> Section:
    table = headroom_table(results, results.test, "headroom", "Headroom closed on the test split")
    return Section("Headroom", tables=(table,))


def _routing(results: Results, figures: Mapping[str, FigureEntry]) -> Section:
    names = (SHARES, *(dataset_share_name(lam) for lam in results.shown_lams))
    return Section(
        "Where queries go",
        figures=tuple(figures[name] for name in names),
        tables=(share_table(results),),
    )


def _per_dataset(results: Results, figures: Mapping[str, FigureEntry]) -> Section:
    tables = [dataset_quality_table(results, lam) for lam in results.shown_lams]
    return Section(
        "Per dataset", figures=(figures[QUALITY],), tables=(*tables, per_dataset_table(results))
    )


def _folds(results: Results) -> Section:
    title = "Grouped cross-validation"
    if results.folds is None:
        return Section(title, ("The decisions hold no cross-validation folds.",))
    evaluation = results.folds.scores.evaluation
    return Section(
        title,
        (
            f"Every query is decided once, by a model that saw neither it nor any query of the "
            f"same text; the folds are pooled: {len(evaluation):,} queries, "
            f"{evaluation.failed_queries:,} more left out because an arm failed. Where test sets "
            "are small, these numbers say more than the fixed split's.",
        ),
        tables=(
            splits_table(results, results.folds),
            comparison_table(
                results,
                results.folds,
                "folds_comparison",
                f"Pooled folds: {results.router} beside the other policies",
            ),
            summary_table(
                results, results.folds.summaries, "folds_summary", "Pooled folds: every policy", ()
            ),
            headroom_table(
                results, results.folds, "folds_headroom", "Pooled folds: headroom closed"
            ),
        ),
    )


def _storage(results: Results) -> Section | None:
    table = storage_table(results)
    return Section("Storage", tables=(table,)) if table else None


def _repeat(results: Results, router_facts: Facts, commands: str) -> Section:
    settings = results.settings
    return Section(
        "How to repeat it",
        (
            f"Intervals are percentile intervals of {settings.n_resamples:,} paired bootstrap "
            f"resamples of queries, seed {settings.seed}. The report reads labels and decisions "
            "and refits nothing.",
        ),
        facts=router_facts,
        code=commands,
    )
