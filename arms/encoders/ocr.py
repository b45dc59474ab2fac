"""Pictures of pages to lines of text, with RapidOCR, whose package carries its models.

What was recognised is kept by content in :func:`arms.cache.cache_folder`, one JSON file a page:
no page is read twice, and a killed run loses only the pages in flight.
"""

from __future__ import annotations

import hashlib
import json
import os
import threading
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import suppress
from dataclasses import asdict, dataclass
from functools import cached_property
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from arms.atomic import write_json
from arms.cache import cache_folder
from arms.corpora.pictures import PictureError, load_picture
from arms.encoders.picture_pieces import Pixels, pieces
from arms.errors import MissingExtraError, RoutingError
from arms.out_of_memory import is_out_of_memory, out_of_memory
from arms.progress import Task
from arms.records import Page
from arms.settings import Settings

if TYPE_CHECKING:
    from PIL.Image import Image

Engine = Literal["onnxruntime", "openvino"]
OCR = "ocr"
"""The name of this way of reading page pictures, in settings, identities and reports."""
_USES_OF_AN_ENGINE = 50
"""OpenVINO keeps memory for every shape of input: 2.6 GB a thread after 90 pages."""
_LINE_WIDTHS = 64
"""Pixels of which a line's width is a multiple for OpenVINO, which compiles for every new one."""
_TREATMENT: dict[Engine, int] = {"onnxruntime": 1, "openvino": 2}
"""Raised when the same picture would be read differently."""


class OcrSettings(Settings):
    """What changes the text that is recognised, and how fast."""

    engine: Engine = Field(
        default="onnxruntime",
        description="runs RapidOCR's models; openvino needs its package and may be faster",
    )
    min_confidence: float = Field(default=0.5, ge=0, le=1, description="of a line, to be kept")
    max_side: int = Field(default=2000, ge=64, description="larger pictures are scaled down")

    @property
    def fingerprint(self) -> str:
        """Everything that changes what is recognised, as text."""
        engine = version(self.engine) if find_spec(self.engine) else "absent"
        return json.dumps(
            {
                **self.model_dump(),
                "engine_version": engine,
                "rapidocr": _rapidocr_version(),
                "treatment": _TREATMENT[self.engine],
            },
            sort_keys=True,
        )


@dataclass(frozen=True, slots=True)
class Line:
    """One recognised line: its text, the reader's confidence in [0, 1] and where it stands."""

    text: str
    confidence: float
    box: tuple[float, float, float, float]
    """Left, top, right, bottom in pixels of the picture."""


