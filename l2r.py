"""The console command ``l2r``: one YAML file describes a run, one command runs each stage.

A stage's code is imported when its command is called, so that ``l2r --help`` answers at once.
"""

from __future__ import annotations

import errno
import os
import sys
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from oracle.commands import import_app
from oracle.commands import release as release_labels
from oracle.commands import verify as verify_release
from training.commands import calibrate as calibrate_router
from training.routes.commands import routes_app

if TYPE_CHECKING:
    from arms.corpora.corpus import Dataset
    from oracle.settings import SplitBy

app = typer.Typer(
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    add_completion=False,
    help="Choose, query by query, which retrieval pipeline to run.",
    epilog="Start with: l2r demo    One run, stage by stage: l2r index my.yaml, then oracle, "
    "train, report.",
)

RunFile = Annotated[Path, typer.Argument(help="the YAML file that describes the run")]
Lams = Annotated[
    list[float] | None,
    typer.Option("--lam", help="λ to train for; several may follow: --lam 0 0.1 0.3"),
]


@cache
def _run_settings_class() -> Any:
    """Compose the run's settings from each stage's own (imported late: this loads pydantic)."""
    from pydantic import Field, field_validator, model_validator

    from analysis.settings import ReportSettings
    from arms.corpora.queries import QuerySettings
    from arms.settings import ArmSettings, DatasetSettings, Settings
    from oracle.settings import OracleSettings
    from training.settings import TrainingSettings

    class RunSettings(Settings):
        """One run; every field has a default but ``corpus``, or ``labels`` in its place."""

        corpus: tuple[DatasetSettings, ...] = Field(default=(), min_length=1)
        labels: Path | None = Field(
            default=None,
            description="labels made elsewhere (l2r import, a release): train and report use "
            "them, and need no corpus unless their texts were left out",
        )
        arms: tuple[ArmSettings, ...] = (
            ArmSettings(arm="bm25"),
            ArmSettings(arm="text_dense"),
            ArmSettings(arm="text_rerank"),
        )
        queries: QuerySettings = QuerySettings()
        oracle: OracleSettings = OracleSettings()
        training: TrainingSettings = TrainingSettings()
        report: ReportSettings = ReportSettings()
        output: Path = Field(default=Path("runs"), description="index/, labels/, router/, report/")
        seed: int = 42

        @field_validator("corpus", mode="before")
        @classmethod
        def _accept_one_dataset(cls, given: Any) -> Any:
            entries = given if isinstance(given, list | tuple) else [given]
            return [{"path": entry} if isinstance(entry, str) else entry for entry in entries]

        @model_validator(mode="after")
        def _needs_corpus_or_labels(self) -> Any:
            if not self.corpus and self.labels is None:
                raise ValueError(
                    "expected 'corpus:', the documents and queries to label, or 'labels:', a "
                    "folder of labels made elsewhere"
                )
            return self

    RunSettings.model_rebuild(
        _types_namespace={
            "Path": Path,
            "DatasetSettings": DatasetSettings,
            "ArmSettings": ArmSettings,
            "QuerySettings": QuerySettings,
            "OracleSettings": OracleSettings,
            "TrainingSettings": TrainingSettings,
            "ReportSettings": ReportSettings,
        }
    )
    return RunSettings


def parse_run(content: Any, source: str, base: Path) -> Any:
    """Check a run's settings and resolve its relative paths against ``base``.

    Raises:
        SettingsError: with every problem of the file, each by its path in the file.
    """
    from pydantic import ValidationError

    from arms.errors import SettingsError
    from arms.home import expanded
    from arms.own import imported
    from arms.settings import problem_lines

    if not isinstance(content, dict):
        came = "an empty file" if content is None else repr(content)
        raise SettingsError(f"{source}: expected keys such as 'corpus:' and 'arms:', got {came}")
    try:
        run = _run_settings_class().model_validate(content)
    except ValidationError as error:
        raise SettingsError(
            "\n".join([f"{source} has problems:", *problem_lines(error)])
        ) from error
    corpus = tuple(
        one.model_copy(update={"path": base / expanded(one.path, f"{source}, corpus")})
        for one in run.corpus
    )
    labels = None if run.labels is None else base / expanded(run.labels, f"{source}, labels")
    output = base / expanded(run.output, f"{source}, output")
    arms = tuple(imported(run.arms, base))
    return run.model_copy(
        update={"arms": arms, "corpus": corpus, "labels": labels, "output": output}
    )


