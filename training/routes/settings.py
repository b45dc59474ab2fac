"""Settings of training on routing labels."""

from __future__ import annotations

import math
from typing import Literal

from pydantic import Field, SecretStr, field_validator

from arms.settings import Settings
from training.settings import LoraSettings

PolicyName = Literal[
    "tfidf", "knn", "encoder_frozen", "encoder_lora", "static", "multi_label", "router",
    "ensemble_blend", "ensemble_majority", "ensemble_confidence", "prompted",
]  # fmt: skip


class PromptSettings(Settings):
    """The training-free router: a prompt to any OpenAI-compatible endpoint; off without a model."""

    model: str | None = Field(default=None, description="switches the policy on")
    base_url: str | None = Field(
        default=None, description="e.g. http://localhost:8000/v1; default: $OPENAI_BASE_URL"
    )
    api_key: SecretStr | None = Field(
        default=None, description="better left to the variable below; never written anywhere"
    )
    api_key_env: str = Field(default="OPENAI_API_KEY", description="variable that holds the key")
    criteria: dict[str, str] = Field(
        default={}, description="route → when it is the right one; default: UniversalRAG's names"
    )
    examples: int = Field(default=3, ge=0, description="training queries shown for each route")
    fallback: str | None = Field(
        default=None,
        description="route where an answer fails or can't be parsed; default: the most frequent",
    )
    max_tokens: int = Field(default=20, ge=1, description="of an answer")
    workers: int = Field(default=4, ge=1, description="requests at a time")
    timeout_s: float = Field(default=60, gt=0, description="for one request")
    retries: int = Field(default=2, ge=0, description="after a timeout, a 429 or a server's error")
    backoff_s: float = Field(default=1, ge=0, description="before the first retry; then doubled")


class StaticViewSettings(Settings):
    """The static router: hashed cased n-grams beside a table of token vectors, fitted by ridge."""

    dimension: int = Field(default=384, ge=1, description="of token vectors, at most the encoder's")
    start_from: Literal["embeddings", "distilled"] = "distilled"
    strengths: tuple[float, ...] = Field(
        default=(0.03, 0.1, 0.3, 1.0),
        min_length=1,
        description="of L2, of `router` too; the best leave-one-out accuracy is kept",
    )

    @field_validator("strengths")
    @classmethod
    def _check(cls, given: tuple[float, ...]) -> tuple[float, ...]:
        if not all(0.0 < strength < math.inf for strength in given):
            raise ValueError(f"strengths must be finite and above 0, got {list(given)}")
        return given


class RoutesSettings(Settings):
    """Everything that decides which router comes out of routing labels.

    LoRA here is stronger than on oracle labels: labels that name the right route outright bear a
    larger learning rate than flat soft targets.
    """

    policies: tuple[PolicyName, ...] = Field(
        default=(
            "tfidf",
            "knn",
            "encoder_frozen",
            "static",
            "multi_label",
            "router",
            "ensemble_majority",
            "ensemble_confidence",
            "prompted",
        ),
        min_length=1,
        description="encoder_lora and ensemble_blend, which holds it, are fitted where they are "
        "named: they take minutes, and come out a little different on another processor",
    )
    encoder: str | None = Field(default=None, description="default: the offline MiniLM")
    max_tokens: int = Field(default=128, ge=3)
    smoothing: float = Field(
        default=0.1, gt=0, lt=0.9, description="of the labels that encoders are trained on"
    )
    lora: LoraSettings = LoraSettings(
        rank=32, alpha=32, learning_rate=1e-3, epochs=4, start_from_frozen=False
    )
    precision: str = Field(
        default="32-true",
        description="of training LoRA, as Lightning names it; 16-bit floats are computed "
        "differently from one processor to the next",
    )
    accelerator: str = Field(default="cpu", description="cpu, gpu, auto, …")
    static: StaticViewSettings = StaticViewSettings()
    multi_label_threshold: float = Field(default=0.8, gt=0, lt=1)
    confidence_threshold: float = Field(
        default=0.8, gt=0, lt=1, description="above it the first of the ensemble answers"
    )
    validation_share: float = Field(
        default=0.1, gt=0, lt=0.5, description="of train, where the labels have no val split"
    )
    prompt: PromptSettings = PromptSettings()
    overhead_queries: int = Field(default=200, ge=1, description="test queries timed")
    seed: int = Field(default=42, ge=0)

    def tau(self, routes: int) -> float:
        """Return the τ at which soft targets of rewards 1 and 0 are the smoothed labels."""
        right = 1.0 - self.smoothing + self.smoothing / routes
        return 1.0 / math.log(right * (routes - 1) / (1.0 - right))
