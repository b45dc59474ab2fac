"""Training with a frozen encoder: one linear head over embeddings that were computed once."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from pytorch_lightning import seed_everything

from router.policies.encoder import LinearHead
from training.data import EmbeddedQueries, RouterData, Supervision
from training.lightning_module import Optimisation, RouterModule
from training.lightning_run import run
from training.settings import TrainingSettings

Features = NDArray[np.float32]


@dataclass(frozen=True)
class Standardisation:
    """Per-dimension shift and scale that a linear head can absorb."""

    mean: NDArray[np.float64]
    scale: NDArray[np.float64]

    @classmethod
    def of(cls, features: Features) -> Standardisation:
        """Measure (n, d) features; a constant dimension keeps scale 1."""
        spread = features.std(axis=0, dtype=np.float64)
        return cls(features.mean(axis=0, dtype=np.float64), np.where(spread > 1e-6, spread, 1.0))

    def apply(self, features: Features) -> torch.Tensor:
        """Standardised features as a float32 tensor."""
        return torch.tensor((features - self.mean) / self.scale, dtype=torch.float32)

    def fold_into(self, head: torch.nn.Linear) -> LinearHead:
        """Return the head that gives the same logits on features that aren't standardised."""
        folded = head.weight.detach().cpu().numpy().astype(np.float64) / self.scale
        shifted = head.bias.detach().cpu().numpy().astype(np.float64) - folded @ self.mean
        return LinearHead(folded.astype(np.float32), shifted.astype(np.float32))


@dataclass(frozen=True)
class Split:
    """Features of one side of a split with their supervision."""

    features: Features
    supervised: Supervision


def fit_frozen_head(
    arms: tuple[str, ...],
    train: Split,
    validation: Split | None,
    settings: TrainingSettings,
    logger: Any = False,
    on_epoch: Callable[[], None] = lambda: None,
) -> tuple[LinearHead, dict[str, float]]:
    """Fit one head over fixed embeddings; return it with the metrics of the epoch that was kept.

    The head starts at zero: the problem is convex, so that its start only adds noise. Without
    validation queries the last epoch is kept.
    """
    options = settings.frozen
    standard = Standardisation.of(train.features)
    seed_everything(settings.seed, verbose=False)
    module = RouterModule(
        arms,
        train.features.shape[1],
        Optimisation(options.learning_rate, options.weight_decay, settings.warmup_share),
        settings.head_dropout,
    )
    torch.nn.init.zeros_(module.head.weight)
    torch.nn.init.zeros_(module.head.bias)
    data = RouterData(
        _standardised(train, standard),
        None if validation is None else _standardised(validation, standard),
        options.batch_size,
        settings.seed,
    )
    metrics = run(module, data, options.epochs, settings.trainer, logger, on_epoch)
    return standard.fold_into(module.head), metrics


def _standardised(split: Split, standard: Standardisation) -> EmbeddedQueries:
    return EmbeddedQueries(standard.apply(split.features), split.supervised)
