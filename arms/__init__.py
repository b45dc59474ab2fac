"""Retrieval pipelines (arms): records, the arm contract, corpora, encoders, indexes.

Importing this package loads nothing heavy; :func:`read_corpus` loads what it needs when called.
"""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from arms.corpora.corpus import Dataset
    from arms.frameworks import from_haystack, from_langchain, from_llama_index, from_pyterrier
    from arms.own import from_class, from_function

__all__ = [
    "from_class",
    "from_function",
    "from_haystack",
    "from_langchain",
    "from_llama_index",
    "from_pyterrier",
    "read_corpus",
]
_HOMES = {name: "arms.frameworks" for name in __all__} | {
    "from_class": "arms.own",
    "from_function": "arms.own",
}


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'arms' has no attribute '{name}'")
    return getattr(import_module(_HOMES[name]), name)


def read_corpus(
    path: str | Path | None = None, *, progress: bool = True, **settings: Any
) -> Dataset:
    """Read and check documents, queries and judgements; documents stay on disk.

    Args:
        path: the folder: ``corpus.jsonl``, ``queries.jsonl`` and ``qrels/`` unless ``format=``
            says otherwise. ``hub="owner/name"`` may take its place.
        progress: show bars for long work.
        settings: what an entry under ``corpus:`` of a YAML file may hold, e.g. ``name="manuals"``,
            ``format="pdf"``, ``language="german"``, ``strict=False``.

    Raises:
        SettingsError: a setting is unknown or wrong.
        CorpusError: the folder can't be read; the message lists every problem at once.

    >>> read_corpus("my-corpus", language="german")  # doctest: +SKIP
    Dataset 'my-corpus': 1,400 documents, 129 queries, all judged
    """
    from arms.corpora.reader import read_dataset
    from arms.home import expanded
    from arms.progress import ConsoleProgress, SilentProgress
    from arms.settings import DatasetSettings, parse_options

    given = settings if path is None else {**settings, "path": expanded(Path(path), "read_corpus")}
    shown = ConsoleProgress() if progress else SilentProgress()
    return read_dataset(parse_options(DatasetSettings, given, "read_corpus"), shown)
