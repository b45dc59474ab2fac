"""The whole command, on labels whose best arm follows from the wording of the query."""

import json

import numpy as np
import pytest

from arms.errors import LabelsError, SettingsError
from oracle.labels import read_labels
from router.artifact import read_router
from router.decisions import read_decisions
from router.router import Router
from tests.training.synthetic import ARMS, write_labels
from training.decide import typical_ms
from training.default_policy import validation_warnings
from training.settings import FrozenSettings, LoraSettings, TrainingSettings
from training.table import routing_table
from training.train_routers import train_routers

LAMS = (0.0, 0.3)


def decisions_of(router_folder):
    return read_decisions(router_folder / "decisions.parquet").to_pandas()


def mean_reward(labels_folder, decisions, policy, lam, splits):
    labels = read_labels(labels_folder)
    table = routing_table(labels, labels.pipelines)
    row_of = {key: row for row, key in enumerate(zip(table.datasets, table.query_ids, strict=True))}
    mine = decisions[
        (decisions["policy"] == policy)
        & (decisions["lam"] == lam)
        & decisions["split"].str.match(splits)
    ]
    rows = np.array([row_of[key] for key in zip(mine["dataset"], mine["query_id"], strict=True)])
    columns = np.array([table.arms.index(plan) for plan in mine["plan"]])
    counted = table.comparable[rows]
    return table.rewards(lam)[rows, columns][counted].mean()


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """One run with the offline encoder: masks, failures, two λ, five folds."""
    root = tmp_path_factory.mktemp("trained")
    labels = write_labels(root / "labels", count=600, lacking={"beta": ("text_rerank",)}, failing=4)
    settings = TrainingSettings(
        lams=LAMS,
        overhead_queries=5,
        policies=("router_conditioned", "tfidf"),
        router="router_conditioned",  # how long deciding takes here doesn't matter then
        gate={"enabled": False},  # on a busy machine deciding may cost more than it gains
    )
    record = train_routers(labels, None, root / "router", settings)
    return labels, root / "router", record


def test_the_router_beats_the_best_static_arm_on_held_out_queries(trained):
    labels, router, _ = trained
    decisions = decisions_of(router)
    for lam in LAMS:
        for splits in ("test", "cv"):
            routed, static, best, drawn = (
                mean_reward(labels, decisions, policy, lam, splits)
                for policy in (
                    "router",
                    "best_static",
                    "best_static_per_dataset",
                    "random_same_mix",
                )
            )
            assert routed > best + 0.08
            assert routed > static + 0.08
            assert routed > drawn + 0.08


def test_a_control_with_shuffled_labels_learns_nothing(tmp_path):
    labels = write_labels(tmp_path / "labels", count=600, shuffled=True)
    settings = TrainingSettings(
        lams=(0.0,),
        overhead_queries=1,
        policies=(),
        # As in the paper: no constant head to fall back on, which would hide a leak.
        frozen=FrozenSettings(weight_decays=(0.01,), allow_constant=False),
    )
    train_routers(labels, None, tmp_path / "router", settings)
    decisions = decisions_of(tmp_path / "router")
    routed, static = (
        mean_reward(labels, decisions, policy, 0.0, "cv") for policy in ("router", "best_static")
    )
    assert routed < static + 0.04


def test_every_policy_decides_every_query_once_per_evaluation(trained):
    labels_folder, router, _ = trained
    labels = read_labels(labels_folder)
    decisions = decisions_of(router)
    assert set(decisions["policy"]) == {
        "router",
        "router_per_lam",
        "tfidf",
        "best_static",
        "best_static_per_dataset",
        "random_same_mix",
        *(f"static:{arm}" for arm in labels.pipelines),
    }
    learned = decisions[~decisions["policy"].str.startswith("static:")]
    fixed = learned["split"].isin(["train", "val", "test"])
    for part in (learned[fixed], learned[~fixed]):
        counts = part.groupby(["policy", "lam"])["query_id"].nunique()
        assert (counts == 600).all()
        assert not part.duplicated(["policy", "lam", "dataset", "query_id"]).any()
    split_of = dict(zip(labels.query_ids, labels.splits, strict=True))
    assert (learned[fixed]["split"] == learned[fixed]["query_id"].map(split_of)).all()
    statics = decisions[decisions["policy"].str.startswith("static:")]
    assert statics["lam"].isna().all()


