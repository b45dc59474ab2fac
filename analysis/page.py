"""A report as one HTML file that opens alone: style, script and figures are in it, no network.

Everything that comes from data (arm names, dataset names, queries) is escaped, and the one script
that may run is named by its hash.
"""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Mapping
from hashlib import sha256
from html import escape
from pathlib import Path

from analysis.content import FigureEntry, ReportContent, Section
from analysis.figure_style import INK, PALETTE, QUIET
from analysis.table import Column, Table

_FOLDER = Path(__file__).parent
_SEARCHABLE_FROM = 20
"""Rows from which a table gets a search field."""
_BRIEF = 32
"""Longest text of a column that isn't broken over lines."""
_THEMED = {INK: "var(--ink)", QUIET: "var(--quiet)", "#ffffff": "var(--paper)"}
"""Colours of figures that follow the page's light or dark theme."""


def write_page(content: ReportContent, svgs: Mapping[str, str]) -> str:
    """Return the report as HTML; ``svgs`` maps a figure's name to its SVG."""
    style = (_FOLDER / "page.css").read_text(encoding="utf-8")
    script = (_FOLDER / "page.js").read_text(encoding="utf-8")
    script_hash = b64encode(sha256(script.encode("utf-8")).digest()).decode("ascii")
    policy = (
        "default-src 'none'; style-src 'unsafe-inline'; img-src data:; "
        f"script-src 'sha256-{script_hash}'; base-uri 'none'; form-action 'none'"
    )
    sections = "\n".join(_section(section, svgs) for section in content.sections)
    title = escape(content.title)
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
        f"<title>{title}</title>\n<style>\n{style}</style>\n</head>\n<body>\n"
        f"<main>\n<h1>{title}</h1>\n{_first(content, svgs)}\n{sections}\n</main>\n"
        f'<div id="tip" role="tooltip" hidden></div>\n<script>{script}</script>\n'
        "</body>\n</html>\n"
    )


def _anchor(title: str) -> str:
    return "s-" + re.sub(r"[^a-z0-9]+", "-", title.lower()).strip("-")


def _first(content: ReportContent, svgs: Mapping[str, str]) -> str:
    first, *rest = content.first
    sentences = "\n".join(f"<p>{escape(sentence)}</p>" for sentence in rest)
    said = f'<div class="first">\n<p class="verdict">{escape(first)}</p>\n{sentences}\n</div>'
    figure = _figure(content.figure, svgs[content.figure.name])
    return f'{said}\n{_table(content.deploy)}\n<div class="lead">{figure}</div>'


def _section(section: Section, svgs: Mapping[str, str]) -> str:
    anchor, parts = _anchor(section.title), []
    parts += [f"<p>{escape(text)}</p>" for text in section.paragraphs]
    parts += [_figure(figure, svgs[figure.name]) for figure in section.figures]
    parts += [_table(table) for table in section.tables]
    if section.facts:
        facts = "".join(f"<dt>{escape(a)}</dt><dd>{escape(b)}</dd>" for a, b in section.facts)
        title = escape(section.facts_title or "Details")
        parts.append(f"<details><summary>{title}</summary><dl>{facts}</dl></details>")
    if section.code:
        parts.append(_code(section.code))
    if section.folded_code:
        title = escape(section.folded_title)
        parts.append(f"<details><summary>{title}</summary>{_code(section.folded_code)}</details>")
    heading = f'<summary><h2 id="{anchor}">{escape(section.title)}</h2></summary>'
    return f'<details class="section">\n{heading}\n{chr(10).join(parts)}\n</details>'


def _code(code: str) -> str:
    return f'<pre tabindex="0"><code>{escape(code)}</code></pre>'


def _figure(figure: FigureEntry, svg: str) -> str:
    caption = escape(figure.caption)
    body = svg[svg.index("<svg") :].replace("<svg ", f'<svg role="img" aria-label="{caption}" ', 1)
    body = _with_tips(_own_ids(_themed(body), figure.name), figure)
    files = " ".join(
        f'<a href="{escape(figure.name)}.{ending}">{ending.upper()}</a>'
        for ending in ("svg", "png")
    )
    return (
        f'<figure><div class="wide" tabindex="0" role="group" aria-label="figure, may scroll">'
        f"{body}</div><figcaption>{caption} {files}</figcaption></figure>"
    )


def _themed(svg: str) -> str:
    for colour, variable in _THEMED.items():
        svg = re.sub(rf"(fill|stroke): {colour}\b", rf"\1: {variable}", svg)
    return svg.replace(f'style="fill: {PALETTE[0].lower()}"', 'style="fill: var(--router)"')


def _with_tips(svg: str, figure: FigureEntry) -> str:
    for i, tip in enumerate(figure.tips):
        group = f'<g id="{figure.name}-point-{i}"'
        svg = svg.replace(group, f'{group} class="point" data-tip="{escape(tip)}"', 1)
    return svg


def _own_ids(svg: str, name: str) -> str:
    """Prefix the ids of one figure, so that several on a page don't share any."""
    svg = re.sub(r'\bid="', f'id="{name}-', svg)
    svg = re.sub(r'\bxlink:href="#', f'xlink:href="#{name}-', svg)
    return svg.replace("url(#", f"url(#{name}-")


def _table(table: Table) -> str:
    note = f'<p class="note">{escape(table.note)}</p>\n' if table.note else ""
    anchor, title = f"t-{escape(table.name)}", escape(table.title)
    inner = f"{_grid(table, anchor) if table.shown_rows else ''}{note}{_files(table)}"
    if table.folded and table.shown_rows:
        return (
            f'<details class="table"><summary><h3 id="{anchor}">{title}</h3></summary>\n'
            f"{inner}</details>"
        )
    return f'<div class="table"><h3 id="{anchor}">{title}</h3>\n{inner}</div>'


def _class_of(column: Column, cells: list[str]) -> str:
    if column.kind != "text":
        return ' class="number"'
    return ' class="brief"' if max(map(len, cells), default=0) <= _BRIEF else ""


def _files(table: Table) -> str:
    names = [f"{table.name}.csv", *([f"{table.name}.tex"] if table.latex else [])]
    links = ", ".join(f'<a href="{escape(name)}">{escape(name)}</a>' for name in names)
    return f'<p class="note">All rows and columns: {links}</p>\n'


def _grid(table: Table, anchor: str) -> str:
    columns, rows = table.shown_cells()
    classes = [_class_of(column, [row[i] for row in rows]) for i, column in enumerate(columns)]
    head = "".join(
        f'<th scope="col"{name}>{escape(column.heading)}</th>'
        for name, column in zip(classes, columns, strict=True)
    )
    body = "\n".join(
        "<tr>"
        + "".join(f"<td{name}>{escape(c)}</td>" for name, c in zip(classes, row, strict=True))
        + "</tr>"
        for row in rows
    )
    tools = (
        '<div class="tools" hidden><label>Search <input type="search" autocomplete="off"></label>'
        f'<span role="status">{len(rows)} rows</span></div>\n'
        if len(rows) >= _SEARCHABLE_FROM
        else ""
    )
    return (
        f'{tools}<div class="wide" role="region" tabindex="0" aria-labelledby="{anchor}"><table>\n'
        f"<thead><tr>{head}</tr></thead>\n<tbody>\n{body}\n</tbody>\n</table></div>\n"
    )
