"""The life of an index folder: where it is, whether it is whole, and what it was made from.

An arm's index is ``index_root/<folder_name>/``. It is made in a hidden folder beside it, by one
process at a time, and renamed when it is whole. ``arm.json`` records everything the index was made
from, and every file of it; an index made from anything else, or whose files aren't those, is
refused on opening and replaced on building.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import Any

from arms.arm import ArmSpec
from arms.atomic import replace_folder, write_json
from arms.corpora.corpus import Corpus
from arms.encoders.chunks import CHUNK_FOLDER
from arms.encoders.resolve import ResolvedEncoder
from arms.errors import ArmIndexError, CorpusError
from arms.out_of_memory import is_out_of_memory, out_of_memory
from arms.sole_writer import sole_writer
from arms.write_errors import writing_to

FORMAT_VERSION = 2
RECORD = "arm.json"


@dataclass(frozen=True)
class ArmRecord:
    """What ``arm.json`` holds."""

    identity: str
    name: str
    granularity: str
    options: Mapping[str, Any]
    """Those that shape the index; options that only steer searching aren't recorded."""
    encoder_id: str | None
    encoder_revision: str | None
    encoder_dtype: str | None
    corpus_fingerprint: str
    n_documents: int
    n_units: int = 0
    size_bytes: int = 0
    """All files of the folder but ``arm.json``."""
    build_seconds: float = 0.0
    """Of the run that finished the build."""
    build_peak_rss_mb: float | None = None
    """The building process's peak resident memory up to then, None where it can't be read."""
    library_versions: Mapping[str, str] = field(default_factory=dict)
    files: Mapping[str, Any] = field(default_factory=dict)
    """Path below the folder → (bytes, :func:`digest_of_file`), of all files but ``arm.json``."""
    format_version: int = FORMAT_VERSION


@dataclass(frozen=True, slots=True)
class Source:
    """Everything an index is made from. Equal sources give equal indexes."""

    spec: ArmSpec
    corpus: Corpus
    options: Mapping[str, Any] | None = None
    """Options that shape the index, defaults filled in; None: the spec's, as given."""
    encoder: ResolvedEncoder | None = None
    dtype: str | None = None

    def record(self) -> ArmRecord:
        """Return the record of an index made from this, before anything was measured."""
        given = self.spec.options if self.options is None else self.options
        return ArmRecord(
            identity=self.spec.identity,
            name=self.spec.name,
            granularity=self.spec.granularity,
            options=_without(_STEERING, json.loads(json.dumps(dict(given)))),
            encoder_id=self.encoder.encoder_id if self.encoder else None,
            encoder_revision=self.encoder.revision if self.encoder else None,
            encoder_dtype=self.dtype,
            corpus_fingerprint=self.corpus.fingerprint,
            n_documents=len(self.corpus),
        )


_STEERING = ("backend",)
"""Options of arms and of their parts that change no index and no ranking."""


def _without(names: Sequence[str], content: Any) -> Any:
    """Leave out these keys of nested JSON content."""
    if isinstance(content, dict):
        kept = {key: value for key, value in content.items() if key not in names}
        return {key: _without(names, value) for key, value in kept.items()}
    return [_without(names, one) for one in content] if isinstance(content, list) else content


_SOURCE_FIELDS = (
    "identity",
    "name",
    "granularity",
    "options",
    "encoder_id",
    "encoder_revision",
    "encoder_dtype",
    "corpus_fingerprint",
    "n_documents",
)


def read_record(folder: Path) -> ArmRecord:
    """Read ``folder/arm.json``; raise ``ArmIndexError`` if absent, or of another version."""
    path = folder / RECORD
    if not path.is_file():
        state = "unfinished" if folder.is_dir() else "absent"
        raise ArmIndexError(
            f"the index {folder} is {state}: {RECORD} isn't there; run (or rerun) l2r index"
        )
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise ArmIndexError(f"{path} is damaged ({error}); run l2r index to rebuild it") from error
    version = content.get("format_version")
    if version != FORMAT_VERSION or set(content) != {item.name for item in fields(ArmRecord)}:
        raise ArmIndexError(
            f"{path} has format version {version}, this release reads {FORMAT_VERSION}; "
            "delete the folder and run l2r index"
        )
    return ArmRecord(**content)


