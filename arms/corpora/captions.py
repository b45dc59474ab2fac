"""Captions of the figures on page pictures, from any OpenAI-compatible vision endpoint.

Captions are kept by content in the cache, one JSON file a page, as soon as they come: a stopped
run goes on where it was, and no page is asked for twice. The key is in no file. Protocol:
https://platform.openai.com/docs/api-reference/chat (``POST <base_url>/chat/completions``).
"""

from __future__ import annotations

import base64
import hashlib
import io
import json
import os
import threading
import time
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from arms.atomic import write_json
from arms.cache import cache_folder
from arms.corpora.corpus import Corpus
from arms.corpora.pictures import PictureError, load_picture
from arms.errors import MissingExtraError, SettingsError
from arms.progress import Progress, SilentProgress
from arms.records import Document, Page
from arms.settings import CaptionSettings

URL_VARIABLE = "OPENAI_BASE_URL"
KEY_VARIABLE = "OPENAI_API_KEY"
MODEL_VARIABLE = "L2R_CAPTION_MODEL"

_MAY_PASS = (408, 409, 425, 429, 500, 502, 503, 504)
_HOPELESS = (401, 403, 404)
"""The next page would get the same answer."""
_LONGEST_WAIT_S = 30.0


class CaptionError(Exception):
    """A page got no caption; ``hopeless`` when no other would."""

    def __init__(self, reason: str, hopeless: bool = False) -> None:
        super().__init__(reason)
        self.hopeless = hopeless


class CaptionedCorpus(Corpus):
    """Another corpus with the captions that are in the cache appended to its texts."""

    def __init__(self, source: Corpus, settings: CaptionSettings) -> None:
        self.name = source.name
        self.language = source.language
        self._source = source
        self._store = CaptionStore(settings)

    def __iter__(self) -> Iterator[Document]:
        for document in self._source:
            captions = [self._store.get(page) or "" for page in self._store.wanted([document])]
            text = "\n\n".join(part for part in (document.text, *captions) if part.strip())
            yield replace(document, text=text) if any(captions) else document

    def __len__(self) -> int:
        return len(self._source)


class CaptionStore:
    """Captions in the cache: named by the page's content, the model and what it was asked."""

    def __init__(self, settings: CaptionSettings) -> None:
        self.settings = settings
        self.model = settings.model or os.environ.get(MODEL_VARIABLE, "")
        asked = [settings.prompt, settings.max_side_px, settings.max_tokens]
        self._asked = json.dumps([self.model, *asked])
        self._known: dict[str, str] = {}

    def wanted(self, documents: Iterable[Document]) -> Iterator[Page]:
        """Yield the pages with enough on them to describe; unknown density counts as enough."""
        for document in documents:
            for page in document.pages:
                density = page.visual_density
                if density is None or density >= self.settings.min_density:
                    yield page

    def get(self, page: Page) -> str | None:
        """Return the page's caption; None where there is none yet."""
        if page.key not in self._known:
            try:
                content = json.loads(self._path(page).read_text(encoding="utf-8"))
                self._known[page.key] = str(content["caption"])
            except (OSError, ValueError, KeyError, TypeError):
                return None
        return self._known[page.key]

    def put(self, page: Page, caption: str) -> None:
        """Keep a caption."""
        write_json(self._path(page), {"page": page.key, "model": self.model, "caption": caption})

    def _path(self, page: Page) -> Path:
        name = hashlib.sha256(f"{page.key}\n{self._asked}".encode()).hexdigest()[:40]
        return cache_folder("captions") / name[:2] / f"{name}.json"


def fetch_captions(
    corpus: Corpus, settings: CaptionSettings, progress: Progress | None = None
) -> list[str]:
    """Ask for the captions that the cache lacks; return what went wrong, a line a page.

    Where the endpoint can't be reached, or refuses the key or the model, the rest isn't asked.

    Raises:
        SettingsError: neither settings nor environment name the endpoint and the model.
        MissingExtraError: httpx isn't installed.
    """
    store = CaptionStore(settings)
    endpoint = _Endpoint(settings, store.model)
    missing = {page.key: page for page in store.wanted(corpus) if store.get(page) is None}
    failures: list[str] = []
    with (
        endpoint.client,
        ThreadPoolExecutor(settings.workers) as pool,
        (progress or SilentProgress()).task(f"captions of {corpus.name}", len(missing)) as task,
    ):

        def ask(page: Page) -> str | None:
            try:
                store.put(page, endpoint.caption(page))
            except CaptionError as error:
                number = "" if page.number is None else f", page {page.number}"
                return f"{page.path.name}{number}: {error}"
            return None

        for failure in pool.map(ask, missing.values()):
            if failure is not None:
                failures.append(failure)
            task.advance()
    return failures


