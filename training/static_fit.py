"""Fits a static-embedding router: tables of token and n-gram vectors, and heads at every λ at once.

The tables serve all λ, so one fit does: each batch is pooled once, and its loss is the mean over
the λ given. Token tables are trained as a difference from where they start, and weight decay
shrinks that difference: rows that training never sees, or rarely, stay what the encoder made them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from arms.reward import FloatArray
from router.policies.static_embedding import LamHeads, StaticEmbeddingPolicy, bernstein
from router.text_views import (
    ByteTable,
    Ids,
    NgramSpec,
    TextFeatures,
    TokenIds,
    View,
    encodable,
    ids_of,
)
from training.data import Supervision
from training.losses import kl_per_query, masked_logits
from training.schedule import warmup_cosine
from training.static_table import FloatRows


@dataclass(frozen=True)
class StartView:
    """A view before training."""

    ids: TokenIds | NgramSpec
    rows: FloatRows
    """(rows, d) where its table starts."""
    tuned: bool = True
    """Whether its table is trained, or only the heads over it."""
    decay: float = 0.0
    """AdamW's weight decay on the table's difference from its start."""


@dataclass(frozen=True)
class LamTargets:
    """What Q queries are fitted to at each of L λ."""

    lams: tuple[float, ...]
    targets: Tensor
    """(Q, L, A) float32; rows sum to 1, 0 where masked."""
    competes: Tensor
    """(Q, A) bool."""
    weight: Tensor
    """(Q, L) float32, 0 where the query leaves the gradient."""

    @classmethod
    def of(
        cls,
        supervised: Mapping[float, Supervision],
        teacher: Mapping[float, FloatArray] | None = None,
        teacher_share: float = 0.5,
    ) -> LamTargets:
        """Stack the targets of each λ, mixed with a teacher's probabilities where it has them.

        ``teacher``: λ → (Q, A), rows that sum to 1 over the arms that compete.
        """
        lams = tuple(sorted(supervised))
        mixed = []
        for lam in lams:
            targets = supervised[lam].targets
            if teacher is not None and lam in teacher:
                taught = torch.tensor(teacher[lam], dtype=torch.float32)
                targets = (1.0 - teacher_share) * targets + teacher_share * taught
            mixed.append(targets)
        return cls(
            lams,
            torch.stack(mixed, dim=1),
            supervised[lams[0]].competes,
            torch.stack([supervised[lam].weight for lam in lams], dim=1),
        )


@dataclass(frozen=True)
class FitOptions:
    """How the tables and heads are optimised."""

    epochs: int = 20
    batch_size: int = 64
    table_learning_rate: float = 3e-3
    head_learning_rate: float = 3e-3
    head_decay: float = 0.0
    dropout: float = 0.1
    """Of pooled numbers."""
    id_dropout: float = 0.0
    """Of a text's tokens and n-grams."""
    warmup_share: float = 0.1
    seed: int = 42


def mixing(lams: Sequence[float], degree: int | None) -> FloatArray:
    """(L, K) how much each head counts at each λ: a head each, or Bernstein polynomials."""
    return np.eye(len(lams)) if degree is None else bernstein(lams, degree)


