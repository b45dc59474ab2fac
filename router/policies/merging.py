"""Runs some arms, chosen by λ alone, and answers with its own ranking of what they found.

For each set of arms (:mod:`router.policies.over_arm_sets`) a model expects the gain of every
document found (:mod:`router.relevance`) and another, trained to rank, orders them: results of
several systems merged by a learned function, as LambdaMerge does (Sheldon, Shokouhi, Szummer and
Craswell, WSDM 2011). It is a learned fusion that λ switches on, not a router: which arms are run
doesn't depend on the query.

Models may read the history of documents (:mod:`router.history`). A query none of whose candidates
has any is answered exactly as by the models without history.

Some sets may be fused by a few weights instead (:mod:`router.list_fusion`), which takes a tenth of
the time: where trees gain less than they take, validation takes such a set.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar, cast

import numpy as np

from arms.errors import RouterError
from arms.reward import FloatArray
from router.arm_sets import ArmSet, read_arm_set
from router.frozen_queries import ENCODER_KEYS, FrozenQueries
from router.list_fusion import ListFusion
from router.merged import ScoredCandidates, names_of, ranked
from router.policies.files import (
    POLICY,
    check_numbers,
    read_arrays,
    read_policy_json,
    well_described,
    write_arrays,
    write_policy_json,
)
from router.policies.list_fusion import ListFusionPolicy
from router.policies.over_arm_sets import OverArmSets
from router.policies.over_vectors import softmax_over
from router.policy import (
    NO_INPUTS,
    Combine,
    Decisions,
    Embeddings,
    Plan,
    PolicyInputs,
    masked,
)
from router.probe_features import LEAST_DEPTH, as_lists
from router.quality_model import query_columns
from router.query_vectors import QueryVectors, array_shapes
from router.relevance import RelevanceModel, counted

_KEYS = (
    *("name", "arms", "probe_depth", "tau", "encoder", "k", "temperature", "arm_sets"),
    *("datasets", "foreign"),
)


MergingModel = RelevanceModel | ListFusion


class MergingPolicy(OverArmSets[MergingModel]):
    """Takes the arm set with the highest mean reward at λ; ties to less share, then the earlier.

    Args:
        name: in reports, e.g. ``merging``.
        arms: the arms to choose from, in column order.
        arm_sets: among them every arm of ``arms`` alone, without a model.
        vectors: of the training queries; None where no arm set reads vectors.
        queries: the frozen encoder; likewise.
        probe_depth: how many documents of each arm are read.
        tau: of the softmax that turns qualities into probabilities.
        datasets: of the training queries, whose documents have history; empty where no model reads
            it. On any other dataset arm sets are worth what they are without it.
        foreign: mean quality of each arm set without history, where there are ``datasets``.

    Raises:
        RouterError: arm sets, arms and encoder don't fit together.
    """

    kind: ClassVar[str] = "merging"

    def __init__(
        self,
        name: str,
        arms: Sequence[str],
        arm_sets: Sequence[ArmSet[MergingModel]],
        vectors: QueryVectors | None,
        queries: FrozenQueries | None,
        probe_depth: int = 20,
        tau: float = 0.1,
        datasets: Sequence[str] = (),
        foreign: Sequence[float] = (),
    ) -> None:
        super().__init__(name, arms, arm_sets, probe_depth, tau)
        self.datasets, self.foreign = tuple(datasets), tuple(foreign)
        self._foreign = tuple(
            replace(arm_set, quality=quality)
            for arm_set, quality in zip(self.arm_sets, self.foreign, strict=False)
        )
        self.vectors, self.queries = vectors, queries
        self._last: dict[int, tuple[Any, ...]] = {}
        self._fusing = self._fused_sets()
        self._check()

    def _fused_sets(self) -> ListFusionPolicy | None:
        """Return the policy that fuses those sets which are fused; None where none is."""
        if not any(isinstance(one.model, ListFusion) for one in self.arm_sets):
            return None
        fused = [cast(ArmSet[ListFusion], one) for one in self.arm_sets if _is_fused_or_alone(one)]
        depth, tau = self.probe_depth, self.tau
        return ListFusionPolicy(self.name, self.arms, fused, None, depth, tau)

    def _fused_number(self, number: int) -> int:
        """Return which of the fused sets that policy's set ``number`` is."""
        return sum(map(_is_fused_or_alone, self.arm_sets[:number]))

    def _check(self) -> None:
        components = 0 if self.vectors is None else len(self.vectors.components)
        problems = self._problems()
        for arm_set in self.arm_sets:
            if arm_set.reads_vectors and self.vectors is None:
                problems.append("an arm set reads query vectors, and there are none")
            model, reads = arm_set.model, arm_set.reads_vectors
            if isinstance(model, RelevanceModel):
                orders = all(len(one.booster.texts) == 2 for one in model.models())
                if not orders or not counted(
                    model, components if reads else 0, arm_set.arms, reads
                ):
                    problems.append(
                        f"models of {', '.join(arm_set.arms)} don't read what its arms find"
                    )
        if len(self.foreign) != (len(self.arm_sets) if self.datasets else 0):
            problems.append("without history each arm set has a mean quality")
        if (self.vectors is None) != (self.queries is None):
            problems.append("query vectors and their encoder come together or not at all")
        self._refuse(problems)

    @property
    def learns_documents(self) -> bool:
        """Whether what it learned is about documents that training queries asked about."""
        models = [one.model for one in self.arm_sets]
        return any(isinstance(one, RelevanceModel) and one.past is not None for one in models)

    def without_history(self, name: str) -> MergingPolicy:
        """Return the policy of that name whose models read no history; means stay as they are."""
        arm_sets = [
            replace(one, model=one.model.without_history())
            if isinstance(one.model, RelevanceModel)
            else one
            for one in self.arm_sets
        ]
        return self.with_arm_sets(arm_sets, name)

    def with_arm_sets(
        self,
        arm_sets: Sequence[ArmSet[MergingModel]],
        name: str | None = None,
        datasets: Sequence[str] = (),
        foreign: Sequence[float] = (),
    ) -> MergingPolicy:
        """Return the policy over other arm sets, under another name where one is given."""
        return MergingPolicy(
            name or self.name,
            self.arms,
            arm_sets,
            self.vectors,
            self.queries,
            self.probe_depth,
            self.tau,
            datasets,
            foreign,
        )

    def embed(self, queries: Sequence[str], lam: float) -> Embeddings | None:
        """(n, d) of the frozen encoder; None where the arm set at λ doesn't read it."""
        return super().embed(queries, lam) if self.embeds_at(lam) else None

    def embeds_at(self, lam: float, dataset: str | None = None) -> bool:
        """Whether the arm set at λ reads the query's vector."""
        return self.arm_sets[self.arm_set_at(lam, None, dataset)].reads_vectors

    def worth_on(self, dataset: str | None) -> Sequence[ArmSet[MergingModel]]:
        """Return the arm sets with their means; without history where the dataset has none."""
        known = dataset is None or not self.datasets or dataset in self.datasets
        return self.arm_sets if known else self._foreign

    @property
    def reads_vectors(self) -> bool:
        """False: not at every λ."""
        return False

    def probabilities(
        self, queries: Sequence[str], lam: float, known: PolicyInputs = NO_INPUTS
    ) -> FloatArray:
        """(len(queries), len(arms)) softmax of expected quality / τ, over the arms that are run.

        Where one arm answers without being looked at: of the mean reward of each arm alone. Where
        lists are fused: of the mean quality of each arm of the set.
        """
        number = self.arm_set_at(lam)
        if self.arm_sets[number].model is None:
            return self._alone(lam, len(queries))
        if self._fusing is not None and isinstance(self.arm_sets[number].model, ListFusion):
            return self._fusing.preferred(self._fused_number(number), len(queries))
        looked = self._looked(number, queries, known)
        return softmax_over(self._expected(number, looked, len(queries)), self.tau)

    def merge(self, number: int, queries: Sequence[str], known: PolicyInputs) -> Decisions:
        """Merge what the arms of an arm set with a model found.

        Where an arm was run that may not answer, nothing is merged: of the others that were run
        the one expected to be best answers.
        """
        arm_set = self.arm_sets[number]
        if self._fusing is not None and isinstance(arm_set.model, ListFusion):
            return self._fusing.merge(self._fused_number(number), queries, known)
        assert isinstance(arm_set.model, RelevanceModel)
        looked = self._looked(number, queries, known)
        expected = self._expected(number, looked, len(queries))
        rows = masked(softmax_over(expected, self.tau), known)
        names = names_of(known, arm_set.arms, arm_set.model.top)
        borders = np.searchsorted(looked.asked.rows, np.arange(len(queries) + 1)).tolist()
        plans, rankings, predicted, reasons = [], [], [], []
        for row, column in enumerate(rows.argmax(axis=1).tolist() if len(rows) else []):
            ran, allowed = self._ran(arm_set, row, known)
            others = tuple(arm for arm in ran if arm != self.arms[column])
            members = slice(borders[row], borders[row + 1])
            merges = bool(ran) and allowed
            ranking, quality = ranked(looked, members, names, arm_set.model.k)
            combine: Combine = "merge" if merges else "cascade" if others else "single"
            plans.append(Plan((*others, self.arms[column]), combine))
            rankings.append(ranking if merges else None)
            reason = _reason(arm_set.model, bool(looked.with_history[row]))
            reasons.append(reason if merges else None)
            alone = expected[row, column] if self.arms[column] in ran else np.nan
            predicted.append(quality if merges else alone)
        told = np.array(predicted, dtype=np.float64).clip(0.0, 1.0)  # NaN: it wasn't looked at
        return Decisions(tuple(plans), rows, told, tuple(reasons), tuple(rankings))

    def _expected(self, number: int, looked: ScoredCandidates, n: int) -> FloatArray:
        """(n, A) quality expected of each arm's own list; −inf of arms outside the set."""
        arm_set = self.arm_sets[number]
        assert isinstance(arm_set.model, RelevanceModel)
        values = np.full((n, len(self.arms)), -np.inf)
        values[:, self._columns(arm_set)] = arm_set.model.expected_of(
            arm_set.arms, looked.lists, looked.asked, looked.gains
        )
        return values

    def _looked(self, number: int, queries: Sequence[str], known: PolicyInputs) -> ScoredCandidates:
        """Ask the arm set's model; the last batch is remembered, as callers ask at several λ."""
        arm_set, embeddings, probed = self.arm_sets[number], known.embeddings, known.probed
        if probed is None:
            raise RouterError(
                f"the policy '{self.name}' merges what {', '.join(arm_set.arms)} find; give their "
                "rankings (Known.probed), or choose a policy that runs one arm"
            )
        last = self._last.get(number)
        if last and last[0] == queries and last[1] is embeddings and last[2] is probed:
            found: ScoredCandidates = last[3]
            return found
        vectors = components = read = None
        if arm_set.reads_vectors and self.vectors is not None and self.queries is not None:
            vectors = self.vectors
            read = self.queries.embed(queries, self.device) if embeddings is None else embeddings
            components = vectors.project(read)
        lists = as_lists(
            arm_set.arms,
            {arm: probed[arm] for arm in arm_set.arms if arm in probed},
            self.probe_depth,
            len(queries),
        )
        of_query = query_columns(queries, components, arm_set.arms, lists)
        assert isinstance(arm_set.model, RelevanceModel)
        told = arm_set.model.tell(arm_set.arms, lists, of_query, vectors, read)
        looked = ScoredCandidates(lists, told.asked, told.gains, told.order, told.with_history)
        if len(queries) > 1:  # of one, overhead is measured by asking again
            self._last[number] = (list(queries), embeddings, probed, looked)
        return looked

    def prepare(self, lam: float) -> None:
        """Load LightGBM and, where the arm set at λ reads vectors, the encoder."""
        arm_set = self.arm_sets[self.arm_set_at(lam)]
        if isinstance(arm_set.model, RelevanceModel):
            arm_set.model.load()
        if arm_set.reads_vectors and self.queries is not None:
            self.queries.load(self.device)

    def save(self, folder: Path) -> None:
        """Write ``policy.json``, ``vectors.safetensors`` and a folder for each model."""
        if self.vectors is not None:
            write_arrays(folder / "vectors.safetensors", self.vectors.arrays())
        arm_sets = [
            arm_set.describe(folder / f"set-{number}")
            for number, arm_set in enumerate(self.arm_sets)
        ]
        content = {
            "name": self.name,
            "arms": list(self.arms),
            "probe_depth": self.probe_depth,
            "tau": self.tau,
            "encoder": None if self.queries is None else self.queries.describe(),
            "k": None if self.vectors is None else self.vectors.k,
            "temperature": None if self.vectors is None else self.vectors.temperature,
            "arm_sets": arm_sets,
            "datasets": list(self.datasets),
            "foreign": list(self.foreign),
        }
        write_policy_json(folder, self.kind, content)

    @classmethod
    def load(cls, folder: Path) -> MergingPolicy:
        """Read what :meth:`save` wrote; LightGBM and the encoder are loaded later."""
        content = read_policy_json(folder, _KEYS)
        with well_described(folder, "arms, sets or encoder"):
            return cls._read(folder, content)

    @classmethod
    def _read(cls, folder: Path, content: Mapping[str, Any]) -> MergingPolicy:
        place, described, vectors = str(folder / POLICY), content["encoder"], None
        check_numbers(place, content, {"probe_depth": LEAST_DEPTH}, positive=("tau",))
        if described is not None:
            check_numbers(place, content, {"k": 1}, positive=("temperature",))
            if set(described) != set(ENCODER_KEYS):
                raise RouterError(f"{folder} describes its encoder wrongly; rerun l2r train")
            shapes = array_shapes(len(content["arms"]))
            arrays = read_arrays(folder / "vectors.safetensors", shapes)
            vectors = QueryVectors.of(arrays, content["k"], content["temperature"])
        components = 0 if vectors is None else len(vectors.components)

        def read(
            folder: Path, described: Mapping[str, Any], arms: tuple[str, ...], reads: bool
        ) -> MergingModel:
            if "method" in described:
                return ListFusion.read(described, arms, prior=False)
            return RelevanceModel.read(folder, described, arms, components if reads else 0, reads)

        with well_described(folder, "arm sets"):
            arm_sets = [
                read_arm_set(folder / f"set-{number}", one, read)
                for number, one in enumerate(content["arm_sets"])
            ]
        queries = None if described is None else FrozenQueries.read(described)
        return cls(
            content["name"],
            content["arms"],
            arm_sets,
            vectors,
            queries,
            content["probe_depth"],
            float(content["tau"]),
            [str(one) for one in content["datasets"]],
            [float(one) for one in content["foreign"]],
        )


def _is_fused_or_alone(arm_set: ArmSet[MergingModel]) -> bool:
    return arm_set.model is None or isinstance(arm_set.model, ListFusion)


def _reason(model: RelevanceModel, with_history: bool) -> str:
    if model.past is None:
        return "ranked anew, without document history"
    if with_history:
        return "ranked anew, with the history of documents that earlier questions found"
    return "ranked anew, without document history: no document found has any"
