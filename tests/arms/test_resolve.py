"""Hugging Face ids: one request to the hub, and the cache where it doesn't answer."""

import shutil
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import numpy as np
import pytest
from huggingface_hub import constants

from arms.encoders.resolve import resolve
from arms.encoders.text_encoder import load_text_encoder
from arms.errors import SettingsError


@pytest.fixture
def failing_hub(monkeypatch, tmp_path):
    """A hub that answers 503, which downloads would retry; yields its requests."""
    requests = []

    class Failing(BaseHTTPRequestHandler):
        def do_HEAD(self):
            requests.append(self.path)
            self.send_error(503)

        def log_message(self, *arguments):
            pass

    with HTTPServer(("127.0.0.1", 0), Failing) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        address = f"http://127.0.0.1:{server.server_port}"
        monkeypatch.setattr(constants, "ENDPOINT", address)
        template = address + "/{repo_id}/resolve/{revision}/{filename}"
        monkeypatch.setattr(constants, "HUGGINGFACE_CO_URL_TEMPLATE", template)
        monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path))
        yield requests
        server.shutdown()
        thread.join()


def test_an_unknown_id_is_refused_after_one_request(failing_hub):
    with pytest.raises(SettingsError, match="'nobody/nothing' is neither a folder nor in"):
        resolve("nobody/nothing")
    assert failing_hub == ["/nobody/nothing/resolve/main/config.json"]
    for name in ("no such/name/at/all", "a b"):
        with pytest.raises(SettingsError, match="check the name or the network"):
            resolve(name)


def test_a_cached_model_is_loaded_from_its_folder_where_the_hub_fails(failing_hub, tmp_path):
    snapshot = tmp_path / "models--someone--cached" / "snapshots" / ("c" * 40)
    shutil.copytree(resolve().path, snapshot)
    refs = tmp_path / "models--someone--cached" / "refs"
    refs.mkdir()
    (refs / "main").write_text("c" * 40)
    found = resolve("someone/cached")
    assert (found.encoder_id, found.revision) == ("someone/cached", "c" * 40)
    assert (found.is_folder, found.hub_revision, Path(found.path)) == (True, None, snapshot)
    vectors = load_text_encoder(found, device="cpu").embed(["a text"])
    np.testing.assert_array_equal(
        vectors, load_text_encoder(resolve(), device="cpu").embed(["a text"])
    )
    assert len(failing_hub) == 1
