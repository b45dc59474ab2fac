"""``SHA256SUMS``: a digest per file, as coreutils' ``sha256sum`` writes and checks it."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable
from pathlib import Path

from oracle.release.layout import CHECKSUMS

_LINE = re.compile(r"([0-9a-f]{64})  (.+)")
_BLOCK_BYTES = 1 << 20


def sha256_of(path: Path) -> str:
    """Return the file's SHA-256 as 64 hexadecimal digits; the file is streamed."""
    digest = hashlib.sha256()
    with path.open("rb") as stream:
        while block := stream.read(_BLOCK_BYTES):
            digest.update(block)
    return digest.hexdigest()


def write_checksums(folder: Path, names: Iterable[str]) -> None:
    """Write the digests of ``names``, in alphabetical order."""
    lines = [f"{sha256_of(folder / name)}  {name}\n" for name in sorted(names)]
    (folder / CHECKSUMS).write_text("".join(lines), encoding="utf-8")


def parse_checksums(content: str) -> tuple[list[tuple[str, str]], list[int]]:
    """Return ``(name, digest)`` of each line, names as they stand, and numbers of other lines."""
    entries, unreadable = [], []
    lines = content.split("\n")
    if lines[-1] == "":
        lines.pop()
    for number, line in enumerate(lines, start=1):
        found = _LINE.fullmatch(line)
        if found:
            entries.append((found[2], found[1]))
        else:
            unreadable.append(number)
    return entries, unreadable
