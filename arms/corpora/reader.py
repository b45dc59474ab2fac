"""From settings to a checked dataset: the one door by which corpora come in."""

from __future__ import annotations

import logging

from arms.corpora.beir import BeirCorpus
from arms.corpora.corpus import Corpus, Dataset
from arms.corpora.own_documents import without_own
from arms.corpora.problems import Problems
from arms.corpora.sources import locate
from arms.corpora.validate import check_corpus, check_folder, refuse
from arms.progress import Progress
from arms.settings import DatasetSettings

_log = logging.getLogger(__name__)


def read_dataset(settings: DatasetSettings, progress: Progress | None = None) -> Dataset:
    """Read and check corpus, queries and judgements; documents stay on disk.

    Raises:
        CorpusError: the folder is incomplete, has no usable document or query, or (when strict)
            has any problem; the message lists all kinds with counts and examples, and every
            unusable file. When not strict, unusable items are left out and counted in
            ``Dataset.dropped``.
    """
    name = settings.dataset_name
    source = locate(settings, progress)
    folder = source.files()
    checked = check_folder(folder, source.pages, source.problems())
    refuse(checked.problems, name, settings.strict)
    _report(name, checked.problems)
    beir = BeirCorpus(folder.corpus, name, settings.language, checked.excluded_lines, source.pages)
    corpus, failed = _captioned(beir, settings, progress)
    dropped = {**checked.problems.of("error"), **failed}
    own = without_own(settings.exclude_query_id, beir, checked.queries, checked.own_documents)
    if own:
        _log.warning(
            "dataset '%s': the document whose id is the query's is left out of the rankings of %d "
            "of %d queries (exclude_query_id: false keeps it)",
            *(name, len(own), len(checked.queries)),
        )
    return Dataset(name, corpus, checked.queries, checked.qrels, dropped, own)


def read_documents(settings: DatasetSettings, progress: Progress | None = None) -> Corpus:
    """Read and check a corpus alone, which needs neither queries nor judgements.

    Raises:
        CorpusError: as for :func:`read_dataset`.
    """
    name = settings.dataset_name
    source = locate(settings, progress)
    path, problems = source.corpus(), source.problems()
    checked = check_corpus(path, problems, source.pages)
    refuse(problems, name, settings.strict)
    _report(name, problems)
    excluded = frozenset(checked.excluded_lines)
    beir = BeirCorpus(path, name, settings.language, excluded, source.pages)
    return _captioned(beir, settings, progress)[0]


def _captioned(
    corpus: Corpus, settings: DatasetSettings, progress: Progress | None
) -> tuple[Corpus, dict[str, int]]:
    """Return the corpus with captions, where they are wished for, and how many failed."""
    if settings.captions is None:
        return corpus, {}
    from arms.corpora.captions import CaptionedCorpus, fetch_captions

    failures = fetch_captions(corpus, settings.captions, progress)
    if failures:
        _log.warning(
            "dataset '%s': %d pages have no caption; run again to ask for them:\n%s",
            *(settings.dataset_name, len(failures), "\n".join(f"  {one}" for one in failures)),
        )
    dropped = {"caption_failed": len(failures)} if failures else {}
    return CaptionedCorpus(corpus, settings.captions), dropped


def _report(name: str, problems: Problems) -> None:
    if problems.of("error"):
        _log.warning("dataset '%s', left out:\n%s", name, problems.describe("error"))
    if problems.of("warning"):
        _log.warning("dataset '%s', please look at:\n%s", name, problems.describe("warning"))
    if problems.of("notice"):
        _log.info("dataset '%s', noticed:\n%s", name, problems.describe("notice"))
