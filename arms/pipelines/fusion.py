"""Fusion of any arms' rankings, by reciprocal ranks or by a weighted sum of normalised scores.

Reciprocal ranks: Cormack, Clarke and Büttcher, SIGIR 2009. Weighted sums: see
:mod:`arms.fused_scores`.
"""

from __future__ import annotations

import copy
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

from pydantic import Field, field_validator, model_validator

from arms.arm import Arm, ArmSpec
from arms.catalogue import build_arm, kind_of, open_arm, spec_of
from arms.clock import StageClock
from arms.corpora.corpus import Corpus
from arms.encoders.given_queries import QueryVectors
from arms.encoders.query_states import one_pass
from arms.fused_scores import Normalisation, linear_fusion
from arms.indexes import folder
from arms.progress import Progress
from arms.records import Ranking
from arms.settings import ArmSettings, Settings, parse_options


class FusionOptions(Settings):
    """Options of ``fusion``."""

    method: Literal["reciprocal_rank", "linear"] = Field(
        default="reciprocal_rank",
        description="reciprocal_rank: Σ 1 / (k_constant + rank) over the parts; linear: "
        "Σ weight · normalised score, where a document that a part's list lacks gets the lowest "
        "normalised score of that list",
    )

    arms: tuple[ArmSettings, ...] = Field(
        default=(ArmSettings(arm="bm25"), ArmSettings(arm="text_dense")),
        min_length=2,
        description="names, or arms with granularity, encoder and options. A part reads the index "
        "of the arm of the same identity, so its options must be the same there",
    )
    k_constant: int = Field(default=60, ge=0, description="of reciprocal ranks")
    weights: tuple[float, ...] | None = Field(
        default=None, description="of linear: one for each part, in order; default: equal ones"
    )
    normalisation: Normalisation = Field(
        default="top_score",
        description="of linear, within each list: top_score (score / top score), min_max, or z",
    )
    depth: int = Field(default=100, ge=1, description="how many documents each part contributes")

    @field_validator("arms")
    @classmethod
    def _check_parts(cls, parts: tuple[ArmSettings, ...]) -> tuple[ArmSettings, ...]:
        for part in parts:
            kind = kind_of(part.arm)
            if kind.fuses or not kind.searches:
                raise ValueError(f"'{part.arm}' can't be fused; name arms that search")
            if part.only is not None:
                raise ValueError(f"'only' belongs to the fusion itself, not to its '{part.arm}'")
        identities = [spec_of(part).identity for part in parts]
        if len(set(identities)) != len(identities):
            raise ValueError(f"each part may stand once, got {', '.join(identities)}")
        return parts

    @model_validator(mode="after")
    def _check_weights(self) -> FusionOptions:
        if self.weights is None:
            return self
        if self.method != "linear":
            raise ValueError("'weights' belong to 'method: linear'; reciprocal ranks have none")
        if len(self.weights) != len(self.arms):
            raise ValueError(
                f"expected one weight for each of the {len(self.arms)} arms, got "
                f"{len(self.weights)}"
            )
        if min(self.weights) < 0 or max(self.weights) == 0:
            raise ValueError(
                f"expected weights of at least 0, one of them above, got {list(self.weights)}"
            )
        return self

    @property
    def parts(self) -> list[ArmSpec]:
        """The specs of the parts, in order."""
        return [spec_of(part) for part in self.arms]

    def recorded(self) -> dict[str, Any]:
        """Return what the fusion's record holds; the parts keep records of their own."""
        parts = [{"identity": part.identity, "options": part.options} for part in self.parts]
        recorded: dict[str, Any] = {"arms": parts, "depth": self.depth}
        if self.method == "reciprocal_rank":
            return {**recorded, "k_constant": self.k_constant}
        weights = list(self.shares)
        return {
            **recorded,
            "method": self.method,
            "weights": weights,
            "normalisation": self.normalisation,
        }

    @property
    def shares(self) -> tuple[float, ...]:
        """The weights of a linear fusion, brought to a sum of 1."""
        weights = self.weights or (1.0,) * len(self.arms)
        return tuple(weight / sum(weights) for weight in weights)

    def fuse(self, rankings: Sequence[Ranking], k: int) -> Ranking:
        """Fuse one query's rankings, one of each part."""
        if self.method == "linear":
            return linear_fusion(rankings, self.shares, self.normalisation, k)
        return reciprocal_rank_fusion(rankings, k, self.k_constant)


