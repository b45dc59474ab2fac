"""The one seam to Weights & Biases: one run per training command, off unless asked for.

Metrics of the head at each λ are logged per epoch under ``<frozen or lora>/lam=<λ>/``:
``train_loss``, ``val_loss``, ``val_reward``, ``val_regret`` and ``share/<arm>``. The written router
is logged as an artifact. Offline mode, the default, needs no account and no network.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from arms.extras import not_importable
from training.settings import WandbSettings


class NoRun:
    """Logs nothing."""

    def head_logger(self, mode: str, lam: float) -> Any:
        """Return what Lightning takes for "no logger"."""
        return False

    def finish_head(self, mode: str, lam: float, metrics: Mapping[str, Any]) -> None:
        """Do nothing."""

    def log_router(self, router_folder: Path) -> None:
        """Do nothing."""


class WandbRun(NoRun):
    """Logs to an open wandb run."""

    def __init__(self, run: Any, folder: Path) -> None:
        self._run = run
        self._folder = folder

    def head_logger(self, mode: str, lam: float) -> Any:
        """Return a Lightning logger whose metrics carry the mode and λ in their names."""
        from pytorch_lightning.loggers import WandbLogger

        logger = WandbLogger(experiment=self._run, save_dir=self._folder, prefix=_prefix(mode, lam))
        logger.LOGGER_JOIN_CHAR = "/"
        return logger

    def finish_head(self, mode: str, lam: float, metrics: Mapping[str, Any]) -> None:
        """Put the kept epoch's metrics into the run's summary."""
        prefix = _prefix(mode, lam)
        self._run.summary.update({f"{prefix}/kept/{key}": metrics[key] for key in sorted(metrics)})

    def log_router(self, router_folder: Path) -> None:
        """Log the router's folder as an artifact of type ``router``."""
        import wandb

        artifact = wandb.Artifact(name=f"router-{self._run.id}", type="router")
        artifact.add_dir(str(router_folder))
        self._run.log_artifact(artifact)


def _prefix(mode: str, lam: float) -> str:
    return f"{mode}/lam={lam:g}"


@contextmanager
def open_run(
    settings: WandbSettings, config: Mapping[str, Any], work_folder: Path
) -> Iterator[NoRun]:
    """Open the run for a ``with`` block; yield one that logs nothing unless it is enabled.

    Raises:
        MissingExtraError: wandb is asked for and isn't installed.
    """
    if not settings.enabled:
        yield NoRun()
        return
    try:
        from wandb import init  # a leftover wandb/ folder would make a bare import succeed
    except ImportError as error:
        raise not_importable(error, "wandb", "wandb") from error
    folder = settings.folder or work_folder
    folder.mkdir(parents=True, exist_ok=True)
    run = init(
        project=settings.project,
        name=settings.name,
        mode=settings.mode,
        dir=folder,
        config=dict(config),
    )
    try:
        yield WandbRun(run, folder)
    finally:
        run.finish()
