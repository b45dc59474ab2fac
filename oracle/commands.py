"""The console commands that publish, check and bring in labels: release, verify, import.

Nothing heavy is imported before a command is called.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from arms.errors import SettingsError

if TYPE_CHECKING:
    from oracle.importing.write import Imported, ImportOptions

import_app = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode=None,
    help="Bring in labels made elsewhere: a table with a row per query (wide), a row per query and "
    "arm (long), or TREC runs (trec). They train and report with no corpus at hand.\n\n"
    "Example: l2r import wide results.csv labels",
)


def release(
    labels: Annotated[Path, typer.Argument(help="a labels folder")],
    out: Annotated[Path, typer.Argument(help="where the release is written")],
    license_: Annotated[
        str | None, typer.Option("--license", help="e.g. cc-by-4.0; nobody else can choose it")
    ] = None,
    license_link: Annotated[
        str | None, typer.Option(help="address of the licence's text, for --license other")
    ] = None,
    text: Annotated[
        str, typer.Option(help="query texts: omit, keep, or hash (can be checked, not read)")
    ] = "omit",
    name: Annotated[str | None, typer.Option(help="heading; default: the folder's name")] = None,
    runs: Annotated[bool, typer.Option(help="release the rankings too")] = True,
) -> None:
    """Publish oracle labels: parquet, dataset card, JSON Schema, checksums, a loader example.

    The folder is a Hugging Face dataset repository, and a labels folder as it stands. Query texts
    stay out unless asked for.

    Examples: l2r release runs/labels out --license cc-by-4.0

    l2r release runs/labels out --license cc-by-nc-4.0 --text keep --name "My suite"
    """
    from oracle.release.layout import TEXT_MODES
    from oracle.release.licences import parse_licence
    from oracle.release.write import release_labels

    mode = next((one for one in TEXT_MODES if one == text), None)
    if mode is None:
        raise SettingsError(f"--text is one of {', '.join(TEXT_MODES)}, got {text!r}")
    licence = parse_licence(license_, license_link)
    released = release_labels(labels, out, licence, mode, name, runs)
    typer.echo(f"release: {released.folder} ({', '.join(released.files)})")
    typer.echo(f"SHA-256 of SHA256SUMS: {released.digest}")


def verify(out: Annotated[Path, typer.Argument(help="the folder of a release")]) -> None:
    """Check a release that was downloaded: checksums, columns, values. Exit status 1 on a fault.

    All faults are named at once; nothing of the release is executed, and no path in it followed.

    Example: l2r verify out
    """
    from oracle.release.checksums import sha256_of
    from oracle.release.layout import CHECKSUMS
    from oracle.release.verify import verify_release

    faults = verify_release(out)
    if faults:
        typer.echo(f"{out}: {len(faults)} {'fault' if len(faults) == 1 else 'faults'}", err=True)
        for fault in faults:
            typer.echo(f"  {fault}", err=True)
        raise typer.Exit(1)
    typer.echo(f"{out}: sound")
    typer.echo(f"SHA-256 of SHA256SUMS: {sha256_of(out / CHECKSUMS)}")


Table = Annotated[Path, typer.Argument(help="a .csv, .tsv, .xlsx or .parquet file")]
Target = Annotated[Path, typer.Argument(help="the labels folder to write")]
Arms = Annotated[
    list[str] | None, typer.Option("--arm", help="an arm to import, repeated; default: all")
]
RouterArms = Annotated[
    list[str] | None,
    typer.Option("--router-arm", help="an arm that a router may choose, repeated; default: all"),
]
Quality = Annotated[
    str | None, typer.Option(help="measure that serves as quality; default: nDCG@5, or an nDCG")
]
DatasetName = Annotated[
    str | None, typer.Option("--dataset", help="where no column says; default: the file's name")
]
Columns = Annotated[
    list[str] | None,
    typer.Option("--column", help="what=HEADER for unusual headers, e.g. text=Frage; repeated"),
]
Unit = Annotated[
    str | None, typer.Option("--latency-unit", help="ms or s, where the header doesn't say")
]
Sheet = Annotated[str | None, typer.Option(help="of an .xlsx file; default: the first visible one")]
Lenient = Annotated[
    bool, typer.Option("--lenient", help="leave out what has a problem, and record it")
]
Overwrite = Annotated[
    bool, typer.Option("--overwrite", help="replace labels of an earlier import in the folder")
]
Seed = Annotated[int, typer.Option(help="of the split, where the table has none")]
Split = Annotated[
    str,
    typer.Option(
        help="what is never on two sides, where the table has no split: query (equal texts), "
        "near_duplicate (nearly equal ones that share a relevant document), document (all that "
        "share one); looser where texts or judgements are unknown, and said"
    ),
]


@import_app.command("wide")
def import_wide_table(
    table: Table,
    labels: Target,
    arm: Arms = None,
    router_arm: RouterArms = None,
    quality: Quality = None,
    dataset: DatasetName = None,
    column: Columns = None,
    latency_unit: Unit = None,
    sheet: Sheet = None,
    lenient: Lenient = False,
    seed: Seed = 42,
    split: Split = "near_duplicate",
    overwrite: Overwrite = False,
) -> None:
    """Import a table with one row per query: query, <ARM>_ndcg_5, <ARM>_latency_ms, ….

    Also read: query_id, dataset, split (train, val, test) and <ARM>_status (empty, error, timeout).

    Examples: l2r import wide labels.csv labels/

    l2r import wide labels.xlsx labels/ --latency-unit s --column text=question --lenient
    """
    from oracle.importing.tables import import_wide

    options = _options(
        arm,
        router_arm,
        quality,
        dataset,
        column,
        latency_unit,
        sheet,
        lenient,
        seed,
        split,
        overwrite,
    )
    _report(import_wide(table, labels, options, _progress()))


@import_app.command("long")
def import_long_table(
    table: Table,
    labels: Target,
    arm: Arms = None,
    router_arm: RouterArms = None,
    quality: Quality = None,
    dataset: DatasetName = None,
    column: Columns = None,
    latency_unit: Unit = None,
    sheet: Sheet = None,
    lenient: Lenient = False,
    seed: Seed = 42,
    split: Split = "near_duplicate",
    overwrite: Overwrite = False,
) -> None:
    """Import a table with one row per query and arm, as RouterBench's raw results are.

    Read: query_id or sample_id, query or prompt, dataset or eval_name, arm or model_name, a measure
    (ndcg_5, performance, …), latency_ms, and optionally split and status.

    Examples: l2r import long results.parquet labels/

    l2r import long routerbench.csv labels/ --column latency=total_cost --latency-unit s
    """
    from oracle.importing.tables import import_long

    options = _options(
        arm,
        router_arm,
        quality,
        dataset,
        column,
        latency_unit,
        sheet,
        lenient,
        seed,
        split,
        overwrite,
    )
    _report(import_long(table, labels, options, _progress()))


@import_app.command("trec")
def import_trec_runs(
    labels: Target,
    run: Annotated[list[str], typer.Option(help="ARM=FILE, a TREC run; repeated")],
    qrels: Annotated[Path, typer.Option(help="TREC judgements")],
    latency: Annotated[Path, typer.Option(help="a table: query_id, arm, latency_ms, [status]")],
    queries: Annotated[
        Path | None, typer.Option(help="texts: queries.jsonl, or lines of id, tab, text")
    ] = None,
    measure: Annotated[
        list[str] | None, typer.Option(help="repeated; default: nDCG@5, RR@5, R@5")
    ] = None,
    k: Annotated[int, typer.Option(help="documents kept of each ranking", min=1)] = 20,
    router_arm: RouterArms = None,
    dataset: DatasetName = None,
    column: Columns = None,
    latency_unit: Unit = None,
    lenient: Lenient = False,
    seed: Seed = 42,
    split: Split = "near_duplicate",
    overwrite: Overwrite = False,
) -> None:
    """Import TREC runs, judgements and a file of latencies; the judged queries are labelled.

    Queries of a run that no judgement names are counted and left out.

    Example: l2r import trec labels/ --run bm25=bm25.run --run dense=dense.run --qrels qrels.txt
    --latency latency.csv --queries queries.jsonl
    """
    from oracle.importing.trec import TrecSource, import_trec

    source = TrecSource(
        runs={name: Path(path) for name, path in _pairs(run, "--run", "ARM=FILE").items()},
        qrels=qrels,
        latencies=latency,
        queries=queries,
        measures=tuple(measure) if measure else TrecSource.measures,
        k=k,
    )
    options = _options(
        None,
        router_arm,
        None,
        dataset,
        column,
        latency_unit,
        None,
        lenient,
        seed,
        split,
        overwrite,
    )
    _report(import_trec(source, labels, options, _progress()))


def _options(
    arms: Sequence[str] | None,
    router_arms: Sequence[str] | None,
    quality: str | None,
    dataset: str | None,
    columns: Sequence[str] | None,
    latency_unit: str | None,
    sheet: str | None,
    lenient: bool,
    seed: int,
    split: str,
    overwrite: bool,
) -> ImportOptions:
    from oracle.groups import STRENGTHS
    from oracle.importing.write import ImportOptions

    by = next((one for one in STRENGTHS if one == split), None)
    if by is None:
        raise SettingsError(f"--split is one of {', '.join(STRENGTHS)}, got {split!r}")

    return ImportOptions(
        arms=tuple(dict.fromkeys(arms)) if arms else None,
        router_arms=tuple(router_arms) if router_arms else None,
        quality=quality,
        dataset=dataset,
        columns=_pairs(columns or (), "--column", "what=HEADER"),
        latency_unit=latency_unit,
        sheet=sheet,
        lenient=lenient,
        seed=seed,
        split=by,
        overwrite=overwrite,
    )


def _pairs(given: Sequence[str], option: str, form: str) -> dict[str, str]:
    pairs: dict[str, str] = {}
    for one in given:
        name, separator, value = one.partition("=")
        if not (name and separator and value):
            raise SettingsError(f"{option} takes {form}, got {one!r}")
        if name in pairs:
            raise SettingsError(f"{option} names {name} twice")
        pairs[name] = value
    return pairs


def _progress() -> Any:
    from arms.progress import ConsoleProgress

    return ConsoleProgress()


def _report(imported: Imported) -> None:
    splits = ", ".join(f"{split} {count:,}" for split, count in imported.splits.items())
    typer.echo(
        f"labels: {imported.folder}, {imported.n_queries:,} queries ({splits}), "
        f"arms {', '.join(imported.arms)}, quality {imported.measures[0]}"
    )
    if imported.n_unjudged:
        typer.echo(
            f"left out: {imported.n_unjudged:,} "
            f"{'query' if imported.n_unjudged == 1 else 'queries'} of the runs that no judgement "
            "names"
        )
    for dataset, one in imported.split["fallbacks"].items():
        typer.echo(f"{dataset} is split by {one['used']}: {one['because']}")
    if imported.n_dropped:
        typer.echo(
            f"left out: {imported.n_dropped:,} queries, see {imported.folder / 'dropped.csv'}"
        )
    typer.echo(
        f"Train and report on them: a file my.yaml with the line 'labels: {imported.folder}', then "
        "l2r train my.yaml, l2r report my.yaml"
    )
