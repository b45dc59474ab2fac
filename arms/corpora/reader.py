"""From settings to a checked dataset: the one door by which corpora come in."""

from __future__ import annotations

import logging

from arms.corpora.beir import BeirCorpus
from arms.corpora.corpus import Corpus, Dataset
from arms.corpora.problems import Problems
from arms.corpora.sources import locate
from arms.corpora.validate import check_corpus, check_folder, refuse
from arms.progress import Progress
from arms.settings import DatasetSettings

_log = logging.getLogger(__name__)


def read_dataset(settings: DatasetSettings, progress: Progress | None = None) -> Dataset:
    """Read and check corpus, queries and judgements; documents stay on disk.

    ``python-docs`` has no queries of its own: they are made by the rules and default settings of
    :mod:`arms.corpora.queries`.

    Raises:
        CorpusError: the folder is incomplete, has no usable document or query, or (when strict)
            has any problem; the message lists all kinds with counts and examples, and every
            unusable file. When not strict, unusable items are left out and counted in
            ``Dataset.dropped``.
    """
    name = settings.dataset_name
    if settings.format == "python-docs":
        from arms.corpora.queries import make_queries

        return make_queries(read_corpus(settings))
    source = locate(settings, progress)
    folder = source.files()
    checked = check_folder(folder, source.pages, source.problems())
    refuse(checked.problems, name, settings.strict)
    _report(name, checked.problems)
    corpus = BeirCorpus(
        folder.corpus, name, settings.language, checked.excluded_lines, source.pages
    )
    dropped = checked.problems.of("error")
    return Dataset(name, corpus, checked.queries, checked.qrels, dropped)


def read_corpus(settings: DatasetSettings, progress: Progress | None = None) -> Corpus:
    """Read and check a corpus alone, which needs neither queries nor judgements.

    Raises:
        CorpusError: as for :func:`read_dataset`.
    """
    name = settings.dataset_name
    if settings.format == "python-docs":
        from arms.corpora.python_docs import python_docs_corpus

        return python_docs_corpus(name)
    source = locate(settings, progress)
    path, problems = source.corpus(), source.problems()
    checked = check_corpus(path, problems, source.pages)
    refuse(problems, name, settings.strict)
    _report(name, problems)
    excluded = frozenset(checked.excluded_lines)
    return BeirCorpus(path, name, settings.language, excluded, source.pages)


def _report(name: str, problems: Problems) -> None:
    if problems.of("error"):
        _log.warning("dataset '%s', left out:\n%s", name, problems.describe("error"))
    if problems.of("notice"):
        _log.info("dataset '%s', noticed:\n%s", name, problems.describe("notice"))