class PageReader:
    """Reads pictures; each thread that calls it loads its own models, of one thread each."""

    def __init__(self, settings: OcrSettings | None = None) -> None:
        self.settings = settings or OcrSettings()
        self._engines = threading.local()

    @cached_property
    def fingerprint(self) -> str:
        """See :attr:`OcrSettings.fingerprint`."""
        return self.settings.fingerprint

    def read_picture(self, picture: Image) -> tuple[Line, ...]:
        """Return the lines of an RGB picture from top to bottom, as RapidOCR orders them.

        A picture more than three times as long as it is narrow is read in pieces.
        """
        return tuple(
            line
            for piece, left, top in pieces(np.asarray(picture))
            for line in self._read_piece(piece, left, top)
        )

    def _read_piece(self, piece: Pixels, left: int, top: int) -> Iterator[Line]:
        found = self._engine()(piece[:, :, ::-1])
        if found.txts is None:
            return
        for text, score, corners in zip(found.txts, found.scores, found.boxes, strict=True):
            if str(text).strip():
                box = _bounds(np.asarray(corners, dtype=np.float64) + np.array([left, top]))
                yield Line(str(text), round(float(score), 4), box)

    def read(self, page: Page) -> tuple[Line, ...]:
        """Return the page's lines, from the cache where they are.

        Raises:
            PictureError: the page can't be drawn, or the engine fails on it.
        """
        path = self._path(page)
        if path.is_file():
            try:
                return _lines(json.loads(path.read_text(encoding="utf-8")))
            except (ValueError, KeyError, TypeError):
                path.unlink(missing_ok=True)
        picture = load_picture(page)
        try:
            lines = self.read_picture(picture)
        except RoutingError:
            raise
        except Exception as error:  # whatever the engine meets costs one page, not the build
            if is_out_of_memory(error):
                raise out_of_memory(error, f"read {page.path} by {OCR}") from error
            raise PictureError(f"{page.path} can't be read by {OCR}: {error!r}") from error
        content = {"fingerprint": json.loads(self.fingerprint), "page": page.key}
        write_json(path, {**content, "lines": [asdict(line) for line in lines]})
        return lines

    def read_all(self, pages: Sequence[Page], task: Task, workers: int | None = None) -> None:
        """Read pages into the cache, several at a time; ``task`` moves on by 1 with each.

        Pages of equal content are read once. One that can't be drawn is passed over: :meth:`read`
        says why.

        Args:
            workers: threads; None: one for each core that this process may use.
        """
        by_key = {page.key: page for page in pages}
        n_equal = Counter(page.key for page in pages)
        pool = ThreadPoolExecutor(workers or available_cores())
        try:
            reading = {pool.submit(self._try_to_read, page): key for key, page in by_key.items()}
            for done in as_completed(reading):
                done.result()
                task.advance(n_equal[reading[done]])
        finally:
            pool.shutdown(cancel_futures=True)  # stopped midway, it ends after the pages in flight

    def _try_to_read(self, page: Page) -> None:
        with suppress(PictureError):
            self.read(page)

    def _path(self, page: Page) -> Path:
        name = hashlib.sha256(f"{self.fingerprint}\n{page.key}".encode()).hexdigest()[:40]
        return cache_folder(OCR) / name[:2] / f"{name}.json"

    def _engine(self) -> Any:
        """The calling thread's models, loaded anew now and then to give back their memory."""
        if getattr(self._engines, "uses_left", 0) == 0:
            self._engines.loaded = None
            self._engines.loaded = _load(self.settings)
            self._engines.uses_left = _USES_OF_AN_ENGINE
        self._engines.uses_left -= 1
        return self._engines.loaded


def available_cores() -> int:
    """Return how many cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _load(settings: OcrSettings) -> Any:
    """One line is recognised at a time: a batch would pad its lines to the longest one."""
    for package in ("rapidocr", settings.engine):
        if find_spec(package) is None:
            raise MissingExtraError(package, "ocr-openvino" if package == "openvino" else "ocr")
    from rapidocr import EngineType, RapidOCR

    engine = EngineType(settings.engine)
    loaded = RapidOCR(
        params={
            "Global.log_level": "error",
            "Global.use_cls": False,
            "Global.text_score": settings.min_confidence,
            "Global.max_side_len": settings.max_side,
            "Det.engine_type": engine,
            "Rec.engine_type": engine,
            "Rec.rec_batch_num": 1,
            "EngineConfig.onnxruntime.intra_op_num_threads": 1,
            "EngineConfig.onnxruntime.inter_op_num_threads": 1,
            "EngineConfig.openvino.inference_num_threads": 1,
        }
    )
    if settings.engine == "openvino":
        recogniser = loaded._load_rec_model()
        recogniser.session = _FewWidths(recogniser.session)
    return loaded


class _FewWidths:
    """A session whose lines are padded, as RapidOCR pads the shorter lines of a batch."""

    def __init__(self, session: Any) -> None:
        self._session = session

    def __call__(self, lines: NDArray[np.float32]) -> Any:
        """Run (lines, 3, height, width)."""
        missing = -lines.shape[-1] % _LINE_WIDTHS
        return self._session(np.pad(lines, ((0, 0), (0, 0), (0, 0), (0, missing))))


def _rapidocr_version() -> str:
    try:
        return version("rapidocr")
    except PackageNotFoundError as error:
        raise MissingExtraError("rapidocr", "ocr") from error


def _bounds(corners: Any) -> tuple[float, float, float, float]:
    points = np.asarray(corners, dtype=np.float64).round(1)
    left, top = points.min(axis=0).tolist()
    right, bottom = points.max(axis=0).tolist()
    return left, top, right, bottom


def _lines(content: Any) -> tuple[Line, ...]:
    return tuple(
        Line(one["text"], one["confidence"], tuple(one["box"])) for one in content["lines"]
    )
