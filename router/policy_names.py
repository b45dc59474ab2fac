"""Names of policies that training gives and reports know; those of learners are their own."""

from __future__ import annotations

ROUTER = "router"
"""The policy that is used unless another is named."""
PER_LAM = "router_per_lam"
"""The paper's: one model for each λ."""
PER_LAM_LORA = "router_lora"
"""The paper's, with the encoder adapted; beside heads over the frozen one."""
BEST_STATIC = "best_static"
BEST_STATIC_PER_DATASET = "best_static_per_dataset"
STRONGEST_SIMPLE = "strongest_simple"
"""The best on validation, at each λ, of the arms alone and of their fusions by ranks and scores."""
RANDOM_SAME_MIX = "random_same_mix"
STATIC_PREFIX = "static:"


def static_name(arm: str) -> str:
    """Return the policy name of always running ``arm``."""
    return STATIC_PREFIX + arm
