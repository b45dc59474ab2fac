"""The report's sections, in order, from results; no drawing, no files."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from analysis.claim_tables import claim_table
from analysis.collapse import collapse_sentences, collapses
from analysis.columns import counted
from analysis.content import FigureEntry, ReportContent, Section
from analysis.dataset_tables import (
    arms_table,
    datasets_table,
    filters_table,
    index_table,
    storage_table,
)
from analysis.detail_sections import detail_sections
from analysis.facts import manifest_facts
from analysis.figures import PARETO
from analysis.first_screen import deploy_table, first_sentences
from analysis.frontier_tables import areas_table, points_table, significance_table
from analysis.gates import gate_sentences
from analysis.headline import headline
from analysis.lost_queries import FoundDocuments
from analysis.merging import merging_note
from analysis.results import Results
from analysis.reuse import reuse_note
from analysis.roles import title_of
from analysis.summary_tables import (
    arms_main_table,
    headroom_table,
    means_table,
)
from analysis.uncertainty_table import uncertainty_table
from oracle.split_leaks import leak_sentence

Facts = tuple[tuple[str, str], ...]


@dataclass(frozen=True, eq=False)
class Provenance:
    """What a report repeats of the files it was made from."""

    router_facts: Facts = ()
    input_facts: Facts = ()
    """The report's own settings and the hashes of what it read."""
    commands: str = ""
    config: str = ""
    """The run's settings, as YAML."""
    found: FoundDocuments | None = None
    """What each arm found on the queries lost; None where labels hold no rankings."""


def report_content(
    results: Results, figures: Mapping[str, FigureEntry], provenance: Provenance
) -> ReportContent:
    """Put the report together: what to deploy, the claim, what was run, the numbers behind it."""
    sections = (
        _claim(results),
        _what_was_run(results),
        _frontier(results),
        _main(results),
        _significance(results),
        *detail_sections(results, figures, provenance.found),
        _folds(results),
        _document_folds(results),
        _storage(results),
        _repeat(results, provenance),
    )
    return ReportContent(
        results.settings.title,
        first_sentences(results),
        deploy_table(results),
        figures[PARETO],
        tuple(one for one in sections if one),
    )


def _what_was_run(results: Results) -> Section:
    evaluation = results.test.scores.evaluation
    labels = results.labels
    lams = ", ".join(f"{lam:g}" for lam in results.lams)
    shown = ", ".join(f"{lam:g}" for lam in results.shown_lams)
    queries = counted(len(labels.query_ids), "query", "queries")
    paragraphs = [
        f"{queries} of {counted(len(set(labels.datasets)), 'dataset')}, each run on "
        "every arm its dataset has. Numbers are over "
        f"{counted(len(evaluation), 'test query', 'test queries')}; "
        f"{evaluation.failed_queries:,} more were left out for all arms because an arm failed on "
        "them.",
        f"A, the arms a router may choose: {', '.join(labels.router_arms)}. P, all arms that were "
        f"run: {', '.join(labels.pipelines)}.",
        "Reward = (1 − λ) · quality + λ · (1 − latency share). Every policy's latency, oracles' "
        "and the router's overhead included, is divided by the same sum: the latencies of "
        f"{', '.join(evaluation.declared_arms)} on that query. Quality is "
        f"{evaluation.primary_measure}.",
        *filter(None, [reuse_note(results.test.summaries), merging_note(results.test.shares)]),
        f"Policies were decided at λ = {lams}; the text shows λ = {shown}, the CSV files all.",
        *results.notes,
    ]
    return Section(
        "What was run",
        tuple(paragraphs),
        tables=(datasets_table(results), arms_table(results), filters_table(results)),
        facts=manifest_facts(labels.manifest),
        facts_title="Hardware, threads, latency protocol, versions",
    )


def _claim(results: Results) -> Section:
    return Section("The claim, arm by arm", headline(results), tables=(claim_table(results),))


def _frontier(results: Results) -> Section:
    areas = areas_table(results)
    paragraphs: tuple[str, ...] = ("λ and frontier are read off the same test queries.",)
    if areas is None:
        paragraphs += ("Hypervolume isn't defined: all operating points are equally fast.",)
    tables = (*((areas,) if areas else ()), points_table(results))
    return Section("Pareto frontier", paragraphs, tables=tables)


