"""Settings of training: what the paper fixes, what a user may choose, and where the two differ."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Literal

from pydantic import Field, field_validator, model_validator

from arms.reward import check_lam
from arms.settings import Settings
from oracle.settings import SplitBy
from training.domain_settings import GateSettings, OutOfDomainSettings
from training.policy_settings import (
    ArabzadehSettings,
    BanditSettings,
    BoostingSettings,
    CascadeSettings,
    EnsembleSettings,
    FusionSettings,
    KnnSettings,
    MergingSettings,
    MultiLabelSettings,
    ProbingSettings,
    StaticEmbeddingSettings,
)


def _ascending(lams: tuple[float, ...]) -> tuple[float, ...]:
    return tuple(sorted({check_lam(lam) for lam in lams}))


class TrainerSettings(Settings):
    """Passed to Lightning's Trainer as they are."""

    accelerator: str = Field(default="cpu", description="cpu, gpu, mps, auto, …")
    devices: int | str | list[int] = 1
    precision: str | int = Field(default="32-true", description="e.g. bf16-mixed on a GPU")
    strategy: str = Field(default="auto", description="e.g. ddp")


class FrozenSettings(Settings):
    """The head alone is trained, over embeddings computed once: for sweeps and small machines.

    Embeddings are standardised on the training queries; the scale is folded into the saved head.
    A head is fitted with each weight decay; beside them stands the constant head, which always
    prefers the arm with the highest mean reward. The simplest within ``tolerance_se`` standard
    errors of the best on the validation queries is kept.
    """

    learning_rate: float = Field(default=0.003, gt=0)
    weight_decays: tuple[float, ...] = Field(default=(0.01, 100.0), min_length=1)
    allow_constant: bool = Field(default=True, description="let the constant head compete")
    tolerance_se: float = Field(default=0.5, ge=0, description="0: keep the best whatever it is")
    epochs: int = Field(default=20, ge=1)
    batch_size: int = Field(default=256, ge=1, description="heads are small: fewer, larger steps")

    @field_validator("weight_decays")
    @classmethod
    def _check_decays(cls, given: tuple[float, ...]) -> tuple[float, ...]:
        if not all(0.0 <= decay < math.inf for decay in given):
            raise ValueError(f"weight_decays must be finite and at least 0, got {list(given)}")
        return tuple(sorted(set(given)))


class ConditionedSettings(Settings):
    """One model for every λ: heads at knots of λ, interpolated, trained over random λ.

    Weight decays, learning rate and batches are those of ``frozen``.
    """

    knots: tuple[float, ...] = Field(default=(0.0, 1.0), min_length=1)
    epochs: int = Field(default=20, ge=1)

    _check_knots = field_validator("knots")(_ascending)


class LoraSettings(Settings):
    """Adapters in the encoder's attention and feed-forward projections, trained with the head."""

    rank: int = Field(default=16, ge=1)
    alpha: float = Field(default=32, gt=0)
    dropout: float = Field(default=0.05, ge=0, lt=1)
    learning_rate: float = Field(default=1e-4, gt=0)
    weight_decay: float = Field(default=0.01, ge=0)
    start_from_frozen: bool = Field(
        default=True,
        description="start at the head fitted to the frozen encoder; the paper starts at random",
    )
    epochs: int = Field(default=2, ge=1)
    batch_size: int = Field(default=32, ge=1, description="queries per optimiser step")
    accumulate: int = Field(
        default=1, ge=1, description="split each optimiser step into this many smaller batches"
    )

    @model_validator(mode="after")
    def _check_accumulate(self) -> LoraSettings:
        if self.batch_size % self.accumulate:
            raise ValueError(
                f"accumulate must divide batch_size {self.batch_size}, got {self.accumulate}"
            )
        return self


class WandbSettings(Settings):
    """Weights & Biases: off unless asked for; offline writes local files and needs no account."""

    enabled: bool = False
    project: str = "learning-to-route"
    name: str | None = None
    mode: Literal["offline", "online", "disabled"] = "offline"
    folder: Path | None = Field(default=None, description="default: the router's work folder")


