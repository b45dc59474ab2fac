"""Leave one dataset out: how routers do on a collection that they were never trained on.

Every labelled query is decided at least twice, by policies that never saw it: in domain, by grouped
cross-validation, where other queries of its dataset were trained on; and out of domain, by policies
fitted on all the other datasets. In domain there may be folds of several strengths
(:mod:`oracle.groups`), as policies that learn about documents depend on it. All are written like
the folds of training, for analysis to compare on the same queries.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from arms.atomic import write_json
from arms.errors import SettingsError
from arms.progress import Progress, SilentProgress
from arms.reward import BoolArray
from arms.sole_writer import writes
from oracle.groups import GroupsInForce, groups_in_force, split_entry
from oracle.labels import Labels, read_labels
from oracle.settings import SplitBy
from router.decisions import FOLDS, read_decisions, write_decisions
from router.policy import Policy
from router.policy_names import ROUTER
from router.query_encoder import QueryEncoder
from training import fitting
from training.cross_validation import FoldRows, fit_fold, rows_of_fold
from training.decide import Fitted, add_decisions, measured_overheads
from training.decision_table import DecisionTable
from training.default_policy import check_default, settle, with_default
from training.embeddings import embed_queries
from training.fitting import FitContext
from training.folds import check_folds, fold_of_queries
from training.guarding import domain_of, guard, query_vectors
from training.learners import learners_of
from training.lightning_run import check_trainer
from training.open_context import open_context
from training.settings import TrainingSettings
from training.table import RoutingTable, Texts, check_trainable, routing_table
from training.work_folder import WorkFolder, fingerprint, key_of

IN_DOMAIN = "in_domain_{split}.parquet"
"""One file for each strength of the folds, ``query`` say."""
OUT_OF_DOMAIN = "out_of_domain.parquet"
DOMAINS = "domains.json"
GUARDED = "router_guarded"
"""The default router with the guard, whatever the settings say: is it worth having?"""
_DEFAULT_FOLDS = 5


@dataclass(frozen=True)
class _Reference:
    """What is fitted once, on the fixed split: the defaults, and what deciding costs."""

    asked: str
    """The policy that ``router`` asks."""
    search: str
    """The policy that searches by default."""
    overhead_ms: Mapping[str, Mapping[int, float]]


@dataclass(frozen=True)
class _Fits:
    """How each fit is made."""

    context: FitContext
    per_lam: bool
    steps: int
    """By which one fit moves the bar on."""

    def fit(self, rows: FoldRows) -> Fitted:
        return fit_fold(self.context, rows, self.per_lam)


@dataclass(frozen=True)
class LeaveOut:
    """What is left out, and what it is compared with."""

    splits: tuple[SplitBy, ...] = ()
    """Strengths of the folds in domain; default: that of the labels' split, and ``document``."""
    datasets: tuple[str, ...] = ()
    """Datasets to leave out and to score; default: every one."""
    together: bool = False
    """All of them at once, instead of one at a time."""


@writes("folder")
def leave_one_dataset_out(
    labels_folder: Path,
    texts: Texts | None,
    folder: Path,
    work: WorkFolder,
    settings: TrainingSettings,
    per_lam: bool = True,
    progress: Progress | None = None,
    what: LeaveOut | None = None,
) -> None:
    """Write ``in_domain_<split>.parquet``, ``out_of_domain.parquet`` and ``domains.json``.

    Folds of several strengths differ in what is held out; policies are fitted alike on the rest.
    Where datasets are named, the default policy is chosen without them, too.

    Finished fits wait in ``work``: a killed run goes on, and one that finds them all is quick.

    Args:
        labels_folder: what ``l2r oracle`` wrote.
        texts: (dataset, query id) → text, for labels that hold none.
        folder: where; made where it isn't there.
        work: shared with ``l2r train``, whose query embeddings and heads are reused.
        settings: which policies, and how they are fitted; LoRA is never fitted here.
        per_lam: fit the paper's heads per λ too.
        progress: where bars are drawn.
        what: is left out; default: one dataset after the other.

    Raises:
        LabelsError: as for ``l2r train``.
        SettingsError: as for ``l2r train``, or there are fewer than two datasets, or none is left
            to train on, or one is named that there isn't, or the encoder isn't frozen.
    """
    progress, what = progress or SilentProgress(), what or LeaveOut()
    labels = read_labels(labels_folder)
    action = routing_table(labels, labels.router_arms, texts, settings.split)
    folds = settings.cross_validation_folds
    settings = settings.model_copy(
        update={"cross_validation_folds": folds if folds >= 2 else _DEFAULT_FOLDS}
    )
    _check(action, settings)
    scored = _scored(action, what)
    in_folds = _folds_in_domain(labels, action, settings, what.splits)
    every = routing_table(labels, labels.pipelines, texts, settings.split)
    work.path.mkdir(parents=True, exist_ok=True)
    encoder = QueryEncoder(settings.encoder, settings.max_tokens, settings.encoder_dtype)
    embedded = embed_queries(action.texts.tolist(), encoder, work.embeddings, progress)
    left_out = np.unique(action.datasets.astype(str), return_inverse=True)[1].ravel()
    if what.together:
        left_out = np.where(scored, 0, 1)
    parts = _parts(left_out[scored])
    count = len(parts) + sum(len(_parts(folds)) for folds in in_folds.values()) + 1
    steps = len(settings.lams) * per_lam + sum(one.steps(settings) for one in learners_of(settings))
    with progress.task("fitting", total=count * steps) as task:
        context = open_context(
            settings, labels_folder, labels, action, every, encoder, embedded, work, task
        )
        fits = _Fits(context, per_lam, steps)
        reference = _reference(fits, ~scored if what.datasets else np.ones(len(scored), dtype=bool))
        by_split = {
            split: [_decided(fits, folds, fold, scored, reference) for fold in _parts(folds)]
            for split, folds in in_folds.items()
        }
        outside = [_decided(fits, left_out, part, scored, reference) for part in parts]
    folder.mkdir(parents=True, exist_ok=True)
    for split, found in by_split.items():
        write_decisions(_joined(found), folder / IN_DOMAIN.format(split=split))
    write_decisions(_joined(outside), folder / OUT_OF_DOMAIN)
    inside = next(iter(by_split.values()))
    domains = {
        "splits": {split: split_entry(_force(labels, split)) for split in by_split},
        "left_out": sorted(set(action.datasets[scored].tolist())),
        "together": what.together,
        "search": reference.search,
        "false_alarm_rate": settings.out_of_domain.false_alarm_rate,
        "datasets": [told for _, told in outside if told],
        "in_domain": [told for _, told in inside if told],
    }
    write_json(folder / DOMAINS, domains)


