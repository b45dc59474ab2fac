"""``l2r holdout``: in domain beside out of domain, resumed, and what it refuses."""

import csv
import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import l2r
from tests.training.synthetic import write_labels

RUN = """
labels: labels
output: out
training:
  lams: [0, 0.5]
  encoder: {encoder}
  overhead_queries: 3
  cross_validation_folds: 2
  policies: [tfidf]
  router: router_per_lam
  baselines: {{inverse_regularisation: [10.0]}}
  frozen: {{weight_decays: [0.01], epochs: 5}}
report: {{lams: [0], n_resamples: 100}}
"""


@pytest.fixture(scope="module")
def run(tmp_path_factory, tiny_bert):
    root = tmp_path_factory.mktemp("holdout")
    write_labels(root / "labels", count=240, datasets=("alpha", "beta", "gamma"), late=False)
    (root / "run.yaml").write_text(RUN.format(encoder=tiny_bert))
    return root


def holdout(root, capsys, *words):
    with pytest.raises(SystemExit) as stopped:
        l2r.main(["holdout", str(root / "run.yaml"), *words])
    return int(stopped.value.code or 0), *capsys.readouterr()


def rows_of(path):
    with path.open(encoding="utf-8", newline="") as stream:
        return list(csv.DictReader(stream))


def test_in_domain_beside_out_of_domain(run, capsys, monkeypatch):
    import training.cross_validation

    fits = []
    real = training.cross_validation.fitting.fit_frozen

    def counting(context, lams, train, validation, log=False):
        datasets = set(context.action.datasets[np.concatenate([train, validation])])
        fits.append(datasets)
        if len(fits) == 5:
            raise KeyboardInterrupt
        return real(context, lams, train, validation, log)

    monkeypatch.setattr(training.cross_validation.fitting, "fit_frozen", counting)
    code, _, told = holdout(run, capsys)
    assert code == 130
    assert "run the same command again to continue" in told
    assert not (run / "out" / "holdout").exists()
    code, printed, _ = holdout(run, capsys)
    assert code == 0
    # One reference fit, two folds, then one without each dataset; the first four are reused.
    assert len(fits) == 7
    assert fits[4:] == [{"alpha", "gamma"}, {"alpha", "gamma"}, {"alpha", "beta"}]
    assert fits[3] == {"beta", "gamma"}
    assert "240 queries of 3 datasets, each decided by policies that never saw it" in printed
    assert "by cross-validation by query; and out of domain" in printed
    assert "in domain, query split" in printed
    assert "changes the reward of the default router out of domain by" in printed

    rows = rows_of(run / "out" / "holdout" / "holdout.csv")
    policies = {row["policy"] for row in rows}
    assert {"router", "router_guarded", "tfidf", "best static", "oracle over A"} <= policies
    assert {row["scope"] for row in rows} == {"all datasets", "alpha", "beta", "gamma"}
    for row in rows:
        inside, outside = float(row["in_domain_reward_query"]), float(row["out_of_domain_reward"])
        difference = float(row["difference_query"])
        assert difference == pytest.approx(outside - inside, abs=2e-6)
        assert float(row["difference_query_low"]) <= difference
        assert outside <= 1.0
    best = {row["scope"]: row for row in rows if (row["policy"], row["lam"]) == ("tfidf", "0.0")}
    assert float(best["all datasets"]["over_best_static"]) > 0.08  # words tell across datasets too
    parts = [best[name] for name in ("alpha", "beta", "gamma")]
    assert sum(int(one["n"]) for one in parts) == 240
    assert np.mean([float(one["out_of_domain_reward"]) for one in parts]) == pytest.approx(
        float(best["all datasets"]["out_of_domain_reward"]), abs=1e-5
    )

    code, again, _ = holdout(run, capsys)
    assert (code, again, len(fits)) == (0, printed, 7)


def test_how_foreign_a_dataset_looks(run):
    domains = json.loads((run / "out" / "holdout" / "domains.json").read_text())
    assert [one["datasets"] for one in domains["datasets"]] == [["alpha"], ["beta"], ["gamma"]]
    for one in domains["datasets"]:
        assert 0.3 < one["auroc"] < 0.7  # dealt at random: no dataset is foreign
        assert one["flagged_share"] < 0.3
    rows = rows_of(run / "out" / "holdout" / "holdout_domains.csv")
    assert [row["n"] for row in rows] == ["80", "80", "80"]


def test_one_dataset_cannot_be_left_out(tmp_path, tiny_bert, capsys):
    write_labels(tmp_path / "labels", count=30, datasets=("alpha",))
    (tmp_path / "run.yaml").write_text(RUN.format(encoder=tiny_bert))
    code, _, told = holdout(tmp_path, capsys)
    assert code == 1
    assert "needs at least two, the labels have alpha" in told
    text = RUN.format(encoder=tiny_bert) + "seed: 1\n"
    write_labels(tmp_path / "labels", count=30)
    (tmp_path / "run.yaml").write_text(text.replace("lams: [0, 0.5]", "encoder_mode: lora"))
    code, _, told = holdout(tmp_path, capsys)
    assert code == 1
    assert "set it to frozen" in told


