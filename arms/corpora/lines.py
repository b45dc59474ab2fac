"""Numbered lines of plain or gzipped files, as bytes, so that no decoding error hides a line."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from arms.corpora.problems import LineError
from arms.errors import CorpusError
from arms.write_errors import place_cause

_BYTE_ORDER_MARK = b"\xef\xbb\xbf"


def numbered_lines(path: Path) -> Iterator[tuple[int, bytes]]:
    """Yield ``(line number from 1, line)`` for each line that holds more than white space.

    The file is streamed; a name that ends in ``.gz`` is decompressed. A byte order mark is left
    out. The line's end is kept.

    Raises:
        CorpusError: the file can't be read, or its compression is damaged.
    """
    try:
        with gzip.open(path, "rb") if path.suffix == ".gz" else path.open("rb") as stream:
            for number, line in enumerate(stream, start=1):
                if number == 1:
                    line = line.removeprefix(_BYTE_ORDER_MARK)
                if line.strip():
                    yield number, line
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise CorpusError(
            f"{path} is damaged: expected a whole gzip file, got '{error}'; fetch it again"
        ) from error
    except OSError as error:
        raise CorpusError(f"{path} can't be read: {place_cause(error)}") from error


def decode(line: bytes) -> str:
    """Return the line as text; raise ``LineError`` when it is not UTF-8."""
    try:
        return line.decode("utf-8")
    except UnicodeDecodeError as error:
        raise LineError(
            "not_utf8", f"byte {error.start + 1} of the line, {line[error.start]:#04x}"
        ) from error


@contextmanager
def writing(path: Path, compressed: bool = False) -> Iterator[IO[bytes]]:
    """Open ``path`` to write bytes; equal content gives equal bytes, compressed or not.

    The compressed file records neither its name nor the time.
    """
    with path.open("wb") as stream:
        if not compressed:
            yield stream
            return
        with gzip.GzipFile(filename="", mode="wb", fileobj=stream, mtime=0) as compressing:
            yield compressing  # type: ignore[misc]
