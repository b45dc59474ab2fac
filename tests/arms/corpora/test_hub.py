"""Downloads from a local server that speaks the hub's protocol, and what happens without one."""

import hashlib
import json
import os
import subprocess
import sys
import threading
from fnmatch import fnmatch
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from arms.corpora import hub
from arms.corpora.hub import download
from arms.errors import CorpusError

ROOT = Path(__file__).parent.parent.parent.parent
REVISION = "a" * 40
FILES = {
    "corpus.jsonl": b'{"_id": "d", "text": "a page"}\n',
    "data/queries.jsonl": b"{}\n",
    "README.md": b"not asked for",
}


class Handler(BaseHTTPRequestHandler):
    def do_GET(self):
        self.answer(with_body=True)

    def do_HEAD(self):
        self.answer(with_body=False)

    def answer(self, with_body):
        path = self.path.partition("?")[0]
        if path.startswith("/api/datasets/own/set/revision/"):
            siblings = [{"rfilename": name} for name in FILES]
            body = json.dumps({"id": "own/set", "sha": REVISION, "siblings": siblings}).encode()
        elif path.startswith("/api/datasets/own/set/tree/"):
            body = json.dumps(
                [{"type": "file", "path": n, "size": len(c), "oid": "0"} for n, c in FILES.items()]
            ).encode()
        elif f"/resolve/{REVISION}/" in path:
            name = path.partition(f"/resolve/{REVISION}/")[2]
            self.server.fetched.append(name)
            body = FILES[name]
        else:
            self.send_error(404)
            return
        self.send_response(200)
        self.send_header("content-length", str(len(body)))
        self.send_header("etag", f'"{hashlib.sha256(body).hexdigest()}"')
        self.send_header("x-repo-commit", REVISION)
        self.end_headers()
        if with_body:
            self.wfile.write(body)

    def log_message(self, *given):
        pass


@pytest.fixture
def server():
    found = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    found.fetched = []
    thread = threading.Thread(target=found.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield found
    found.shutdown()
    thread.join()
    found.server_close()


def download_elsewhere(endpoint: str, cache: Path, named: str, *patterns: str):
    """In a process of its own: the client reads its endpoint when it is imported."""
    code = (
        "import sys; from arms.corpora.hub import download; from arms.errors import RoutingError\n"
        "try: print(download(sys.argv[1], sys.argv[2:]))\n"
        "except RoutingError as error: sys.exit(f'{type(error).__name__}: {error}')"
    )
    places = {"HF_ENDPOINT": endpoint, "L2R_CACHE": str(cache), "HF_HOME": str(cache / "home")}
    environment = {**os.environ, **places, "HF_HUB_OFFLINE": "0"}
    command = [sys.executable, "-c", code, named, *patterns]
    return subprocess.run(
        command, capture_output=True, text=True, cwd=ROOT, env=environment, timeout=120
    )


def test_only_wanted_files_come_and_only_once(server, own_cache):
    endpoint = f"http://127.0.0.1:{server.server_port}"
    done = download_elsewhere(endpoint, own_cache, "own/set", "*.jsonl")
    folder = Path(done.stdout.strip())
    assert (folder / "corpus.jsonl").read_bytes() == FILES["corpus.jsonl"], done.stderr
    assert (folder / "data" / "queries.jsonl").is_file()
    assert not (folder / "README.md").exists()
    assert set(server.fetched) == {name for name in FILES if fnmatch(name, "*.jsonl")}
    assert download("own/set", ["*.jsonl"]) == folder, "no network is needed any more"


def test_an_unreachable_hub_says_how_to_do_without(own_cache):
    done = download_elsewhere("http://127.0.0.1:9", own_cache, "own/set", "*.jsonl")
    assert done.returncode == 1
    assert done.stderr.startswith("CorpusError: dataset own/set can't be fetched from http://127")
    assert "hf download own/set --repo-type dataset --local-dir FOLDER" in done.stderr
    assert "Traceback" not in done.stderr


def test_what_was_fetched_is_kept_by_pattern_and_revision(own_cache, monkeypatch):
    asked = []

    class Hub:
        @staticmethod
        def snapshot_download(name, *, revision, allow_patterns, local_dir, **given):
            if name == "no/such":
                raise ValueError("404 not found\nmore")
            asked.append((name, revision, allow_patterns))

    monkeypatch.setattr(hub, "_hub", lambda: Hub)
    download("own/set@v1", ["a", "b"])
    download("own/set@v1", ["b"])
    download("own/set@v1", ["c"])
    download("own/set@v1", ["a", "c"])
    download("own/set", ["a"])
    assert asked == [
        ("own/set", "v1", ["a", "b"]),
        ("own/set", "v1", ["c"]),
        ("own/set", None, ["a"]),
    ]
    with pytest.raises(CorpusError, match="404 not found\nFetch it where"):
        download("no/such", ["a"])
