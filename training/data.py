"""What one training run is fed: batches of embedded or tokenised queries with their targets.

Queries are tokenised, or embedded where the encoder is frozen, once; every λ, fold and epoch shares
the result, and only the small target tensors differ.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import pytorch_lightning as pl
import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset, Sampler

from router.pooling import pad_tokens
from training.table import RoutingTable
from training.targets import gradient_weight, soft_targets

Batch = dict[str, Tensor]


@dataclass(frozen=True)
class Supervision:
    """Targets of Q queries at one λ, as tensors; one row per query."""

    targets: Tensor
    """(Q, arms) float32, 0 where masked."""
    rewards: Tensor
    """(Q, arms) float32, 0 where masked."""
    competes: Tensor
    """(Q, arms) bool."""
    weight: Tensor
    """(Q,) float32, 0 where the query leaves the gradient."""

    def batch(self, rows: Tensor) -> Batch:
        """Return the rows as part of a batch."""
        return {name: tensor[rows] for name, tensor in vars(self).items()}


def supervision(table: RoutingTable, lam: float, tau: float) -> Supervision:
    """Compute rewards, soft targets and gradient weights of comparable queries."""
    rewards, competes = table.rewards(lam), table.competes
    return Supervision(
        targets=torch.tensor(soft_targets(rewards, tau, competes), dtype=torch.float32),
        rewards=torch.tensor(np.where(competes, rewards, 0.0), dtype=torch.float32),
        competes=torch.tensor(competes),
        weight=torch.tensor(gradient_weight(rewards, competes), dtype=torch.float32),
    )


class EmbeddedQueries(Dataset[Any]):
    """Queries as fixed vectors; a batch is one slice of a tensor."""

    lengths: None = None

    def __init__(self, features: Tensor, supervised: Supervision) -> None:
        self.features = features
        self.supervised = supervised

    def __len__(self) -> int:
        return len(self.features)

    def __getitems__(self, rows: Sequence[int]) -> Batch:
        """Return the rows as one batch: ``features`` (rows, d) and the supervision."""
        chosen = torch.as_tensor(rows, dtype=torch.long)
        return {"features": self.features[chosen], **self.supervised.batch(chosen)}


class TokenisedQueries(Dataset[Any]):
    """Queries as token ids, padded per batch on the encoder's own side."""

    def __init__(
        self,
        token_ids: Sequence[Sequence[int]],
        pad_id: int,
        padding_side: Literal["left", "right"],
        supervised: Supervision,
    ) -> None:
        self.token_ids = token_ids
        self.pad_id = pad_id
        self.padding_side = padding_side
        self.supervised = supervised
        self.lengths = np.array([len(ids) for ids in token_ids], dtype=np.intp)

    def __len__(self) -> int:
        return len(self.token_ids)

    def __getitems__(self, rows: Sequence[int]) -> Batch:
        """Return the rows as one batch: ``ids``, ``mask`` (1 = real token) and the supervision."""
        # A text without a token counts as one of padding, so that no batch has width 0.
        tokens = [self.token_ids[row] or [self.pad_id] for row in rows]
        ids, mask = pad_tokens(tokens, self.pad_id, self.padding_side)
        chosen = torch.as_tensor(rows, dtype=torch.long)
        return {"ids": ids, "mask": mask, **self.supervised.batch(chosen)}


class BucketedBatches(Sampler[list[int]]):
    """Shuffled batches of queries of similar length, the same for the same seed and epoch.

    Queries are shuffled, cut into windows of ``WINDOW`` batches, sorted by length inside a window,
    and the batches shuffled again: little padding, and still a new mix every epoch. Under several
    processes each takes every n-th batch, all of them equally many.
    """

    WINDOW = 20

    def __init__(self, size: int, lengths: Any, batch_size: int, seed: int) -> None:
        self.size = size
        self.lengths = lengths
        self.batch_size = batch_size
        self.seed = seed
        self.epoch = 0

    def __len__(self) -> int:
        total = -(-self.size // self.batch_size)
        return -(-total // _processes()[1])

    def __iter__(self) -> Iterator[list[int]]:
        batches = self._batches()
        self.epoch += 1
        rank, processes = _processes()
        short = -len(batches) % processes
        yield from (batches + batches[:short])[rank::processes]

    def _batches(self) -> list[list[int]]:
        random = np.random.default_rng((self.seed, self.epoch))
        order = random.permutation(self.size)
        window = self.batch_size * self.WINDOW
        if self.lengths is not None and self.size:
            pieces = [order[start : start + window] for start in range(0, self.size, window)]
            order = np.concatenate(
                [piece[np.argsort(self.lengths[piece], kind="stable")] for piece in pieces]
            )
        starts = np.arange(0, self.size, self.batch_size)
        return [
            order[start : start + self.batch_size].tolist() for start in random.permutation(starts)
        ]


def _processes() -> tuple[int, int]:
    if torch.distributed.is_available() and torch.distributed.is_initialized():
        return torch.distributed.get_rank(), torch.distributed.get_world_size()
    return 0, 1


class OrderedBatches(Sampler[list[int]]):
    """Every query once, by descending length, so that a batch is padded little.

    Validation sees every query in every process: with several, the means stay the same.
    """

    def __init__(self, size: int, lengths: Any, batch_size: int) -> None:
        self.order = (
            np.arange(size) if lengths is None else np.argsort(-lengths, kind="stable")
        ).tolist()
        self.batch_size = batch_size

    def __len__(self) -> int:
        return -(-len(self.order) // self.batch_size)

    def __iter__(self) -> Iterator[list[int]]:
        for start in range(0, len(self.order), self.batch_size):
            yield self.order[start : start + self.batch_size]


def _as_it_is(batch: Batch) -> Batch:
    return batch


class RouterData(pl.LightningDataModule):
    """Training and validation batches of one run."""

    def __init__(
        self,
        train: EmbeddedQueries | TokenisedQueries,
        validation: EmbeddedQueries | TokenisedQueries | None,
        batch_size: int,
        seed: int,
    ) -> None:
        super().__init__()
        self.train = train
        self.validation = validation
        self.batch_size = batch_size
        self.seed = seed

    def train_dataloader(self) -> DataLoader[Any]:
        """Shuffled batches, bucketed by length where queries have one."""
        sampler = BucketedBatches(len(self.train), self.train.lengths, self.batch_size, self.seed)
        return DataLoader(self.train, batch_sampler=sampler, collate_fn=_as_it_is)

    def val_dataloader(self) -> DataLoader[Any]:
        """Every validation query once; embedded ones in a single batch."""
        if self.validation is None:
            return DataLoader([])
        lengths = self.validation.lengths
        size = len(self.validation)
        batch_size = self.batch_size if lengths is not None else max(1, size)
        sampler = OrderedBatches(size, lengths, batch_size)
        return DataLoader(self.validation, batch_sampler=sampler, collate_fn=_as_it_is)
