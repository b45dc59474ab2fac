"""The console commands on routing labels: ``l2r routes train`` and ``l2r routes score``.

Nothing heavy is imported before a command is called.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from training.routes.scoring import RouteScore
    from training.routes.settings import RoutesSettings

routes_app = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode=None,
    help="Routers from routing labels alone: which routes a query needs, with no arms run. Labels "
    "are a folder with queries.jsonl and routes/train.tsv, test.tsv (query id, tab, route), or one "
    "table (CSV, TSV, parquet, XLSX) with the columns query and routes.",
)
SPLITS = ("train", "val", "test")
_MOST_SOURCES = 10
"""Shown as columns; where there are more, they stand in the files alone."""
Separator = Annotated[
    str | None,
    typer.Option(
        help="between the routes of a table's cell; none: a cell holds one route; default: any of "
        "',', '|' and '+', where every part also stands alone"
    ),
]
LabelsPath = Annotated[Path, typer.Argument(help="folder or table of routing labels")]


@routes_app.command()
def train(
    labels: LabelsPath,
    out: Annotated[Path, typer.Argument(help="where the router is written")],
    config: Annotated[
        Path | None,
        typer.Option(help="YAML of settings: policies, encoder, lora, static, prompt, seed …"),
    ] = None,
    seed: Annotated[int | None, typer.Option(help="default: the file's, or 42")] = None,
    policies: Annotated[
        str | None, typer.Option(help="with commas between; default: all of them")
    ] = None,
    separator: Separator = None,
) -> None:
    """Train every policy on the labels' train split and score it on the test split.

    Writes a router (l2r select OUT "…" works on it, arms are the routes) and OUT/scores: one table
    of all policies, with accuracy overall and per source, and confusion counts. A val split is cut
    from train by groups of equal text where the labels have none.

    Examples: l2r routes train labels/ router/

    l2r routes train labels.csv router/ --policies tfidf,static --seed 1

    l2r routes train labels/ router/ --config routes.yaml
    """
    from training.routes.reading import read_routes
    from training.routes.train import train_routes

    settings = _settings(config, seed, policies)
    _check_out(out, labels)
    table = read_routes(labels, _progress(), _checked(separator))
    trained = train_routes(table, out, settings, _progress())
    prepared = trained.prepared
    counts = {split: len(prepared.table.of_split(split)) for split in ("train", "val")}
    typer.echo(
        f"{counts['train']} training, {counts['val']} validation, {trained.scores[0].queries} test "
        f"queries; left out of training, since their text stands in another split: "
        f"{prepared.left_out}"
    )
    if prepared.contradicting:
        typer.echo(
            f"warning: the text of {prepared.contradicting} queries stands with other routes too; "
            "a query that needs several routes has one row with all of them",
            err=True,
        )
    if prepared.never_trained:
        typer.echo(
            f"warning: no training query needs {', '.join(prepared.never_trained)}", err=True
        )
    _show(trained.scores)
    typer.echo(f"router: {out} (policy {trained.default})\nscores: {trained.scores_file}")


@routes_app.command()
def score(
    router_folder: Annotated[Path, typer.Argument(help="a router that l2r routes train wrote")],
    labels: LabelsPath,
    out: Annotated[Path, typer.Option(help="where the tables are written")] = Path("scores"),
    split: Annotated[str, typer.Option(help="train, val or test")] = "test",
    policies: Annotated[
        str | None, typer.Option(help="with commas between; default: all of the router's")
    ] = None,
    separator: Separator = None,
) -> None:
    """Score a trained router on one split of routing labels.

    Examples: l2r routes score router/ labels/

    l2r routes score router/ other.csv --split test --policies router,static --out scores/
    """
    from arms.errors import SettingsError
    from router.artifact import read_router

    if split not in SPLITS:
        raise SettingsError(f"--split is one of {', '.join(SPLITS)}, got '{split}'")
    read_router(router_folder)  # training loads torch, which takes seconds
    from training.routes.reading import read_routes
    from training.routes.train import score_routes

    table = read_routes(labels, _progress(), _checked(separator))
    scores, file = score_routes(router_folder, table, out, split, _names(policies), _progress())
    _show(scores)
    typer.echo(f"scores: {file}")


def _settings(config: Path | None, seed: int | None, policies: str | None) -> RoutesSettings:
    from pydantic import ValidationError

    from arms.errors import SettingsError
    from arms.read_errors import why_absent
    from arms.settings import problem_lines
    from arms.yaml_file import read_yaml
    from training.routes.settings import RoutesSettings

    content: Any = {}
    if config is not None:
        if not config.is_file():
            raise SettingsError(f"{why_absent(config)}; give a YAML file of settings")
        content = read_yaml(config) or {}
        if not isinstance(content, dict):
            raise SettingsError(f"{config}: expected keys such as 'lora:', got {content}")
    given = {} if seed is None else {"seed": seed}
    names = _names(policies)
    if names is not None:
        given["policies"] = names  # type: ignore[assignment]
    try:
        return RoutesSettings.model_validate({**content, **given})
    except ValidationError as error:
        lines = problem_lines(error)
        raise SettingsError("\n".join(["the settings have problems:", *lines])) from error


def _checked(separator: str | None) -> str | None:
    from arms.errors import SettingsError

    if separator is not None and not separator.strip():
        raise SettingsError(
            "--separator is what stands between routes, such as '+', or none for one route a cell; "
            f"got {separator!r}"
        )
    return separator


def _names(policies: str | None) -> list[str] | None:
    """Return the names between commas; None where none is given."""
    return None if policies is None else [one.strip() for one in policies.split(",")]


def _check_out(out: Path, labels: Path) -> None:
    """Raise ``RouterError`` where writing a router to ``out`` would lose anything else."""
    from arms.errors import RouterError
    from router.artifact import RECORD

    target, source = out.resolve(), labels.resolve()
    if target == source or target in source.parents:
        raise RouterError(
            f"{out} is replaced as a whole by the router, and the labels lie in it; give another "
            "folder"
        )
    if out.is_file() or (out.is_dir() and any(out.iterdir()) and not (out / RECORD).is_file()):
        raise RouterError(
            f"{out} is there and is no router; a router is written as a whole folder: give a new "
            "one, or one that holds a router"
        )


def _show(scores: Sequence[RouteScore]) -> None:
    from rich.console import Console
    from rich.table import Table

    sources = list(scores[0].by_source) if len(scores[0].by_source) <= _MOST_SOURCES else []
    table = Table("policy", "accuracy", "macro", *sources)
    for one in scores:
        figures = [one.accuracy, one.macro, *(one.by_source[source] for source in sources)]
        table.add_row(one.policy, *(f"{100 * figure:.2f}" for figure in figures))
    Console(width=160).print(table)


def _progress() -> Any:
    from arms.progress import ConsoleProgress

    return ConsoleProgress()