def labels_of(run: Any) -> Path:
    """Return the folder of the run's labels: its own, or those it names."""
    return run.labels or run.output / "labels"


def need_corpus(run: Any, command: str) -> None:
    """Raise ``SettingsError`` where a run has no corpus to ``command``."""
    from arms.errors import SettingsError

    if not run.corpus:
        raise SettingsError(
            f"l2r {command} needs documents, and this run names only 'labels:'; add 'corpus:'"
        )


def read_run(path: Path) -> Any:
    """Read and check the YAML file of a run."""
    from arms.errors import SettingsError
    from arms.read_errors import why_absent
    from arms.yaml_file import read_yaml

    if not path.is_file():
        raise SettingsError(f"{why_absent(path)}; give the YAML file of a run")
    return parse_run(read_yaml(path), str(path), path.parent)


def read_datasets(run: Any) -> list[Dataset]:
    """Read every dataset of the run; report the problems of all of them, and of arms, together."""
    from arms.catalogue import spec_of
    from arms.corpora.reader import read_dataset
    from arms.errors import CorpusError, SettingsError

    datasets, problems = [], []
    for arm in run.arms:
        try:
            spec_of(arm)
        except SettingsError as error:
            problems.append(str(error))
    for settings in run.corpus:
        try:
            datasets.append(read_dataset(settings, _progress()))
        except CorpusError as error:
            problems.append(str(error))
    if problems:
        raise CorpusError("\n".join(problems))
    return datasets


def _progress() -> Any:
    from arms.progress import ConsoleProgress

    return ConsoleProgress()


@app.command()
def demo(
    output: Annotated[
        Path | None, typer.Option(help="where everything is written; default: demo-run")
    ] = None,
    full: Annotated[
        bool, typer.Option("--full", help="176 pages and the paper's seven arms; takes minutes")
    ] = False,
) -> None:
    """Go the whole way once on a generated corpus, offline, and end with a report.

    The corpus is made from a seed: PDF pages with running text, tables, charts and scans, and
    questions about them. Its pages are read with OCR, once.

    Examples: l2r demo

    l2r demo --full
    """
    import yaml

    from arms.corpora.page_demo.write import PageDemoSettings, write_page_demo

    out = output or Path("demo-run-full" if full else "demo-run")
    if not (out / "report" / "index.html").is_file():
        recipe = Path(__file__).parent / "training/recipes" / f"demo{'-full' if full else ''}.yaml"
        content = yaml.safe_load(recipe.read_text(encoding="utf-8"))
        pages = out / "corpus" / content["corpus"]["path"]
        if not pages.is_dir():
            size = PageDemoSettings() if full else PageDemoSettings(organisations=5)
            write_page_demo(pages, size, _progress())
        corpus = {**content["corpus"], "path": str(pages.resolve())}
        run = parse_run({**content, "corpus": corpus}, str(recipe), Path())
        run = run.model_copy(update={"output": out})
        run_stages(run, read_datasets(run), ("oracle", "train", "report"))
    _tell_of_demo(out)