def test_no_plan_names_an_arm_that_the_dataset_lacks(trained):
    decisions = decisions_of(trained[1])
    beta = decisions[decisions["dataset"] == "beta"]
    assert len(beta) and "text_rerank" not in set(beta["plan"])
    # The router chooses from A; text_late is in P only.
    assert "text_late" not in set(decisions[decisions["policy"] == "router"]["plan"])


def test_overhead_is_charged_to_policies_that_compute(trained):
    decisions = decisions_of(trained[1])
    overhead = decisions.groupby("policy")["overhead_ms"]
    assert (overhead.min()[["router", "router_per_lam", "tfidf"]] > 0).all()
    assert (overhead.max()[["best_static", "random_same_mix", "static:bm25"]] == 0).all()


def test_decisions_are_what_the_router_selects(trained):
    _, folder, _ = trained
    labels = read_labels(trained[0])
    decisions = decisions_of(folder)
    router = Router.load(folder)
    rows = np.flatnonzero((labels.datasets == "alpha") & (labels.splits == "test"))
    for policy in ("router", "router_per_lam", "tfidf"):
        choices = router.select_many(labels.texts[rows].tolist(), lam=0.3, policy=policy)
        mine = decisions[
            (decisions["policy"] == policy)
            & (decisions["lam"] == 0.3)
            & (decisions["split"] == "test")
        ].set_index("query_id")
        for row, choice in zip(rows, choices, strict=True):
            decided = mine.loc[labels.query_ids[row]]
            assert decided["plan"] == choice.arm
            assert decided["probability"] == pytest.approx(
                choice.probabilities[choice.arm], abs=1e-5
            )


def test_the_artifact_records_what_it_came_from(trained):
    _, folder, record = trained
    assert read_router(folder).policies == ("router", "router_per_lam", "tfidf", "best_static")
    assert record.arms == ARMS
    assert record.lams == LAMS
    assert record.encoder_id == "all-MiniLM-L6-v2"
    assert record.datasets == {"alpha": ARMS, "beta": ARMS[:2]}
    assert set(record.expected) == set(record.policies)
    assert all(set(by_lam) == set(LAMS) for by_lam in record.expected.values())
    assert set(record.expected["router"][0.0]) == set(ARMS)
    assert record.training_metrics["router"]["0.3"]["test"]["queries"] == 60
    assert record.training_metrics["router"]["0"]["test"]["collapsed"] is False
    assert record.training_metrics["router_per_lam"]["0"]["kept_epoch"]["val_reward"] > 0.6
    assert len(record.labels_hash) == 64
    assert record.warnings == ()


def test_recorded_metrics_charge_the_overhead_of_decisions(trained):
    labels_folder, folder, record = trained
    labels, decisions = read_labels(labels_folder), decisions_of(folder)
    table = routing_table(labels, labels.router_arms)
    total_ms = np.where(table.competes, table.latency_ms, 0.0).sum(axis=1)
    row_of = {key: row for row, key in enumerate(zip(table.datasets, table.query_ids, strict=True))}
    mine = decisions[(decisions.policy == "router") & (decisions.lam == 0.3)]
    mine = mine[mine.split == "test"]
    rows = np.array([row_of[key] for key in zip(mine.dataset, mine.query_id, strict=True)])
    columns = np.array([table.arms.index(plan) for plan in mine.plan])
    beside = (mine.overhead_ms - mine.reused_encode_ms).to_numpy()
    got = table.rewards(0.3)[rows, columns] - 0.3 * beside / total_ms[rows]
    told = record.training_metrics["router"]["0.3"]["test"]
    assert told["reward"] == pytest.approx(got[table.comparable[rows]].mean(), abs=1e-6)


def small(tiny_bert, **changes):
    given = {
        "lams": (0.0, 0.5),
        "encoder": str(tiny_bert),
        "cross_validation_folds": 0,
        "overhead_queries": 1,
        "frozen": FrozenSettings(epochs=2),
        "policies": (),
        "gate": {"enabled": False},
    }
    return TrainingSettings(**(given | changes))