def _scored(action: RoutingTable, what: LeaveOut) -> BoolArray:
    """(Q,) the queries of the datasets that are left out.

    Raises:
        SettingsError: there is no such dataset, or none is left to train on.
    """
    names = sorted(set(action.datasets.tolist()))
    unknown = [name for name in what.datasets if name not in names]
    if unknown:
        raise SettingsError(
            f"--leave-out must name datasets of the labels ({', '.join(names)}), got "
            f"{', '.join(unknown)}"
        )
    if what.together and set(what.datasets or names) == set(names):
        raise SettingsError(
            "every dataset is left out at once, so there is none to train on; name some with "
            "--leave-out, or leave one out at a time"
        )
    return np.isin(action.datasets.astype(str), what.datasets or names)


def _force(labels: Labels, split: SplitBy) -> GroupsInForce:
    return groups_in_force(labels.groupings, split)


def _folds_in_domain(
    labels: Labels,
    action: RoutingTable,
    settings: TrainingSettings,
    wanted: Sequence[SplitBy],
) -> dict[SplitBy, NDArray[np.intp]]:
    """Strength → (Q,) fold of each query.

    By default those of the split in force and of documents, where they differ.
    """
    own = settings.split or labels.split_by
    found: dict[SplitBy, NDArray[np.intp]] = {}
    for split in dict.fromkeys(wanted or (own, "document")):
        groups = _force(labels, split).groups
        if not wanted and split != own and bool((groups == action.split_groups).all()):
            continue
        table = replace(action, split_groups=groups)
        check_folds(table, settings.cross_validation_folds)
        found[split] = fold_of_queries(table, settings.cross_validation_folds, settings.seed)
    return found


def _joined(parts: Sequence[tuple[pa.Table, Any]]) -> pa.Table:
    """Where one part merges and another doesn't, the second has no such qualities."""
    return pa.concat_tables([table for table, _ in parts], promote_options="default")


def _check(action: RoutingTable, settings: TrainingSettings) -> None:
    check_trainable(action)
    check_default(settings)
    check_folds(action, settings.cross_validation_folds)
    check_trainer(settings.trainer)
    datasets = sorted(set(action.datasets.tolist()))
    if len(datasets) < 2:
        raise SettingsError(
            f"leaving one dataset out needs at least two, the labels have {', '.join(datasets)}; "
            "label another collection"
        )
    if settings.encoder_mode != "frozen":
        raise SettingsError(
            "leaving one dataset out fits every router once for each; with "
            "training.encoder_mode: lora that would take hours: set it to frozen"
        )


def _parts(folds: NDArray[np.intp]) -> list[int]:
    return sorted(set(folds.tolist()))