def test_only_the_policies_named_are_fitted(run, capsys):
    text = (run / "run.yaml").read_text().replace("router: router_per_lam", "router: auto")
    (run / "few.yaml").write_text(text.replace("output: out", "output: few"))
    with pytest.raises(SystemExit, match="0"):
        l2r.main(["holdout", str(run / "few.yaml"), "--policy", "tfidf"])
    printed = capsys.readouterr().out
    policies = {row["policy"] for row in rows_of(run / "few" / "holdout" / "holdout.csv")}
    oracles = {"oracle over A", "oracle over P"}
    assert policies == {"best static", "random, same mix", "router", "tfidf", *oracles}
    assert "changes the reward" not in printed  # TF-IDF reads no vectors: nothing to guard by


STATIC = """
labels: labels
output: static
training:
  lams: [0, 0.5]
  encoder: {encoder}
  overhead_queries: 3
  cross_validation_folds: 2
  router: auto
  static_embedding: {{dimension: 16, epochs: 2, decays: [0.01]}}
report: {{lams: [0], n_resamples: 100}}
"""


def test_a_static_default_is_held_out_guarded_and_resumed(run, tiny_bert, capsys, monkeypatch):
    from training.learners.static_embedding import StaticEmbeddingLearner

    fits, real = [], StaticEmbeddingLearner.fit

    def counting(self, context, train, validation):
        fits.append(len(train))
        if len(fits) == 4:
            raise KeyboardInterrupt
        return real(self, context, train, validation)

    monkeypatch.setattr(StaticEmbeddingLearner, "fit", counting)
    (run / "static.yaml").write_text(STATIC.format(encoder=tiny_bert))
    words = ["holdout", str(run / "static.yaml"), "--policy", "static_embedding"]
    codes = []
    for _ in range(3):
        with pytest.raises(SystemExit) as stopped:
            l2r.main(words)
        codes.append(int(stopped.value.code or 0))
    # One reference fit, two folds, three datasets, of which the fourth fit was interrupted.
    assert (codes, len(fits)) == ([130, 0, 0], 7)
    printed = capsys.readouterr().out
    assert printed.count("changes the reward of the default router out of domain by") == 2
    policies = {row["policy"] for row in rows_of(run / "static" / "holdout" / "holdout.csv")}
    assert {"router", "router_guarded"} <= policies
    domains = json.loads((run / "static" / "holdout" / "domains.json").read_text())
    assert len(domains["datasets"]) == 3
    assert all(0 <= one["auroc"] <= 1 for one in domains["datasets"])


def with_documents(folder, size):
    """Let runs of ``size`` queries share documents."""
    queries = pq.read_table(folder / "queries.parquet").to_pydict()
    queries["document_group"] = [f"x{n // size}" for n in range(len(queries["query_id"]))]
    pq.write_table(pa.table(queries), folder / "queries.parquet")


def test_named_datasets_alone_are_left_out_under_several_splits(
    tmp_path, tiny_bert, capsys, monkeypatch
):
    import training.cross_validation

    fits = []
    real = training.cross_validation.fitting.fit_frozen

    def counting(context, lams, train, validation, log=False):
        fits.append(sorted(set(context.action.datasets[np.concatenate([train, validation])])))
        return real(context, lams, train, validation, log)

    monkeypatch.setattr(training.cross_validation.fitting, "fit_frozen", counting)
    write_labels(tmp_path / "labels", count=240, datasets=("alpha", "beta", "gamma"), late=False)
    with_documents(tmp_path / "labels", 5)
    (tmp_path / "run.yaml").write_text(RUN.format(encoder=tiny_bert))
    code, printed, _ = holdout(
        tmp_path, capsys, "--leave-out", "gamma", "--leave-out", "alpha", "--together"
    )
    assert code == 0
    # The reference without either, two folds of each split with all, the rest without either.
    every = ["alpha", "beta", "gamma"]
    assert fits == [["beta"], every, every, every, every, ["beta"]]
    assert "160 queries of 2 datasets" in printed
    assert "by cross-validation by query and by document" in printed
    assert "all of these left out at once" in printed
    rows = rows_of(tmp_path / "out" / "holdout" / "holdout.csv")
    assert {row["scope"] for row in rows} == {"all datasets", "alpha", "gamma"}
    for row in rows:
        for split in ("query", "document"):
            inside, outside = (row[f"in_domain_reward_{split}"], row["out_of_domain_reward"])
            difference = float(outside) - float(inside)
            assert float(row[f"difference_{split}"]) == pytest.approx(difference, abs=2e-6)
    learned = [
        row for row in rows if row["policy"] == "router_per_lam" and row["scope"] == "all datasets"
    ]
    assert any(row["in_domain_reward_query"] != row["in_domain_reward_document"] for row in learned)
    facts = json.loads((tmp_path / "out" / "holdout" / "domains.json").read_text())
    assert (facts["left_out"], facts["together"]) == (["alpha", "gamma"], True)
    assert set(facts["splits"]) == {"query", "document"}

    code, printed, _ = holdout(tmp_path, capsys, "--split", "document", "--leave-out", "beta")
    assert code == 0 and "80 queries of 1 dataset, " in printed
    assert "query split" not in printed and "document split" in printed
    assert fits[6:] == [["alpha", "gamma"], every, every, ["alpha", "gamma"]]


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("--leave-out", "delta"), "--leave-out must name datasets of the labels (alpha, beta,"),
        (("--together",), "every dataset is left out at once, so there is none to train on"),
        (("--split", "moon"), "--split is one of query, near_duplicate, document, got 'moon'"),
    ],
)
def test_what_cannot_be_left_out_is_refused(run, capsys, words, told):
    code, _, said = holdout(run, capsys, *words)
    assert code == 1
    assert told in said