def _main(results: Results) -> Section:
    tables = [
        arms_main_table(results),
        means_table(
            results, results.test.summaries, "main", "Every policy that chooses, by λ", results.test
        ),
        headroom_table(results, results.test, "headroom", "Headroom closed on the test split"),
        uncertainty_table(
            results, results.test, "uncertainty", "How sure the leads are on the test split"
        ),
    ]
    if results.worst_case:
        tables.append(
            means_table(
                results,
                results.worst_case,
                "summary_failures_counted",
                "Test split, failed queries counted as the arm's worst case",
                note="A failure counts as quality 0 and the longest latency seen of that arm (for "
                "a timeout, the time limit where that is longer), so that arms don't win by "
                "failing. ",
            )
        )
    test = results.test
    gated = {(results.router, lam) for lam in results.lams if round(lam, 9) in results.closed}
    told = (
        *gate_sentences(results.closed, results.lams),
        *collapse_sentences(collapses(test.shares, results.labels.pipelines, gated)),
    )
    return Section("All policies", told, tables=tuple(tables))


def _significance(results: Results) -> Section:
    missing = results.test.significance.missing
    n = len(results.test.scores.evaluation)
    named = ", ".join(f"{title_of(policy)} ({count:,})" for policy, count in missing.items())
    paragraphs = []
    if missing:
        paragraphs.append(
            f"Excluded, as a dataset lacks them and a missing result isn't a 0: {named}. In "
            f"brackets: queries without a result, of {n:,}. The claim's table compares each over "
            "the queries it has."
        )
    if results.test.scores.evaluation.failed_queries:
        paragraphs.append("Queries on which an arm failed are left out for all arms.")
    return Section("Significance", tuple(paragraphs), tables=(significance_table(results),))


def _folds(results: Results) -> Section:
    title = "Grouped cross-validation"
    if results.folds is None:
        return Section(title, ("The decisions hold no cross-validation folds.",))
    evaluation = results.folds.scores.evaluation
    return Section(
        title,
        (
            f"Every query is decided once, by a model that saw neither it nor any query of its "
            f"group; the folds are pooled: {len(evaluation):,} queries, "
            f"{evaluation.failed_queries:,} more left out because an arm failed. Where test sets "
            "are small, these numbers say more than the fixed split's.",
            leak_sentence(results.folds.leaks, "queries in folds"),
        ),
        tables=(
            means_table(
                results,
                results.folds.summaries,
                "folds",
                "Pooled folds: every policy that chooses",
                results.folds,
            ),
            uncertainty_table(
                results, results.folds, "folds_uncertainty", "Pooled folds: how sure the leads are"
            ),
        ),
    )


def _document_folds(results: Results) -> Section | None:
    found = results.document_folds
    if found is None:
        return None
    evaluation = found.scores.evaluation
    tables = (
        means_table(
            results,
            found.summaries,
            "document_folds",
            "Document folds: every policy that chooses",
            found,
        ),
        uncertainty_table(
            results, found, "document_uncertainty", "Document folds: how sure the leads are"
        ),
    )
    return Section(
        "Document split",
        (
            f"{len(evaluation):,} queries decided once more, in folds that keep queries with a "
            "relevant document in common together, where the dataset allows it: what policies that "
            "learn about documents come to where new questions concern documents that nobody "
            "asked about. Only those policies, fusions, the default and baselines are there.",
            leak_sentence(found.leaks, "queries in document folds"),
        ),
        tables=tables,
    )


def _storage(results: Results) -> Section | None:
    tables = (storage_table(results), index_table(results))
    given = tuple(table for table in tables if table is not None)
    return Section("Storage and memory", tables=given) if given else None


def _repeat(results: Results, provenance: Provenance) -> Section:
    settings = results.settings
    return Section(
        "How to repeat it",
        (
            f"Intervals are percentile intervals of {settings.n_resamples:,} paired bootstrap "
            f"resamples of queries, seed {settings.seed}. The report reads labels and decisions "
            "and refits nothing.",
        ),
        facts=(*provenance.input_facts, *provenance.router_facts),
        facts_title="Hashes, settings, the router's own file",
        code=provenance.commands,
        folded_code=provenance.config,
        folded_title="Settings of the oracle, as the labels' manifest has them",
    )