def _reference(fits: _Fits, seen: BoolArray) -> _Reference:
    """Fit the fixed split once: it says which policy is the default and what deciding costs.

    ``seen`` (Q,): queries that may be looked at.
    """
    context = fits.context
    splits = context.action.splits
    rows = FoldRows(
        fitting.comparable_rows(context, seen & (splits == "train")),
        fitting.comparable_rows(context, seen & (splits == "val")),
        seen & (splits != "test"),
    )
    path = context.work.path / "holdout" / f"{_key(fits, rows, 'reference')}.json"
    if path.is_file():
        content = json.loads(path.read_text(encoding="utf-8"))
        context.task.advance(fits.steps)
        costs = _by_cost(content["overhead_ms"])
        return _Reference(content["asked"], content["search"], costs)
    fitted = fits.fit(rows)
    settled = settle(context, fitted, rows.train, rows.validation)
    guarded = _guarded(context, fitted, settled.asked, rows)
    overheads = {**settled.overheads, **measured_overheads(context, guarded)}
    # In a fold the policy asked is timed as such, also where ``router`` has taken its name here.
    overheads.setdefault(settled.asked, overheads[ROUTER])
    medians = {
        name: {cost: float(np.median(times)) for cost, times in of_policy.items()}
        for name, of_policy in overheads.items()
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    told = {"asked": settled.asked, "search": settled.defaults.search}
    write_json(path, {**told, "overhead_ms": medians})
    return _Reference(**told, overhead_ms=medians)


def _by_cost(written: Mapping[str, Mapping[str, float]]) -> dict[str, dict[int, float]]:
    """JSON's keys are texts."""
    return {
        name: {int(cost): taken_ms for cost, taken_ms in costs.items()}
        for name, costs in written.items()
    }


def _decided(
    fits: _Fits,
    folds: NDArray[np.intp],
    fold: int,
    scored: BoolArray,
    reference: _Reference,
) -> tuple[pa.Table, dict[str, Any]]:
    """What policies fitted outside ``fold`` decide on its ``scored`` queries (Q,).

    And how foreign these looked to them.
    """
    context = fits.context
    rows, unseen = rows_of_fold(context, folds, fold), np.flatnonzero((folds == fold) & scored)
    if rows is None or not len(unseen):
        context.task.advance(fits.steps)
        return DecisionTable().finish(), {}
    names = {"default": reference.asked, "overhead_ms": reference.overhead_ms}
    key = _key(fits, rows, "fold", fold, fingerprint(context.action.rows(unseen)), names)
    path = context.work.path / "holdout" / f"{key}.parquet"
    told = path.with_suffix(".json")
    if path.is_file() and told.is_file():
        context.task.advance(fits.steps)
        return read_decisions(path), json.loads(told.read_text(encoding="utf-8"))
    overheads = {
        name: {cost: np.full(len(folds), taken_ms) for cost, taken_ms in costs.items()}
        for name, costs in reference.overhead_ms.items()
    }
    default, costs = reference.asked, overheads[reference.asked]
    fitted = fits.fit(rows)
    guarded = _guarded(context, fitted, default, rows)
    fitted = replace(fitted, learned={**fitted.learned, **guarded})
    fitted = with_default(context, fitted, default, costs, rows.train, rows.validation)
    known = {name: one for name, one in fitted.learned.items() if name in overheads}
    decisions = DecisionTable()
    named = np.full(len(unseen), f"{FOLDS}{fold}", dtype=object)
    add_decisions(decisions, context, replace(fitted, learned=known), unseen, named, overheads)
    table = decisions.finish()
    asked = fitted.learned.get(default, fitted.learned[ROUTER])
    foreignness = _foreignness(context, asked, rows, unseen)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_decisions(table, path)
    write_json(told, foreignness)
    return read_decisions(path), foreignness


def _guarded(
    context: FitContext, fitted: Fitted, default: str, rows: FoldRows
) -> dict[str, Policy]:
    """Return the policy ``default``, guarded and without gates; nothing where it can't be."""
    found = guard(context, GUARDED, fitted.learned[default], rows.train, rows.validation)
    return {} if found is None else {GUARDED: found}


def _foreignness(
    context: FitContext, router: Policy | None, rows: FoldRows, unseen: fitting.Rows
) -> dict[str, Any]:
    """How well distance tells the fold's queries from validation queries, and how many it flags.

    In the vectors that the default router reads; in the encoder's where it reads none.
    """
    from sklearn.metrics import roc_auc_score

    if not len(rows.validation):
        return {}
    train, held, fold = (
        context.embedded[part] if own is None else own
        for part in (rows.train, rows.validation, unseen)
        for own in [None if router is None else query_vectors(context, router, part)]
    )
    domain = domain_of(train, held, context.settings.out_of_domain.false_alarm_rate)
    inside, outside = domain.distances(held), domain.distances(fold)
    is_outside = np.repeat([0, 1], [len(inside), len(outside)])
    return {
        "datasets": sorted(set(context.action.datasets[unseen].tolist())),
        "queries": len(unseen),
        "auroc": float(roc_auc_score(is_outside, np.concatenate([inside, outside]))),
        "flagged_share": float((outside > domain.threshold).mean()),
        "threshold": domain.threshold,
    }


def _key(fits: _Fits, rows: FoldRows, *parts: Any) -> str:
    """Everything that a fit and its decisions depend on."""
    context = fits.context
    left_out = {"wandb", "lora_lams", "lora", "overhead_queries"}
    return key_of(
        "holdout",
        fits.per_lam,
        *parts,
        context.settings.model_dump(mode="json", exclude=left_out),
        [one.name for one in learners_of(context.settings)],
        fingerprint(context.action.rows(rows.train)),
        fingerprint(context.action.rows(rows.validation)),
        fingerprint(context.every),
        context.encoder.resolved.revision,
        [] if context.reusable_ms is None else context.reusable_ms.sum(axis=0).tolist(),
    )
