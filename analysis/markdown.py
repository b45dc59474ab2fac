"""A report as Markdown (GitHub's dialect)."""

from __future__ import annotations

from analysis.content import FigureEntry, ReportContent, Section
from analysis.table import Table

_SPECIAL = str.maketrans({character: "\\" + character for character in "\\`*_[]<>|"})


def escape(text: str) -> str:
    """Escape what Markdown would take for mark-up, and put the text on one line."""
    return " ".join(text.split()).translate(_SPECIAL)


def write_markdown(content: ReportContent) -> str:
    """Return the report; figures are linked as PNG files beside it."""
    parts = [f"# {escape(content.title)}", *(escape(sentence) for sentence in content.claim)]
    for section in content.sections:
        parts += _section(section)
    return "\n\n".join(parts) + "\n"


def _section(section: Section) -> list[str]:
    parts = [f"## {escape(section.title)}", *(escape(text) for text in section.paragraphs)]
    if section.facts:
        parts.append("\n".join(f"- {escape(name)}: {escape(fact)}" for name, fact in section.facts))
    parts += [_figure(figure) for figure in section.figures]
    for table in section.tables:
        parts += [f"### {escape(table.title)}", markdown_table(table)]
        parts += [escape(table.note)] if table.note else []
        parts.append(f"All rows and columns: [{table.name}.csv]({table.name}.csv)")
    if section.code:
        parts.append(f"```\n{section.code}\n```")
    return parts


def _figure(figure: FigureEntry) -> str:
    return f"![{escape(figure.caption)}]({figure.name}.png)\n\n*{escape(figure.caption)}*"


def markdown_table(table: Table) -> str:
    """Return the shown part of ``table``; numbers are aligned right."""
    columns, rows = table.shown_cells()
    if not rows:
        return "(no rows)"
    ruler = ["---" if column.kind == "text" else "---:" for column in columns]
    lines = [[escape(column.heading) for column in columns], ruler]
    lines += [[escape(cell) for cell in row] for row in rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)
