"""An arm and a policy from outside the package: registered, labelled, trained, served, reported."""

from pathlib import Path
from typing import ClassVar

import numpy as np
import pytest

import l2r
import router.policies
from analysis import report
from arms import from_function, read_corpus
from arms.catalogue import find_kind
from arms.errors import RouterError, SettingsError
from arms.reward import FloatArray
from oracle import label
from router import Router
from router.policies import register_policy
from router.policies.files import read_policy_json, write_policy_json
from router.policy import NO_INPUTS, Policy, PolicyInputs
from tests.small_corpus import PLACES, THINGS, write_small_corpus
from training import train
from training.fitting import FitContext, Rows
from training.learners import register_learner
from training.settings import TrainingSettings


def by_name(query: str, k: int) -> list[tuple[str, float]]:
    """A search engine of one's own: it knows the documents' names alone."""
    words = query.lower().split()
    names = [f"{place}-{thing}".lower() for place in PLACES for thing, _ in THINGS]
    scored = [(name, sum(word in name.split("-") for word in words)) for name in names]
    found = [(name, float(score)) for name, score in scored if score]
    return sorted(found, key=lambda one: -one[1])[:k]


class LengthPolicy(Policy):
    """Short queries go to one arm, long ones to another."""

    kind: ClassVar[str] = "by_length"

    def __init__(self, name: str, arms: tuple[str, ...], limit: int, short: int, long: int) -> None:
        self.name, self.arms, self.lams = name, arms, None
        self.limit, self.short, self.long = limit, short, long

    def probabilities(self, queries, lam: float, known: PolicyInputs = NO_INPUTS) -> FloatArray:
        is_short = np.array([len(query.split()) <= self.limit for query in queries], dtype=bool)
        columns = np.where(is_short, self.short, self.long).astype(int)
        return np.eye(len(self.arms))[columns]

    def save(self, folder: Path) -> None:
        content = {key: getattr(self, key) for key in ("name", "limit", "short", "long")}
        write_policy_json(folder, self.kind, {**content, "arms": list(self.arms)})

    @classmethod
    def load(cls, folder: Path) -> "LengthPolicy":
        found = read_policy_json(folder, ("name", "arms", "limit", "short", "long"))
        arms = tuple(found["arms"])
        return cls(found["name"], arms, found["limit"], found["short"], found["long"])


class LengthLearner:
    """Picks the limit and both arms with the highest mean quality on training queries."""

    name = "by_length"

    def steps(self, settings: TrainingSettings) -> int:
        return 1

    def fit(self, context: FitContext, train: Rows, validation: Rows) -> LengthPolicy:
        table = context.action.rows(train)
        lengths = np.array([len(text.split()) for text in table.texts])
        found = []
        for limit in range(1, int(lengths.max()) + 1):
            means = [
                table.quality[part].sum(axis=0) for part in (lengths <= limit, lengths > limit)
            ]
            best = [int(mean.argmax()) for mean in means]
            found.append((sum(float(mean.max()) for mean in means), -limit, *best))
        _, limit, short, long = max(found)
        context.task.advance()
        return LengthPolicy(self.name, table.arms, -limit, short, long)


@pytest.fixture
def registered(monkeypatch: pytest.MonkeyPatch) -> None:
    import training.learners

    monkeypatch.setattr(training.learners, "_own", {})
    monkeypatch.setattr(router.policies, "_own", {})
    register_policy(LengthPolicy)
    register_learner(LengthLearner())


def test_an_arm_and_a_policy_go_the_whole_way(
    tmp_path: Path, registered: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    corpus = read_corpus(write_small_corpus(tmp_path / "c"), progress=False)
    arms = ["bm25", from_function("by_name", by_name)]
    labels = label(
        corpus, arms, tmp_path / "runs" / "labels", progress=False, latency={"sample": 10}
    )
    assert labels.pipelines == labels.router_arms == ("bm25", "by_name")
    assert 0.1 < labels.quality["nDCG@5"][:, 1].mean() < labels.quality["nDCG@5"][:, 0].mean()
    made = train(
        labels, [0, 0.1], tmp_path / "runs" / "router", progress=False,
        policies=["by_length"], router="by_length", cross_validation_folds=0,
    )  # fmt: skip
    found = made.search("Oslo museum", policy="router", arms=["by_name"], k=1)
    assert found.ranking.doc_ids == ("oslo-museum",)
    written = report(labels, made, tmp_path / "report")
    assert "by_length" in written.markdown.read_text(encoding="utf-8")

    monkeypatch.setattr(router.policies, "_own", {})  # a process that wasn't told
    with pytest.raises(RouterError, match=r"kind 'by_length'.*register_policy"):
        Router.load(made.folder)


def test_names_of_ours_are_taken(registered: None) -> None:
    class Tfidf(LengthLearner):
        name = "tfidf"

    class Static(LengthPolicy):
        kind: ClassVar[str] = "static"

    with pytest.raises(SettingsError, match="there is a learner 'tfidf'"):
        register_learner(Tfidf())
    with pytest.raises(RouterError, match="there is a kind of policy 'static'"):
        register_policy(Static)


def test_a_runs_file_names_code_that_lies_beside_it(tmp_path: Path) -> None:
    (tmp_path / "engine_beside_yaml.py").write_text("def look_up(query, k):\n    return []\n")
    text = "corpus: c\narms: [bm25, 'engine_beside_yaml:look_up']\n"
    (tmp_path / "my.yaml").write_text(text)
    run = l2r.read_run(tmp_path / "my.yaml")
    assert [one.arm for one in run.arms] == ["bm25", "look_up"]
    assert find_kind("look_up") is not None
    (tmp_path / "my.yaml").write_text(text.replace("look_up", "look_down"))
    with pytest.raises(SettingsError, match="engine_beside_yaml:look_down"):
        l2r.read_run(tmp_path / "my.yaml")
