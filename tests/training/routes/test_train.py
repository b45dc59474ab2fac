import numpy as np
import pytest

import l2r
from arms.errors import LabelsError, RouterError
from router import Router
from router.artifact import policy_folder, read_router
from router.policies import load_policy
from tests.training.routes.label_files import write_labels
from training.routes.reading import read_routes
from training.routes.settings import RoutesSettings
from training.routes.train import score_routes, train_routes
from training.settings import LoraSettings

LORA = LoraSettings(rank=4, learning_rate=0.02, epochs=3, start_from_frozen=False)


@pytest.fixture(scope="module")
def trained(tmp_path_factory, tiny_bert):
    folder = tmp_path_factory.mktemp("routes")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("L2R_CACHE", str(folder / "cache"))
        settings = RoutesSettings(
            encoder=str(tiny_bert),
            policies=[*RoutesSettings().policies, "encoder_lora", "ensemble_blend"],
            lora=LORA,
            overhead_queries=3,
        )
        table = read_routes(write_labels(folder / "labels"))
        result = train_routes(table, folder / "router", settings)
    return folder, result


def test_every_policy_is_scored_and_beats_the_most_frequent_route(trained):
    _, result = trained
    accuracy = {one.policy: one.accuracy for one in result.scores}
    assert list(accuracy) == [
        "most_frequent", "tfidf", "knn", "encoder_frozen", "encoder_lora", "static", "router",
        "multi_label", "ensemble_blend", "ensemble_majority", "ensemble_confidence",
    ]  # fmt: skip
    assert accuracy["most_frequent"] == pytest.approx(1 / 3)
    for name in ("tfidf", "encoder_lora", "static", "router"):
        assert accuracy[name] > 0.9, name
    assert accuracy["encoder_frozen"] > 0.5
    assert result.default == "router"
    assert {*result.scores[0].by_source} == {"films", "wiki"}


def test_the_default_router_depends_on_no_seed_and_on_no_other_policy(
    trained, tmp_path, tiny_bert, monkeypatch
):
    """So the command as typed, any seed and any choice of policies have the same figures."""
    folder, _ = trained
    monkeypatch.setenv("L2R_CACHE", str(folder / "cache"))
    table = read_routes(folder / "labels")
    alone = RoutesSettings(encoder=str(tiny_bert), policies=["router"], seed=7, overhead_queries=1)
    assert alone.seed != RoutesSettings().seed
    train_routes(table, tmp_path / "alone", alone)
    queries = table.of_split("test").texts.tolist()
    first, second = (
        load_policy(policy_folder(one, "router")).probabilities(queries, 0.0)
        for one in (folder / "router", tmp_path / "alone")
    )
    np.testing.assert_allclose(first, second, atol=1e-5)


def test_what_to_expect_of_a_route_is_measured_on_queries_left_out(trained):
    folder, result = trained
    record = read_router(folder / "router")
    counted = sum(one.queries for one in record.expected["router"][0.0].values())
    splits = result.prepared.table.splits
    assert counted == (splits != "test").sum()


def test_the_artifact_is_a_router_like_any_other(trained):
    folder, _ = trained
    router = Router.load(folder / "router")
    assert router.arms == ("document", "paragraph", "video")
    queries = ["how do i boil an egg", "who painted ceiling", "List every river germany"]
    chosen = [
        router.select(query, lam=lam).arm for query, lam in zip(queries, (0, 0.3, 1), strict=True)
    ]
    assert chosen == ["video", "paragraph", "document"]
    many = router.select_many(queries, policy="static")
    assert [one.arm for one in many] == chosen
    assert sum(many[0].probabilities.values()) == pytest.approx(1.0)


def test_scoring_the_artifact_gives_the_scores_of_training(trained, tmp_path):
    folder, result = trained
    table = read_routes(folder / "labels")
    scores, file = score_routes(folder / "router", table, tmp_path)
    assert {one.policy: one.accuracy for one in scores} == {
        one.policy: one.accuracy for one in result.scores
    }
    assert file.is_file()
    with pytest.raises(RouterError, match="no policy oracle"):
        score_routes(folder / "router", table, tmp_path, names=["oracle"])
    with pytest.raises(LabelsError, match="no query of the split 'val'"):
        score_routes(folder / "router", table, tmp_path, split="val")


