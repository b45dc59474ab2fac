import pytest

from tests.oracle import fakes


@pytest.fixture
def fake_arms(monkeypatch):
    fakes.register(monkeypatch)
