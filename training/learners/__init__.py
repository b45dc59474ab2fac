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

__all__ = ["LEARNERS", "Learner", "all_learners", "learners_of", "register_learner"]

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
_own: dict[str, Learner] = {}
NOT_WITH_LORA = (ConditionedLearner.name,)
"""Routers over the frozen encoder, which LoRA at every lam takes the place of."""


def register_learner(learner: Learner) -> None:
    """Add a learner of one's own: it is fitted with the others, before the ensembles.

    One of the same name that was added before is replaced. A serving process must know the class of
    the policy that it fits: :func:`router.policies.register_policy`.

    Raises:
        SettingsError: one of ours has this name.
    """
    if learner.name in [one.name for one in LEARNERS]:
        raise SettingsError(f"there is a learner '{learner.name}'; give yours another name")
    _own[learner.name] = learner


def all_learners() -> tuple[Learner, ...]:
    """Return every learner, in the order of fitting."""
    ensembles = [one for one in LEARNERS if isinstance(one, EnsembleLearner)]
    others = [one for one in LEARNERS if not isinstance(one, EnsembleLearner)]
    return (*others, *_own.values(), *ensembles)


def learners_of(settings: TrainingSettings) -> tuple[Learner, ...]:
    """Return the learners that the settings ask for.

    Raises:
        SettingsError: ``settings.policies`` names one that doesn't exist.
    """
    named = settings.policies
    if named is not None:
        known = [one.name for one in all_learners()]
        for name in named:
            if name not in known:
                near = get_close_matches(name, known, 1)
                hint = f"did you mean '{near[0]}'? " if near else ""
                raise SettingsError(
                    f"training.policies names '{name}'; {hint}known: {', '.join(known)}"
                )
    left_out = () if settings.encoder_mode == "frozen" else NOT_WITH_LORA
    return tuple(
        one
        for one in all_learners()
        if (named is None or one.name in named) and one.name not in left_out
    )
