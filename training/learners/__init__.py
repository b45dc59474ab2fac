"""Learners, one file per kind of policy; reports list their policies by name."""

from __future__ import annotations

from training.learners.conditioned import ConditionedLearner
from training.learners.learner import Learner
from training.learners.tfidf import TfidfLearner

__all__ = ["LEARNERS", "Learner"]

LEARNERS: tuple[Learner, ...] = (ConditionedLearner(), TfidfLearner())
"""In the order in which they are fitted."""
