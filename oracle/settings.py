"""Settings of the oracle: what is ranked, judged and timed, and how."""

from __future__ import annotations

import math
from typing import Literal

from pydantic import Field, field_validator, model_validator

from arms.reward import check_lam
from arms.settings import Settings

SplitBy = Literal["query", "near_duplicate", "document"]
"""What a split keeps together (``oracle.groups``), from the loosest to the strictest."""


class LatencySettings(Settings):
    """The latency protocol: serial, warm, interleaved, the median of repeats."""

    repeats: int = Field(default=3, ge=1, description="timings of each query on each arm")
    warm_up: int = Field(default=10, ge=0, description="queries run on each arm and discarded")
    threads: int | None = Field(
        default=None, ge=1, description="default: OMP_NUM_THREADS, or else every core"
    )
    sample: int | None = Field(
        default=None, ge=1, description="queries timed per dataset, the rest modelled; default: all"
    )
    timeout_s: float | None = Field(
        default=60.0, gt=0, description="longest time one arm may take for one query"
    )


class SplitSettings(Settings):
    """How each dataset's queries are split, and their shares."""

    by: SplitBy = Field(
        default="near_duplicate",
        description="what is never on two sides: query: equal texts; near_duplicate: nearly equal "
        "texts with a relevant document in common, too; document: all queries with a relevant "
        "document in common, too",
    )

    train: float = Field(default=0.8, gt=0, le=1)
    val: float = Field(default=0.1, ge=0, le=1)
    test: float = Field(
        default=0.1, gt=0, le=1, description="what every number of a report is computed on"
    )

    @model_validator(mode="after")
    def _sum_to_one(self) -> SplitSettings:
        total = self.train + self.val + self.test
        if not math.isclose(total, 1.0, abs_tol=1e-6):
            raise ValueError(f"train, val and test must sum to 1, got {total:g}")
        return self


class OracleSettings(Settings):
    """What the oracle records of every arm on every query."""

    k: int = Field(default=20, ge=1, description="documents kept of each ranking")
    measures: tuple[str, ...] = Field(
        default=("nDCG@5", "RR@5", "R@5"),
        min_length=1,
        description="names of ir-measures with values in [0, 1]; the first is the quality",
    )
    router_arms: tuple[str, ...] | None = Field(
        default=None,
        description="arms a router may choose; default: all but late interaction and none",
    )
    shard_size: int = Field(default=128, ge=1, description="queries per unit of work")
    batch_size: int = Field(default=64, ge=1, description="queries per call in the quality pass")
    latency: LatencySettings = LatencySettings()
    split: SplitSettings = SplitSettings()
    lams: tuple[float, ...] = Field(
        default=(0.0, 0.1, 0.3, 0.5, 0.7, 1.0), description="λ for which best arms are derived"
    )

    @field_validator("lams")
    @classmethod
    def _ascending(cls, lams: tuple[float, ...]) -> tuple[float, ...]:
        return tuple(sorted({check_lam(lam) for lam in lams}))
