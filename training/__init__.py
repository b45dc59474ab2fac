"""Training of routers: reward targets, losses, Lightning modules, baselines."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from oracle.labels import Labels
    from router import Router

__all__ = ["train"]


def train(
    labels: Labels | str | Path,
    lams: Sequence[float] | None = None,
    out: str | Path = "runs/router",
    *,
    progress: bool = True,
    **settings: Any,
) -> Router:
    """Train a router on labels, write it to the folder ``out``, and return it.

    Finished heads are kept beside ``out``, so a call that was stopped continues. What training
    found that a user should know stands in ``router.record.warnings``.

    Args:
        labels: what :func:`oracle.label` or :func:`oracle.read_labels` returned, or their folder.
        lams: the λ to train for, each in [0, 1] (0 = quality only, 1 = latency only); default:
            those of the settings.
        out: the router's folder; replaced as a whole.
        progress: show bars.
        settings: what ``training:`` of a YAML file may hold, e.g. ``policies=["probing"]``.

    Raises:
        SettingsError: a setting is unknown or wrong, or a λ lies outside [0, 1].
        LabelsError: the labels are unfinished, hold no query texts, or hold too few queries.
    """
    from arms.home import expanded
    from arms.progress import ConsoleProgress, SilentProgress
    from arms.settings import parse_options
    from oracle.labels import folder_of
    from router import Router
    from training.settings import TrainingSettings
    from training.train_routers import train_routers

    given = settings if lams is None else {**settings, "lams": tuple(lams)}
    chosen = parse_options(TrainingSettings, given, "train")
    source, target = folder_of(labels), expanded(out, "out")
    train_routers(source, None, target, chosen, ConsoleProgress() if progress else SilentProgress())
    beside = source.parent / "index"
    return Router.load(target, index=beside if beside.is_dir() else None)