@dataclass
class _Endpoint:
    settings: CaptionSettings
    model: str
    client: Any = field(init=False)
    _given_up: threading.Event = field(default_factory=threading.Event)

    def __post_init__(self) -> None:
        url = self.settings.base_url or os.environ.get(URL_VARIABLE)
        absent = [f"base_url (or ${URL_VARIABLE})"] * (not url)
        absent += [f"model (or ${MODEL_VARIABLE})"] * (not self.model)
        if absent:
            raise SettingsError(f"captions need {' and '.join(absent)}")
        secret = self.settings.api_key
        key = secret.get_secret_value() if secret else os.environ.get(KEY_VARIABLE)
        self.client = _httpx().Client(
            base_url=f"{str(url).rstrip('/')}/",
            headers={"Authorization": f"Bearer {key}"} if key else {},
            timeout=self.settings.timeout_s,
        )

    def caption(self, page: Page) -> str:
        """Return the page's caption, with retries where that may help; raise ``CaptionError``."""
        if self._given_up.is_set():
            raise CaptionError("not asked: the endpoint failed before")
        request = self._request(page)
        for attempt in range(self.settings.retries + 1):
            last = attempt == self.settings.retries
            try:
                answer = self.client.post("chat/completions", json=request)
            except _httpx().TransportError as error:
                if last:
                    hopeless = isinstance(error, _httpx().ConnectError)
                    raise self._failed(f"{type(error).__name__}: {error}", hopeless) from error
                self._wait(attempt, None)
                continue
            if answer.status_code == 200:
                return self._content(answer)
            if last or answer.status_code not in _MAY_PASS:
                reason = f"HTTP {answer.status_code}: {answer.text.strip()[:200]}"
                raise self._failed(reason, answer.status_code in _HOPELESS)
            self._wait(attempt, answer.headers.get("retry-after"))
        raise AssertionError("the last attempt returns or raises")

    def _request(self, page: Page) -> dict[str, Any]:
        try:
            picture = load_picture(page)
        except PictureError as error:
            raise CaptionError(str(error)) from error
        side = self.settings.max_side_px
        picture.thumbnail((side, side))
        stream = io.BytesIO()
        picture.save(stream, format="PNG")
        url = f"data:image/png;base64,{base64.b64encode(stream.getvalue()).decode()}"
        content = [
            {"type": "text", "text": self.settings.prompt},
            {"type": "image_url", "image_url": {"url": url}},
        ]
        return {
            "model": self.model,
            "messages": [{"role": "user", "content": content}],
            "temperature": 0,
            "max_tokens": self.settings.max_tokens,
        }

    def _content(self, answer: Any) -> str:
        try:
            content = answer.json()["choices"][0]["message"]["content"]
        except (ValueError, KeyError, IndexError, TypeError) as error:
            raise CaptionError(
                f"the answer has no choices[0].message.content: {error!r}"
            ) from error
        if not isinstance(content, str):
            raise CaptionError(f"expected text as caption, got {content!r:.60}")
        return content.strip()

    def _failed(self, reason: str, hopeless: bool) -> CaptionError:
        if hopeless:
            self._given_up.set()
        return CaptionError(reason, hopeless)

    def _wait(self, attempt: int, wished: str | None) -> None:
        try:
            wait_s = float(wished or "")
        except ValueError:
            wait_s = self.settings.backoff_s * 2**attempt
        time.sleep(min(max(wait_s, 0.0), _LONGEST_WAIT_S))


def _httpx() -> Any:
    try:
        import httpx
    except ImportError as error:
        raise MissingExtraError("httpx", "captions") from error
    return httpx