class BaselineSettings(Settings):
    """TF-IDF + logistic regression on hard labels."""

    inverse_regularisation: tuple[float, ...] = Field(
        default=(1.0, 10.0),
        min_length=1,
        description="scikit-learn's C; the best on the validation queries is kept",
    )
    max_features: int = Field(default=20_000, ge=1)

    @field_validator("inverse_regularisation")
    @classmethod
    def _check_strengths(cls, given: tuple[float, ...]) -> tuple[float, ...]:
        if not all(0.0 < strength < math.inf for strength in given):
            raise ValueError(
                f"inverse_regularisation must be finite and above 0, got {list(given)}"
            )
        return given


class TrainingSettings(Settings):
    """Everything that decides which router comes out, apart from the labels themselves."""

    lams: tuple[float, ...] = Field(default=(0.0, 0.1, 0.3, 0.5, 0.7, 1.0), min_length=1)
    router: str = Field(
        default="auto",
        description="the policy that 'router' asks: one of those fitted, e.g. router_per_lam (the "
        "paper's), which then selects and searches by default; auto: validation chooses both",
    )
    policies: tuple[str, ...] | None = Field(
        default=None,
        description="those to fit beside the paper's models per lam; default: all that can be, "
        "[]: none",
    )
    tau: float = Field(default=0.1, gt=0)
    encoder: str | None = Field(default=None, description="default: the offline MiniLM")
    encoder_mode: Literal["frozen", "lora"] = Field(
        default="frozen", description="lora: a LoRA router at every lam, and no frozen one"
    )
    lora_lams: tuple[float, ...] = Field(
        default=(), description="lam at which a LoRA router is trained beside the frozen one"
    )
    frozen: FrozenSettings = FrozenSettings()
    conditioned: ConditionedSettings = ConditionedSettings()
    lora: LoraSettings = LoraSettings()
    head_dropout: float = Field(default=0.1, ge=0, lt=1)
    warmup_share: float = Field(default=0.1, ge=0, lt=1, description="of all optimiser steps")
    max_tokens: int = Field(default=128, ge=3)
    encoder_dtype: Literal["float32", "bfloat16"] = "float32"
    seed: int = Field(default=42, ge=0)
    cross_validation_folds: int = Field(default=5, ge=0, description="0 or 1: none")
    split: SplitBy | None = Field(
        default=None,
        description="what folds keep together: query, near_duplicate or document (oracle.split.by)"
        "; default: what train, val and test were split by",
    )
    document_folds: Literal["auto"] | int = Field(
        default="auto",
        description="folds that keep queries with a relevant document in common together, on which "
        "policies that learn about documents, fusions and the default are fitted and decide once "
        "more; auto: as many as cross_validation_folds where those are looser; 0: none",
    )
    overhead_queries: int = Field(
        default=100, ge=1, description="test queries on which the overhead of selecting is timed"
    )
    baselines: BaselineSettings = BaselineSettings()
    knn: KnnSettings = KnnSettings()
    arabzadeh: ArabzadehSettings = ArabzadehSettings()
    multi_label: MultiLabelSettings = MultiLabelSettings()
    bandit: BanditSettings = BanditSettings()
    ensemble: EnsembleSettings = EnsembleSettings()
    static_embedding: StaticEmbeddingSettings = StaticEmbeddingSettings()
    boosting: BoostingSettings = BoostingSettings()
    probing: ProbingSettings = ProbingSettings()
    cascade: CascadeSettings = CascadeSettings()
    merging: MergingSettings = MergingSettings()
    fusion: FusionSettings = FusionSettings()
    gate: GateSettings = GateSettings()
    out_of_domain: OutOfDomainSettings = OutOfDomainSettings()
    trainer: TrainerSettings = TrainerSettings()
    wandb: WandbSettings = WandbSettings()

    @field_validator("document_folds")
    @classmethod
    def _check_document_folds(cls, given: str | int) -> str | int:
        if isinstance(given, int) and given < 0:
            raise ValueError(f"document_folds must be auto or at least 0, got {given}")
        return given

    _check_lams = field_validator("lams", "lora_lams")(_ascending)