def _tell_of_demo(out: Path) -> None:
    """Say what the demo shows, and what to type next."""
    from analysis.by_page_kind import by_page_kind
    from arms.catalogue import kind_of

    found = by_page_kind(out / "labels")
    typer.echo("\nmean nDCG@5 of each arm on questions about")
    arms = list(next(iter(found.values())))
    typer.echo(f"  {'':<8}" + "".join(f"{arm:>12}" for arm in arms))
    for kind, means in found.items():
        typer.echo(f"  {kind:<8}" + "".join(f"{means[arm]:>12.2f}" for arm in arms))
    pictures = [arm for arm in arms if kind_of(arm).modality == "page_image"]
    words = [arm for arm in arms if kind_of(arm).modality == "text"]
    blind = [kind for kind, of in found.items() if max(of[arm] for arm in words) < 0.1]
    plain = [kind for kind, of in found.items() if of["bm25"] >= max(of[a] for a in pictures)]
    typer.echo(f"Only arms over page pictures ({', '.join(pictures)}) find: {', '.join(blind)}.")
    typer.echo(f"Words alone (bm25) do as well or better on: {', '.join(plain)}.")
    typer.echo(f"\nreport: {out / 'report' / 'index.html'}")
    question = "What was the staff turnover of Dorworth Bakeries in 2017?"
    typer.echo(f'try:    l2r select {out / "router"} "{question}" --lam 0 --k 3')
    typer.echo("yours:  l2r oracle my.yaml, where my.yaml holds 'corpus: FOLDER' (README)")


@app.command()
def arms() -> None:
    """List every arm: modality, granularity, architecture, back end, runnable here?

    Example: l2r arms
    """
    from rich.console import Console
    from rich.table import Table

    from arms.catalogue import all_kinds, missing_packages

    table = Table("arm", "modality", "granularity", "architecture", "back end", "runs here?", "")
    for kind in all_kinds():
        missing = missing_packages(kind)
        runs = f"no: pip install 'learning-to-route\\[{kind.extra}]'" if missing else "yes"
        table.add_row(
            kind.name,
            kind.modality,
            ", ".join(kind.granularities),
            kind.architecture,
            ", ".join(kind.requires) or "built in",
            runs,
            kind.summary,
        )
    Console(width=None if sys.stdout.isatty() else 160).print(table)


@app.command()
def queries(
    run_file: RunFile,
    seed: Annotated[int | None, typer.Option(help="of the draw; default: the file's")] = None,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="replace folders that hold something else")
    ] = False,
) -> None:
    """Make labelled queries from unlabelled corpora, as BEIR folders that a run can name.

    How many and of which kinds: the section 'queries:' of the file. Run again, it leaves folders
    that were made from the same corpus and settings as they are.
    Example: l2r queries my.yaml
    """
    from arms.corpora.query_folder import is_made, write_queries
    from arms.corpora.reader import read_documents
    from arms.errors import CorpusError

    run = read_run(run_file)
    need_corpus(run, "queries")
    settings = run.queries if seed is None else run.queries.model_copy(update={"seed": seed})
    targets = [run.output / "queries" / one.dataset_name for one in run.corpus]
    problems = [
        f"two corpora would be written to {target}; give one of them another 'name:'"
        for target in sorted({one for one in targets if targets.count(one) > 1})
    ]
    wanted = {}
    for one, target in zip(run.corpus, targets, strict=True):
        try:
            corpus = read_documents(one, _progress())
            if overwrite or not is_made(target, corpus, settings):
                wanted[target] = corpus
        except CorpusError as error:
            problems.append(str(error))
    if problems:
        raise CorpusError("\n".join(problems))
    for target in targets:
        if target not in wanted:
            typer.echo(f"made already: {target}")
    for target, corpus in wanted.items():
        dataset = write_queries(corpus, settings, target, _progress())
        typer.echo(f"{len(dataset.queries)} queries over {len(dataset.corpus)} documents: {target}")
    typer.echo("Name these folders under 'corpus:' to index, label and route over them.")


@app.command()
def index(run_file: RunFile) -> None:
    """Build every arm's index over every dataset of the run; continues where it was stopped.

    Example: l2r index my.yaml
    """
    from oracle.plan import OracleJob
    from oracle.runner import build_indexes, check_job

    run = read_run(run_file)
    need_corpus(run, "index")
    datasets, folder = tuple(read_datasets(run)), run.output / "index"
    check_job(OracleJob(datasets, run.arms, folder, run.output / "labels", run.oracle, run.seed))
    build_indexes(datasets, run.arms, folder, _progress())
    typer.echo(f"indexes: {run.output / 'index'}")


