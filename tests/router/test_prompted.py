"""The training-free router against a local HTTP server that answers like a language model."""

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import numpy as np
import pytest

from arms.errors import RouterError, SettingsError
from router.policies import load_policy
from router.policies.prompted import Asking, PromptedPolicy, parse_answer
from router.policy import Plan, PolicyInputs

ROUTES = ("no", "paragraph", "video")
KEY = "sk-secret-8"


class Endpoint(ThreadingHTTPServer):
    """Answers by the question; a number is an HTTP status, and ``after`` requests it fails."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.requests, self.answers, self.after = [], {}, None
        self.url = f"http://127.0.0.1:{self.server_port}/v1"


class Handler(BaseHTTPRequestHandler):
    def do_POST(self):
        request = json.loads(self.rfile.read(int(self.headers["content-length"])))
        self.server.requests.append((self.path, dict(self.headers), request))
        answer = self.server.answers.get(request["messages"][-1]["content"], "paragraph")
        if self.server.after is not None and len(self.server.requests) > self.server.after:
            answer = 500
        status = answer if isinstance(answer, int) else 200
        body = {"choices": [{"message": {"content": answer}}]} if status == 200 else {"error": "x"}
        self.send_response(status)
        self.end_headers()
        self.wfile.write(json.dumps(body).encode())

    def log_message(self, *given):
        pass


@pytest.fixture
def endpoint(monkeypatch, tmp_path):
    monkeypatch.setenv("L2R_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("MY_KEY", KEY)
    server = Endpoint()
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


def policy_at(url, fallback="video", **asking):
    given = {"workers": 1, "retries": 0, "backoff_s": 0.01, "timeout_s": 5.0, **asking}
    asked = Asking("tiny", url, "MY_KEY", "Name the place.", **given)
    return PromptedPolicy("prompted", ROUTES, asked, fallback)


@pytest.mark.parametrize(
    ("answer", "columns"),
    [
        ("paragraph", (1,)),
        (" Paragraph.\n", (1,)),
        ("**video**", (2,)),
        ("video, paragraph", (2, 1)),
        ("'no' + 'no'", (0,)),
        ("The answer is paragraph", None),
        ("paragraph video", None),
        ("", None),
        ("no idea", None),
        ("table", None),
    ],
)
def test_only_names_of_routes_are_an_answer(answer, columns):
    assert parse_answer(answer, ROUTES) == columns


def test_answers_become_plans_and_the_rest_falls_back_and_is_counted(endpoint):
    endpoint.answers = {"two": "video, no", "odd": "It depends.", "down": 400}
    policy = policy_at(endpoint.url)
    decided = policy.decide(["one", "two", "odd", "down"], 0.3)
    assert decided.plans == (
        Plan(("paragraph",)),
        Plan(("video", "no"), "fuse"),
        Plan(("video",)),
        Plan(("video",)),
    )
    assert np.allclose(decided.probabilities[1], [0.5, 0.0, 0.5])
    assert decided.reasons[:2] == (None, None)
    assert "unparsable" in decided.reasons[2]
    assert "HTTP 400" in decided.reasons[3]
    assert policy.outcome_text() == "4 answers: 2 parsed, 1 unparsable, 1 failed (fallback: video)"
    path, headers, request = endpoint.requests[0]
    assert path == "/v1/chat/completions"
    assert {name.lower(): value for name, value in headers.items()}["authorization"] == (
        f"Bearer {KEY}"
    )
    assert request["model"] == "tiny"
    assert request["temperature"] == 0
    assert request["messages"][0] == {"role": "system", "content": "Name the place."}


def test_a_stopped_run_goes_on_and_asks_nothing_twice(endpoint):
    queries = [f"q{number}" for number in range(6)]
    endpoint.after = 3
    first = policy_at(endpoint.url)
    first.decide(queries, 0.0)
    assert first.counts == {"parsed": 3, "failed": 3}
    endpoint.after = None
    endpoint.requests.clear()
    second = policy_at(endpoint.url)
    second.decide([*queries, *queries], 0.0)
    assert second.counts == {"parsed": 12}
    assert [request["messages"][-1]["content"] for _, _, request in endpoint.requests] == [
        "q3", "q4", "q5",
    ]  # fmt: skip
    other = policy_at(endpoint.url, max_tokens=7)
    other.decide(["q0"], 0.0)
    assert len(endpoint.requests) == 4


def test_a_refused_key_is_not_tried_again(endpoint):
    endpoint.answers = {f"q{number}": 401 for number in range(5)}
    policy = policy_at(endpoint.url)
    decided = policy.decide([f"q{number}" for number in range(5)], 0.0)
    assert len(endpoint.requests) == 1
    assert policy.counts == {"failed": 5}
    assert "not asked" in decided.reasons[-1]


def test_an_absent_endpoint_falls_back(monkeypatch, tmp_path):
    monkeypatch.setenv("L2R_CACHE", str(tmp_path))
    policy = policy_at("http://127.0.0.1:9/v1")
    assert policy.decide(["q"], 0.0).plans == (Plan(("video",)),)
    assert policy.counts == {"failed": 1}


def test_masked_routes_are_never_taken(endpoint):
    endpoint.answers = {"q": "video, no"}
    known = PolicyInputs(competes=np.array([[True, True, False]]))
    assert policy_at(endpoint.url).decide(["q"], 0.0, known).plans == (Plan(("no",)),)


def test_it_is_saved_without_its_key(endpoint, tmp_path):
    policy = policy_at(endpoint.url)
    (tmp_path / "p").mkdir()
    policy.save(tmp_path / "p")
    assert KEY not in (tmp_path / "p" / "policy.json").read_text("utf-8")
    loaded = load_policy(tmp_path / "p")
    assert loaded.asking == policy.asking
    assert loaded.decide(["q"], 0.0).plans == (Plan(("paragraph",)),)


def test_bad_settings_are_refused(monkeypatch):
    with pytest.raises(RouterError, match="fallback among routes"):
        policy_at("http://x", fallback="table")
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    with pytest.raises(SettingsError, match=r"base_url, or \$OPENAI_BASE_URL"):
        policy_at(None).decide(["a question"], 0.0)