def write_record(folder: Path, record: ArmRecord) -> None:
    """Write ``folder/arm.json`` atomically; call it when all other files are in place."""
    write_json(folder / RECORD, asdict(record))


def _differences(source: Source, record: ArmRecord) -> list[str]:
    expected = source.record()
    return [
        f"{name}: wanted {getattr(expected, name)!r}, the index has {getattr(record, name)!r}"
        for name in _SOURCE_FIELDS
        if getattr(expected, name) != getattr(record, name)
    ]


def finished(source: Source, index_root: Path) -> bool:
    """Whether ``index_root`` holds a whole index made from exactly this source."""
    try:
        open_folder(source, index_root)
    except ArmIndexError:
        return False
    return True


def open_folder(source: Source, index_root: Path) -> Path:
    """Return the folder of the whole index made from ``source``.

    Raises:
        ArmIndexError: it is absent, unfinished, of another version, or made from another corpus,
            encoder, data type or options, the message names every difference; or a file of it
            isn't as it was written.
    """
    folder = index_root / source.spec.folder_name
    record = read_record(folder)
    differences = _differences(source, record)
    if differences:
        raise ArmIndexError(
            f"the index {folder} was made from something else ({'; '.join(differences)}); "
            "run l2r index to rebuild it"
        )
    damages = _damages(folder, record)
    if damages:
        raise ArmIndexError(
            f"the index {folder} can't be read ({'; '.join(damages)}); delete the folder and run "
            "l2r index"
        )
    return folder


_WHOLE_BYTES = 4 << 20
_BLOCK_BYTES = 64 << 10


