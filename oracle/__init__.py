"""The oracle: every arm on every query, with quality and latency, as labels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from arms.corpora.corpus import Dataset
    from arms.settings import ArmSettings
    from oracle.labels import Labels

__all__ = ["label", "read_labels"]


def label(
    corpus: Dataset | Sequence[Dataset],
    arms: Sequence[str | Mapping[str, Any] | ArmSettings] = ("bm25", "text_dense", "text_rerank"),
    out: str | Path = "runs/labels",
    *,
    index: str | Path | None = None,
    seed: int = 42,
    progress: bool = True,
    **settings: Any,
) -> Labels:
    """Run every arm on every query; record quality and latency in the folder ``out``.

    Finished work is kept: a call that was stopped continues, and the same call again only reads
    the labels.

    Args:
        corpus: what :func:`arms.read_corpus` returned; several make one suite.
        arms: names (``"bm25"``, ``"text_dense@paragraph"``), what an entry under ``arms:`` of a
            YAML file may hold, e.g. ``{"arm": "bm25", "options": {"k1": 1.2}}``, or arms of your
            own (:func:`arms.from_function`).
        out: the labels folder.
        index: the folder of all indexes; default: ``index`` beside ``out``.
        seed: of the split.
        progress: show bars.
        settings: what ``oracle:`` of a YAML file may hold, e.g. ``measures=["nDCG@10"]``,
            ``latency={"sample": 100}``, ``split={"by": "document"}``.

    Raises:
        SettingsError: with every problem of arms and settings, before anything costly begins.
        RoutingError: an index can't be built or opened, or another process writes the folder.
    """
    from arms.corpora.corpus import Dataset
    from arms.home import expanded
    from arms.own import parse_arms
    from arms.progress import ConsoleProgress, SilentProgress
    from arms.settings import parse_options
    from oracle.runner import run_oracle
    from oracle.settings import OracleSettings

    datasets = [corpus] if isinstance(corpus, Dataset) else list(corpus)
    folder = expanded(out, "out")
    run_oracle(
        datasets,
        parse_arms(arms),
        folder.parent / "index" if index is None else expanded(index, "index"),
        folder,
        parse_options(OracleSettings, settings, "label"),
        seed,
        ConsoleProgress() if progress else SilentProgress(),
    )
    return read_labels(folder)


def read_labels(folder: str | Path) -> Labels:
    """Read a finished labels folder.

    Raises:
        LabelsError: it is absent, unfinished or damaged, or is being written anew.
    """
    from arms.home import expanded
    from oracle.labels import read_labels as read

    return read(expanded(folder, "labels"))
