"""Settings of when the default router is asked: its gate, and its guard."""

from __future__ import annotations

from pydantic import Field, field_validator

from arms.settings import Settings


class OutOfDomainSettings(Settings):
    """Hand queries far from every training query to the best static arm.

    Measure first with ``l2r holdout``: the guard is worth having only where it gains there.
    """

    enabled: bool = Field(default=False, description="guard the default router")
    false_alarm_rate: float = Field(
        default=0.05, ge=0, lt=1, description="share of validation queries beyond the threshold"
    )


class GateSettings(Settings):
    """Ask the default router only at λ where that pays on validation queries.

    Elsewhere, and on a dataset that training never saw, the best single arm answers.
    """

    enabled: bool = True
    margins: tuple[float, ...] = Field(
        default=(0.0, 0.05, 0.1, 0.2, 0.4, 0.8, 1.6),
        min_length=1,
        description="by how much the log probability of another arm must exceed that of the best "
        "single arm; the best on validation is taken at each lam",
    )
    standard_errors: float = Field(
        default=1.0, ge=0, description="of the gain that it must exceed; 0: any gain will do"
    )

    @field_validator("margins")
    @classmethod
    def _check_margins(cls, given: tuple[float, ...]) -> tuple[float, ...]:
        if min(given) < 0:
            raise ValueError(f"margins are at least 0, got {list(given)}")
        return tuple(sorted(set(given)))
