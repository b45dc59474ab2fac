import pytest

from tests.router.tiny_encoders import save_tiny_bert, save_tiny_qwen3


@pytest.fixture(scope="session")
def tiny_bert(tmp_path_factory):
    return save_tiny_bert(tmp_path_factory.mktemp("bert"))


@pytest.fixture(scope="session")
def tiny_qwen3(tmp_path_factory):
    return save_tiny_qwen3(tmp_path_factory.mktemp("qwen3"))
