"""Fits every policy that the settings name on routing labels.

Labels become rewards of 1 and 0 at λ = 0, and the learners of oracle labels do the rest.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np

from router.policies.activations import ActivationsPolicy
from router.policies.encoder import EncoderPolicy
from router.policies.ensemble import EnsemblePolicy
from router.policies.static import StaticPolicy
from router.policies.static_embedding import StaticEmbeddingPolicy
from router.policy import Policy
from router.text_views import TokenIds
from training.fitting import FitContext, Heads, fit_frozen, fit_lora_heads, lora_batches
from training.learners.knn import KnnLearner
from training.learners.multi_label import MultiLabelLearner
from training.learners.tfidf import TfidfLearner
from training.policy_settings import MultiLabelSettings
from training.routes.ridge import solves
from training.routes.ridge_views import NGRAM_VIEWS, TokenVectors, fit_views
from training.routes.settings import RoutesSettings
from training.routes.table import RouteTable
from training.settings import TrainerSettings, TrainingSettings
from training.static_table import start_table

LAM = 0.0
MOST_FREQUENT = "most_frequent"
NEEDS_VECTORS = frozenset({"knn", "encoder_frozen", "multi_label"})
MEMBERS: Mapping[str, tuple[str, ...]] = {
    "ensemble_blend": ("encoder_lora", "router"),
    "ensemble_majority": ("router", "static", "prompted"),
    "ensemble_confidence": ("router", "prompted"),
}
"""Ensemble → members. Without the prompted router, ``STAND_IN`` takes its place."""
STAND_IN = {"ensemble_majority": "tfidf", "ensemble_confidence": "knn"}


def training_settings(settings: RoutesSettings, routes: int) -> TrainingSettings:
    """Translate to the settings of training on oracle labels."""
    return TrainingSettings(
        lams=(LAM,),
        tau=settings.tau(routes),
        encoder=settings.encoder,
        encoder_mode="lora",
        lora=settings.lora,
        max_tokens=settings.max_tokens,
        seed=settings.seed,
        cross_validation_folds=0,
        multi_label=MultiLabelSettings(threshold=settings.multi_label_threshold, fuse="any"),
        trainer=TrainerSettings(accelerator=settings.accelerator, precision=settings.precision),
    )


@dataclass(frozen=True)
class LeftOut:
    """What a policy decides of training and validation queries that it was fitted without."""

    rows: np.ndarray
    """(judged,) rows of the table."""
    chosen: np.ndarray
    """(judged,) columns of routes."""


@dataclass
class RoutesBench:
    """What the fits share, and the policies fitted so far, by name."""

    context: FitContext
    table: RouteTable
    settings: RoutesSettings
    fitted: dict[str, Policy] = field(default_factory=dict)
    left_out: dict[str, LeftOut] = field(default_factory=dict)
    """Of policies that every training query was left out of in turn."""

    @property
    def train(self) -> np.ndarray:
        """Rows of the training queries."""
        return np.flatnonzero(self.table.splits == "train")

    @property
    def validation(self) -> np.ndarray:
        """Rows of the validation queries."""
        return np.flatnonzero(self.table.splits == "val")


def steps(settings: RoutesSettings, train: int, validation: int) -> int:
    """How often fitting moves the progress bar on, with that many queries of each split."""
    own = {
        "encoder_lora": lora_batches(training_settings(settings, 2), train)
        + settings.lora.start_from_frozen,
        "prompted": 0,
        "static": solves(train + validation),
        "router": 1 + solves(train + validation),
    }
    return sum(own.get(name, 1) for name in settings.policies)


def fit_all(bench: RoutesBench, prompted: Policy | None) -> dict[str, Policy]:
    """Fit what the settings name, in their order of dependence; ``most_frequent`` is always there.

    ``prompted`` is the training-free router, where one is configured.
    """
    fits: dict[str, Callable[[RoutesBench], Policy | None]] = {
        "tfidf": lambda one: TfidfLearner().fit(one.context, one.train, one.validation),
        "knn": lambda one: KnnLearner().fit(one.context, one.train, one.validation),
        "encoder_frozen": _encoder_frozen,
        "encoder_lora": _encoder_lora,
        "static": _static,
        "router": _router,
        "multi_label": lambda one: MultiLabelLearner().fit(one.context, one.train, one.validation),
    }
    bench.fitted[MOST_FREQUENT] = most_frequent(bench.table.of_split("train"))
    for name, fit in fits.items():
        if name in bench.settings.policies:
            policy = fit(bench)
            if policy is not None:
                bench.fitted[name] = policy
    if prompted is not None:
        bench.fitted["prompted"] = prompted
    for name in MEMBERS:
        ensemble = _ensemble(bench, name) if name in bench.settings.policies else None
        if ensemble is not None:
            bench.fitted[name] = ensemble
    return bench.fitted


def most_frequent(train: RouteTable) -> StaticPolicy:
    """Always the route that most training queries need; ties to the earlier."""
    column = int(train.needed.sum(axis=0).argmax())
    return StaticPolicy(MOST_FREQUENT, train.routes, train.routes[column])


def _encoder_frozen(bench: RoutesBench) -> EncoderPolicy:
    heads = fit_frozen(bench.context, (LAM,), bench.train, bench.validation)
    return _encoder("encoder_frozen", bench, heads)


def _encoder_lora(bench: RoutesBench) -> EncoderPolicy:
    start = None
    if bench.settings.lora.start_from_frozen:
        start = fit_frozen(bench.context, (LAM,), bench.train, bench.validation)
    heads = fit_lora_heads(bench.context, (LAM,), start, bench.train, bench.validation)
    return _encoder("encoder_lora", bench, heads)


def _encoder(name: str, bench: RoutesBench, heads: Heads) -> EncoderPolicy:
    return EncoderPolicy(
        name,
        bench.table.routes,
        heads.by_lam,
        adapters=heads.adapters,
        max_tokens=bench.settings.max_tokens,
        query_encoder=bench.context.encoder,
    )


def _static(bench: RoutesBench) -> StaticEmbeddingPolicy:
    """Fit on training and validation queries: its strength is chosen by leaving one out."""
    options = bench.settings.static
    start = start_table(bench.context.encoder.resolved, options.start_from, options.dimension)
    tokens = TokenVectors(TokenIds(start.tokenizer_json, bench.settings.max_tokens), start.rows)
    table = bench.table.rows(bench.table.splits != "test")
    return fit_views(
        "static",
        table.routes,
        (tokens, *NGRAM_VIEWS),
        table.texts.tolist(),
        table.needed,
        options.strengths,
        start.provenance,
        bench.context.task.advance,
    )


def _router(bench: RoutesBench) -> ActivationsPolicy:
    """Fit on training and validation queries, like ``static``."""
    from training.routes.activation_fit import fit_activations

    rows = np.flatnonzero(bench.table.splits != "test")
    table = bench.table.rows(rows)
    fit = fit_activations(
        "router",
        table.routes,
        bench.context.encoder,
        table.texts.tolist(),
        table.needed,
        bench.settings.static.strengths,
        bench.context.task.advance,
    )
    chosen = fit.ridge.left_out.argmax(axis=1)
    bench.left_out["router"] = LeftOut(rows[fit.ridge.judged], chosen)
    return fit.policy


def _ensemble(bench: RoutesBench, name: str) -> EnsemblePolicy | None:
    """Put the members together; None where one of them is not there."""
    bench.context.task.advance()
    wanted = MEMBERS[name]
    if "prompted" in wanted and "prompted" not in bench.fitted:
        wanted = tuple(STAND_IN[name] if one == "prompted" else one for one in wanted)
    members = [bench.fitted[one] for one in wanted if one in bench.fitted]
    if len(members) < len(wanted):
        return None
    if name == "ensemble_blend":
        return EnsemblePolicy(name, members, "blend")
    if name == "ensemble_majority":
        return EnsemblePolicy(name, members, "majority")
    return EnsemblePolicy(name, members, "confidence", {LAM: bench.settings.confidence_threshold})