def texts_of(datasets: list[Dataset]) -> dict[tuple[str, str], str]:
    """Return (dataset, query id) → text, for labels that hold none."""
    return {
        (dataset.name, query.query_id): query.text
        for dataset in datasets
        for query in dataset.queries
    }


def run_stages(run: Any, datasets: list[Dataset], stages: tuple[str, ...]) -> None:
    """Run the named stages (``oracle``, ``train``, ``report``) of one run, in that order."""
    labels_folder, router_folder = labels_of(run), run.output / "router"
    if "oracle" in stages:
        from oracle.runner import run_oracle

        run_oracle(
            datasets,
            run.arms,
            run.output / "index",
            labels_folder,
            run.oracle,
            run.seed,
            _progress(),
        )
        typer.echo(f"labels: {labels_folder}")
    if "train" in stages:
        from training.held_out import collapse_warnings
        from training.train_routers import train_routers

        texts = texts_of(datasets)
        record = train_routers(labels_folder, texts, router_folder, run.training, _progress())
        for warning in (*record.warnings, *collapse_warnings(record.training_metrics)):
            typer.echo(f"warning: {warning}", err=True)
        typer.echo(f"router: {router_folder}")
    if "report" in stages:
        from analysis.write_report import write_report

        paths = write_report(labels_folder, router_folder, run.output / "report", run.report)
        typer.echo(f"report: {paths.html}")


@app.command()
def oracle(run_file: RunFile) -> None:
    """Run every arm on every query and record quality and latency: labels/. Resumes.

    Example: l2r oracle my.yaml
    """
    from arms.errors import SettingsError

    run = read_run(run_file)
    need_corpus(run, "oracle")
    if run.labels is not None:
        raise SettingsError(
            "l2r oracle makes labels, and this run names finished ones; remove 'labels:'"
        )
    run_stages(run, read_datasets(run), ("oracle",))


def with_lams(run: Any, lams: list[float]) -> Any:
    """Return the run with these λ; raise ``SettingsError`` when one lies outside [0, 1]."""
    from arms.errors import SettingsError
    from arms.reward import check_lam

    try:
        ascending = tuple(sorted({check_lam(lam) for lam in lams}))
    except ValueError as error:
        raise SettingsError(f"--lam: {error}") from error
    training = run.training.model_copy(update={"lams": ascending})
    return run.model_copy(update={"training": training})


@app.command()
def train(run_file: RunFile, lam: Lams = None) -> None:
    """Train a router for each λ on the oracle's labels: router/.

    Labels made elsewhere need no corpus: the file may hold the line 'labels: FOLDER' alone.

    Example: l2r train my.yaml --lam 0 0.1 0.3 0.5
    """
    from oracle.labels import holds_texts, read_manifest

    run = read_run(run_file)
    if lam:
        run = with_lams(run, lam)
    read_manifest(labels_of(run))  # training loads torch, which takes seconds
    datasets = [] if holds_texts(labels_of(run)) else read_datasets(run)
    run_stages(run, datasets, ("train",))


@app.command()
def learn(
    router_folder: Annotated[Path, typer.Argument(help="the router/ folder of a run")],
    log: Annotated[
        Path,
        typer.Argument(
            help=".csv, .tsv, .xlsx or .parquet with query, arm, quality, latency_ms, and perhaps "
            "propensity: how likely that arm was to be run"
        ),
    ],
    name: Annotated[str, typer.Option(help="of the new policy")] = "bandit_log",
) -> None:
    """Learn a policy from the outcomes of queries that were served, and add it to the router.

    Each row tells of one query and the one arm that answered it (a contextual bandit, in the manner
    of MBA-RAG). The router's default policy stays; ask for the new one by its name.

    Example: l2r learn runs/router outcomes.csv
    """
    from router.artifact import read_router

    read_router(router_folder)  # training loads torch, which takes seconds
    from training.learn_log import learn_from_log

    policy = learn_from_log(router_folder, log, name, progress=_progress())
    for arm, count in zip(policy.arms, policy.logged.tolist(), strict=True):
        typer.echo(f"{count:7,d} outcomes  {arm}" + ("" if count else "   (never chosen)"))
    if len(policy.logged[policy.logged > 0]) < 2:
        typer.echo("warning: the log tells of one arm alone; nothing could be learned", err=True)
    typer.echo(f"policy '{name}' added: {router_folder}")


