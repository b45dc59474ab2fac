"""Settings that only labels or Lightning can judge, refused before anything is trained."""

import pytest

from arms.errors import LabelsError, SettingsError
from tests.training.synthetic import write_labels
from training.lightning_run import check_trainer
from training.settings import TrainerSettings, TrainingSettings
from training.train_routers import train_routers


@pytest.mark.parametrize(
    ("key", "value", "reason"),
    [
        ("accelerator", "banana", "invalid accelerator name"),
        ("devices", 0, "not a valid input using cpu accelerator"),
        ("devices", "many", "should be an int > 0"),
        ("precision", "8-bits", "Precision '8-bits' is invalid"),
        ("strategy", "bogus", "invalid strategy name"),
    ],
)
def test_a_value_that_lightning_refuses_is_named_by_key(key, value, reason):
    with pytest.raises(SettingsError) as raised:
        check_trainer(TrainerSettings(**{key: value}))
    (_, line) = str(raised.value).splitlines()
    assert line.startswith(f"  training.trainer.{key}: got {value!r}; ")
    assert reason in line


def test_all_refused_values_are_named_at_once():
    with pytest.raises(SettingsError) as raised:
        check_trainer(TrainerSettings(accelerator="banana", precision="8-bits", strategy="bogus"))
    lines = str(raised.value).splitlines()[1:]
    assert [line.split(":")[0].strip() for line in lines] == [
        "training.trainer.accelerator",
        "training.trainer.precision",
        "training.trainer.strategy",
    ]


@pytest.mark.parametrize(
    "given", [{}, {"accelerator": "auto"}, {"precision": "bf16-mixed"}, {"devices": "auto"}]
)
def test_what_lightning_takes_passes(given):
    check_trainer(TrainerSettings(**given))


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        (TrainingSettings(cross_validation_folds=41), "is 41, and the labels have 40 groups of"),
        (TrainingSettings(trainer=TrainerSettings(devices=0)), "training.trainer.devices: got 0"),
    ],
)
def test_nothing_is_written_when_training_is_refused(tmp_path, settings, told):
    labels = write_labels(tmp_path / "labels", count=40)
    with pytest.raises(SettingsError, match=told):
        train_routers(labels, None, tmp_path / "router", settings)
    assert {path.name for path in tmp_path.iterdir()} <= {"labels", ".router.lock"}


def test_so_few_queries_are_refused_with_how_many_are_needed(tmp_path):
    labels = write_labels(tmp_path / "labels", count=9)
    with pytest.raises(LabelsError, match=r"at least 10 training queries .* got \d of 9 labelled"):
        train_routers(labels, None, tmp_path / "router", TrainingSettings())
    assert {path.name for path in tmp_path.iterdir()} <= {"labels", ".router.lock"}


@pytest.mark.slow
def test_as_few_as_are_allowed_make_a_router(tmp_path):
    labels = write_labels(tmp_path / "labels", count=14)
    settings = TrainingSettings(lams=(0.0, 0.5), cross_validation_folds=2)
    record = train_routers(labels, None, tmp_path / "router", settings)
    assert "router" in record.policies
