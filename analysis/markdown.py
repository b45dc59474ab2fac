"""A report as Markdown (GitHub's dialect)."""

from __future__ import annotations

import re

from analysis.content import FigureEntry, ReportContent, Section
from analysis.table import Table

# An underscore inside a word isn't mark-up, and brackets are only where a link could follow.
_SPECIAL = re.compile(r"[\\`*<|]|(?<!\w)_|_(?!\w)|[\[\]](?=.*\]\s?[(:\[])")


def escape(text: str) -> str:
    """Escape what Markdown would take for mark-up, and put the text on one line."""
    return _SPECIAL.sub(lambda found: "\\" + found.group(), " ".join(text.split()))


def write_markdown(content: ReportContent) -> str:
    """Return the report; figures are linked as PNG files beside it."""
    parts = [f"# {escape(content.title)}", *(escape(sentence) for sentence in content.first)]
    parts += ["## " + _table(content.deploy)[0].removeprefix("### "), *_table(content.deploy)[1:]]
    parts.append(_figure(content.figure))
    for section in content.sections:
        parts += _section(section)
    return "\n\n".join(parts) + "\n"


def _section(section: Section) -> list[str]:
    parts = [f"## {escape(section.title)}", *(escape(text) for text in section.paragraphs)]
    parts += [_figure(figure) for figure in section.figures]
    for table in section.tables:
        parts += _table(table)
    if section.facts:
        if section.facts_title:
            parts.append(f"### {escape(section.facts_title)}")
        parts.append("\n".join(f"- {escape(name)}: {escape(fact)}" for name, fact in section.facts))
    if section.code:
        parts.append(f"```\n{section.code}\n```")
    if section.folded_code:
        parts += [f"### {escape(section.folded_title)}", f"```\n{section.folded_code}\n```"]
    return parts


def _table(table: Table) -> list[str]:
    parts = [f"### {escape(table.title)}"]
    parts += [markdown_table(table)] if table.shown_rows else []
    parts += [escape(table.note)] if table.note else []
    names = [f"{table.name}.csv", *([f"{table.name}.tex"] if table.latex else [])]
    links = ", ".join(f"[{name}]({name})" for name in names)
    return [*parts, f"All rows and columns: {links}"]


def _figure(figure: FigureEntry) -> str:
    return f"![{escape(figure.caption)}]({figure.name}.png)\n\n*{escape(figure.caption)}*"


def markdown_table(table: Table) -> str:
    """Return the shown part of ``table``; numbers are aligned right."""
    columns, rows = table.shown_cells()
    ruler = ["---" if column.kind == "text" else "---:" for column in columns]
    lines = [[escape(column.heading) for column in columns], ruler]
    lines += [[escape(cell) for cell in row] for row in rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)
