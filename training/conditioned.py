"""One head for every λ: logits interpolated between knots of λ, trained over random λ by KL.

A reward is linear in λ (Equation 1 of RetrievalRouter, arXiv 2608.25625), and so are the logits of
its soft target, up to a constant. So a head at λ = 0 and one at λ = 1 can express every λ between;
further knots let the preference bend.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from pytorch_lightning import seed_everything
from torch import Tensor, nn

from arms.reward import FloatArray, normalised_latency
from router.policies.encoder import LinearHead, interpolated_head
from training.baselines import choose
from training.data import Batch, EmbeddedQueries, RouterData
from training.frozen import Features, Standardisation
from training.lightning_module import VALIDATION_REWARD, Optimisation, RouterModule
from training.lightning_run import run
from training.losses import kl_loss, masked_logits
from training.selection import simplest_within_error
from training.settings import TrainingSettings
from training.table import RoutingTable


@dataclass(frozen=True)
class Measured:
    """What rewards at any λ are made of, as tensors; one row per query."""

    quality: Tensor
    """(Q, arms) float32, 0 where masked."""
    latency_share: Tensor
    """(Q, arms) float32 normalised latency, 0 where masked."""
    competes: Tensor
    """(Q, arms) bool."""

    @classmethod
    def of(cls, table: RoutingTable) -> Measured:
        """Take comparable queries of ``table``."""
        share = normalised_latency(table.latency_ms, table.competes)
        quality, shares = (
            torch.tensor(np.where(table.competes, values, 0.0), dtype=torch.float32)
            for values in (table.quality, share)
        )
        return cls(quality, shares, torch.tensor(table.competes))

    def batch(self, rows: Tensor) -> Batch:
        """Return the rows as part of a batch."""
        return {name: tensor[rows] for name, tensor in vars(self).items()}


def knot_weights(lams: Tensor, knots: Tensor) -> Tensor:
    """(n, K) share of each knot at each λ: linear interpolation between the two neighbours.

    Below the first knot and above the last one, that knot alone counts.
    """
    if len(knots) == 1:
        return torch.ones(len(lams), 1)
    inside = lams.clamp(float(knots[0]), float(knots[-1]))
    right = torch.searchsorted(knots, inside).clamp(1, len(knots) - 1)
    left = right - 1
    share = (inside - knots[left]) / (knots[right] - knots[left])
    weights = torch.zeros(len(lams), len(knots))
    rows = torch.arange(len(lams))
    weights[rows, left] = 1.0 - share
    weights[rows, right] = share
    return weights


class ConditionedModule(RouterModule):
    """Heads at K knots of λ over fixed embeddings; each training query meets a new λ every time.

    A batch holds ``features`` (n, d) and the tensors of :class:`Measured`. Validation reward is the
    mean over ``validation_lams``.
    """

    def __init__(
        self,
        arms: tuple[str, ...],
        dimension: int,
        optimisation: Optimisation,
        settings: TrainingSettings,
    ) -> None:
        super().__init__(arms, dimension, optimisation, settings.head_dropout)
        self.knots = torch.tensor(settings.conditioned.knots)
        self.tau = settings.tau
        self.validation_lams = settings.lams
        self.head = nn.Linear(dimension, len(arms) * len(self.knots))
        self.random = torch.Generator().manual_seed(settings.seed)

    def logits(self, batch: Batch, lams: Tensor) -> Tensor:
        """(n, arms) at one λ per query, (n,); −inf where an arm doesn't compete."""
        by_knot = self.head(self.dropout(batch["features"]))
        by_knot = by_knot.view(len(lams), len(self.knots), len(self.arms))
        mixed = (by_knot * knot_weights(lams, self.knots)[:, :, None]).sum(dim=1)
        return masked_logits(mixed, batch["competes"])

    def rewards(self, batch: Batch, lams: Tensor) -> Tensor:
        """(n, arms) Equation 1 at one λ per query; 0 where masked."""
        return _rewards(batch["quality"], batch["latency_share"], batch["competes"], lams[:, None])

    def targets(self, batch: Batch, lams: Tensor) -> tuple[Tensor, Tensor]:
        """(n, arms) soft targets at one λ per query, and (n,) their weights in the gradient."""
        rewards, competes = self.rewards(batch, lams), batch["competes"]
        soft = (rewards / self.tau).masked_fill(~competes, float("-inf")).softmax(dim=-1)
        return soft, (rewards != 0).any(dim=-1).float()

    def training_step(self, batch: Batch, index: int) -> Tensor:
        """Return the batch's mean KL, each query at a λ drawn evenly from [0, 1]."""
        competes = batch["competes"]
        lams = torch.rand(len(competes), generator=self.random)
        targets, weight = self.targets(batch, lams)
        loss = kl_loss(self.logits(batch, lams), targets, competes, weight)
        self.log("train_loss", loss, on_step=False, on_epoch=True, batch_size=len(weight))
        return loss

    def validation_step(self, batch: Batch, index: int) -> None:
        """Log the reward of the chosen arms, averaged over the validation λ."""
        got = []
        for lam in self.validation_lams:
            lams = torch.full((len(batch["competes"]),), lam)
            chosen = self.logits(batch, lams).argmax(dim=-1, keepdim=True)
            got.append(self.rewards(batch, lams).gather(1, chosen).mean())
        self.log(VALIDATION_REWARD, torch.stack(got).mean(), batch_size=len(lams), sync_dist=True)


