"""Any OpenAI-compatible endpoint: one question, one answer, with retries where they may help.

Protocol: ``POST <base_url>/chat/completions``, https://platform.openai.com/docs/api-reference/chat.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping, Sequence
from typing import Any

from arms.extras import not_importable

URL_VARIABLE = "OPENAI_BASE_URL"
KEY_VARIABLE = "OPENAI_API_KEY"

_MAY_PASS = (408, 409, 425, 429, 500, 502, 503, 504)
_HOPELESS = (401, 403, 404)
"""The next question would get the same answer."""
_LONGEST_WAIT_S = 30.0


class ChatError(Exception):
    """A question got no answer; ``hopeless`` when no other would."""

    def __init__(self, reason: str, hopeless: bool = False) -> None:
        super().__init__(reason)
        self.hopeless = hopeless


class ChatEndpoint:
    """Asks at temperature 0; may be shared by threads.

    Once it can't be reached, or refuses the key or the model, it isn't asked again.

    Args:
        base_url: e.g. ``http://localhost:8000/v1``.
        model: its name there.
        api_key: sent where given; kept nowhere else.
        timeout_s: for one request.
        retries: after a timeout, a 429 or a server's error.
        backoff_s: before the first retry, then doubled; the server's Retry-After goes before.
        extra: of ours that holds httpx, for the message where it is missing.

    Raises:
        MissingExtraError: httpx isn't installed.
    """

    def __init__(
        self,
        base_url: str,
        model: str,
        api_key: str | None,
        timeout_s: float,
        retries: int,
        backoff_s: float,
        extra: str,
    ) -> None:
        try:
            import httpx
        except ImportError as error:
            raise not_importable(error, "httpx", extra) from error
        self._httpx: Any = httpx
        self.model, self._retries, self._backoff_s = model, retries, backoff_s
        self._given_up = threading.Event()
        self.client: Any = httpx.Client(
            base_url=f"{base_url.rstrip('/')}/",
            headers={"Authorization": f"Bearer {api_key}"} if api_key else {},
            timeout=timeout_s,
        )

    def ask(self, messages: Sequence[Mapping[str, Any]], max_tokens: int) -> str:
        """Return the answer without white space around it; raise ``ChatError`` where none comes."""
        if self._given_up.is_set():
            raise ChatError("not asked: the endpoint failed before")
        request = {
            "model": self.model,
            "messages": list(messages),
            "temperature": 0,
            "max_tokens": max_tokens,
        }
        for attempt in range(self._retries + 1):
            last = attempt == self._retries
            try:
                answer = self.client.post("chat/completions", json=request)
            except self._httpx.TransportError as error:
                if last:
                    hopeless = isinstance(error, self._httpx.ConnectError)
                    raise self._failed(f"{type(error).__name__}: {error}", hopeless) from error
                self._wait(attempt, None)
                continue
            if answer.status_code == 200:
                return _content(answer)
            if last or answer.status_code not in _MAY_PASS:
                reason = f"HTTP {answer.status_code}: {answer.text.strip()[:200]}"
                raise self._failed(reason, answer.status_code in _HOPELESS)
            self._wait(attempt, answer.headers.get("retry-after"))
        raise AssertionError("the last attempt returns or raises")

    def _failed(self, reason: str, hopeless: bool) -> ChatError:
        if hopeless:
            self._given_up.set()
        return ChatError(reason, hopeless)

    def _wait(self, attempt: int, wished: str | None) -> None:
        try:
            wait_s = float(wished or "")
        except ValueError:
            wait_s = self._backoff_s * 2**attempt
        time.sleep(min(max(wait_s, 0.0), _LONGEST_WAIT_S))


def _content(answer: Any) -> str:
    try:
        content = answer.json()["choices"][0]["message"]["content"]
    except (ValueError, KeyError, IndexError, TypeError) as error:
        raise ChatError(f"the answer has no choices[0].message.content: {error!r}") from error
    if not isinstance(content, str):
        raise ChatError(f"expected text as an answer, got {content!r:.60}")
    return content.strip()
