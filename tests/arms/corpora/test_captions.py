import base64
import io
import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from PIL import Image

from arms.corpora.reader import read_dataset, read_documents
from arms.errors import SettingsError
from arms.settings import DatasetSettings
from tests.arms.corpora.folders import write_folder
from tests.arms.corpora.page_files import HEIGHT, WIDTH, image, words, write_pdf

KEY = "sk-secret-7"


class Endpoint(ThreadingHTTPServer):
    """Captions each picture by its size; ``answers`` come first, one a request."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.requests = []
        self.answers = []
        self.url = f"http://127.0.0.1:{self.server_port}/v1"


class Handler(BaseHTTPRequestHandler):
    def do_POST(self):
        request = json.loads(self.rfile.read(int(self.headers["content-length"])))
        self.server.requests.append((self.path, dict(self.headers), request))
        if self.server.answers:
            status, body = self.server.answers.pop(0)
        else:
            url = request["messages"][0]["content"][1]["image_url"]["url"]
            picture = Image.open(io.BytesIO(base64.b64decode(url.partition("base64,")[2])))
            caption = f" A chart of {picture.width} by {picture.height}. "
            status, body = 200, json.dumps({"choices": [{"message": {"content": caption}}]})
        self.send_response(status)
        self.end_headers()
        self.wfile.write(body.encode())

    def log_message(self, *given):
        pass


@pytest.fixture
def endpoint(monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    server = Endpoint()
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture
def folder(tmp_path):
    pages = [words("prose"), image(50, 50, 200, 200), image(0, 0, WIDTH, HEIGHT)]
    write_pdf(tmp_path / "pdfs" / "a.pdf", *pages)
    return tmp_path / "pdfs"


def settings(folder, url, **captions):
    captions = {"base_url": url, "model": "seer", "workers": 1, "backoff_s": 0.01, **captions}
    return DatasetSettings(path=folder, format="pdf", captions=captions)


def test_captions_of_dense_pages_are_appended(endpoint, folder):
    plain = read_documents(DatasetSettings(path=folder, format="pdf"))
    corpus = read_documents(settings(folder, endpoint.url))
    assert [document.text for document in corpus] == [
        "prose",
        "A chart of 800 by 1000.",
        "A chart of 800 by 1000.",
    ]
    assert len(corpus) == 3
    assert corpus.fingerprint != plain.fingerprint
    assert [len(document.pages) for document in corpus] == [1, 1, 1]
    path, headers, request = endpoint.requests[0]
    assert path == "/v1/chat/completions"
    assert headers["Authorization"] == f"Bearer {KEY}"
    assert (request["model"], request["temperature"]) == ("seer", 0)


def test_captions_follow_the_text(endpoint, tmp_path):
    write_pdf(tmp_path / "pdfs" / "b.pdf", words("words first") + image(0, 0, 300, 300))
    (document,) = read_documents(settings(tmp_path / "pdfs", endpoint.url, max_side_px=100))
    assert document.text == "words first\n\nA chart of 80 by 100."


def test_nothing_is_asked_twice_unless_the_question_changes(endpoint, folder):
    read_documents(settings(folder, endpoint.url))
    read_documents(settings(folder, endpoint.url))
    assert len(endpoint.requests) == 2
    read_documents(settings(folder, endpoint.url, prompt="What is this?"))
    assert len(endpoint.requests) == 4
    assert endpoint.requests[-1][2]["messages"][0]["content"][0]["text"] == "What is this?"


def test_failures_are_named_not_fatal_and_made_up_for_by_the_next_run(endpoint, folder, caplog):
    endpoint.answers = [(400, "too ugly"), (200, '{"choices": []}')]
    texts = [document.text for document in read_documents(settings(folder, endpoint.url))]
    assert texts == ["prose", "", ""]
    assert "2 pages have no caption" in caplog.text
    assert "a.pdf, page 2: HTTP 400: too ugly" in caplog.text
    assert "a.pdf, page 3: the answer has no choices[0].message.content" in caplog.text
    texts = [document.text for document in read_documents(settings(folder, endpoint.url))]
    assert texts[1:] == ["A chart of 800 by 1000."] * 2


def test_a_busy_endpoint_is_asked_again(endpoint, folder):
    endpoint.answers = [(429, "slow down"), (503, "restarting")]
    texts = [document.text for document in read_documents(settings(folder, endpoint.url))]
    assert texts[1:] == ["A chart of 800 by 1000."] * 2
    assert len(endpoint.requests) == 4


def test_after_a_refusal_the_rest_is_not_asked(endpoint, folder, caplog):
    endpoint.answers = [(401, "bad key")]
    read_documents(settings(folder, endpoint.url))
    assert len(endpoint.requests) == 1
    assert "page 3: not asked: the endpoint failed before" in caplog.text


def test_an_unreachable_endpoint_is_counted(folder, tmp_path):
    named = {"pdf": "a.pdf", "page": 2}
    write_folder(folder, [{"_id": "d1", "text": "t", "metadata": named}], judgements="q1\td1\t1\n")
    dataset = read_dataset(
        DatasetSettings(
            path=folder,
            strict=False,
            captions={"base_url": "http://127.0.0.1:9/v1", "model": "m", "retries": 0},
        )
    )
    assert dataset.dropped["caption_failed"] == 1


def test_the_key_is_written_nowhere(endpoint, folder, own_cache, monkeypatch):
    monkeypatch.delenv("OPENAI_API_KEY")
    given = settings(folder, endpoint.url, api_key=KEY)
    read_documents(given)
    assert endpoint.requests[0][1]["Authorization"] == f"Bearer {KEY}"
    assert KEY not in given.model_dump_json()
    assert KEY not in repr(given)
    assert not any(KEY in path.read_text("latin-1") for path in own_cache.rglob("*.*"))


def test_endpoint_and_model_may_come_from_the_environment(endpoint, folder, monkeypatch):
    monkeypatch.setenv("OPENAI_BASE_URL", endpoint.url)
    monkeypatch.setenv("L2R_CAPTION_MODEL", "other")
    read_documents(DatasetSettings(path=folder, format="pdf", captions={}))
    assert endpoint.requests[0][2]["model"] == "other"


def test_without_endpoint_or_model_the_error_names_both(folder, monkeypatch):
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    monkeypatch.delenv("L2R_CAPTION_MODEL", raising=False)
    with pytest.raises(SettingsError, match=r"base_url .*OPENAI_BASE_URL.* and model"):
        read_documents(DatasetSettings(path=folder, format="pdf", captions={}))
