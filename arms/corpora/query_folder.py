"""Made queries as a BEIR folder that remembers what it was made from.

``provenance.json`` stands in the folder beside the BEIR files and is written last.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from arms.atomic import write_json
from arms.corpora.beir import write_beir
from arms.corpora.corpus import Corpus, Dataset
from arms.corpora.queries import QuerySettings, make_queries
from arms.errors import CorpusError
from arms.progress import Progress
from arms.sole_writer import writes

RECORD = "made_from.json"


def is_made(folder: Path, corpus: Corpus, settings: QuerySettings) -> bool:
    """Whether ``folder`` is whole and was made from this corpus with these settings.

    Raises:
        CorpusError: it holds something else; the message names every difference.
    """
    if not folder.exists() or (folder.is_dir() and not any(folder.iterdir())):
        return False
    try:
        found = json.loads((folder / RECORD).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        found = None
    if not isinstance(found, dict):
        raise CorpusError(
            f"{folder} exists already and isn't known to be made by l2r queries; give --overwrite "
            "to replace it, or another 'output:'"
        )
    wanted = _made_from(corpus, settings)
    differences = [
        f"{name}: wanted {wanted.get(name)!r}, the folder has {found.get(name)!r}"
        for name in {**wanted, **found}
        if wanted.get(name) != found.get(name)
    ]
    if differences:
        raise CorpusError(
            f"{folder} was made from something else ({'; '.join(differences)}); give --overwrite "
            "to replace it, or another 'output:'"
        )
    return True


@writes("folder")
def write_queries(
    corpus: Corpus, settings: QuerySettings, folder: Path, progress: Progress
) -> Dataset:
    """Make queries and write ``folder``, replacing what is there.

    Raises:
        CorpusError: no query can be made from the corpus.
    """
    dataset = make_queries(corpus, settings, progress)
    write_beir(dataset, folder, overwrite=True)
    write_json(folder / RECORD, _made_from(corpus, settings))
    return dataset


def _made_from(corpus: Corpus, settings: QuerySettings) -> dict[str, Any]:
    return {"corpus_fingerprint": corpus.fingerprint, **settings.model_dump(mode="json")}
