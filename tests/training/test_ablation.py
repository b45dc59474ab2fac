import csv

import numpy as np
import pytest

from arms.errors import SettingsError
from tests.training.synthetic import write_labels
from training import fitting
from training.ablation import (
    AS_CONFIGURED,
    Variation,
    ablate,
    mean_of,
    parse_variation,
    variants_of,
)
from training.ablation_table import markdown, print_table, table_cells, write_tables
from training.settings import FrozenSettings, TrainingSettings


def test_variations_are_read_as_yaml():
    assert parse_variation("tau=0.05, 0.1") == Variation("tau", (0.05, 0.1))
    normalisations = parse_variation("training.targets.latency_normalisation=row_sum,log")
    assert normalisations == Variation("targets.latency_normalisation", ("row_sum", "log"))
    decays = parse_variation("frozen.weight_decays=[0.01, 100],[1]")
    assert decays.values == ([0.01, 100], [1])


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ("tua=1", "the setting 'tua' is unknown; did you mean 'tau'"),
        ("latency_normalisation=log", "did you mean 'targets.latency_normalisation'"),
        ("lora.rank=4", "'lora.rank' doesn't change a frozen router; these do: tau, "),
        ("targets=log", "is unknown"),
        ("tau", "takes SETTING=VALUE"),
        ("tau=", "takes SETTING=VALUE"),
        ("tau=[1", "can't be read"),
    ],
)
def test_variations_that_cannot_be_read(given, told):
    with pytest.raises(SettingsError, match=told):
        parse_variation(given)


def names(variants):
    return [one.name for one in variants]


def test_one_value_is_changed_at_a_time_or_all_of_them():
    settings = TrainingSettings()
    two = [
        Variation("tau", (0.05, 0.1)),
        Variation("targets.latency_normalisation", ("row_sum", "log")),
    ]
    around = variants_of(settings, two)
    assert names(around) == [AS_CONFIGURED, "tau=0.05", "targets.latency_normalisation=log"]
    assert around[1].settings.tau == 0.05 and around[1].settings.targets == settings.targets
    assert names(variants_of(settings, two, grid=True)) == [
        AS_CONFIGURED,
        "tau=0.05, targets.latency_normalisation=row_sum",
        "tau=0.05, targets.latency_normalisation=log",
        "tau=0.1, targets.latency_normalisation=log",
    ]


def test_all_values_that_cannot_be_are_told():
    with pytest.raises(SettingsError) as caught:
        variants_of(
            TrainingSettings(),
            [Variation("tau", (0, "x")), Variation("targets.latency", ("mean",))],
        )
    for told in ("tau=0: ", "tau=x: ", "targets.latency=mean: "):
        assert told in str(caught.value)


def test_the_interval_of_a_mean():
    values = np.random.default_rng(0).normal(size=400)
    found = mean_of(values, 1)
    assert found.value == values.mean()
    half = 1.96 * values.std() / 20
    interval = [values.mean() - half, values.mean() + half]
    np.testing.assert_allclose([found.low, found.high], interval, atol=0.02)
    assert mean_of(values, 1) == found
    single = mean_of(np.array([0.5]), 1)
    assert (single.value, single.low, single.high) == (0.5, None, None)


def test_an_ablation_trains_scores_and_resumes(tiny_bert, tmp_path, monkeypatch):
    labels = write_labels(tmp_path / "labels", count=200)
    settings = TrainingSettings(
        lams=(0.0, 0.5), encoder=str(tiny_bert), frozen=FrozenSettings(epochs=2)
    )
    variations = [
        parse_variation("targets.latency_normalisation=log"),
        parse_variation("targets.latency=linear"),
        parse_variation("max_tokens=16"),
    ]
    variants = variants_of(settings, variations)
    rows = ablate(labels, None, tmp_path / "router", variants)
    assert not (tmp_path / "router").exists()
    assert len(rows) == 4 * 2 * 2
    assert {row.queries for row in rows} == {20}
    first = [row for row in rows if row.variant == AS_CONFIGURED]
    assert all(row.difference.value == row.difference.low == 0.0 for row in first)
    by_key = {(row.variant, row.lam, row.split): row for row in rows}
    at_zero = by_key["targets.latency_normalisation=log", 0.0, "test"]
    assert at_zero.reward.value == pytest.approx(at_zero.quality)
    # At lam = 0 latency has no say, so its normalisation can't matter.
    assert at_zero.reward == by_key[AS_CONFIGURED, 0.0, "test"].reward

    def refuse(*_args, **_named):
        raise AssertionError("a finished head was fitted again")

    monkeypatch.setattr(fitting, "fit_frozen_head", refuse)
    assert ablate(labels, None, tmp_path / "router", variants) == rows
    changed = variants_of(settings, [parse_variation("tau=0.3")])
    with pytest.raises(AssertionError, match="fitted again"):
        ablate(labels, None, tmp_path / "router", changed)

    paths = write_tables(rows, "nDCG@5", tmp_path / "tables")
    written = list(csv.DictReader(paths[0].read_text(encoding="utf-8").splitlines()))
    assert len(written) == 16 and float(written[0]["reward"]) == rows[0].reward.value
    assert paths[1].read_text(encoding="utf-8") == markdown(rows, "nDCG@5")


def test_the_best_on_validation_is_marked(capsys):
    from training.ablation import AblationRow, Mean

    def row(variant, split, reward):
        mean = Mean(reward, reward - 0.1, reward + 0.1)
        return AblationRow(variant, 0.1, split, 30, mean, 0.5, 20.0, Mean(0.01, None, None))

    rows = [
        row(AS_CONFIGURED, "val", 0.7),
        row(AS_CONFIGURED, "test", 0.9),
        row("tau=0.3", "val", 0.8),
        row("tau=0.3", "test", 0.6),
    ]
    cells = table_cells(rows)
    assert [line[2] for line in cells] == ["0.7000", "0.8000*"]
    assert cells[1] == (
        "0.1",
        "tau=0.3",
        "0.8000*",
        "0.6000 [0.5000, 0.7000]",
        "+0.0100",
        "0.5000",
        "20.0",
    )
    print_table(rows, "RR@5", 160)
    printed = capsys.readouterr().out
    assert "RR@5" in printed and "val 30, test 30" in printed
