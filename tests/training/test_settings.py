import pytest
from pydantic import ValidationError

from training.learners import LEARNERS, learners_of
from training.settings import LoraSettings, TrainingSettings


def test_defaults_are_the_papers():
    settings = TrainingSettings()
    assert settings.lams == (0, 0.1, 0.3, 0.5, 0.7, 1)
    assert (settings.tau, settings.seed, settings.max_tokens) == (0.1, 42, 128)
    lora = settings.lora
    assert (lora.rank, lora.alpha, lora.dropout) == (16, 32, 0.05)
    assert (lora.learning_rate, lora.weight_decay, lora.epochs, lora.batch_size) == (
        1e-4,
        0.01,
        2,
        32,
    )
    assert not settings.wandb.enabled


def test_lams_come_out_ascending_and_distinct():
    assert TrainingSettings(lams=(0.5, 0, 0.5)).lams == (0.0, 0.5)


@pytest.mark.parametrize("lams", [(1.1,), (-0.1,), (float("nan"),), ()])
def test_impossible_lams_are_refused(lams):
    with pytest.raises(ValidationError, match="lams"):
        TrainingSettings(lams=lams)


def test_an_unknown_key_names_the_nearest():
    with pytest.raises(ValidationError, match="unknown key 'encoder_mod'; did you mean"):
        TrainingSettings(encoder_mod="lora")


def test_accumulation_must_divide_the_batch():
    assert LoraSettings(batch_size=32, accumulate=2).accumulate == 2
    with pytest.raises(ValidationError, match="accumulate must divide batch_size 32, got 3"):
        LoraSettings(accumulate=3)


def test_the_lora_routers_take_the_place_of_the_conditioned_one():
    names = [one.name for one in learners_of(TrainingSettings(encoder_mode="lora"))]
    assert names == [one.name for one in LEARNERS if one.name != "router_conditioned"]
