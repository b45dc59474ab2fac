"""Writes scores: one table of all policies as Markdown and CSV, and confusion counts as CSV."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from pathlib import Path

from arms.atomic import atomic_file
from training.routes.scoring import RouteScore

SCORES, CONFUSION = "scores", "confusion"
Described = Mapping[str, str]
"""Policy → a remark that its row carries."""


def write_scores(
    scores: Sequence[RouteScore],
    routes: Sequence[str],
    overhead_ms: Mapping[str, float],
    remarks: Described,
    folder: Path,
) -> Path:
    """Write ``scores.md``, ``scores.csv`` and ``confusion.csv``; return the first's path."""
    header, rows = score_rows(scores, overhead_ms, remarks)
    _write(folder / f"{SCORES}.csv", _csv([header, *rows]))
    counts = [
        [score.policy, needed, *map(str, line)]
        for score in scores
        for needed, line in zip(routes, score.confusion.tolist(), strict=True)
    ]
    _write(folder / f"{CONFUSION}.csv", _csv([["policy", "needed \\ taken", *routes], *counts]))
    text = markdown(header, rows)
    notes = (
        f"{scores[0].queries} queries. `accuracy`: exactly the routes needed were taken; `first "
        "right`: the first one taken is needed; `macro`: mean over sources; columns after it: "
        "accuracy on each source.\n"
    )
    blocks = [
        f"## {score.policy}: needed × first taken\n\n"
        + markdown(
            ["needed", *routes],
            [
                [needed, *map(str, line)]
                for needed, line in zip(routes, score.confusion.tolist(), strict=True)
            ],
        )
        for score in scores
    ]
    _write(folder / f"{SCORES}.md", "\n".join(["# Routes taken\n", notes, text, *blocks]))
    return folder / f"{SCORES}.md"


def score_rows(
    scores: Sequence[RouteScore], overhead_ms: Mapping[str, float], remarks: Described
) -> tuple[list[str], list[list[str]]]:
    """Return header and rows, one for each policy in the order given."""
    sources = list(scores[0].by_source)
    header = ["policy", "accuracy", "first right", "routes taken", "macro", *sources]
    header += ["overhead ms", "remark"]
    rows = []
    for score in scores:
        figures = [score.accuracy, score.first_right, score.routes_taken, score.macro]
        figures += [score.by_source[source] for source in sources]
        cost = overhead_ms.get(score.policy)
        rows.append(
            [
                score.policy,
                *(f"{figure:.4f}" for figure in figures),
                "" if cost is None else f"{cost:.2f}",
                remarks.get(score.policy, ""),
            ]
        )
    return header, rows


def markdown(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a Markdown table."""
    lines = [header, ["---"] * len(header), *rows]
    escaped = [[cell.replace("|", "\\|").replace("\n", " ") for cell in line] for line in lines]
    return "".join(f"| {' | '.join(line)} |\n" for line in escaped)


def _csv(lines: Sequence[Sequence[str]]) -> str:
    stream = io.StringIO()
    csv.writer(stream, lineterminator="\n").writerows(lines)
    return stream.getvalue()


def _write(path: Path, text: str) -> None:
    with atomic_file(path) as temporary:
        temporary.write_text(text, encoding="utf-8")
