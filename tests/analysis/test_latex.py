"""LaTeX: what LaTeX would take for a command is escaped, and the table is whole."""

import pytest

from analysis.bootstrap import Estimate
from analysis.latex import escape_latex, write_latex
from analysis.table import Column, Table


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("text_dense@paragraph", r"text\_dense@paragraph"),
        (r"50 % & $x$ #1 {a} ~ ^ \b", None),
        ("λ = 0.1", r"$\lambda$ = 0.1"),
        ("−0.015 [−0.029, +0.001]", "$-$0.015 [$-$0.029, +0.001]"),
        ("p < 0.001", "p $<$ 0.001"),
    ],
)
def test_escapes(text, expected):
    if expected is None:
        expected = (
            r"50 \% \& \$x\$ \#1 \{a\} \textasciitilde{} \textasciicircum{} \textbackslash{}b"
        )
    assert escape_latex(text) == expected


def test_a_table_is_booktabs():
    columns = (
        Column("policy", "policy"),
        Column("gain", "gain", "change"),
        Column("n", "n", "count", shown=False),
    )
    rows = (("text_late", Estimate(-0.5, -0.6, -0.4, 3), 3), ("bm25", None, 3))
    text = write_latex(Table("my_table", "Gain by λ", columns, rows, rows))
    lines = [line.strip() for line in text.splitlines()]
    for rule in (r"\toprule", r"\midrule", r"\bottomrule"):
        assert lines.count(rule) == 1
    assert r"\begin{tabular}{lr}" in lines
    assert r"policy & gain \\" in lines
    assert r"text\_late & $-$0.500 [$-$0.600, $-$0.400] \\" in lines
    assert r"\caption{Gain by $\lambda$}" in lines and r"\label{tab:my-table}" in lines
    assert text.count(r"\begin") == text.count(r"\end")


def test_the_main_tables_are_written(report):
    names = {path.stem for path in report.folder.glob("*.tex")}
    assert {"claims", "main", "main_arms", "frontier_areas", "significance"} <= names
    for path in report.folder.glob("*.tex"):
        body = path.read_text().replace(r"\%", "")
        assert body.count("%") == 2  # the comment, and the one that ends \resizebox's line
