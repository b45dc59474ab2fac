"""Training with a frozen encoder: one linear head over embeddings that were computed once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from pytorch_lightning import seed_everything

from arms.reward import FloatArray
from router.policies.encoder import LinearHead
from training.baselines import choose
from training.data import EmbeddedQueries, RouterData, Supervision
from training.lightning_module import VALIDATION_REWARD, Optimisation, RouterModule
from training.lightning_run import run
from training.selection import simplest_within_error
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
) -> tuple[LinearHead, dict[str, float]]:
    """Fit heads over fixed embeddings; return the one that is kept, with its metrics.

    Candidates, simplest first: the constant head, then one head per weight decay, the largest
    first; :func:`simplest_within_error` keeps one. All begin at the constant head, so that early
    epochs are close to the best static arm rather than to a guess. Without validation queries the
    last epoch at the largest weight decay is kept.

    Metrics: those of the kept epoch (see :class:`RouterModule`), ``constant`` (1 where the constant
    head is kept) and ``weight_decay``.
    """
    options = settings.frozen
    standard = Standardisation.of(train.features)
    bias = mean_reward_logits(train.supervised, settings.tau)
    constant = LinearHead(np.zeros((len(arms), train.features.shape[1]), np.float32), bias)
    decays = sorted(options.weight_decays, reverse=True)
    if validation is None:
        head, metrics = _fit(arms, train, None, standard, bias, decays[0], settings, logger)
        return head, metrics | {"constant": 0.0, "weight_decay": decays[0]}
    candidates = [(constant, {"constant": 1.0})] if options.allow_constant else []
    for decay in decays:
        head, metrics = _fit(arms, train, validation, standard, bias, decay, settings, logger)
        candidates.append((head, metrics | {"constant": 0.0, "weight_decay": decay}))
    rewards = [_rewards(head, validation) for head, _ in candidates]
    kept = simplest_within_error(rewards, options.tolerance_se)
    head, metrics = candidates[kept]
    return head, metrics | {VALIDATION_REWARD: float(rewards[kept].mean())}


def mean_reward_logits(supervised: Supervision, tau: float) -> NDArray[np.float32]:
    """(arms,) mean reward over τ, centred: the logits that prefer the best static arm.

    A query whose dataset lacks an arm counts as reward 0 for it, as for the best static arm.
    """
    means = supervised.rewards.numpy().astype(np.float64).mean(axis=0) / tau
    return np.asarray(means - means.mean(), dtype=np.float32)


def _fit(
    arms: tuple[str, ...],
    train: Split,
    validation: Split | None,
    standard: Standardisation,
    bias: NDArray[np.float32],
    weight_decay: float,
    settings: TrainingSettings,
    logger: Any,
) -> tuple[LinearHead, dict[str, float]]:
    options = settings.frozen
    seed_everything(settings.seed, verbose=False)
    module = RouterModule(
        arms,
        train.features.shape[1],
        Optimisation(options.learning_rate, weight_decay, settings.warmup_share),
        settings.head_dropout,
    )
    torch.nn.init.zeros_(module.head.weight)
    module.head.bias.data.copy_(torch.from_numpy(bias))
    data = RouterData(
        _standardised(train, standard),
        None if validation is None else _standardised(validation, standard),
        options.batch_size,
        settings.seed,
    )
    metrics = run(module, data, options.epochs, settings.trainer, logger)
    return standard.fold_into(module.head), metrics


def _standardised(split: Split, standard: Standardisation) -> EmbeddedQueries:
    return EmbeddedQueries(standard.apply(split.features), split.supervised)


def _rewards(head: LinearHead, split: Split) -> FloatArray:
    """(Q,) reward of the arm that the head chooses for each query."""
    chosen = choose(head.probabilities(split.features), split.supervised.competes.numpy())
    rewards: FloatArray = split.supervised.rewards.numpy()[np.arange(len(chosen)), chosen]
    return rewards