def fit_static(
    name: str,
    arms: Sequence[str],
    views: Sequence[StartView],
    texts: Sequence[str],
    targets: LamTargets,
    bias: Mapping[float, NDArray[np.float32]] | None,
    degree: int | None,
    options: FitOptions,
    provenance: Mapping[str, Any] | None = None,
    on_epoch: Callable[[], None] = lambda: None,
) -> StaticEmbeddingPolicy:
    """Fit on texts (Q); return the policy of the last epoch, its tables rounded to bytes.

    Args:
        name: of the policy.
        arms: the arms, in the targets' order.
        views: at least one.
        texts: (Q,) parallel to the targets.
        targets: see there.
        bias: λ → (A,) logits to start from, e.g. the constant head's; None: zeros.
        degree: of the Bernstein polynomials in λ, for a policy that takes any λ; None: a head for
            each λ of the targets.
        options: see there.
        made_from: kept in the policy's file.
        on_epoch: called after each epoch.
    """
    if not texts:
        raise ValueError("a static-embedding router needs at least one text to be fitted on")
    generator = torch.Generator().manual_seed(options.seed)
    clean = [encodable(text) for text in texts]
    bags = [_Bags.of(view, clean) for view in views]
    heads = len(targets.lams) if degree is None else degree + 1
    module = _Module(views, bags, len(arms), heads, options.dropout, generator)
    if bias is not None:
        module.start_at(np.stack([bias[lam] for lam in targets.lams]), targets.lams, degree)
    basis, decays = mixing(targets.lams, degree), [view.decay for view in views]
    _optimise(module, bags, targets, basis, decays, options, on_epoch)
    lams = targets.lams if degree is None else None
    return _policy(name, arms, views, bags, module, lams, provenance)


@dataclass(frozen=True)
class _Bags:
    """The rows of one view that the texts use, renumbered from 0, as one flat list."""

    used: Ids
    """Renumbered id → row of the whole table."""
    flat: Ids
    ends: Ids
    """(Q + 1,) where each text's ids begin and end in ``flat``."""

    @classmethod
    def of(cls, view: StartView, texts: Sequence[str]) -> _Bags:
        found = ids_of(view.ids, texts)
        flat = np.concatenate(found) if found else np.zeros(0, dtype=np.int64)
        used, renumbered = np.unique(flat, return_inverse=True)
        ends = np.concatenate([[0], np.cumsum([len(ids) for ids in found])])
        return cls(used, renumbered.astype(np.int64), ends.astype(np.int64))

    def batch(
        self, rows: NDArray[np.intp], id_dropout: float, random: np.random.Generator
    ) -> tuple[Tensor, Tensor]:
        """Return flat ids and where each text begins, some ids left out at random."""
        parts = [self.flat[self.ends[row] : self.ends[row + 1]] for row in rows]
        if id_dropout > 0:
            parts = [ids[random.random(len(ids)) >= id_dropout] for ids in parts]
        begins = np.concatenate([[0], np.cumsum([len(ids) for ids in parts])[:-1]])
        return torch.from_numpy(np.concatenate(parts)), torch.from_numpy(begins.astype(np.int64))


class _Module(nn.Module):
    def __init__(
        self,
        views: Sequence[StartView],
        bags: Sequence[_Bags],
        arms: int,
        heads: int,
        dropout: float,
        generator: torch.Generator,
    ) -> None:
        super().__init__()
        self.starts = [
            torch.from_numpy(np.ascontiguousarray(view.rows[bag.used], dtype=np.float32))
            for view, bag in zip(views, bags, strict=True)
        ]
        self.changes = nn.ParameterList(
            nn.Parameter(torch.zeros_like(start), requires_grad=view.tuned)
            for view, start in zip(views, self.starts, strict=True)
        )
        width = sum(start.shape[1] for start in self.starts)
        self.weight = nn.Parameter(torch.zeros(heads, arms, width))
        self.bias = nn.Parameter(torch.zeros(heads, arms))
        self.dropout, self.generator = dropout, generator

    def start_at(
        self, logits: NDArray[np.float32], lams: tuple[float, ...], degree: int | None
    ) -> None:
        """Set biases so that the logits at ``lams`` are (L, A) ``logits``, or nearest to it."""
        basis = mixing(lams, degree)
        solved, *_ = np.linalg.lstsq(basis, logits.astype(np.float64), rcond=None)
        self.bias.data.copy_(torch.tensor(solved, dtype=torch.float32))

    def forward(self, batches: Sequence[tuple[Tensor, Tensor]]) -> Tensor:
        """(n, K, A) logits of each head."""
        pooled = torch.cat(
            [
                nn.functional.embedding_bag(ids, start + change, begins, mode="mean")
                for (ids, begins), start, change in zip(
                    batches, self.starts, self.changes, strict=True
                )
            ],
            dim=1,
        )
        if self.dropout > 0:
            kept = torch.rand(pooled.shape, generator=self.generator) >= self.dropout
            pooled = pooled * kept / (1.0 - self.dropout)
        return torch.einsum("nd,kad->nka", pooled, self.weight) + self.bias


