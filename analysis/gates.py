"""At which λ the default router isn't asked, as ``router.json`` tells."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from router.policy_names import ROUTER as DEFAULT


def closed_gates(record: Mapping[str, Any], router: str) -> frozenset[float]:
    """Return the λ, among those with a gate, where the best single arm answers every query.

    Empty where ``router`` isn't the policy that has gates, or it has none.
    """
    gates = record.get("gates")
    if not isinstance(gates, Mapping) or router != DEFAULT:
        return frozenset()
    return frozenset(
        round(float(lam), 9)
        for lam, gate in gates.items()
        if isinstance(gate, Mapping) and gate.get("margin") is None
    )


def gate_sentences(closed: frozenset[float], lams: Sequence[float]) -> tuple[str, ...]:
    """Return one sentence for the closed gates among ``lams``; nothing where all are open."""
    shut = [f"{lam:g}" for lam in lams if round(lam, 9) in closed]
    if not shut:
        return ()
    return (
        f"At λ = {', '.join(shut)} the router isn't asked: on validation queries choosing gained "
        "less than it cost, so the best single arm answers every query.",
    )
