"""Settings of the report."""

from __future__ import annotations

from pydantic import Field, field_validator

from arms.reward import check_lam
from arms.settings import Settings


class ReportSettings(Settings):
    """What the report compares, and how sure it says it is."""

    title: str = Field(default="Routing report", description="heading of the report")
    router: str | None = Field(
        default=None,
        description="the policy that the claim is about, as decisions name it; default: router, "
        "or else router_lora, or else the first trained policy",
    )
    lams: tuple[float, ...] = Field(
        default=(0.0, 0.1), description="λ shown in the text; the CSV files hold every λ"
    )
    reward_arms: tuple[str, ...] | None = Field(
        default=None,
        description="arms whose latencies are summed to normalise latency in every policy's "
        "reward; default: the arms a router may choose",
    )
    query_text: bool = Field(
        default=True,
        description="print the text of queries; false where its licence forbids it: ids stay",
    )
    n_resamples: int = Field(default=2000, ge=100, description="bootstrap resamples of queries")
    confidence: float = Field(default=0.95, gt=0.0, lt=1.0, description="of the intervals")
    seed: int = Field(default=42, description="of the bootstrap")

    @field_validator("lams")
    @classmethod
    def _lams_lie_in_range(cls, given: tuple[float, ...]) -> tuple[float, ...]:
        return tuple(check_lam(lam) for lam in given)