def _rewards(quality: Tensor, latency_share: Tensor, competes: Tensor, lams: Tensor) -> Tensor:
    """Equation 1 over tensors that broadcast; 0 where masked."""
    rewards = (1 - lams) * quality + lams * (1 - latency_share)
    return rewards.masked_fill(~competes, 0.0)


def fit_conditioned_heads(
    train: tuple[Features, RoutingTable],
    validation: tuple[Features, RoutingTable] | None,
    settings: TrainingSettings,
) -> tuple[dict[float, LinearHead], dict[str, float]]:
    """Fit heads at the knots of λ; return knot → head, and metrics.

    Candidates are those of the frozen heads: the constant one, then one per weight decay, the
    largest first; the simplest within error of the best is kept, by validation reward averaged over
    ``settings.lams``. Both tables hold comparable queries only.
    """
    options = settings.frozen
    standard = Standardisation.of(train[0])
    bias = _constant_logits(train[1], settings)
    decays = sorted(options.weight_decays, reverse=True)
    if validation is None:
        heads, metrics = _fit(train, None, standard, bias, decays[0], settings)
        return heads, metrics | {"constant": 0.0, "weight_decay": decays[0]}
    candidates: list[tuple[dict[float, LinearHead], dict[str, float]]] = []
    if options.allow_constant:
        zeros = np.zeros((len(bias[0]), train[0].shape[1]), np.float32)
        constant = {
            knot: LinearHead(zeros, row)
            for knot, row in zip(settings.conditioned.knots, bias, strict=True)
        }
        candidates.append((constant, {"constant": 1.0}))
    for decay in decays:
        heads, metrics = _fit(train, validation, standard, bias, decay, settings)
        candidates.append((heads, metrics | {"constant": 0.0, "weight_decay": decay}))
    rewards = [_mean_rewards(heads, validation, settings) for heads, _ in candidates]
    kept = simplest_within_error(rewards, options.tolerance_se)
    heads, metrics = candidates[kept]
    return heads, metrics | {VALIDATION_REWARD: float(rewards[kept].mean())}


def _constant_logits(table: RoutingTable, settings: TrainingSettings) -> NDArray[np.float32]:
    """(K, arms) centred mean rewards over τ at each knot; an absent arm counts as reward 0."""
    rows = [
        np.where(table.competes, table.rewards(knot), 0.0).mean(axis=0) / settings.tau
        for knot in settings.conditioned.knots
    ]
    return np.array([row - row.mean() for row in rows], dtype=np.float32)


def _fit(
    train: tuple[Features, RoutingTable],
    validation: tuple[Features, RoutingTable] | None,
    standard: Standardisation,
    bias: NDArray[np.float32],
    weight_decay: float,
    settings: TrainingSettings,
) -> tuple[dict[float, LinearHead], dict[str, float]]:
    options = settings.frozen
    seed_everything(settings.seed, verbose=False)
    optimisation = Optimisation(options.learning_rate, weight_decay, settings.warmup_share)
    module = ConditionedModule(train[1].arms, train[0].shape[1], optimisation, settings)
    torch.nn.init.zeros_(module.head.weight)
    module.head.bias.data.copy_(torch.from_numpy(bias.ravel()))
    data = RouterData(
        _embedded(train, standard),
        None if validation is None else _embedded(validation, standard),
        options.batch_size,
        settings.seed,
    )
    metrics = run(module, data, settings.conditioned.epochs, settings.trainer)
    folded = standard.fold_into(module.head)
    shape = (len(settings.conditioned.knots), len(train[1].arms))
    weights, biases = folded.weight.reshape(*shape, -1), folded.bias.reshape(shape)
    heads = {
        knot: LinearHead(weight, own)
        for knot, weight, own in zip(settings.conditioned.knots, weights, biases, strict=True)
    }
    return heads, metrics


def _embedded(side: tuple[Features, RoutingTable], standard: Standardisation) -> EmbeddedQueries:
    features, table = side
    supervised: Any = Measured.of(table)
    return EmbeddedQueries(standard.apply(features), supervised)


def _mean_rewards(
    heads: dict[float, LinearHead],
    validation: tuple[Features, RoutingTable],
    settings: TrainingSettings,
) -> FloatArray:
    """(Q,) reward of the chosen arm, averaged over ``settings.lams``."""
    features, table = validation
    rows = np.arange(len(table))
    found = []
    for lam in settings.lams:
        probabilities = interpolated_head(heads, lam).probabilities(features)
        found.append(table.rewards(lam)[rows, choose(probabilities, table.competes)])
    return np.asarray(np.mean(found, axis=0))