def weights_of(router_folder):
    return {
        path.relative_to(router_folder).as_posix(): path.read_bytes()
        for path in sorted(router_folder.rglob("*.safetensors"))
    }


def test_the_same_command_gives_the_same_weights(tiny_bert, tmp_path):
    labels = write_labels(tmp_path / "labels", count=60)
    lora = LoraSettings(rank=2, epochs=1)
    runs = []
    for name in ("one", "two"):
        fitted = {"lora_lams": (0.5,), "lora": lora, "policies": ("tfidf",)}
        settings = small(tiny_bert, router="router_per_lam", **fitted)
        train_routers(labels, None, tmp_path / name, settings)
        runs.append(weights_of(tmp_path / name))
    assert runs[0] == runs[1]
    assert "policies/router_lora/lam-0.5/adapter/adapter_model.safetensors" in runs[0]
    # One λ alone gives what it gives in a sweep.
    train_routers(labels, None, tmp_path / "alone", small(tiny_bert, lams=(0.5,)))
    name = "policies/router/lam-0.5/head.safetensors"
    assert weights_of(tmp_path / "alone")[name] == runs[0][name]


def test_finished_heads_are_reused_until_something_changes(tiny_bert, tmp_path, monkeypatch):
    import training.fitting

    fitted = []
    real = training.fitting.fit_frozen_head

    def counting(*given, **named):
        fitted.append(1)
        if len(fitted) == 2:
            raise KeyboardInterrupt
        return real(*given, **named)

    monkeypatch.setattr(training.fitting, "fit_frozen_head", counting)
    labels = write_labels(tmp_path / "labels", count=60)
    with pytest.raises(KeyboardInterrupt):
        train_routers(labels, None, tmp_path / "router", small(tiny_bert))
    assert not (tmp_path / "router").exists()
    train_routers(labels, None, tmp_path / "router", small(tiny_bert))
    assert len(fitted) == 3  # the first λ was kept, the second fitted anew
    first = weights_of(tmp_path / "router")
    train_routers(labels, None, tmp_path / "router", small(tiny_bert))
    assert len(fitted) == 3
    assert weights_of(tmp_path / "router") == first
    train_routers(labels, None, tmp_path / "router", small(tiny_bert, seed=7))
    assert len(fitted) == 5
    write_labels(labels, count=60, seed=3)
    train_routers(labels, None, tmp_path / "router", small(tiny_bert))
    assert len(fitted) == 7
    written = {path.name for path in tmp_path.iterdir() if not path.name.endswith(".lock")}
    assert written == {"labels", "router", "router.work"}


def test_lora_routers_at_every_lam(tiny_qwen3, tmp_path):
    labels = write_labels(tmp_path / "labels", count=40)
    settings = small(
        tiny_qwen3,
        encoder_mode="lora",
        lora=LoraSettings(rank=2, epochs=1, start_from_frozen=False),
        cross_validation_folds=2,
    )
    record = train_routers(labels, None, tmp_path / "router", settings)
    assert record.policies == ("router", "best_static")
    decisions = decisions_of(tmp_path / "router")
    routed = decisions[decisions["policy"] == "router"]
    assert set(routed["split"]) == {"train", "val", "test"}
    assert set(decisions["split"]) == {"train", "val", "test", "cv0", "cv1"}
    choice = Router.load(tmp_path / "router").select("what was the margin", lam=0.5)
    assert choice.arm in ARMS


def test_no_validation_and_no_test_queries(tiny_bert, tmp_path):
    import pyarrow as pa
    import pyarrow.parquet as pq

    labels = write_labels(tmp_path / "labels", count=20)
    queries = pq.read_table(labels / "queries.parquet").to_pydict()
    queries["split"] = ["train"] * 20
    pq.write_table(pa.table(queries), labels / "queries.parquet")
    record = train_routers(labels, None, tmp_path / "router", small(tiny_bert))
    assert record.training_metrics["router"]["0"]["val"] == {"queries": 0}
    assert record.expected["router"] == {0.0: {}, 0.5: {}}
    assert [one.partition(":")[0] for one in record.warnings] == ["no validation queries"]


