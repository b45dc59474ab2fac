"""Fits every policy on one side of a split: the fixed one, or one fold of cross-validation."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from arms.progress import Task
from arms.reward import FloatArray, latency_share, reward
from oracle import best_static
from oracle.best_static import BestStatic
from oracle.hardware import fixed_threads
from router.policies.encoder import LinearHead
from router.policy import Policy
from router.query_encoder import QueryEncoder
from training.data import Supervision, supervision
from training.frozen import Split, fit_frozen_head
from training.recorded_runs import RecordedRuns
from training.settings import TrainingSettings
from training.table import RoutingTable
from training.wandb_logger import NoRun
from training.work_folder import WorkFolder, fingerprint, key_of

if TYPE_CHECKING:
    from training.lora import Tokens

Rows = NDArray[np.intp]
Lams = tuple[float, ...]


@dataclass(frozen=True)
class FitContext:
    """What every fit shares."""

    settings: TrainingSettings
    encoder: QueryEncoder
    embedded: NDArray[np.float32]
    """(Q, d) of all labelled queries; d is 0 where nothing needs them."""
    action: RoutingTable
    """All labelled queries over A, the arms a router may choose."""
    every: RoutingTable
    """The same queries over P, all arms that were run."""
    work: WorkFolder
    task: Task
    """Moved on by one for each frozen head or baseline fitted, and for each batch of LoRA."""
    run: NoRun = field(default_factory=NoRun)
    runs: RecordedRuns | None = None
    """What the arms found, where the labels came with it: for policies that probe."""
    fusions: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Arm that fuses others → the arms it fuses."""
    learned: Mapping[str, Policy] = field(default_factory=dict)
    """Policies fitted before this one on the same rows: for ensembles of them."""
    reusable_ms: FloatArray | None = None
    """(Q, P) what arms save by taking the encoder's query vector; None: nothing is counted so."""


@dataclass(frozen=True)
class Heads:
    """One head per λ, and the adapters they need."""

    by_lam: Mapping[float, LinearHead]
    metrics: Mapping[float, Mapping[str, float]]
    adapters: Mapping[float, Path] | None = None

    def only(self, lams: Lams) -> Heads:
        """Return the heads of frozen encoders at ``lams`` alone."""
        return Heads(
            {lam: self.by_lam[lam] for lam in lams}, {lam: self.metrics[lam] for lam in lams}
        )


def comparable_rows(context: FitContext, wanted: NDArray[np.bool_]) -> Rows:
    """Rows wanted that may enter training or selection: all arms of A answered."""
    return np.flatnonzero(wanted & context.action.comparable)


def fit_frozen(
    context: FitContext, lams: Lams, train: Rows, validation: Rows, log: bool = False
) -> Heads:
    """Fit one head per λ over the frozen encoder, reusing the finished ones."""
    heads: dict[float, LinearHead] = {}
    metrics: dict[float, Mapping[str, float]] = {}
    depends_on = _dependencies(context, train, validation, context.settings.frozen)
    for lam in lams:
        key = key_of("frozen", lam, depends_on)
        finished = context.work.load(key)
        if finished is None:
            with fixed_threads(1):  # as fit_policies does
                finished = fit_frozen_head(
                    context.action.arms,
                    _embedded(context, train, lam),
                    _embedded(context, validation, lam) if len(validation) else None,
                    context.settings,
                    logger=context.run.head_logger("frozen", lam) if log else False,
                )
            context.work.save(key, *finished)
        heads[lam], metrics[lam] = finished
        if log:
            context.run.finish_head("frozen", lam, metrics[lam])
        context.task.advance()
    return Heads(heads, metrics)


def fit_lora_heads(
    context: FitContext, lams: Lams, start: Heads | None, train: Rows, validation: Rows
) -> Heads:
    """Fit adapters and a head at each λ, from ``start`` where given, reusing the finished ones."""
    from training.lora import Tokens

    encoder, settings = context.encoder.resolved, context.settings
    tokens = Tokens.of(encoder, context.action.texts.tolist(), context.encoder.token_limit)
    heads: dict[float, LinearHead] = {}
    metrics: dict[float, Mapping[str, float]] = {}
    adapters: dict[float, Path] = {}
    depends_on = _dependencies(context, train, validation, settings.lora, start and settings.frozen)
    for lam in lams:
        key = key_of("lora", lam, depends_on)
        finished = context.work.load(key)
        if finished is None:
            first = None if start is None else start.by_lam[lam]
            finished = _fit_lora(context, tokens, lam, first, train, validation, key)
        else:
            context.task.advance(lora_batches(settings, len(train)))
        heads[lam], metrics[lam] = finished
        adapters[lam] = context.work.adapter(key)
        context.run.finish_head("lora", lam, metrics[lam])
    return Heads(heads, metrics, adapters)


def lora_batches(settings: TrainingSettings, queries: int) -> int:
    """How many batches a LoRA head takes over ``queries`` training queries."""
    batch_size = settings.lora.batch_size // settings.lora.accumulate
    return settings.lora.epochs * -(-queries // batch_size)


def _fit_lora(
    context: FitContext,
    tokens: Tokens,
    lam: float,
    start: LinearHead | None,
    train: Rows,
    validation: Rows,
    key: str,
) -> tuple[LinearHead, dict[str, float]]:
    from training.lora import fit_lora

    training, validating = (
        tokens.supervised(rows, _supervised(context, rows, lam)) for rows in (train, validation)
    )
    with tempfile.TemporaryDirectory(dir=context.work.path) as folder:
        adapter = Path(folder) / "adapter"
        head, metrics = fit_lora(
            context.action.arms,
            context.encoder.resolved,
            training,
            validating if len(validation) else None,
            context.settings,
            start,
            adapter,
            logger=context.run.head_logger("lora", lam),
            on_batch=context.task.advance,
        )
        context.work.save(key, head, metrics, adapter)
    return head, metrics


def fit_best_static(
    every: RoutingTable, action: RoutingTable, lams: Lams
) -> dict[float, BestStatic]:
    """λ → the best static arms among ``every``'s, on the queries of training and validation.

    Rewards are those by which policies are scored: latency over the sum of ``action``'s arms. Both
    tables hold the same queries.
    """
    known = every.comparable
    counted, total_ms = every.rows(known), action.rows(known).total_latency_ms()[:, None]
    return {
        lam: best_static.fit_best_static(
            reward(counted.quality, latency_share(counted.latency_ms, total_ms), lam),
            counted.latency_ms,
            counted.datasets,
        )
        for lam in lams
    }


def _dependencies(context: FitContext, train: Rows, validation: Rows, *own: Any) -> list[Any]:
    """What a head depends on beside its λ, as JSON values; ``own`` are its mode's settings."""
    settings = context.settings
    return [
        fingerprint(context.action.rows(train)),
        fingerprint(context.action.rows(validation)),
        context.encoder.resolved.revision,
        settings.encoder_dtype,
        settings.max_tokens,
        settings.tau,
        settings.head_dropout,
        settings.warmup_share,
        settings.seed,
        *(part and part.model_dump(mode="json") for part in (settings.trainer, *own)),
    ]


def _supervised(context: FitContext, rows: Rows, lam: float) -> Supervision:
    return supervision(context.action.rows(rows), lam, context.settings.tau)


def _embedded(context: FitContext, rows: Rows, lam: float) -> Split:
    return Split(context.embedded[rows], _supervised(context, rows, lam))
