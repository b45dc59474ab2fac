"""All files below a folder, links followed as far as the folder goes."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Iterator
from pathlib import Path

Found = tuple[str, str]
"""Kind of problem and example, as :class:`arms.corpora.problems.Problems` takes them."""


def files_below(folder: Path) -> tuple[list[Path], list[Found]]:
    """Return the files below ``folder`` by path, and what became of links that weren't followed.

    Hidden files and folders are left out. A link to a file or folder inside ``folder`` is followed;
    a file is taken once, by its own path before a link's, however many links lead to it, so loops
    end. Links that lead outside, to nothing, or to what is read already are named.
    """
    files: dict[Path, Path] = {}
    named: list[Found] = []
    root = folder.resolve()
    walked = {root}
    links: deque[Path] = deque()
    for path in _plain(folder, walked, links):
        files.setdefault(path.resolve(), path)
    while links:
        link = links.popleft()
        name = link.relative_to(folder).as_posix()
        try:
            target = link.resolve(strict=True)
        except (OSError, RuntimeError):  # RuntimeError: links that lead to one another
            named.append(("dangling_link", f"{name} → {_target(link)}"))
            continue
        if not target.is_relative_to(root):
            named.append(("link_outside_folder", f"{name} → {_target(link)}"))
        elif target in walked or target in files:
            named.append(("link_to_known", f"{name} → {_target(link)}"))
        elif target.is_dir():
            walked.add(target)
            for path in _plain(link, walked, links):
                files.setdefault(path.resolve(), path)
        elif target.is_file():
            files[target] = link
    found = sorted(files.values(), key=lambda path: path.relative_to(folder).as_posix())
    return found, named


def _plain(folder: Path, walked: set[Path], links: deque[Path]) -> Iterator[Path]:
    """Yield the files of a folder and its own folders; put links aside."""
    for entry in sorted(os.scandir(folder), key=lambda entry: entry.name):
        path = Path(folder, entry.name)
        if entry.name.startswith("."):
            continue
        if entry.is_symlink():
            links.append(path)
        elif entry.is_dir():
            real = path.resolve()
            if real not in walked:
                walked.add(real)
                yield from _plain(path, walked, links)
        elif entry.is_file():
            yield path


def _target(link: Path) -> str:
    return os.readlink(link)
