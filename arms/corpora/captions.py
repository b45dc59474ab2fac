"""Captions of the figures on page pictures, from any OpenAI-compatible vision endpoint.

Captions are kept by content in the cache, one JSON file a page, as soon as they come: a stopped
run goes on where it was, and no page is asked for twice. The key is in no file.
"""

from __future__ import annotations

import base64
import hashlib
import io
import json
import os
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

from arms.atomic import write_json
from arms.cache import cache_folder
from arms.chat_endpoint import KEY_VARIABLE, URL_VARIABLE, ChatEndpoint, ChatError
from arms.corpora.corpus import Corpus
from arms.corpora.pictures import PictureError, load_picture
from arms.errors import SettingsError
from arms.progress import Progress, SilentProgress
from arms.records import Document, Page
from arms.settings import CaptionSettings

MODEL_VARIABLE = "L2R_CAPTION_MODEL"


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
    endpoint = _endpoint(settings, store.model)
    missing = {page.key: page for page in store.wanted(corpus) if store.get(page) is None}
    failures: list[str] = []
    with (
        endpoint.client,
        ThreadPoolExecutor(settings.workers) as pool,
        (progress or SilentProgress()).task(f"captions of {corpus.name}", len(missing)) as task,
    ):

        def ask(page: Page) -> str | None:
            try:
                store.put(page, _caption(endpoint, page, settings))
            except ChatError as error:
                number = "" if page.number is None else f", page {page.number}"
                return f"{page.path.name}{number}: {error}"
            return None

        for failure in pool.map(ask, missing.values()):
            if failure is not None:
                failures.append(failure)
            task.advance()
    return failures


def _endpoint(settings: CaptionSettings, model: str) -> ChatEndpoint:
    url = settings.base_url or os.environ.get(URL_VARIABLE)
    absent = [f"base_url (or ${URL_VARIABLE})"] * (not url)
    absent += [f"model (or ${MODEL_VARIABLE})"] * (not model)
    if absent:
        raise SettingsError(f"captions need {' and '.join(absent)}")
    secret = settings.api_key
    return ChatEndpoint(
        str(url),
        model,
        secret.get_secret_value() if secret else os.environ.get(KEY_VARIABLE),
        settings.timeout_s,
        settings.retries,
        settings.backoff_s,
        "captions",
    )


def _caption(endpoint: ChatEndpoint, page: Page, settings: CaptionSettings) -> str:
    """Return the page's caption; raise ``ChatError`` without one."""
    try:
        picture = load_picture(page)
    except PictureError as error:
        raise ChatError(str(error)) from error
    picture.thumbnail((settings.max_side_px, settings.max_side_px))
    stream = io.BytesIO()
    picture.save(stream, format="PNG")
    url = f"data:image/png;base64,{base64.b64encode(stream.getvalue()).decode()}"
    content = [
        {"type": "text", "text": settings.prompt},
        {"type": "image_url", "image_url": {"url": url}},
    ]
    return endpoint.ask([{"role": "user", "content": content}], settings.max_tokens)
