"""What a report says, before it is written as Markdown or HTML."""

from __future__ import annotations

from dataclasses import dataclass

from analysis.table import Table


@dataclass(frozen=True, slots=True)
class FigureEntry:
    """A figure by file name without its ending; PNG and SVG lie beside the report."""

    name: str
    caption: str
    """Says what to see; also the text for those who can't see it."""
    tips: tuple[str, ...] = ()
    """What the page shows beside the pointer, one for each drawn group ``point-<i>``."""


@dataclass(frozen=True, slots=True)
class Section:
    """One heading with what stands under it, in this order."""

    title: str
    paragraphs: tuple[str, ...] = ()
    figures: tuple[FigureEntry, ...] = ()
    tables: tuple[Table, ...] = ()
    facts: tuple[tuple[str, str], ...] = ()
    """Name and value, one a line."""
    facts_title: str = ""
    code: str = ""
    folded_code: str = ""
    """Longer: the page shows it when asked to."""
    folded_title: str = ""


@dataclass(frozen=True, slots=True)
class ReportContent:
    """The whole report: what to deploy first, everything else in sections."""

    title: str
    first: tuple[str, ...]
    """Sentences; the first names what answers by default."""
    deploy: Table
    figure: FigureEntry
    sections: tuple[Section, ...]

    @property
    def tables(self) -> tuple[Table, ...]:
        """Every table, in order."""
        return (self.deploy, *(table for section in self.sections for table in section.tables))

    @property
    def figures(self) -> tuple[FigureEntry, ...]:
        """Every figure, in order."""
        return (self.figure, *(figure for section in self.sections for figure in section.figures))