def _optimise(
    module: _Module,
    bags: Sequence[_Bags],
    targets: LamTargets,
    basis: FloatArray,
    decays: Sequence[float],
    options: FitOptions,
    on_epoch: Callable[[], None],
) -> None:
    random = np.random.default_rng(options.seed)
    queries = len(targets.competes)
    steps = options.epochs * -(-queries // options.batch_size)
    optimiser = torch.optim.AdamW(_groups(module, decays, options), fused=True)
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimiser, lambda step: warmup_cosine(step, steps, options.warmup_share)
    )
    mixture = torch.tensor(basis, dtype=torch.float32)
    for _ in range(options.epochs):
        order = random.permutation(queries)
        for begin in range(0, queries, options.batch_size):
            rows = order[begin : begin + options.batch_size]
            batches = [bag.batch(rows, options.id_dropout, random) for bag in bags]
            loss = _loss(module(batches), mixture, targets, torch.from_numpy(rows))
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
            schedule.step()
        on_epoch()


def _loss(by_head: Tensor, mixture: Tensor, targets: LamTargets, rows: Tensor) -> Tensor:
    """Mean KL over the λ and queries that count; see :func:`training.losses.kl_loss`."""
    logits = torch.einsum("lk,nka->nla", mixture, by_head)
    competes = targets.competes[rows][:, None, :].expand_as(logits)
    weight = targets.weight[rows]
    per_query = kl_per_query(masked_logits(logits, competes), targets.targets[rows], competes)
    per_query = per_query.masked_fill(weight == 0, 0.0)
    return (per_query * weight).sum() / weight.sum().clamp(min=1.0)


def _groups(module: _Module, decays: Sequence[float], options: FitOptions) -> list[dict[str, Any]]:
    """One group for each table, the heads and the biases: (parameters, learning rate, decay)."""
    head_rate, table_rate = options.head_learning_rate, options.table_learning_rate
    groups = [
        (module.weight, head_rate, options.head_decay),
        (module.bias, head_rate, 0.0),
        *(
            (change, table_rate, decay)
            for change, decay in zip(module.changes, decays, strict=True)
        ),
    ]
    return [
        {"params": [parameter], "lr": rate, "weight_decay": decay}
        for parameter, rate, decay in groups
        if parameter.requires_grad
    ]


def _policy(
    name: str,
    arms: Sequence[str],
    views: Sequence[StartView],
    bags: Sequence[_Bags],
    module: _Module,
    lams: tuple[float, ...] | None,
    provenance: Mapping[str, Any] | None,
) -> StaticEmbeddingPolicy:
    finished = []
    for view, bag, change in zip(views, bags, module.changes, strict=True):
        rows = view.rows.astype(np.float32, copy=True)
        rows[bag.used] += change.detach().numpy()
        finished.append(View(view.ids, ByteTable.of(rows)))
    weight, bias = (part.detach().numpy() for part in (module.weight, module.bias))
    heads = LamHeads(weight, bias, lams)
    return StaticEmbeddingPolicy(name, arms, TextFeatures(tuple(finished)), heads, provenance)


def random_rows(rows: int, dimension: int, scale: float, seed: int) -> FloatRows:
    """(rows, dimension) normal numbers: where a table of n-grams starts."""
    drawn = np.random.default_rng(seed).normal(size=(rows, dimension))
    return np.asarray(scale * drawn, dtype=np.float32)
