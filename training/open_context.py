"""A workshop over a labels folder: all that fits and decisions need beside the settings."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from arms.catalogue import arm_class, find_kind
from arms.progress import Task
from oracle.labels import Labels, labelled_arms
from router.query_encoder import QueryEncoder
from training.fitting import FitContext
from training.recorded_runs import RecordedRuns
from training.reused_encoding import reusable_encode_ms
from training.settings import TrainingSettings
from training.table import RoutingTable
from training.wandb_logger import NoRun
from training.work_folder import WorkFolder


def open_context(
    settings: TrainingSettings,
    labels_folder: Path,
    labels: Labels,
    action: RoutingTable,
    every: RoutingTable,
    encoder: QueryEncoder,
    embedded: NDArray[np.float32],
    work: WorkFolder,
    task: Task,
    run: NoRun | None = None,
) -> FitContext:
    """Add what the labels say beside qualities: rankings, fused arms, encoding that can be shared.

    Args:
        settings: see there.
        labels_folder: the labels' files.
        labels: the same, opened.
        action: all labelled queries over A.
        every: the same over P.
        encoder: the frozen one.
        embedded: (Q, d) its query vectors; d is 0 where nothing needs them.
        work: where what is finished is kept.
        task: moved on as fits are done.
        run: where metrics go; None: nowhere.
    """
    return FitContext(
        settings,
        encoder,
        embedded,
        action,
        every,
        work,
        task,
        run or NoRun(),
        RecordedRuns.beside(labels_folder, labels),
        fused_arms(labels.manifest),
        reusable_ms=reusable_encode_ms(labels_folder, labels, every, encoder),
    )


def arm_options(manifest: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    """Return each arm's options as it was labelled, so that searching opens the same index."""
    return {arm: spec.options for arm, spec in labelled_arms(manifest).items()}


def arm_encoders(manifest: Mapping[str, Any]) -> dict[str, str]:
    """Return the encoders of arms with names of their own, which don't tell them."""
    return {
        arm: spec.encoder
        for arm, spec in labelled_arms(manifest).items()
        if spec.own_name is not None and spec.encoder is not None
    }


def fused_arms(manifest: Mapping[str, Any]) -> dict[str, tuple[str, ...]]:
    """Arm of the labels that fuses others → the arms it fuses."""
    return {
        arm: tuple(part.identity for part in arm_class(spec.name).parts(spec))
        for arm, spec in labelled_arms(manifest).items()
        if (kind := find_kind(spec.name)) is not None and kind.fuses
    }
