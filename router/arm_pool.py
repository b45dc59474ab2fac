"""Opens the arms of an index root for searching, each once, when it is first needed."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import cast

from arms.arm import Arm, ArmSpec
from arms.corpora.corpus import Corpus
from arms.errors import RouterError
from arms.indexes.folder import ArmRecord, read_record
from arms.records import Document, Granularity
from arms.text_form import composed
from router.artifact import RouterRecord


class RecordedCorpus(Corpus):
    """Stands for the corpus an index was made from: what the index records of it, no documents.

    A serving machine has indexes and no corpus. Arms compare fingerprints on opening; here the
    index's own is trusted.
    """

    def __init__(self, name: str, language: str, record: ArmRecord) -> None:
        self.name, self.language = name, language
        self.fingerprint = record.corpus_fingerprint
        self._n_documents = record.n_documents

    def __iter__(self) -> Iterator[Document]:
        raise RouterError(
            f"the corpus '{self.name}' is not at hand when serving, and an index wants to read it; "
            "rebuild the index with l2r index"
        )

    def __len__(self) -> int:
        return self._n_documents


class ArmPool:
    """The arms under ``index_root/<dataset>/``, shared by threads."""

    def __init__(self, index_root: Path, record: RouterRecord) -> None:
        self._index_root, self._record = index_root, record
        self._opened: dict[tuple[str, str], Arm] = {}
        self._lock = threading.Lock()

    def candidates(
        self, dataset: str | None, allowed: Sequence[str]
    ) -> tuple[str, tuple[str, ...]]:
        """Return the dataset, and those of ``allowed`` that it has by the router's record.

        Raises:
            RouterError: the dataset is unknown or must be named, or an index folder is missing.
        """
        dataset = self._dataset(dataset)
        has = self._record.datasets.get(dataset, self._record.arms)
        arms = tuple(arm for arm in allowed if arm in has)
        missing = [arm for arm in arms if not (self._folder(dataset, arm) / "arm.json").is_file()]
        if missing:
            raise RouterError(
                f"the index {self._index_root / dataset} lacks the router's arms "
                f"{', '.join(missing)}; run l2r index (in Python, arms=[...] can leave them out)"
            )
        return dataset, arms

    def arm(self, dataset: str, identity: str) -> Arm:
        """Return the opened arm; the first call opens it, others wait for that."""
        key = (dataset, identity)
        ready = self._opened.get(key)
        if ready is not None:
            return ready
        with self._lock:
            if key not in self._opened:
                self._opened[key] = self._open(dataset, identity)
            return self._opened[key]

    def open_all(self, dataset: str, identities: Sequence[str]) -> None:
        """Open these arms now, where they aren't open yet."""
        for identity in identities:
            self.arm(dataset, identity)

    def _open(self, dataset: str, identity: str) -> Arm:
        from arms.catalogue import open_arm

        record = read_record(self._folder(dataset, identity))
        options = self._record.arm_options.get(identity, {})
        encoder = identity.partition("#")[2] or self._record.arm_encoders.get(identity)
        granularity = cast(Granularity, record.granularity)
        spec = ArmSpec(record.name, granularity, encoder, dict(options))
        if spec.identity != identity:
            spec = replace(spec, own_name=identity)
        corpus = RecordedCorpus(dataset, self._language(dataset), record)
        return open_arm(spec, corpus, self._index_root / dataset)

    def _language(self, dataset: str) -> str:
        """Return the corpus's language, as far as an arm that depends on it has recorded it."""
        for path in sorted((self._index_root / dataset).glob("[!.]*/arm.json")):
            language = read_record(path.parent).options.get("language")
            if isinstance(language, str):
                return language
        return Corpus.language

    def _folder(self, dataset: str, identity: str) -> Path:
        return self._index_root / dataset / identity.replace("/", "--")

    def _dataset(self, dataset: str | None) -> str:
        dataset = None if dataset is None else composed(dataset)
        present = sorted(
            path.name
            for path in self._index_root.iterdir()
            if path.is_dir() and not path.name.startswith(".")
        )
        if dataset is None and len(present) == 1:
            return present[0]
        if dataset not in present:
            wish = "name one (dataset=..., --dataset)" if dataset is None else f"got '{dataset}'"
            raise RouterError(
                f"the index {self._index_root} has the datasets {', '.join(present) or 'none'}; "
                f"{wish}"
            )
        return dataset
