"""Settings of the policies that stand beside the router, one block each."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, field_validator

from arms.fused_scores import NORMALISATIONS, Normalisation
from arms.settings import Settings


def _distinct_ascending(given: tuple[float, ...]) -> tuple[float, ...]:
    return tuple(sorted(set(given)))


class KnnSettings(Settings):
    """k nearest neighbours over the frozen encoder's query vectors."""

    k: tuple[int, ...] = Field(
        default=(5, 10, 20, 50, 100, 200),
        min_length=1,
        description="the one with the highest reward on validation, averaged over lams, is kept",
    )

    @field_validator("k")
    @classmethod
    def _check_k(cls, given: tuple[int, ...]) -> tuple[int, ...]:
        if min(given) < 1:
            raise ValueError(f"k must be at least 1, got {list(given)}")
        return tuple(sorted(set(given)))


class LinearSettings(Settings):
    """Linear models over query vectors; penalties are compared on validation where there is any."""

    penalties: tuple[float, ...] = Field(
        default=(0.01, 0.1, 1.0),
        min_length=1,
        description="weight of half the squared coefficients of standardised features against the "
        "mean loss of a query",
    )

    @field_validator("penalties")
    @classmethod
    def _check_penalties(cls, given: tuple[float, ...]) -> tuple[float, ...]:
        if not all(0.0 < one < float("inf") for one in given):
            raise ValueError(f"penalties must be above 0 and finite, got {list(given)}")
        return _distinct_ascending(given)


class ArabzadehSettings(LinearSettings):
    """Hard label: the cheapest arm with a relevant result first; a threshold sets the budget."""


class MultiLabelSettings(LinearSettings):
    """UniversalRAG's multi-label router: multi-hot targets, every arm above a threshold fused."""

    threshold: float = Field(default=0.8, gt=0, lt=1)
    tolerance: float = Field(
        default=0.05, ge=0, description="an arm is a target within this much of the best reward"
    )
    fuse: Literal["labelled", "any"] = Field(
        default="labelled",
        description="labelled: fuse only sets that an arm of the labels fuses, so that reports can "
        "score every plan; any: every set, as published",
    )


class BanditSettings(Settings):
    """A contextual bandit that sees one arm's outcome per training query."""

    logging: Literal["uniform", "epsilon_greedy"] = Field(
        default="uniform", description="how the log is simulated: who chose the arm of each query"
    )
    epsilon: float = Field(default=0.1, gt=0, le=1, description="share of random choices")
    rounds: int = Field(
        default=10,
        ge=1,
        description="epsilon_greedy: refits while the log grows; the first is uniform",
    )
    log_lam: float = Field(
        default=0.1, ge=0, le=1, description="epsilon_greedy: the lam that the log was served at"
    )
    penalties: tuple[float, ...] = Field(
        default=(10.0, 100.0, 1000.0, 10_000.0),
        min_length=1,
        description="ridge; the best by leave-one-out on the log is kept",
    )


class EnsembleSettings(Settings):
    """UniversalRAG's two ensembles, of policies that were fitted."""

    members: tuple[str, ...] = Field(
        default=("router_conditioned", "knn", "tfidf"),
        min_length=2,
        description="those that weren't fitted are left out",
    )
    thresholds: tuple[float, ...] = Field(
        default=(0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9),
        min_length=1,
        description="of confidence; at each lam the one with the highest reward on validation is "
        "kept, without validation queries the middle one",
    )


class BoostingSettings(Settings):
    """Boosted trees that predict quality: for ``router_quality``, ``probing`` and ``cascade``."""

    rounds: int = Field(default=200, ge=1, description="trees per arm")
    learning_rate: float = Field(default=0.04, gt=0, le=1)
    leaves: int = Field(default=15, ge=2)
    least_per_leaf: int = Field(default=40, ge=1, description="fewer on small training sets")
    feature_share: float = Field(default=0.3, gt=0, le=1, description="tried by each tree")
    components: int = Field(default=48, ge=1, description="principal ones of the query's vector")
    neighbours: int = Field(default=60, ge=1, description="nearest training queries asked")
    temperature: float = Field(
        default=0.05, gt=0, description="a neighbour at cosine c weighs exp(c / temperature)"
    )


