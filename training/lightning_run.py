"""One Lightning run: quiet, deterministic, leaving no file behind."""

from __future__ import annotations

import logging
import os
import tempfile
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytorch_lightning as pl
import torch
from pytorch_lightning.callbacks import Callback, ModelCheckpoint
from pytorch_lightning.utilities.exceptions import MisconfigurationException

from arms.errors import SettingsError
from training.data import RouterData
from training.lightning_module import VALIDATION_REWARD, RouterModule
from training.settings import TrainerSettings


def run(
    module: RouterModule,
    data: RouterData,
    epochs: int,
    trainer_settings: TrainerSettings,
    logger: Any = False,
    on_batch: Callable[[], None] = lambda: None,
    accumulate: int = 1,
) -> dict[str, float]:
    """Train ``module`` in place and restore the epoch with the highest validation reward.

    Of equal epochs the earliest is kept. Returns that epoch's metrics (see
    :class:`RouterModule`), its number ``epoch`` from 0, and the last ``train_loss``.
    """
    recorder = _Recorder(on_batch)
    callbacks: list[Callback] = [recorder]
    with tempfile.TemporaryDirectory() as folder, deterministic(), quiet():
        checkpoint = ModelCheckpoint(
            dirpath=folder, monitor=VALIDATION_REWARD, mode="max", save_weights_only=True
        )
        selects = data.validation is not None and len(data.validation) > 0
        trainer = pl.Trainer(
            **trainer_settings.model_dump(),
            max_epochs=epochs,
            accumulate_grad_batches=accumulate,
            callbacks=[*callbacks, checkpoint] if selects else callbacks,
            enable_checkpointing=selects,
            logger=logger,
            default_root_dir=folder,
            enable_progress_bar=False,
            enable_model_summary=False,
            num_sanity_val_steps=0,
            limit_val_batches=1.0 if selects else 0,
            use_distributed_sampler=False,
            log_every_n_steps=10,
        )
        trainer.fit(module, datamodule=data)
        if selects:
            saved = torch.load(checkpoint.best_model_path, map_location="cpu", weights_only=True)
            module.restore(saved["state_dict"])
    module.cpu().eval()
    return recorder.best(selects)


def check_trainer(settings: TrainerSettings) -> None:
    """Raise ``SettingsError`` with every key that Lightning's Trainer refuses, and its reason.

    Keys are tried one after another on top of the defaults and of those that passed.
    """
    passed = TrainerSettings().model_dump()
    problems = []
    for key, value in settings.model_dump().items():
        try:
            with quiet():
                pl.Trainer(
                    **{**passed, key: value},
                    logger=False,
                    enable_checkpointing=False,
                    enable_progress_bar=False,
                    enable_model_summary=False,
                )
        except (MisconfigurationException, ValueError, TypeError, ImportError, OSError) as error:
            problems.append(f"  training.trainer.{key}: got {value!r}; {_first_line(error)}")
        else:
            passed[key] = value
    if problems:
        raise SettingsError("\n".join(["Lightning's Trainer refuses these settings:", *problems]))


def _first_line(error: Exception) -> str:
    return next((line.strip() for line in str(error).splitlines() if line.strip()), repr(error))


class _Recorder(Callback):
    """Collects every epoch's metrics and reports progress."""

    def __init__(self, on_batch: Callable[[], None]) -> None:
        self.epochs: list[dict[str, float]] = []
        self.on_batch = on_batch

    def on_train_batch_end(self, *given: Any, **named: Any) -> None:
        """Report one batch done."""
        self.on_batch()

    def on_train_epoch_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Keep the metrics logged so far."""
        metrics = {name: float(value) for name, value in trainer.callback_metrics.items()}
        self.epochs.append(metrics | {"epoch": float(len(self.epochs))})

    def best(self, selects: bool) -> dict[str, float]:
        """Return the epoch with the highest validation reward, or the last without one."""
        if not selects:
            return self.epochs[-1]
        return max(self.epochs, key=lambda epoch: (epoch[VALIDATION_REWARD], -epoch["epoch"]))


@contextmanager
def deterministic() -> Iterator[None]:
    """Make torch choose deterministic algorithms inside the block."""
    before = torch.are_deterministic_algorithms_enabled()
    workspace = os.environ.get("CUBLAS_WORKSPACE_CONFIG")
    os.environ["CUBLAS_WORKSPACE_CONFIG"] = ":4096:8"  # without it, CUDA's matmul refuses
    torch.use_deterministic_algorithms(True)
    try:
        yield
    finally:
        torch.use_deterministic_algorithms(before)
        if workspace is None:
            del os.environ["CUBLAS_WORKSPACE_CONFIG"]
        else:
            os.environ["CUBLAS_WORKSPACE_CONFIG"] = workspace


@contextmanager
def quiet() -> Iterator[None]:
    """Silence Lightning's notices and its advice about workers and logging intervals."""
    names = ("pytorch_lightning", "lightning_fabric")
    loggers = [logging.getLogger(name) for name in names]
    levels = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", module=r"(pytorch_lightning|lightning_fabric)\b.*")
            yield
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)