@app.command()
def holdout(
    run_file: RunFile,
    lam: Lams = None,
    policy: Annotated[
        list[str] | None,
        typer.Option(help="fit only these, e.g. router_per_lam; default: all of the file's"),
    ] = None,
    split: Annotated[
        list[str] | None,
        typer.Option(
            help="what folds in domain keep together: query, near_duplicate, document; repeated; "
            "default: that of the labels, and document"
        ),
    ] = None,
    leave_out: Annotated[
        list[str] | None,
        typer.Option(help="leave out, and score, only this dataset; repeated; default: every one"),
    ] = None,
    together: Annotated[
        bool, typer.Option("--together", help="leave them out at once, not one at a time")
    ] = False,
) -> None:
    """Leave one dataset out: train on all the others, score on it, for each dataset: holdout/.

    In-domain rewards (cross-validation, under each split) stand beside the out-of-domain ones.
    With --leave-out, the default policy is chosen without the datasets named, too. Finished fits
    are kept beside the router: run again, it continues. Also says whether falling back on the best
    static arm pays where a query is unlike all those trained on.

    Examples: l2r holdout my.yaml --policy router_conditioned --policy tfidf

    l2r holdout my.yaml --split document --leave-out contracts --leave-out minutes --together
    """
    from analysis.holdout import read_holdout
    from analysis.holdout_text import save_holdout, write_holdout
    from oracle.labels import holds_texts, read_manifest
    from router.policy_names import PER_LAM
    from training.holdout import LeaveOut, leave_one_dataset_out
    from training.work_folder import WorkFolder

    run = read_run(run_file)
    run = with_lams(run, lam) if lam else run
    training = run.training
    if policy is not None:
        learned = tuple(name for name in policy if name != PER_LAM)
        training = training.model_copy(update={"policies": learned})
    labels, folder = labels_of(run), run.output / "holdout"
    read_manifest(labels)
    texts = texts_of([] if holds_texts(labels) else read_datasets(run))
    work = WorkFolder.beside(run.output / "router")
    per_lam = policy is None or PER_LAM in policy
    what = LeaveOut(_strengths(split), tuple(dict.fromkeys(leave_out or ())), together)
    leave_one_dataset_out(labels, texts, folder, work, training, per_lam, _progress(), what)
    found = read_holdout(labels, folder, run.report)
    shown = tuple(one for one in run.report.lams if one in found.lams) or found.lams
    typer.echo(write_holdout(found, shown))
    typer.echo(f"all datasets and λ: {save_holdout(found, shown, folder)}, beside it as .csv")


def _strengths(named: list[str] | None) -> tuple[SplitBy, ...]:
    from arms.errors import SettingsError
    from oracle.groups import STRENGTHS

    unknown = [one for one in named or () if one not in STRENGTHS]
    if unknown:
        raise SettingsError(
            f"--split is one of {', '.join(STRENGTHS)}, got {', '.join(map(repr, unknown))}"
        )
    return tuple(one for one in STRENGTHS if one in (named or ()))


@app.command()
def report(run_file: RunFile) -> None:
    """Draw the Pareto report of a run: report/index.html, .md, .csv, .png.

    Example: l2r report my.yaml
    """
    run_stages(read_run(run_file), [], ("report",))