def test_scoring_refuses_routes_that_the_router_does_not_know(trained, tmp_path):
    folder, _ = trained
    path = tmp_path / "other.csv"
    path.write_text("query,routes,split\nWho?,paragraph,test\nSee?,image,test\n", encoding="utf-8")
    with pytest.raises(LabelsError, match="does not know: image"):
        score_routes(folder / "router", read_routes(path), tmp_path)


def run(capsys, *words):
    with pytest.raises(SystemExit) as stopped:
        l2r.main([*map(str, words)])
    return int(stopped.value.code or 0), *capsys.readouterr()


def test_select_works_on_routes_which_have_no_latency(trained, capsys):
    folder, _ = trained
    code, printed, _ = run(capsys, "select", folder / "router", "how do i boil an egg")
    assert code == 0
    assert printed.startswith("arm            video\n")
    assert "expected       quality 1.000: " in printed


def test_the_commands_train_and_score_without_an_encoder_pass(tmp_path, capsys, tiny_bert):
    labels = write_labels(tmp_path / "labels", train=12, test=4)
    config = tmp_path / "routes.yaml"
    config.write_text(f"encoder: {tiny_bert}\noverhead_queries: 2\n", encoding="utf-8")
    given = ("--config", config, "--policies", "tfidf", "--seed", 3)
    code, printed, _ = run(capsys, "routes", "train", labels, tmp_path / "router", *given)
    assert code == 0
    assert "32 training, 4 validation, 12 test" in printed or "validation, 12 test" in printed
    assert "policy tfidf" in printed
    out = tmp_path / "scores"
    code, printed, _ = run(
        capsys, "routes", "score", tmp_path / "router", labels, "--out", out, "--policies", "tfidf"
    )
    assert code == 0
    assert (out / "scores.csv").is_file()


def test_the_command_tells_all_problems_of_its_settings(tmp_path, capsys):
    config = tmp_path / "routes.yaml"
    config.write_text("smoothing: 2\nlorra: {}\n", encoding="utf-8")
    code, _, told = run(capsys, "routes", "train", tmp_path, tmp_path / "r", "--config", config)
    assert code == 1
    assert "did you mean 'lora'" in told
    config.write_text("smoothing: 2\nmax_tokens: 1\n", encoding="utf-8")
    code, _, told = run(
        capsys, "routes", "train", tmp_path, tmp_path / "r", "--config", config, "--policies", "x"
    )
    assert code == 1
    for part in ("smoothing", "max_tokens", "policies.0"):
        assert part in told
    assert "Traceback" not in told


def test_nothing_but_a_router_is_ever_replaced(tmp_path, capsys):
    labels = write_labels(tmp_path / "labels", train=4, test=2)
    before = sorted(labels.rglob("*"))
    for out in (labels, tmp_path):
        code, _, told = run(capsys, "routes", "train", labels, out, "--policies", "tfidf")
        assert code == 1
        assert "is replaced as a whole by the router, and the labels lie in it" in told
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "notes.txt").write_text("precious", encoding="utf-8")
    for out in (tmp_path / "mine", tmp_path / "mine" / "notes.txt"):
        code, _, told = run(capsys, "routes", "train", labels, out, "--policies", "tfidf")
        assert code == 1
        assert "is there and is no router" in told
    assert (tmp_path / "mine" / "notes.txt").read_text(encoding="utf-8") == "precious"
    assert sorted(labels.rglob("*")) == before


def test_a_split_that_is_not_there_names_those_that_are(trained, tmp_path, capsys):
    folder, _ = trained
    words = ("routes", "score", folder / "router", folder / "labels", "--out", tmp_path)
    code, _, told = run(capsys, *words, "--split", "val")
    assert code == 1
    assert "no query of the split 'val', only of test, train" in told
    code, _, told = run(capsys, *words, "--split", "dev")
    assert code == 1
    assert "--split is one of train, val, test, got 'dev'" in told
