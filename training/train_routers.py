"""Train every router of a run: heads at each λ, baselines, the artifact, and all decisions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from arms.progress import Progress, SilentProgress
from arms.sole_writer import writes
from oracle.labels import Labels, read_labels
from router.artifact import DECISIONS, RouterRecord, write_router
from router.decisions import DOCUMENT_FOLDS, FOLDS, write_decisions
from router.policies.gated import described_gates
from router.policies.static import StaticPolicy
from router.policy import Expected
from router.policy_names import BEST_STATIC, PER_LAM, PER_LAM_LORA, ROUTER
from router.query_encoder import QueryEncoder
from router.realised import answering_columns
from training import fitting
from training.calibrate_default import calibrate_on_validation
from training.cross_validation import fit_fold, fit_policies, rows_of_fold
from training.decide import (
    Chosen,
    Overheads,
    add_decisions,
    add_static_arms,
    cost_ms,
)
from training.decision_table import DecisionTable
from training.default_policy import (
    Settled,
    check_default,
    settle,
    validation_warnings,
    with_default,
)
from training.document_folds import decided_again, document_folds, split_warnings
from training.embeddings import embed_queries
from training.fitting import FitContext, Heads
from training.folds import check_folds, fold_of_queries
from training.held_out import expected_per_arm, held_out_metrics
from training.labels_hash import labels_hash
from training.learners import learners_of
from training.lightning_run import check_trainer
from training.open_context import arm_encoders, arm_options, open_context
from training.reused_encoding import shared_parts
from training.settings import TrainingSettings
from training.table import RoutingTable, Texts, check_trainable, routing_table
from training.wandb_logger import open_run
from training.work_folder import WorkFolder


@writes("router_folder")
def train_routers(
    labels_folder: Path,
    texts: Texts | None,
    router_folder: Path,
    settings: TrainingSettings,
    progress: Progress | None = None,
) -> RouterRecord:
    """Train at every λ of ``settings`` and write ``router_folder`` with ``decisions.parquet``.

    Policies in the artifact: ``router`` (selects by default, see :mod:`training.default_policy`),
    the other learned ones by their own names (``router_per_lam``, ``tfidf``, …), and
    ``best_static`` (of A, the arms a router may choose). Decided in addition: ``static:<arm>`` for
    every arm of P, ``best_static`` and ``best_static_per_dataset`` (of P), ``random_same_mix``.
    Nothing is fitted or chosen on test queries.

    Policies that learn about documents, and beside them fusions and the default, are fitted and
    decide every query once more in folds that share no relevant document
    (:mod:`training.document_folds`).

    Finished heads are kept in ``<router_folder>.work`` and reused when labels, settings and seed
    are the same, so that a killed run goes on. The same call gives the same weights, byte for byte,
    on the same machine with the same number of threads.

    Args:
        labels_folder: what ``l2r oracle`` wrote.
        texts: (dataset, query id) → text, for labels that hold none; ignored otherwise.
        router_folder: replaced as a whole.
        settings: see there.
        progress: where bars are drawn.

    Raises:
        LabelsError: the labels are absent, have fewer than two arms, no usable training query, or
            no text.
        SettingsError: there are more folds than texts, Lightning refuses ``trainer``, or
            ``settings.router`` names a policy that isn't fitted.
        RouterError: the encoder can't be loaded.
        MissingExtraError: a package that the settings need is not installed.
    """
    progress = progress or SilentProgress()
    labels = read_labels(labels_folder)
    action = routing_table(labels, labels.router_arms, texts, settings.split)
    check_trainable(action)
    check_default(settings)
    check_folds(action, settings.cross_validation_folds)
    check_trainer(settings.trainer)
    every = routing_table(labels, labels.pipelines, texts, settings.split)
    by_document = document_folds(labels, action, settings)
    work = WorkFolder.beside(router_folder)
    work.path.mkdir(parents=True, exist_ok=True)
    encoder = QueryEncoder(settings.encoder, settings.max_tokens, settings.encoder_dtype)
    embedded = np.zeros((len(action), 0), dtype=np.float32)
    if _frozen_lams(settings):
        embedded = embed_queries(action.texts.tolist(), encoder, work.embeddings, progress)
    with (
        open_run(settings.wandb, settings.model_dump(mode="json"), work.path) as run,
        progress.task("training", total=_steps(settings, action)) as task,
    ):
        context = open_context(
            settings, labels_folder, labels, action, every, encoder, embedded, work, task, run
        )
        fixed = _fit_fixed_split(context)
        record = _write(context, fixed, labels, by_document, labels_folder, router_folder, progress)
        run.log_router(router_folder)
    return record


@dataclass(frozen=True)
class _FixedSplit:
    head_metrics: dict[str, Heads]
    """Policy → how its heads were fitted."""
    settled: Settled


def _fit_fixed_split(context: FitContext) -> _FixedSplit:
    settings, splits = context.settings, context.action.splits
    train = fitting.comparable_rows(context, splits == "train")
    validation = fitting.comparable_rows(context, splits == "val")
    heads: dict[str, Heads] = {}
    frozen = fitting.fit_frozen(context, _frozen_lams(settings), train, validation, log=True)
    start = frozen if settings.lora.start_from_frozen else None
    if settings.encoder_mode == "lora":
        heads[PER_LAM] = fitting.fit_lora_heads(context, settings.lams, start, train, validation)
    else:
        heads[PER_LAM] = frozen.only(settings.lams)
        if settings.lora_lams:
            heads[PER_LAM_LORA] = fitting.fit_lora_heads(
                context, settings.lora_lams, start, train, validation
            )
    fitted = fit_policies(context, heads, train, validation, splits != "test")
    settled = settle(context, fitted, train, validation)
    if settled.asked not in settled.fitted.learned:  # renamed, as there are no gates
        heads = {ROUTER if name == settled.asked else name: one for name, one in heads.items()}
    return _FixedSplit(heads, settled)


def _write(
    context: FitContext,
    fixed: _FixedSplit,
    labels: Labels,
    by_document: NDArray[np.intp] | None,
    labels_folder: Path,
    router_folder: Path,
    progress: Progress,
) -> RouterRecord:
    manifest = labels.manifest
    splits, everyone = context.action.splits, np.arange(len(context.action))
    settled, label_hash = fixed.settled, labels_hash(labels_folder)
    learned, overheads, defaults = settled.fitted.learned, settled.overheads, settled.defaults
    decisions = DecisionTable()
    add_static_arms(decisions, context.every, splits)
    chosen = add_decisions(decisions, context, settled.fitted, everyone, splits, overheads)
    typical = {
        name: {cost: np.full_like(times, np.median(times)) for cost, times in costs.items()}
        for name, costs in overheads.items()
    }
    _cross_validate(context, settled.asked, decisions, typical)
    if by_document is not None:
        _cross_validate_documents(context, settled, by_document, decisions, typical, progress)
    best_static = _best_static_policy(context)
    record = RouterRecord(
        arms=context.action.arms,
        defaults=defaults,
        tau=context.settings.tau,
        lams=context.settings.lams,
        encoder_id=context.encoder.resolved.encoder_id,
        encoder_revision=context.encoder.resolved.revision,
        expected=_expected(context, chosen, best_static),
        datasets=_arms_of_datasets(context.action),
        arm_options=arm_options(manifest),
        arm_encoders=arm_encoders(manifest),
        overhead_ms={
            name: float(np.median(cost_ms(learned[name], costs, 0.0)))
            for name, costs in overheads.items()
        },
        gates=described_gates(learned[ROUTER]),
        warnings=(
            *validation_warnings(
                context.settings,
                len(fitting.comparable_rows(context, splits == "val")),
                compares_sets=not all(one.query_dependent for one in learned.values()),
            ),
            *split_warnings(labels, learned),
            *shared_parts(manifest, context.encoder).apart,
        ),
        training_metrics=_metrics(context, fixed, chosen),
        quality_measure=labels.primary_measure,
        latency_total_ms=float(context.action.total_latency_ms()[context.action.comparable].mean()),
        labels_hash=label_hash,
        calibration={
            name: curve
            for name in sorted({defaults.select, defaults.search})
            if (
                curve := calibrate_on_validation(
                    context, learned[name], overheads[name], label_hash
                )
            )
        },
    )
    # What ``router`` asks lies inside it.
    kept = [one for name, one in learned.items() if name != settled.asked]
    policies = [*kept, best_static]
    record = write_router(router_folder, record, policies, keep_decisions=False)
    write_decisions(decisions.finish(), router_folder / DECISIONS)
    return record


def _cross_validate(
    context: FitContext, default: str, decisions: DecisionTable, overheads: Overheads
) -> None:
    """Decide every query once more, by policies that never saw its group."""
    settings = context.settings
    if settings.cross_validation_folds < 2:
        return
    folds = fold_of_queries(context.action, settings.cross_validation_folds, settings.seed)
    _decide_in_folds(context, default, folds, FOLDS, decisions, overheads)


def _cross_validate_documents(
    context: FitContext,
    settled: Settled,
    folds: NDArray[np.intp],
    decisions: DecisionTable,
    overheads: Overheads,
    progress: Progress,
) -> None:
    """Decide every query once more, by policies that never saw its relevant documents asked for.

    Fitted as they are everywhere; only what is held out differs.
    """
    per_lam, wanted = settled.asked == PER_LAM, {settled.asked, settled.defaults.search}
    if settled.asked.startswith("ensemble_"):
        wanted |= set(context.settings.ensemble.members)
    names = decided_again(settled.fitted.learned, wanted, context.settings)
    if not names:
        return
    settings = context.settings.model_copy(update={"policies": names})
    steps = sum(one.steps(settings) for one in learners_of(settings))
    steps = len(set(folds.tolist())) * (steps + per_lam * len(settings.lams))
    with progress.task("document folds", total=steps) as task:
        context = replace(context, settings=settings, task=task)
        _decide_in_folds(
            context, settled.asked, folds, DOCUMENT_FOLDS, decisions, overheads, per_lam
        )


def _decide_in_folds(
    context: FitContext,
    default: str,
    folds: NDArray[np.intp],
    prefix: str,
    decisions: DecisionTable,
    overheads: Overheads,
    per_lam: bool = True,
) -> None:
    named = np.array([f"{prefix}{fold}" for fold in folds], dtype=object)
    add_static_arms(decisions, context.every, named)
    for fold in sorted(set(folds)):
        rows = rows_of_fold(context, folds, fold)
        if rows is not None:
            unseen = np.flatnonzero(folds == fold)
            fitted = fit_fold(context, rows, per_lam)
            costs = overheads.get(default, overheads[ROUTER])
            fitted = with_default(context, fitted, default, costs, rows.train, rows.validation)
            add_decisions(decisions, context, fitted, unseen, named[unseen], overheads)


def _metrics(
    context: FitContext, fixed: _FixedSplit, chosen: Mapping[tuple[str, float], Chosen]
) -> dict[str, Any]:
    """Policy → λ → the kept epoch, and what the choices come to on validation and test."""
    found: dict[str, Any] = {}
    for (name, lam), one in chosen.items():
        entry: dict[str, Any] = {}
        policy = fixed.settled.fitted.learned[name]
        chooses = policy.query_dependent and policy.asks_at(lam)
        for split in ("val", "test"):
            rows = context.action.splits == split
            entry[split] = held_out_metrics(_rows(context, split), one.rows(rows), lam, chooses)
        if name in fixed.head_metrics:
            entry["kept_epoch"] = dict(fixed.head_metrics[name].metrics[lam])
        found.setdefault(name, {})[f"{lam:g}"] = entry
    return found


def _expected(
    context: FitContext, chosen: Mapping[tuple[str, float], Chosen], best_static: StaticPolicy
) -> dict[str, dict[float, dict[str, Expected]]]:
    """Policy → λ → arm → what validation queries say of the arm where the policy chooses it."""
    table, validation = _rows(context, "val"), context.action.splits == "val"
    found: dict[str, dict[float, dict[str, Expected]]] = {}
    for (name, lam), one in chosen.items():
        found.setdefault(name, {})[lam] = expected_per_arm(table, one.rows(validation))
    for lam in context.settings.lams:
        plans = best_static.decide([""] * len(table), lam).plans
        columns = answering_columns(plans, table.arms)
        found.setdefault(best_static.name, {})[lam] = expected_per_arm(table, Chosen(columns, None))
    return found


def _best_static_policy(context: FitContext) -> StaticPolicy:
    """The best arm of A at each λ, chosen on training and validation queries."""
    seen = context.action.rows(context.action.splits != "test")
    best = fitting.fit_best_static(seen, seen, context.settings.lams)
    choice = {lam: context.action.arms[one.overall[0]] for lam, one in best.items()}
    return StaticPolicy(BEST_STATIC, context.action.arms, choice)


def _rows(context: FitContext, split: str) -> RoutingTable:
    return context.action.rows(context.action.splits == split)


def _arms_of_datasets(table: RoutingTable) -> dict[str, tuple[str, ...]]:
    return {
        str(dataset): tuple(
            arm
            for arm, has in zip(
                table.arms, table.competes[table.datasets == dataset].any(axis=0), strict=True
            )
            if has
        )
        for dataset in sorted(set(table.datasets))
    }


def _frozen_lams(settings: TrainingSettings) -> tuple[float, ...]:
    """The λ at which a head over the frozen encoder is needed, ascending."""
    if settings.encoder_mode == "lora":
        return settings.lams if settings.lora.start_from_frozen else ()
    extra = settings.lora_lams if settings.lora.start_from_frozen else ()
    return tuple(sorted({*settings.lams, *extra}))


def _steps(settings: TrainingSettings, action: RoutingTable) -> int:
    """How many fits and LoRA batches a run takes, for its progress bar."""
    train = int(((action.splits == "train") & action.comparable).sum())
    lora = settings.lams if settings.encoder_mode == "lora" else settings.lora_lams
    folds = settings.cross_validation_folds if settings.cross_validation_folds >= 2 else 0
    in_folds = len(settings.lams) * (settings.encoder_mode == "frozen")
    learners = sum(one.steps(settings) for one in learners_of(settings))
    return (
        len(_frozen_lams(settings))
        + len(lora) * fitting.lora_batches(settings, train)
        + learners
        + folds * (in_folds + learners)
    )