@app.command()
def select(
    router_folder: Annotated[Path, typer.Argument(help="the router/ folder of a run")],
    query: Annotated[str, typer.Argument(help="the query's text")],
    lam: Annotated[
        float | None, typer.Option(help="0 = quality only … 1 = latency only; default 0.1")
    ] = None,
    max_latency_ms: Annotated[
        float | None,
        typer.Option(help="instead of --lam: mean milliseconds of a query, the router's included"),
    ] = None,
    max_quality_loss: Annotated[
        float | None,
        typer.Option(help="instead of --lam: mean quality given up against the best calibrated"),
    ] = None,
    k: Annotated[
        int, typer.Option(min=0, help="also search: return k documents (0: only select)")
    ] = 0,
    dataset: Annotated[
        str | None,
        typer.Option(help="which corpus of the run to search; arms that it lacks aren't chosen"),
    ] = None,
    index_folder: Annotated[
        Path | None, typer.Option("--index", help="the index/ folder; default: beside the router")
    ] = None,
    policy: Annotated[
        str | None,
        typer.Option(help="which of the router's policies; default: see the line defaults"),
    ] = None,
    without: Annotated[
        list[str] | None,
        typer.Option(help="with --k: a document not to return, e.g. the query's own; repeated"),
    ] = None,
    run: Annotated[
        Path | None,
        typer.Option(
            help="a run's YAML file whose arms are code of your own: a router names no code"
        ),
    ] = None,
) -> None:
    """Choose the arm for one query, and say what to expect of it.

    Examples: l2r select runs/finance/router "operating margin in 2019?" --lam 0.1

    l2r select runs/finance/router "operating margin in 2019?" --max-latency-ms 300
    """
    from arms.reward import exchange_sentence
    from router import Router

    if run is not None:
        read_run(run)  # registers its arms
    unused = index_folder and not dataset and not k
    if unused and not Router.load(router_folder, policy=policy).probes:
        raise typer.BadParameter(
            "--index says what to search; give --k or --dataset too", param_hint="--index"
        )
    router = Router.load(router_folder, index=index_folder, policy=policy)
    if dataset and not k and router.index is None:
        raise typer.BadParameter(
            f"--dataset names a folder of an index, and none lies beside {router_folder}; name the "
            "run's index/ with --index",
            param_hint="--dataset",
        )
    wish: dict[str, Any] = {
        "lam": lam,
        "max_latency_ms": max_latency_ms,
        "max_quality_loss": max_quality_loss,
    }
    if k:
        found = router.search(query, k=k, dataset=dataset, without=without or (), **wish)
        choice = found.choice
    else:
        choice = router.select(query, dataset=dataset, **wish)
    typer.echo(f"arm            {choice.arm}")
    typer.echo(f"policy         {choice.policy} ({choice.policy_kind})")
    typer.echo(f"defaults       {router.defaults.told}")
    if str(choice.plan) != choice.arm:
        typer.echo(f"plan           {choice.plan}")
    for arm, probability in choice.ranked_arms:
        typer.echo(f"  {probability}        {arm}")
    if choice.expected:
        done = "fused" if choice.plan.combine == "fuse" else "merged"
        together = f"the arms {done}, deciding included"
        of = together if choice.expects_plan else f"{choice.arm} alone"
        typer.echo(
            f"expected       {choice.expected.told}: {of}, over "
            f"{choice.expected.queries} held-out queries"
        )
    asked = "" if choice.lam_used == choice.lam else f", the nearest to {choice.lam:g} trained"
    typer.echo(f"model of λ     {choice.lam_used:g}{asked}")
    measure, total_ms = router.record.quality_measure, router.record.latency_total_ms
    if measure and total_ms:
        typer.echo(f"what λ means   {exchange_sentence(choice.lam, total_ms, measure)}")
    if choice.promised:
        typer.echo(
            f"promised       mean latency {choice.promised.latency_ms} ms, "
            f"mean quality {choice.promised.quality}, over held-out queries"
        )
    if choice.reason:
        typer.echo(f"reason         {choice.reason}")
    if k:
        for doc_id, value in zip(found.ranking.doc_ids, found.ranking.scores, strict=True):
            typer.echo(f"{value:10.4f}  {doc_id}")
        if not found.ranking.doc_ids:
            typer.echo("no document matches")


