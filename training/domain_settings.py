"""Settings of the guard against queries unlike those trained on."""

from __future__ import annotations

from pydantic import Field

from arms.settings import Settings


class OutOfDomainSettings(Settings):
    """Hand queries far from every training query to the best static arm.

    Measure first with ``l2r holdout``: the guard is worth having only where it gains there.
    """

    enabled: bool = Field(default=False, description="guard the default router")
    false_alarm_rate: float = Field(
        default=0.05, ge=0, lt=1, description="share of validation queries beyond the threshold"
    )