@pytest.mark.parametrize(
    ("settings", "queries", "said"),
    [
        ({}, 50, None),
        ({}, 49, "only 49 validation queries chose and calibrated the default policies: othe"),
        (
            {"router": "tfidf"},
            7,
            "only 7 validation queries calibrated the default policies: the l",
        ),
        ({}, 0, "no validation queries: nothing chose or calibrated the default policies; label"),
    ],
)
def test_few_validation_queries_are_a_warning(settings, queries, said):
    found = validation_warnings(TrainingSettings(**settings), queries)
    assert [one[: len(said or "")] for one in found] == ([said] if said else [])
    assert "merging" not in "".join(found)


@pytest.mark.parametrize(
    ("queries", "said"),
    [
        (50, []),
        (49, [", and so are those by which merging chooses its set of arms; label more queries"]),
        (
            0,
            [", and merging's sets of arms were compared on the queries they were fitted to; l"],
        ),
    ],
)
def test_few_validation_queries_compare_merged_sets_poorly(queries, said):
    found = validation_warnings(TrainingSettings(), queries, compares_sets=True)
    assert len(found) == len(said)
    assert all(part in one for one, part in zip(found, said, strict=True))


def test_labels_that_are_not_there(tmp_path):
    with pytest.raises(LabelsError, match=r"holds no manifest\.json"):
        train_routers(tmp_path / "nowhere", None, tmp_path / "router", TrainingSettings())
    assert not (tmp_path / "router").exists()


def test_progress_counts_every_fit(tiny_bert, tmp_path):
    class Counting:
        def __init__(self):
            self.bars = {}

        def task(self, description, total=None):
            bars = self.bars

            class Bar:
                def __enter__(self):
                    bars[description] = [0, total]
                    return self

                def __exit__(self, *exception):
                    return None

                def advance(self, amount=1):
                    bars[description][0] += amount

            return Bar()

    labels = write_labels(tmp_path / "labels", count=40)
    lora = LoraSettings(rank=2, epochs=2, batch_size=16)
    settings = small(
        tiny_bert,
        cross_validation_folds=2,
        policies=("tfidf",),
        lora_lams=(0.5,),
        lora=lora,
    )
    # Two λ, each a head and a TF-IDF baseline, on the fixed split and in two folds; and two epochs
    # of two batches of LoRA. The second time, nothing is fitted and the bar fills all the same.
    for _ in range(2):
        progress = Counting()
        train_routers(labels, None, tmp_path / "router", settings, progress)
        assert progress.bars == {"embedding queries": [40, 40], "training": [16, 16]}


def test_router_json_is_finite_json(trained):
    content = json.loads((trained[1] / "router.json").read_text(encoding="utf-8"))
    assert content["defaults"] == {"select": "router", "search": "router"}


def test_the_default_policy_is_the_one_named(tiny_bert, tmp_path):
    labels = write_labels(tmp_path / "labels", count=60)
    both = small(tiny_bert, policies=("router_conditioned",), router="router_per_lam")
    assert train_routers(labels, None, tmp_path / "router", both).policies == (
        "router",
        "router_conditioned",
        "best_static",
    )
    loaded = Router.load(tmp_path / "router")
    assert loaded.select("what", lam=0.2).lam_used == 0.0
    assert loaded.select("what", lam=0.2, policy="router_conditioned").lam_used == 0.2
    with pytest.raises(SettingsError, match=r"training\.router is 'tfidf', and the policies to"):
        train_routers(labels, None, tmp_path / "other", small(tiny_bert, router="tfidf"))
    with pytest.raises(SettingsError, match="'tfidff'; did you mean 'tfidf'"):
        train_routers(labels, None, tmp_path / "other", small(tiny_bert, policies=("tfidff",)))


@pytest.mark.parametrize(("ms", "typical"), [(0.2, 0.316), (12, 31.6), (55, 31.6), (0, 0)])
def test_overheads_are_charged_by_order_of_magnitude(ms, typical):
    assert typical_ms(np.array([ms, ms, 1e6])) == pytest.approx(typical, rel=0.01)