def digest_of_file(path: Path) -> str:
    """Return the SHA-256 of a file up to 4 MiB; of a longer one, that of 64 spread blocks.

    The blocks of 64 KiB lie at equal distances, the first and the last byte included, so that
    opening an index costs the same however large it is.
    """
    digest = hashlib.sha256()
    with path.open("rb") as stream:
        n_bytes = os.fstat(stream.fileno()).st_size
        if n_bytes <= _WHOLE_BYTES:
            digest.update(stream.read())
        else:
            last = _WHOLE_BYTES // _BLOCK_BYTES - 1
            for number in range(last + 1):
                stream.seek((n_bytes - _BLOCK_BYTES) * number // last)
                digest.update(stream.read(_BLOCK_BYTES))
    return digest.hexdigest()


def _damages(folder: Path, record: ArmRecord) -> list[str]:
    """Return what is wrong with each file that isn't as ``record`` has it."""
    found = []
    for name, (n_bytes, digest) in record.files.items():
        path = folder / name
        try:
            present = path.stat().st_size
            if present != n_bytes:
                found.append(f"{name} has {present:,} bytes, {n_bytes:,} were written")
            elif digest_of_file(path) != digest:
                found.append(f"{name} has other content than was written")
        except FileNotFoundError:
            found.append(f"{name} is missing")
    return found


@contextmanager
def reading(folder: Path) -> Iterator[None]:
    """Raise ``ArmIndexError`` that names ``folder`` where the body meets a damaged file of it."""
    try:
        yield
    except (ValueError, OSError, EOFError) as error:  # EOFError: numpy, of an empty file
        if is_out_of_memory(error):
            raise out_of_memory(error, f"open the index {folder}") from error
        if isinstance(error, PermissionError):
            raise ArmIndexError(
                f"the index {folder} can't be read: permission denied ({error.filename}); ask for "
                "the right to read it"
            ) from error
        told = str(error).partition(". ")[0]  # numpy goes on to advise loading pickles
        raise ArmIndexError(
            f"the index {folder} can't be read ({told}); delete the folder and run l2r index"
        ) from error


@dataclass
class Build:
    """An index folder being written."""

    folder: Path
    """Private to this process until the index is whole."""
    n_units: int = 0
    """Set by the arm before the ``with`` block ends."""


@contextmanager
def building(source: Source, index_root: Path) -> Iterator[Build]:
    """Open a private folder for writing; when the body succeeds, it becomes the index.

    What a killed build left is cleared first, except for its encoded chunks, which are named by
    content and so are either right or unused. They are removed once the index is whole. An index
    that is there stays until then.

    Raises:
        CorpusError: the corpus has no documents.
        FolderInUseError: another process is building this index.
        WriteError: there is no space for it, or no right to write.
    """
    if len(source.corpus) == 0:
        raise CorpusError(
            f"the corpus '{source.corpus.name}' has no documents; expected at least one to index"
        )
    begin_s = time.perf_counter()
    target = index_root / source.spec.folder_name
    with sole_writer(target), writing_to(target):
        build = Build(building_folder(target))
        _clear(build.folder)
        try:
            yield build
        except BaseException:
            with suppress(OSError):
                _clear(build.folder)  # room for others, where the disk is full
                build.folder.rmdir()  # unless it has chunks
            raise
        shutil.rmtree(build.folder / CHUNK_FOLDER, ignore_errors=True)
        record = asdict(source.record())
        record |= {
            "n_units": build.n_units,
            "build_seconds": round(time.perf_counter() - begin_s, 3),
            "build_peak_rss_mb": peak_rss_mb(),
            "library_versions": library_versions(),
        }
        _finish(build.folder, ArmRecord(**record))
        replace_folder(build.folder, target)


@contextmanager
def extending(source: Source, index_root: Path) -> Iterator[Path]:
    """Yield the folder of a whole index to add files to; it counts as unfinished meanwhile.

    Raises:
        FolderInUseError: another process is writing this index.
    """
    folder = index_root / source.spec.folder_name
    with sole_writer(folder), writing_to(folder):
        record = read_record(folder)
        (folder / RECORD).unlink()
        yield folder
        _finish(folder, record)


def building_folder(folder: Path) -> Path:
    """Return where the index ``folder`` is made, and where chunks of a killed build wait."""
    return folder.with_name(f".{folder.name}.building")


def _finish(folder: Path, record: ArmRecord) -> None:
    """Flush every file, then write the record that lists them."""
    files = {}
    for path in sorted(folder.rglob("*")):
        if path.is_file() and path != folder / RECORD:
            with path.open("rb+") as stream:
                os.fsync(stream.fileno())
            name = path.relative_to(folder).as_posix()
            files[name] = (path.stat().st_size, digest_of_file(path))
    size_bytes = sum(n_bytes for n_bytes, _ in files.values())
    write_record(folder, replace(record, size_bytes=size_bytes, files=files))


def _clear(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for path in folder.iterdir():
        if path.is_dir() and path.name != CHUNK_FOLDER:
            shutil.rmtree(path)
        elif path.is_file():
            path.unlink()


def peak_rss_mb() -> float | None:
    """Return this process's peak resident memory in megabytes, None where it can't be read."""
    try:
        import resource
    except ImportError:  # not a POSIX system
        return None
    unit_bytes = 1 if sys.platform == "darwin" else 1024
    return round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit_bytes / 1e6, 1)


_DISTRIBUTIONS = {
    "bm25s": "bm25s",
    "colpali_engine": "colpali-engine",
    "Stemmer": "PyStemmer",
    "faiss": "faiss-cpu",
    "fast_plaid": "fast-plaid",
    "numpy": "numpy",
    "onnxruntime": "onnxruntime",
    "openvino": "openvino",
    "PIL": "pillow",
    "pylate": "pylate",
    "pypdfium2": "pypdfium2",
    "rapidocr": "rapidocr",
    "sentence_transformers": "sentence-transformers",
    "torch": "torch",
    "transformers": "transformers",
}


def library_versions() -> dict[str, str]:
    """Return the versions of the back ends that this process has loaded."""
    from importlib.metadata import PackageNotFoundError, version

    versions = {}
    for module, distribution in _DISTRIBUTIONS.items():
        if module in sys.modules:
            try:
                versions[distribution] = version(distribution)
            except PackageNotFoundError:
                loaded = getattr(sys.modules[module], "__version__", None)
                versions[module] = str(loaded or "unknown")
    return versions
