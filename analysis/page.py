"""A report as one HTML file that opens alone: styles and figures are in it, no script, no network.

Everything that comes from data (arm names, dataset names) is escaped.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from html import escape

from analysis.content import FigureEntry, ReportContent, Section
from analysis.table import Table

_STYLE = """
:root { color-scheme: light dark; --ink: #1d2126; --paper: #ffffff; --line: #d5d9de;
  --soft: #f4f6f8; --quiet: #59626d; --mark: #0b5a96; }
@media (prefers-color-scheme: dark) { :root { --ink: #e4e7eb; --paper: #15181c; --line: #3a4149;
  --soft: #1e2329; --quiet: #a3adb8; --mark: #7cc0f5; } }
* { box-sizing: border-box; }
body { margin: 0; background: var(--paper); color: var(--ink);
  font: 16px/1.5 system-ui, sans-serif; }
main { max-width: 70rem; margin: 0 auto; padding: 1.5rem 1rem 4rem; }
h1 { font-size: 1.6rem; line-height: 1.2; } h2 { margin: 2.5rem 0 .5rem; font-size: 1.25rem; }
h3 { margin: 1.5rem 0 .5rem; font-size: 1rem; }
.claim { border-left: 4px solid var(--mark); padding: .25rem 1rem; background: var(--soft); }
.claim p { font-size: 1.1rem; } .note { color: var(--quiet); font-size: .875rem; }
.wide { overflow-x: auto; } table { border-collapse: collapse; font-size: .875rem; }
th, td { padding: .3rem .6rem; border-bottom: 1px solid var(--line); text-align: left;
  vertical-align: top; } thead th { border-bottom-width: 2px; }
.number { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }
figure { margin: 1rem 0; } figure svg { width: 100%; height: auto; background: #fff; }
figcaption { color: var(--quiet); font-size: .875rem; } a { color: var(--mark); }
dl { display: grid; grid-template-columns: minmax(8rem, max-content) 1fr; gap: .1rem 1rem; }
dt { color: var(--quiet); } dd { margin: 0; overflow-wrap: anywhere; }
pre { background: var(--soft); padding: 1rem; overflow-x: auto; }
@media print { body { font-size: 11pt; } .wide { overflow: visible; } }
"""


def write_page(content: ReportContent, svgs: Mapping[str, str]) -> str:
    """Return the report as HTML; ``svgs`` maps a figure's name to its SVG."""
    sections = "\n".join(_section(section, svgs) for section in content.sections)
    claim = "\n".join(f"<p>{escape(sentence)}</p>" for sentence in content.claim)
    title = escape(content.title)
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta http-equiv="Content-Security-Policy" '
        "content=\"default-src 'none'; style-src 'unsafe-inline'; img-src data:\">\n"
        f"<title>{title}</title>\n<style>{_STYLE}</style>\n</head>\n<body>\n<main>\n"
        f'<h1>{title}</h1>\n<div class="claim">\n{claim}\n</div>\n{sections}\n'
        "</main>\n</body>\n</html>\n"
    )


def _section(section: Section, svgs: Mapping[str, str]) -> str:
    parts = [f"<h2>{escape(section.title)}</h2>"]
    parts += [f"<p>{escape(text)}</p>" for text in section.paragraphs]
    if section.facts:
        facts = "".join(f"<dt>{escape(a)}</dt><dd>{escape(b)}</dd>" for a, b in section.facts)
        parts.append(f"<dl>{facts}</dl>")
    parts += [_figure(figure, svgs[figure.name]) for figure in section.figures]
    parts += [_table(table) for table in section.tables]
    parts += [f"<pre><code>{escape(section.code)}</code></pre>"] if section.code else []
    return f"<section>\n{chr(10).join(parts)}\n</section>"


def _figure(figure: FigureEntry, svg: str) -> str:
    caption = escape(figure.caption)
    body = svg[svg.index("<svg") :].replace(
        "<svg ", f'<svg role="img" aria-label="{escape(figure.caption)}" ', 1
    )
    return f"<figure>{_own_ids(body, figure.name)}<figcaption>{caption}</figcaption></figure>"


def _own_ids(svg: str, name: str) -> str:
    """Prefix the ids of one figure, so that several on a page don't share any."""
    svg = re.sub(r'\bid="', f'id="{name}-', svg)
    svg = re.sub(r'\bxlink:href="#', f'xlink:href="#{name}-', svg)
    return svg.replace("url(#", f"url(#{name}-")


def _table(table: Table) -> str:
    note = f'<p class="note">{escape(table.note)}</p>\n' if table.note else ""
    file = escape(f"{table.name}.csv")
    return (
        f"<h3>{escape(table.title)}</h3>\n{_grid(table) if table.shown_rows else ''}{note}"
        f'<p class="note">All rows and columns: <a href="{file}">{file}</a></p>'
    )


def _grid(table: Table) -> str:
    columns, rows = table.shown_cells()
    classes = ["" if column.kind == "text" else ' class="number"' for column in columns]
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
    return (
        f'<div class="wide"><table>\n<thead><tr>{head}</tr></thead>\n'
        f"<tbody>\n{body}\n</tbody>\n</table></div>\n"
    )