class RelevanceSettings(Settings):
    """Boosted trees that predict which of the documents found are relevant."""

    enabled: bool = Field(default=True, description="needs judged grades in the labels, and nDCG")
    rounds: int = Field(default=200, ge=1, description="trees")
    learning_rate: float = Field(default=0.06, gt=0, le=1)
    leaves: int = Field(default=31, ge=2)
    least_per_leaf: int = Field(default=60, ge=1, description="fewer on small training sets")
    feature_share: float = Field(default=0.3, gt=0, le=1, description="tried by each tree")
    dataset_weight: float = Field(
        default=0.5,
        ge=0,
        le=1,
        description="0: every query counts alike; 1: every dataset; between: between",
    )
    unseen_share: float = Field(
        default=0.0,
        ge=0,
        le=1,
        description="of training queries that are learned from as though nobody had asked about "
        "their documents: the more, the less history is trusted",
    )


class ProbingSettings(Settings):
    """Run some arms on every query, look at what they found, then choose."""

    probes: tuple[str, ...] | None = Field(
        default=None,
        description="arms to run first; default: all where labels tell which documents are "
        "relevant, else of each pipeline the better arm, the best three",
    )
    most: int | None = Field(
        default=None, ge=1, description="of each pipeline the better arm, the best that many"
    )
    depth: int = Field(
        default=20, ge=10, le=1000, description="documents looked at of each, if labels hold them"
    )
    relevance: RelevanceSettings = RelevanceSettings()


class CascadeSettings(Settings):
    """Run what costs next to nothing; go on where the expected gain is worth the latency."""

    probes: tuple[str, ...] | None = Field(
        default=None, description="arms to run first; default: all cheap ones, see share"
    )
    share: float = Field(
        default=0.02, gt=0, lt=1, description="cheap: at most this share of the dearest arm's ms"
    )
    depth: int = Field(default=10, ge=10, le=1000, description="documents looked at of each")


class MergingTrees(Settings):
    """Boosted trees of one model that orders documents; an arm set has two, or four."""

    rounds: int = Field(default=100, ge=1, description="trees")
    learning_rate: float = Field(default=0.1, gt=0, le=1)
    leaves: int = Field(default=15, ge=2)
    least_per_leaf: int = Field(default=60, ge=1, description="fewer on small training sets")
    feature_share: float = Field(default=0.3, gt=0, le=1, description="tried by each tree")


class MergingSettings(Settings):
    """Run some arms, chosen by lam alone, and rank anew what they found."""

    sets: tuple[tuple[str, ...], ...] | None = Field(
        default=None,
        description="arms that are run together; default: the cheapest, and so on up to all, cut "
        "where latency rises most; arms that only fuse others are left out",
    )
    arm_sets: int = Field(default=3, ge=1, le=8, description="how many such sets")
    top: int = Field(default=10, ge=1, description="documents of each arm that are ranked anew")
    depth: int = Field(
        default=20, ge=10, le=1000, description="documents looked at of each, if labels hold them"
    )
    fuse: bool = Field(
        default=True,
        description="compare the sets of tuned fusion too; it takes less time than trees",
    )
    trees: MergingTrees = MergingTrees()
    unseen_share: float = Field(
        default=0.25,
        ge=0,
        le=1,
        description="of training queries that are learned from as though nobody had asked about "
        "their documents: the more, the less history is trusted",
    )
    fusion_weight: float = Field(
        default=2.0,
        ge=0,
        description="of the scores of linear fusion beside what the trees say, in log odds",
    )
    vectors_from_ms: float = Field(
        default=10.0,
        ge=0,
        description="a set reads the query's vector where an arm of it makes the same one, or "
        "where its arms take at least this long",
    )
    deciding_ms: float = Field(
        default=3.0, ge=0, description="taken for ranking anew when sets are compared"
    )
    embedding_ms: float = Field(
        default=10.0,
        ge=0,
        description="likewise for the query's vector, unless an arm's labels tell",
    )

    @field_validator("sets")
    @classmethod
    def _check_sets(
        cls, given: tuple[tuple[str, ...], ...] | None
    ) -> tuple[tuple[str, ...], ...] | None:
        if given is not None and not all(one and len(set(one)) == len(one) for one in given):
            raise ValueError(f"each set needs arms, each once, got {[list(one) for one in given]}")
        return given


