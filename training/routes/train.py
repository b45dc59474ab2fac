"""Train a router on routing labels, and score every policy of it on the test split."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from arms.errors import LabelsError, RouterError
from arms.progress import Progress, SilentProgress
from arms.sole_writer import writes
from router.artifact import (
    Defaults,
    RouterRecord,
    policy_folder,
    read_router,
    write_router,
)
from router.overhead import measure_overhead
from router.policies import load_policy
from router.policies.ensemble import EnsemblePolicy
from router.policies.prompted import PromptedPolicy
from router.policy import Decisions, Expected, Plan, Policy, PolicyInputs
from router.query_encoder import QueryEncoder
from training.embeddings import embed_queries
from training.fitting import FitContext
from training.routes.fitting import LAM, NEEDS_VECTORS, RoutesBench, fit_all, steps
from training.routes.fitting import training_settings as settings_of_training
from training.routes.prompting import make_prompted
from training.routes.score_files import write_scores
from training.routes.scoring import RouteScore, score_plans
from training.routes.settings import RoutesSettings
from training.routes.table import Prepared, RouteTable, prepare
from training.work_folder import WorkFolder, fingerprint

_PREFERRED = ("router", "encoder_lora", "static", "encoder_frozen", "tfidf")


@dataclass(frozen=True)
class RoutesTrained:
    """What training on routing labels left behind."""

    prepared: Prepared
    scores: tuple[RouteScore, ...]
    """On the test split, in the order fitted; the default router's policy is ``default``."""
    default: str
    scores_file: Path


@dataclass(frozen=True)
class Vectors:
    """Query vectors of a frozen encoder."""

    revision: str
    """Of the encoder."""
    rows: NDArray[np.float32]
    """(Q, d)."""


@writes("folder")
def train_routes(
    table: RouteTable,
    folder: Path,
    settings: RoutesSettings,
    progress: Progress | None = None,
) -> RoutesTrained:
    """Fit the policies, write the router to ``folder`` and its scores to ``folder/scores``.

    The test split is only scored. Finished heads wait in ``<folder>.work``, so that a stopped run
    goes on. The arms of the router are the routes.

    Raises:
        LabelsError: the labels can't be trained on.
        SettingsError: the training-free router lacks its endpoint, or names unknown routes.
    """
    bars = progress or SilentProgress()
    prepared = prepare(table, settings.seed, settings.validation_share)
    table = prepared.table
    training = settings_of_training(settings, len(table.routes))
    prompted = make_prompted(table.of_split("train"), settings.prompt, settings.seed)
    if "prompted" not in settings.policies:
        prompted = None
    labels, work = table.as_labels(), WorkFolder.beside(folder)
    work.path.mkdir(parents=True, exist_ok=True)
    encoder = QueryEncoder(settings.encoder, settings.max_tokens)
    embedded = np.zeros((len(table), 0), dtype=np.float32)
    if NEEDS_VECTORS & set(settings.policies) or settings.lora.start_from_frozen:
        embedded = embed_queries(table.texts.tolist(), encoder, work.embeddings, bars)
    counts = [int((table.splits == split).sum()) for split in ("train", "val")]
    total = steps(settings, *counts)
    with bars.task("fitting routers", total) as task:
        context = FitContext(training, encoder, embedded, labels, labels, work, task)
        bench = RoutesBench(context, table, settings)
        fitted = fit_all(bench, prompted)
    default = next((name for name in _PREFERRED if name in fitted), next(iter(fitted)))
    test = table.of_split("test")
    held = embedded[table.splits == "test"]
    vectors = Vectors(encoder.resolved.revision, held) if held.shape[1] else None
    scores = score_policies(list(fitted.values()), test, bars, vectors)
    overhead = _overheads(fitted, test, settings.overhead_queries, bars)
    record = RouterRecord(
        arms=table.routes,
        defaults=Defaults(default),
        tau=training.tau,
        lams=(LAM,),
        encoder_id=encoder.resolved.encoder_id,
        encoder_revision=encoder.resolved.revision,
        expected={default: {LAM: _expected(bench, default)}},
        overhead_ms=overhead,
        training_metrics={"route_accuracy": {one.policy: one.accuracy for one in scores}},
        labels_hash=fingerprint(labels),
    )
    write_router(folder, record, fitted.values(), keep_decisions=False)
    file = write_scores(scores, table.routes, overhead, remarks(fitted), folder / "scores")
    return RoutesTrained(prepared, tuple(scores), default, file)


