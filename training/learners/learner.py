"""The contract of a learner: how one kind of policy is fitted."""

from __future__ import annotations

from typing import Protocol

from router.policy import Policy
from training.fitting import FitContext, Rows
from training.settings import TrainingSettings


class Learner(Protocol):
    """Fits one policy; the same call serves the fixed split and every fold of cross-validation."""

    @property
    def name(self) -> str:
        """The policy's name in artifacts and reports."""

    def steps(self, settings: TrainingSettings) -> int:
        """How often one fit moves ``context.task`` on."""

    def fit(self, context: FitContext, train: Rows, validation: Rows) -> Policy | None:
        """Fit on ``train``, choose on ``validation``; None where it can't be fitted here.

        Rows point into ``context.action`` and are comparable; no other row may be looked at.
        """
