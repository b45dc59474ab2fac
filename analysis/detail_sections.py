"""The sections behind the means: routing, groups of queries, arms beside one another, losses."""

from __future__ import annotations

from collections.abc import Mapping

from analysis.content import FigureEntry, Section
from analysis.dataset_tables import dataset_quality_table, per_dataset_table
from analysis.detail_tables import (
    agreement_table,
    answers_table,
    calibration_sentence,
    calibration_table,
    found_table,
    group_quality_table,
    group_regret_table,
    lost_table,
    reward_map_table,
)
from analysis.figures import (
    AGREEMENT,
    CALIBRATION,
    DATASET_REGRET,
    DENSITY_QUALITY,
    DENSITY_SHARES,
    LENGTH_REGRET,
    QUALITY,
    REWARD_MAPS,
    SHARES,
    dataset_share_name,
)
from analysis.lost_queries import FoundDocuments
from analysis.merging import merging_policies
from analysis.query_groups import DATASET, DENSITY, LENGTH, PAGE_KIND
from analysis.results import Results
from analysis.roles import role_of
from analysis.share_tables import group_share_table, share_table

Figures = Mapping[str, FigureEntry]


def detail_sections(
    results: Results, figures: Figures, found: FoundDocuments | None
) -> tuple[Section, ...]:
    """Return the sections in order; those about pages only where labels know of pages."""
    sections = (
        _routing(results, figures),
        _reward_maps(results, figures),
        _per_dataset(results, figures),
        _density(results, figures),
        _page_kinds(results),
        _arms(results, figures),
        _calibration(results, figures),
        _regret(results, figures),
        _losses(results, found),
    )
    return tuple(one for one in sections if one is not None)


def _routing(results: Results, figures: Figures) -> Section:
    names = (SHARES, *(dataset_share_name(lam) for lam in results.shown_lams))
    return Section(
        "Where queries go",
        figures=tuple(figures[name] for name in names),
        tables=(share_table(results),),
    )


def _reward_maps(results: Results, figures: Figures) -> Section | None:
    maps = results.details.reward_maps
    if not maps:
        return None
    return Section(
        "Reward by the arm chosen",
        figures=(figures[REWARD_MAPS],),
        tables=tuple(
            reward_map_table(
                one, "reward_map_oracle" if role_of(one.policy) == "oracle" else "reward_map_router"
            )
            for one in maps
        ),
    )


def _per_dataset(results: Results, figures: Figures) -> Section:
    tables = [dataset_quality_table(results, lam) for lam in results.shown_lams]
    return Section(
        "Per dataset", figures=(figures[QUALITY],), tables=(*tables, per_dataset_table(results))
    )


def _density(results: Results, figures: Figures) -> Section | None:
    if DENSITY not in results.details.groupings:
        return None
    groups = results.details.groupings[DENSITY]
    unknown = int((groups.codes < 0).sum())
    paragraphs = (
        "Visual density is the share of a page covered by pictures, charts and tables, averaged "
        f"over a query's relevant pages; it isn't known for {unknown:,} of the "
        f"{len(groups.codes):,} test queries.",
    )
    return Section(
        "By visual density",
        paragraphs,
        figures=(figures[DENSITY_QUALITY], figures[DENSITY_SHARES]),
        tables=(
            group_quality_table(results, DENSITY, "quality_by_density"),
            group_share_table(results, DENSITY, "routing_share_by_density"),
            group_regret_table(results, DENSITY, "regret_by_density"),
        ),
    )


def _page_kinds(results: Results) -> Section | None:
    if PAGE_KIND not in results.details.groupings:
        return None
    return Section(
        "By kind of page",
        tables=(
            group_quality_table(results, PAGE_KIND, "quality_by_page_kind"),
            group_share_table(results, PAGE_KIND, "routing_share_by_page_kind"),
            group_regret_table(results, PAGE_KIND, "regret_by_page_kind"),
        ),
    )


def _arms(results: Results, figures: Figures) -> Section:
    return Section(
        "Arms beside one another",
        figures=(figures[AGREEMENT],),
        tables=(answers_table(results), agreement_table(results)),
    )


def _calibration(results: Results, figures: Figures) -> Section:
    table = calibration_table(results)
    return Section(
        "Predicted quality",
        (calibration_sentence(results),),
        figures=(figures[CALIBRATION],) if table else (),
        tables=(table,) if table else (),
    )


def _regret(results: Results, figures: Figures) -> Section:
    paragraphs: tuple[str, ...] = ()
    names, tables = [], []
    if LENGTH in results.details.groupings:
        names.append(LENGTH_REGRET)
        tables.append(group_regret_table(results, LENGTH, "regret_by_length"))
    else:
        paragraphs = ("These labels hold no query text, so regret by query length is left out.",)
    names.append(DATASET_REGRET)
    tables.append(group_regret_table(results, DATASET, "regret_by_dataset"))
    return Section(
        "Regret by query length and dataset",
        paragraphs,
        tuple(figures[name] for name in names),
        tuple(tables),
    )


def _losses(results: Results, found: FoundDocuments | None) -> Section:
    title = "Where the router lost most"
    if not results.details.lost:
        ahead = " or ahead of" if results.router in merging_policies(results.test.shares) else ""
        said = f"Nowhere: {results.router} is level with{ahead} the oracle over A."
        return Section(title, (said,))
    return Section(title, tables=(lost_table(results), found_table(results, found)))