def reciprocal_rank_fusion(rankings: Sequence[Ranking], k: int, k_constant: int = 60) -> Ranking:
    """Score each document ``Σ 1 / (k_constant + rank)`` over the rankings that hold it.

    Ranks count from 1. Return the best ``k``: score descending, document id ascending.
    """
    scores: defaultdict[str, float] = defaultdict(float)
    for ranking in rankings:
        for rank, doc_id in enumerate(ranking.doc_ids, start=1):
            scores[doc_id] += 1.0 / (k_constant + rank)
    best = sorted(scores.items(), key=lambda found: (-found[1], found[0]))[:k]
    return Ranking(tuple(doc_id for doc_id, _ in best), tuple(score for _, score in best))


class PipelineArm(Arm):
    """Runs its parts one after another and fuses their rankings; their stage times add up.

    Parts whose encoders share weights and tokens take a query's states from one pass.
    """

    def __init__(self, spec: ArmSpec, options: FusionOptions, parts: Sequence[Arm]) -> None:
        self.spec = spec
        self._options = options
        self._parts = parts

    @classmethod
    def parts(cls, spec: ArmSpec) -> Sequence[ArmSpec]:
        """Return the fused arms (see :meth:`Arm.parts`)."""
        return parse_options(FusionOptions, spec.options, spec.identity).parts

    @classmethod
    def source(cls, spec: ArmSpec, corpus: Corpus) -> folder.Source:
        """The record names the parts, which keep records of their own."""
        options = parse_options(FusionOptions, spec.options, spec.identity)
        return folder.Source(spec, corpus, options.recorded())

    @classmethod
    def build(cls, spec: ArmSpec, corpus: Corpus, index_root: Path, progress: Progress) -> None:
        """Build the parts that are missing, then the record (see :meth:`Arm.build`)."""
        for part in cls.parts(spec):
            build_arm(part, corpus, index_root, progress)
        source = cls.source(spec, corpus)
        if not folder.finished(source, index_root):
            with folder.building(source, index_root):
                pass

    @classmethod
    def open(cls, spec: ArmSpec, corpus: Corpus, index_root: Path) -> PipelineArm:
        """Open the parts (see :meth:`Arm.open`)."""
        options = parse_options(FusionOptions, spec.options, spec.identity)
        folder.open_folder(cls.source(spec, corpus), index_root)
        return cls(spec, options, [open_arm(part, corpus, index_root) for part in options.parts])

    def rank_batch(self, queries: Sequence[str], k: int, clock: StageClock) -> list[Ranking]:
        """Rank with every part, to the depth or ``k`` where that is more, and fuse."""
        depth = max(k, self._options.depth)
        with one_pass():
            per_part = [part.rank_batch(queries, depth, clock) for part in self._parts]
        with clock.stage("rerank"):
            return [self._options.fuse(rankings, k) for rankings in zip(*per_part, strict=True)]

    def with_query_vectors(self, given: QueryVectors) -> PipelineArm:
        """Give them to the parts (see :meth:`Arm.with_query_vectors`)."""
        twin = copy.copy(self)
        twin._parts = [part.with_query_vectors(given) for part in self._parts]
        return twin

    def query_backends(self) -> dict[str, str]:
        """Return those of its parts (see :meth:`Arm.query_backends`)."""
        return {name: told for part in self._parts for name, told in part.query_backends().items()}

    def memory_bytes(self) -> int:
        """Return the bytes that the parts hold."""
        return sum(part.memory_bytes() for part in self._parts)
