"""A table as LaTeX with booktabs, ready to be put into a paper."""

from __future__ import annotations

import re

from analysis.table import MINUS, Table

_SPECIAL = {
    "\\": r"\textbackslash{}",
    "&": r"\&",
    "%": r"\%",
    "$": r"\$",
    "#": r"\#",
    "_": r"\_",
    "{": r"\{",
    "}": r"\}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"$<$",
    ">": r"$>$",
    "λ": r"$\lambda$",
    "×": r"$\times$",
    "–": "--",
    "…": r"\ldots{}",
    MINUS: "$-$",
}
_PATTERN = re.compile("|".join(re.escape(one) for one in _SPECIAL))


def escape_latex(text: str) -> str:
    """Escape what LaTeX would take for a command; λ, ×, − and dashes become their commands."""
    return _PATTERN.sub(lambda found: _SPECIAL[found.group()], " ".join(text.split()))


def write_latex(table: Table) -> str:
    """Return the shown part of ``table`` as a ``table`` environment; needs ``booktabs``."""
    columns, rows = table.shown_cells()
    alignment = "".join("l" if column.kind == "text" else "r" for column in columns)
    head = " & ".join(escape_latex(column.heading) for column in columns)
    body = [" & ".join(escape_latex(cell) for cell in row) + r" \\" for row in rows]
    return "\n".join(
        (
            "% needs \\usepackage{booktabs} and, as it is wide, \\usepackage{graphicx}",
            r"\begin{table}",
            r"  \centering",
            rf"  \caption{{{escape_latex(table.title)}}}",
            rf"  \label{{tab:{table.name.replace('_', '-')}}}",
            r"  \resizebox{\linewidth}{!}{%",
            rf"  \begin{{tabular}}{{{alignment}}}",
            r"    \toprule",
            rf"    {head} \\",
            r"    \midrule",
            *(f"    {line}" for line in body),
            r"    \bottomrule",
            r"  \end{tabular}}",
            r"\end{table}",
            "",
        )
    )
