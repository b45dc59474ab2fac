"""A workshop over a labels folder: all that fits and decisions need beside the settings."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from arms.catalogue import spec_of
from arms.progress import Task
from arms.settings import ArmSettings
from oracle.labels import Labels
from router.query_encoder import QueryEncoder
from training.fitting import Workshop
from training.probed import RecordedRuns
from training.reused_encoding import reusable_encode_ms
from training.settings import TrainingSettings
from training.table import RoutingTable
from training.wandb_logger import NoRun
from training.work_folder import WorkFolder


def open_workshop(
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
) -> Workshop:
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
    return Workshop(
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
    arms = [ArmSettings.model_validate(one) for one in manifest.get("config", {}).get("arms", ())]
    return {spec_of(one).identity: one.options for one in arms}


def fused_arms(manifest: Mapping[str, Any]) -> dict[str, tuple[str, ...]]:
    """Arm of the labels that fuses others → the arms it fuses."""
    found = {}
    for identity, options in arm_options(manifest).items():
        parts = options.get("arms", ())
        if parts and identity.split("@")[0].split("#")[0] == "fusion":
            found[identity] = tuple(
                spec_of(ArmSettings.model_validate(one)).identity for one in parts
            )
    return found