@app.command()
def export(
    router_folder: Annotated[Path, typer.Argument(help="the router/ folder of a run")],
    to: Annotated[str, typer.Option(help="the format: onnx")] = "onnx",
    int8: Annotated[
        bool, typer.Option("--int8", help="quantise: faster and smaller, some choices differ")
    ] = False,
    policy: Annotated[
        str | None, typer.Option(help="which one to export; default: the router's default")
    ] = None,
    threads: Annotated[int, typer.Option(min=1, help="of ONNX Runtime when serving")] = 1,
) -> None:
    """Export an encoder router to ONNX Runtime: a policy of the same router, without torch.

    Example: l2r export runs/finance/router --to onnx --int8
    """
    from router.onnx_export import export_to_onnx

    if to != "onnx":
        raise typer.BadParameter(f"expected onnx, got '{to}'", param_hint="--to")
    added = export_to_onnx(router_folder, policy, int8=int8, threads=threads)
    typer.echo(f"policy         {added.policy}")
    typer.echo(f"size           {added.size_bytes / 1e6:.1f} MB, the encoder's weights included")
    typer.echo(f"vectors        off by at most {added.difference:.2g} of their length (3 texts)")
    typer.echo(f"use it         l2r select {router_folder} QUERY --policy {added.policy}")


@app.command()
def compare(
    a: Annotated[Path, typer.Argument(help="a run's output folder, its report, or its YAML file")],
    b: Annotated[Path, typer.Argument(help="the other one; differences are B − A")],
    output: Annotated[
        Path | None, typer.Option(help="also write this .md file, and every change as .csv")
    ] = None,
    seed: Annotated[int, typer.Option(help="of the bootstrap")] = 42,
) -> None:
    """Say what changed between two runs, and whether it is more than noise.

    Policies are compared at every λ on the test queries that both runs have; what only one side
    has is named.

    Example: l2r compare runs/monday runs/tuesday
    """
    from analysis.compare import compare_runs
    from analysis.compare_source import DECISIONS, open_side, read_side
    from analysis.compare_text import save_comparison, write_comparison

    def opened(given: Path) -> Any:
        if given.suffix not in (".yaml", ".yml"):
            return open_side(given)
        run = read_run(given)
        return read_side(str(given), labels_of(run), run.output / "router" / DECISIONS)

    compared = compare_runs(opened(a), opened(b), seed=seed)
    typer.echo(write_comparison(compared))
    if output is not None:
        typer.echo(f"all changes: {save_comparison(compared, output)}")


@app.command()
def audit(
    labels: Annotated[Path, typer.Argument(help="a labels/ folder, or a release of one")],
    router: Annotated[
        Path | None, typer.Argument(help="the router/ folder trained from them; default: none")
    ] = None,
    output: Annotated[
        Path | None, typer.Option(help="write audit.md and a CSV per table into this folder")
    ] = None,
    seed: Annotated[int, typer.Option(help="of the bootstrap")] = 42,
) -> None:
    """Say what a reviewer would object to in labels, and in claims made from them.

    Recomputes every measure from rankings and grades, looks for questions and documents that
    held-out queries share with training, says how much rests on modelled latencies, and compares a
    router's policies with simple baselines, on documents seen in training and unseen.

    Example: l2r audit runs/labels runs/router --output runs/audit
    """
    from analysis.audit.run import CLEAN, write_audit
    from analysis.audit.run import audit as audited_by

    found = audited_by(labels, router, seed=seed)
    for one in found.findings.remarks:
        typer.echo(f"- {one}")
    typer.echo("what a reviewer would object to:")
    for number, objection in enumerate(found.objections, 1):
        typer.echo(f"{number}. {objection.sentence}")
    if not found.objections:
        typer.echo(CLEAN)
    if output is not None:
        typer.echo(f"audit          {write_audit(found, output)}")


app.command("calibrate")(calibrate_router)
app.command("release")(release_labels)
app.command("verify")(verify_release)
app.add_typer(import_app, name="import")
app.add_typer(routes_app, name="routes")


_SEVERAL_LAMS = ("train", "holdout")
_CLOSED_PIPE = 141
"""Exit status of a command whose reader went away: 128 + SIGPIPE, as shells report it."""


