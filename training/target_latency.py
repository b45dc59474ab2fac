"""Rewards and soft targets as ``training.targets`` asks for them; scores never read these."""

from __future__ import annotations

import numpy as np

from arms.reward import FloatArray, normalise_latency, reward
from training.latency_model import LatencyModel
from training.policy_settings import TargetSettings
from training.table import RoutingTable
from training.targets import gradient_weight, soft_targets


def latency_draws(
    table: RoutingTable, options: TargetSettings, model: LatencyModel | None = None
) -> list[FloatArray]:
    """Return (Q, arms) latencies, one array per repeat that targets are averaged over, else one.

    Where a repeat of a query is missing, its latency otherwise used stands in: the label, or what
    ``model`` says.
    """
    usual = table.latency_ms if model is None else model.latency_ms(table)
    if options.smoothing == "none" or table.latency_repeats_ms is None:
        return [usual]
    return [np.where(np.isfinite(one), one, usual) for one in table.latency_repeats_ms]


def training_targets(
    table: RoutingTable,
    lam: float,
    tau: float,
    options: TargetSettings,
    model: LatencyModel | None = None,
) -> tuple[FloatArray, FloatArray]:
    """Return (Q, arms) soft targets of comparable queries, and (Q,) their gradient weights.

    With the default options these are the paper's; with repeats, the mean of the soft targets at
    each of them, and a query counts where any of them counts.
    """
    found, weights = [], []
    for latency_ms in latency_draws(table, options, model):
        share = normalise_latency(options.latency_normalisation, latency_ms, table.competes)
        rewards = reward(table.quality, share, lam)
        found.append(soft_targets(rewards, tau, table.competes))
        weights.append(gradient_weight(rewards, table.competes))
    return np.mean(found, axis=0), np.max(weights, axis=0)
