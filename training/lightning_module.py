"""The router as a LightningModule: encoder (or its embeddings), mean pooling, one linear head."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytorch_lightning as pl
import torch
from torch import Tensor, nn

from router.pooling import embed_tokens
from training.data import Batch
from training.losses import kl_loss, masked_logits
from training.schedule import decay_groups, warmup_cosine

VALIDATION_REWARD = "val_reward"
"""The logged metric by which the best epoch is kept."""


@dataclass(frozen=True)
class Optimisation:
    """AdamW with linear warm-up, then cosine decay to 0."""

    learning_rate: float
    weight_decay: float
    warmup_share: float


class RouterModule(pl.LightningModule):
    """Maps batches of queries to logits over the arms and fits them to soft targets by KL.

    A batch holds either ``features`` (n, d), where the encoder is frozen, or ``ids`` and ``mask``
    (n, t); and the tensors of :class:`training.data.Supervision`. Only trainable weights enter a
    checkpoint: the base encoder is never copied.
    """

    def __init__(
        self,
        arms: tuple[str, ...],
        dimension: int,
        optimisation: Optimisation,
        head_dropout: float,
        encoder: nn.Module | None = None,
    ) -> None:
        super().__init__()
        self.arms = arms
        self.optimisation = optimisation
        self.encoder = encoder
        self.dropout = nn.Dropout(head_dropout)
        self.head = nn.Linear(dimension, len(arms))

    def forward(self, batch: Batch) -> Tensor:
        """(n, arms) logits, −inf where an arm doesn't compete."""
        if self.encoder is None:
            embedded = batch["features"]
        else:
            embedded = embed_tokens(self.encoder, batch["ids"], batch["mask"])
        return masked_logits(self.head(self.dropout(embedded)), batch["competes"])

    def training_step(self, batch: Batch, index: int) -> Tensor:
        """Return the batch's mean KL."""
        loss = kl_loss(self(batch), batch["targets"], batch["competes"], batch["weight"])
        self.log("train_loss", loss, on_step=False, on_epoch=True, batch_size=len(batch["weight"]))
        return loss

    def validation_step(self, batch: Batch, index: int) -> None:
        """Log KL, reward and regret of the chosen arms, and each arm's share, over the epoch."""
        logits = self(batch)
        rewards, competes = batch["rewards"], batch["competes"]
        chosen = logits.argmax(dim=-1)
        got = rewards.gather(1, chosen[:, None]).squeeze(1)
        best = rewards.masked_fill(~competes, float("-inf")).amax(dim=-1)
        shares = nn.functional.one_hot(chosen, len(self.arms)).float().mean(dim=0)
        measured = {
            "val_loss": kl_loss(logits, batch["targets"], competes, batch["weight"]),
            VALIDATION_REWARD: got.mean(),
            "val_regret": (best - got).mean(),
            **{f"share/{arm}": share for arm, share in zip(self.arms, shares, strict=True)},
        }
        self.log_dict(measured, batch_size=len(chosen), sync_dist=True)

    def configure_optimizers(self) -> Any:
        """AdamW without decay on biases and norms; one schedule step per optimiser step."""
        options = self.optimisation
        groups = decay_groups(self.named_parameters(), options.weight_decay)
        optimiser = torch.optim.AdamW(groups, lr=options.learning_rate)
        total_steps = max(1, int(self.trainer.estimated_stepping_batches))
        schedule = torch.optim.lr_scheduler.LambdaLR(
            optimiser, lambda step: warmup_cosine(step, total_steps, options.warmup_share)
        )
        return {
            "optimizer": optimiser,
            "lr_scheduler": {"scheduler": schedule, "interval": "step"},
        }

    def trainable_state(self) -> dict[str, Tensor]:
        """Return the weights that training changes, by name, on the CPU."""
        trainable = {name for name, parameter in self.named_parameters() if parameter.requires_grad}
        return {
            name: tensor.detach().cpu().clone()
            for name, tensor in self.state_dict().items()
            if name in trainable
        }

    def on_save_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        """Keep trainable weights only."""
        checkpoint["state_dict"] = self.trainable_state()

    def restore(self, state: dict[str, Tensor]) -> None:
        """Load :meth:`trainable_state` back; raise ``ValueError`` on any other set of names."""
        expected = set(self.trainable_state())
        if set(state) != expected:
            odd = sorted(set(state) ^ expected)
            raise ValueError(f"a checkpoint must hold exactly the trainable weights; odd: {odd}")
        self.load_state_dict(state, strict=False)
