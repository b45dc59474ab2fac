"""Learners, one file per kind of policy; reports list their policies by name."""

from __future__ import annotations

from difflib import get_close_matches

from arms.errors import SettingsError
from training.learners.arabzadeh import ArabzadehLearner
from training.learners.bandit import BanditLearner
from training.learners.conditioned import ConditionedLearner
from training.learners.ensemble import EnsembleLearner
from training.learners.knn import KnnLearner
from training.learners.learner import Learner
from training.learners.list_fusion import FusionLearner, StrongestSimpleLearner
from training.learners.merging import MergingLearner
from training.learners.multi_label import MultiLabelLearner
from training.learners.probing import CascadeLearner, ProbingLearner
from training.learners.quality import QualityLearner
from training.learners.static_embedding import StaticEmbeddingLearner
from training.learners.tfidf import TfidfLearner
from training.settings import TrainingSettings

__all__ = ["LEARNERS", "Learner", "learners_of"]

LEARNERS: tuple[Learner, ...] = (
    ConditionedLearner(),
    QualityLearner(),
    ProbingLearner(),
    CascadeLearner(),
    FusionLearner("reciprocal_ranks"),
    FusionLearner("tuned_fusion"),
    FusionLearner("tuned_fusion_prior"),
    StrongestSimpleLearner(),
    MergingLearner(),
    MergingLearner(with_history=False),
    StaticEmbeddingLearner(),
    TfidfLearner(),
    KnnLearner(),
    ArabzadehLearner(),
    MultiLabelLearner(),
    BanditLearner(),
    EnsembleLearner("confidence"),
    EnsembleLearner("majority"),
)
"""In the order in which they are fitted; ensembles last, of those before them."""
NOT_WITH_LORA = (ConditionedLearner.name,)
"""Routers over the frozen encoder, which LoRA at every lam takes the place of."""


def learners_of(settings: TrainingSettings) -> tuple[Learner, ...]:
    """Return the learners that the settings ask for.

    Raises:
        SettingsError: ``settings.policies`` names one that doesn't exist.
    """
    named = settings.policies
    if named is not None:
        known = [one.name for one in LEARNERS]
        for name in named:
            if name not in known:
                near = get_close_matches(name, known, 1)
                hint = f"did you mean '{near[0]}'? " if near else ""
                raise SettingsError(
                    f"training.policies names '{name}'; {hint}known: {', '.join(known)}"
                )
    left_out = () if settings.encoder_mode == "frozen" else NOT_WITH_LORA
    return tuple(
        one for one in LEARNERS if (named is None or one.name in named) and one.name not in left_out
    )