class FusionSettings(Settings):
    """Run some arms, chosen by lam alone, and fuse their lists by ranks or weighted scores."""

    sets: tuple[tuple[str, ...], ...] | None = Field(
        default=None,
        description="arms that are fused; default: nested as for merging, and the cheapest sparse "
        "arm with each that reranks",
    )
    arm_sets: int = Field(default=3, ge=1, le=8, description="how many nested sets")
    depth: int = Field(
        default=20, ge=1, le=1000, description="documents fused of each, if labels hold them"
    )
    normalisations: tuple[Normalisation, ...] = Field(
        default=NORMALISATIONS,
        min_length=1,
        description="of scores, for tuned fusion; validation chooses one for each set",
    )
    per_dataset: bool | None = Field(
        default=None,
        description="weights for each dataset beside those for all; default: validation chooses",
    )
    deciding_ms: float = Field(
        default=0.5, ge=0, description="taken for fusing when sets are compared"
    )

    @field_validator("sets")
    @classmethod
    def _check_sets(
        cls, given: tuple[tuple[str, ...], ...] | None
    ) -> tuple[tuple[str, ...], ...] | None:
        wrong = [list(one) for one in given or () if len(one) < 2 or len(set(one)) != len(one)]
        if wrong:
            raise ValueError(f"each set needs two arms or more, each once, got {wrong}")
        return given


class StaticEmbeddingSettings(Settings):
    """A table of token vectors with heads over their mean: selects in a fraction of a ms."""

    start_from: Literal["distilled", "embeddings"] = Field(
        default="embeddings",
        description="embeddings: the encoder's own input vectors; distilled: its output for each "
        "token, which takes a minute once",
    )
    dimension: int = Field(default=256, ge=1, description="of token vectors, by PCA")
    tuned: bool = Field(default=True, description="train the table too, not the heads alone")
    ngrams: tuple[Literal["words", "characters", "shapes"], ...] = Field(
        default=(), description="hashed, case kept, looked at beside tokens"
    )
    buckets: int = Field(default=32_768, ge=1, description="rows of a table of n-grams")
    ngram_dimension: int = Field(default=16, ge=1)
    teacher_share: float = Field(
        default=0.5, ge=0, le=1, description="of targets that come from the encoder router"
    )
    epochs: int = Field(default=10, ge=1)
    batch_size: int = Field(default=128, ge=1)
    table_learning_rate: float = Field(default=1e-3, gt=0)
    head_learning_rate: float = Field(default=1e-2, gt=0)
    decays: tuple[float, ...] = Field(
        default=(0.01, 1.0),
        min_length=1,
        description="pull of the table to its start and of heads to 0; chosen on validation",
    )
    id_dropout: float = Field(default=0.0, ge=0, lt=1, description="tokens left out in training")
    allow_constant: bool = Field(default=True, description="let the constant head compete")
    tolerance_se: float = Field(default=0.5, ge=0, description="0: keep the best whatever it is")

    @field_validator("decays")
    @classmethod
    def _check_decays(cls, given: tuple[float, ...]) -> tuple[float, ...]:
        if min(given) < 0:
            raise ValueError(f"decays must be at least 0, got {list(given)}")
        return _distinct_ascending(given)