def spread_lam(arguments: list[str]) -> list[str]:
    """Rewrite ``--lam 0 0.1 0.3`` as ``--lam 0 --lam 0.1 --lam 0.3``.

    Only of commands that take several: elsewhere a number behind λ is a query.
    """
    if not arguments or arguments[0] not in _SEVERAL_LAMS:
        return list(arguments)

    def is_number(text: str) -> bool:
        try:
            float(text)
        except ValueError:
            return False
        return True

    spread: list[str] = []
    for position, word in enumerate(arguments):
        follows_lam = len(spread) >= 2 and spread[-2] == "--lam" and position > 0
        if follows_lam and is_number(word) and is_number(spread[-1]):
            spread += ["--lam", word]
        else:
            spread.append(word)
    return spread


def main(arguments: list[str] | None = None) -> None:
    """Run the console command; print an expected error's message alone and exit with 1."""
    from arms.console_text import write_any_text
    from arms.home import name_the_user
    from arms.progress import on_terminal, watched

    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    write_any_text((sys.stdout, sys.stderr))
    name_the_user()
    if not on_terminal(sys.stderr):
        for variable in ("TQDM_DISABLE", "HF_HUB_DISABLE_PROGRESS_BARS"):
            os.environ.setdefault(variable, "1")
    words = spread_lam(list(sys.argv[1:] if arguments is None else arguments))
    refuse_unreadable(words)
    try:
        with watched(" ".join(["l2r", *words[:1]])):
            _run(words)
    except BrokenPipeError:
        sys.exit(_CLOSED_PIPE)
    except SystemExit as stop:
        cause = stop.__context__  # click exits with 1 where its output can't be written
        if isinstance(cause, OSError) and cause.errno == errno.EPIPE:
            sys.exit(_CLOSED_PIPE)
        # Lightning turns SIGTERM into an exit without a status, which would look like success.
        if type(stop).__name__ == "SIGTERMException":
            typer.echo("stopped; run the same command again to continue", err=True)
            sys.exit(143)
        if stop.code == 130:  # typer's word for Ctrl-C
            typer.echo("stopped; run the same command again to continue", err=True)
        raise
    except KeyboardInterrupt:
        typer.echo("stopped; run the same command again to continue", err=True)
        sys.exit(130)
    except Exception as error:
        told = told_by(error)
        if told is None:
            raise
        typer.echo(f"l2r: {told}", err=True)
        sys.exit(1)


def refuse_unreadable(words: list[str]) -> None:
    """End the command where an argument isn't UTF-8: such a name can't stand in what we write.

    A query is for the router to refuse.
    """
    from arms.read_errors import is_utf8, shown

    for word in words:
        if not is_utf8(word) and (words[0] != "select" or Path(word).exists()):
            typer.echo(
                f"l2r: the argument '{shown(word)}' is not UTF-8 text; rename the file, or write "
                "the query in UTF-8",
                err=True,
            )
            sys.exit(1)


def _run(words: list[str]) -> None:
    try:
        app(words)
    finally:
        try:
            sys.stdout.flush()
        except OSError:
            # What couldn't be written would be tried again, and complained of, at the very end.
            with suppress(OSError, ValueError):
                os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            raise


def told_by(error: Exception) -> str | None:
    """Return what to print about an error; None for a defect of ours, which is a traceback."""
    from arms.errors import RoutingError
    from arms.out_of_memory import is_out_of_memory, out_of_memory
    from arms.write_errors import cannot_write, disk_cause, place_cause

    if isinstance(error, RoutingError):
        return str(error)
    if is_out_of_memory(error):
        return str(out_of_memory(error))
    cause = disk_cause(error)
    if isinstance(error, OSError) and error.filename is not None:
        path = Path(os.fsdecode(error.filename))
        return cannot_write(path, cause) if cause else f"{path}: {place_cause(error)}"
    return cause and f"writing failed: {cause}. Mend that, then run the same command again"


if __name__ == "__main__":
    main()
