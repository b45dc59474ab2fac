import pytest


@pytest.fixture(autouse=True)
def own_cache(tmp_path_factory, monkeypatch):
    """Nothing is read from, or left in, the user's cache."""
    folder = tmp_path_factory.mktemp("cache")
    monkeypatch.setenv("L2R_CACHE", str(folder))
    return folder
