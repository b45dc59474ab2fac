import importlib.util
import sys

import pytest

from arms.errors import MissingExtraError
from tests.training.synthetic import write_labels
from training.settings import FrozenSettings, TrainingSettings, WandbSettings
from training.train_routers import train_routers
from training.wandb_logger import NoRun, open_run


def test_off_by_default_and_never_imported(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "wandb", None)
    with open_run(WandbSettings(), {}, tmp_path) as run:
        assert type(run) is NoRun
        assert run.head_logger("frozen", 0.1) is False
    assert list(tmp_path.iterdir()) == []


def test_asked_for_and_not_installed(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "wandb", None)
    with (
        pytest.raises(MissingExtraError, match=r"pip install 'learning-to-route\[wandb\]'"),
        open_run(WandbSettings(enabled=True), {}, tmp_path),
    ):
        pass


@pytest.mark.skipif(importlib.util.find_spec("wandb") is None, reason="wandb is not installed")
def test_offline_run_logs_metrics_and_the_router(tiny_bert, tmp_path, monkeypatch):
    import wandb

    monkeypatch.setenv("WANDB_MODE", "offline")
    monkeypatch.setenv("WANDB_SILENT", "true")
    monkeypatch.setenv("WANDB_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("WANDB_DATA_DIR", str(tmp_path / "data"))
    logged, artifacts = [], []
    real_init = wandb.init

    def watched(**given):
        run = real_init(**given)
        real_log, real_artifact = run.log, run.log_artifact
        monkeypatch.setattr(run, "log", lambda row, *a, **k: (logged.append(row), real_log(row))[1])
        monkeypatch.setattr(
            run, "log_artifact", lambda item: (artifacts.append(item), real_artifact(item))[1]
        )
        return run

    monkeypatch.setattr(wandb, "init", watched)
    labels = write_labels(tmp_path / "labels", count=40)
    settings = TrainingSettings(
        lams=(0.1,),
        encoder=str(tiny_bert),
        frozen=FrozenSettings(epochs=2),
        policies=(),
        cross_validation_folds=0,
        overhead_queries=1,
        wandb=WandbSettings(enabled=True, folder=tmp_path / "logs"),
    )
    train_routers(labels, None, tmp_path / "router", settings)
    names = {name for row in logged for name in row}
    for metric in ("train_loss", "val_loss", "val_reward", "val_regret", "share/text_dense"):
        assert f"frozen/lam=0.1/{metric}" in names
    (artifact,) = artifacts
    assert artifact.type == "router"
    assert "router.json" in artifact.manifest.entries
    assert list((tmp_path / "logs").rglob("*.wandb"))