def score_routes(
    folder: Path,
    table: RouteTable,
    out: Path,
    split: str = "test",
    names: Sequence[str] | None = None,
    progress: Progress | None = None,
) -> tuple[tuple[RouteScore, ...], Path]:
    """Score a router's policies on one split of labels; write the tables to ``out``.

    Raises:
        RouterError: no router lies in ``folder``, or it lacks one of ``names``.
        LabelsError: the split is empty, or needs routes that the router doesn't know.
    """
    record = read_router(folder)
    unknown = [name for name in names or () if name not in record.policies]
    if unknown:
        raise RouterError(
            f"{folder} has no policy {', '.join(unknown)}; it has {', '.join(record.policies)}"
        )
    rows = table.with_routes(record.arms).of_split(split)
    if not len(rows):
        held = ", ".join(sorted(set(table.splits.tolist())))
        raise LabelsError(
            f"the labels have no query of the split '{split}', only of {held}; name one of these "
            "(--split)"
        )
    policies = [load_policy(policy_folder(folder, name)) for name in names or record.policies]
    scores = score_policies(policies, rows, progress or SilentProgress())
    known = {policy.name: policy for policy in policies}
    file = write_scores(scores, record.arms, record.overhead_ms, remarks(known), out)
    return tuple(scores), file


def score_policies(
    policies: Sequence[Policy],
    table: RouteTable,
    progress: Progress,
    vectors: Vectors | None = None,
) -> list[RouteScore]:
    """Let each policy decide every query of the table, and compare.

    ``vectors`` are the queries' by a frozen encoder, where the caller has them. What a policy said
    is used again where it is a member of an ensemble.
    """
    scores: list[RouteScore] = []
    said: dict[str, Decisions] = {}
    with progress.task("scoring", total=len(policies)) as task:
        for policy in policies:
            decided = _decide(policy, table.texts.tolist(), vectors, said)
            scores.append(score_plans(policy.name, decided.plans, table))
            task.advance()
    return scores


def _decide(
    policy: Policy, texts: list[str], vectors: Vectors | None, said: dict[str, Decisions]
) -> Decisions:
    if policy.name not in said:
        lam = policy.nearest_lam(LAM)
        if isinstance(policy, EnsemblePolicy):
            rows = policy.combine(
                [_decide(one, texts, vectors, said).probabilities for one in policy.members], lam
            )
            plans = tuple(Plan((policy.arms[column],)) for column in rows.argmax(axis=1))
            said[policy.name] = Decisions(plans, rows)
        else:
            given = None
            if vectors is not None and policy.frozen_encoder() == vectors.revision:
                given = vectors.rows
            said[policy.name] = policy.decide(texts, lam, PolicyInputs(embeddings=given))
    return said[policy.name]


def remarks(policies: Mapping[str, Policy]) -> dict[str, str]:
    """Policy → what its row should say beside the figures."""
    said = {}
    for name, policy in policies.items():
        if isinstance(policy, EnsemblePolicy):
            said[name] = f"{policy.rule} of {', '.join(one.name for one in policy.members)}"
        elif isinstance(policy, PromptedPolicy):
            said[name] = policy.outcome_text()
    return said


def _overheads(
    policies: Mapping[str, Policy], test: RouteTable, wanted: int, progress: Progress
) -> dict[str, float]:
    """Policy → median milliseconds of one decision; the training-free router isn't timed.

    An ensemble with it isn't either: a stored answer takes no time, a new one costs money.
    """
    places = np.unique(np.linspace(0, len(test) - 1, min(wanted, len(test))).astype(int))
    texts = [str(text) for text in test.texts[places]]
    timed = {name: policy for name, policy in policies.items() if not _asks(policy)}
    measured = {}
    with progress.task("timing", total=len(timed)) as task:
        for name, policy in timed.items():
            measured[name] = float(np.median(measure_overhead(policy, texts, LAM, repeats=1)))
            task.advance()
    return measured


def _asks(policy: Policy) -> bool:
    members = policy.members if isinstance(policy, EnsemblePolicy) else (policy,)
    return any(
        isinstance(one, PromptedPolicy) or (isinstance(one, EnsemblePolicy) and _asks(one))
        for one in members
    )


def _expected(bench: RoutesBench, name: str) -> dict[str, Expected]:
    """Route → how often it is right where the router takes it; routes have no latency here.

    On queries left out of its training: each in turn, or else the validation queries.
    """
    table = bench.table
    if name in bench.left_out:
        rows, chosen = bench.left_out[name].rows, bench.left_out[name].chosen
    else:
        rows = bench.validation
        plans = bench.fitted[name].decide(table.texts[rows].tolist(), LAM).plans
        chosen = np.array([table.routes.index(plan.arms[0]) for plan in plans], dtype=np.intp)
    expected = {}
    for column, route in enumerate(table.routes):
        taken = rows[chosen == column]
        if len(taken):
            right = float(table.needed[taken, column].mean())
            expected[route] = Expected(right, None, len(taken))
    return expected
