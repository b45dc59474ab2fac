"""Runs a plan's arms: probes before the choice, the answering arms after it."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from arms.arm import Arm
from arms.encoders.given_queries import QueryVectors
from arms.records import Ranking
from router.arm_pool import ArmPool
from router.policy import Plan, Probed
from router.probe_features import document_name


@dataclass(frozen=True)
class ProbeResults:
    """What is at hand of some queries before the plans are run."""

    found: Mapping[str, Sequence[Ranking]] = field(default_factory=dict)
    """Arm → one ranking per query; an arm that the dataset lacks is absent."""
    elapsed_ms: float = 0.0
    """Wall-clock milliseconds of running the probes."""
    vectors: QueryVectors | None = None
    """The policy's query vectors, for arms whose encoder would make the same."""

    def cut(self, dataset: str, depth: int) -> Probed:
        """Return the first ``depth`` documents of each ranking: what a policy was trained on.

        They go by :func:`router.probe_features.document_name`.
        """
        return {
            arm: [
                Ranking(
                    tuple(document_name(dataset, one) for one in ranking.doc_ids[:depth]),
                    ranking.scores[:depth],
                )
                for ranking in rankings
            ]
            for arm, rankings in self.found.items()
        }


def probe(
    probes: Sequence[str],
    queries: Sequence[str],
    depth: int,
    opened: ArmPool,
    dataset: str,
    vectors: QueryVectors | None = None,
) -> ProbeResults:
    """Run those of ``probes`` that the dataset has, ``depth`` documents deep.

    Opening an index for the first time isn't counted in the milliseconds.
    """
    arms = opened.candidates(dataset, probes)[1]
    ready = {arm: opened.arm(dataset, arm) for arm in arms}
    begin = time.perf_counter_ns()
    found = {name: _taking(vectors, arm).rank(list(queries), depth) for name, arm in ready.items()}
    return ProbeResults(found, (time.perf_counter_ns() - begin) / 1e6, vectors)


def answer(
    plan: Plan,
    query: str,
    k: int,
    opened: ArmPool,
    dataset: str,
    probed: ProbeResults,
    own: Ranking | None = None,
) -> Ranking:
    """Return the plan's ranking of at most ``k`` documents, reusing what is at hand.

    ``own``: the policy's own ranking of what was probed, where the plan merges.
    """
    if own is not None:
        return _merged(own, k, dataset, probed, plan.answering_arm)
    if plan.combine != "fuse":
        return _ranking(plan.answering_arm, query, k, opened, dataset, probed)
    from arms.pipelines.fusion import FusionOptions, reciprocal_rank_fusion

    depth = max(k, FusionOptions.model_fields["depth"].default)
    parts = [_ranking(arm, query, depth, opened, dataset, probed) for arm in plan.arms]
    return reciprocal_rank_fusion(parts, k)


def _merged(own: Ranking, k: int, dataset: str, probed: ProbeResults, preferred: str) -> Ranking:
    """The policy's own ranking by the documents' ids, filled up from the preferred arm's.

    What is filled up with stands below: a policy looks at the first documents of each arm alone.
    """
    id_of = {
        document_name(dataset, one): one
        for rankings in probed.found.values()
        for one in rankings[0].doc_ids
    }
    ids, scores = [id_of[name] for name in own.doc_ids[:k]], list(own.scores[:k])
    known = set(ids)
    further = probed.found[preferred][0].doc_ids if preferred in probed.found else ()
    for one in further:
        if len(ids) == k:
            break
        if one not in known:
            ids.append(one)
            scores.append(scores[-1] - 1.0)
    return Ranking(tuple(ids), tuple(scores))


def _ranking(
    arm: str, query: str, k: int, opened: ArmPool, dataset: str, probed: ProbeResults
) -> Ranking:
    found = probed.found.get(arm)
    if found is not None:
        return Ranking(found[0].doc_ids[:k], found[0].scores[:k])
    return _taking(probed.vectors, opened.arm(dataset, arm)).rank([query], k)[0]


def _taking(vectors: QueryVectors | None, arm: Arm) -> Arm:
    return arm if vectors is None else arm.with_query_vectors(vectors)
