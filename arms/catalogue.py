"""Every pipeline by name, as data: planning a run imports no back end."""

from __future__ import annotations

import difflib
from functools import cache
from importlib import import_module
from importlib.metadata import entry_points
from importlib.util import find_spec
from pathlib import Path

from arms.arm import Arm, ArmKind, ArmSpec
from arms.corpora.corpus import Corpus
from arms.errors import MissingExtraError, SettingsError
from arms.home import name_the_user
from arms.indexes.folder import reading
from arms.progress import Progress, SilentProgress
from arms.records import Architecture, Granularity
from arms.settings import ArmSettings

_BOTH: tuple[Granularity, ...] = ("document", "paragraph")
_PAGE_ARMS: tuple[tuple[str, Architecture, str], ...] = (
    ("mm_dense", "dense", "one vector per page picture; encoder: ocr, or a Bi* vision model"),
    ("mm_late", "late", "MaxSim over a page's lines (ocr), or patches of a Col* vision model"),
    ("mm_rerank", "rerank", "mm_dense top 100, then MaxSim over mm_late's stored vectors"),
)

KINDS: dict[str, ArmKind] = {
    kind.name: kind
    for kind in (
        ArmKind(
            "bm25",
            "text",
            "sparse",
            _BOTH,
            "arms.pipelines.bm25",
            requires=("bm25s", "Stemmer"),
            extra="bm25",
            summary="BM25 over stemmed words, memory-mapped",
        ),
        ArmKind(
            "text_dense",
            "text",
            "dense",
            _BOTH,
            "arms.pipelines.text_dense",
            requires=("sentence_transformers", "faiss"),
            extra="dense",
            uses_encoder=True,
            summary="one vector per unit, inner product; flat, HNSW or IVF",
        ),
        ArmKind(
            "text_late",
            "text",
            "late",
            _BOTH,
            "arms.pipelines.text_late",
            requires=("pylate", "fast_plaid"),
            extra="late",
            uses_encoder=True,
            summary="one vector per token, MaxSim; exact when small, PLAID beyond",
        ),
        ArmKind(
            "text_rerank",
            "text",
            "rerank",
            _BOTH,
            "arms.pipelines.text_rerank",
            requires=("pylate", "faiss"),
            extra="late",
            uses_encoder=True,
            summary="text_dense top 100, then MaxSim over stored token vectors",
        ),
        *(
            ArmKind(
                name,
                "page_image",
                architecture,
                ("page",),
                f"arms.pipelines.{name}",
                requires=("sentence_transformers", "faiss", "PIL"),
                default_encoder_requires=("rapidocr",),
                extra="dense,ocr",
                uses_encoder=True,
                summary=summary,
            )
            for name, architecture, summary in _PAGE_ARMS
        ),
        ArmKind(
            "fusion",
            "any",
            "fusion",
            ("document",),
            "arms.pipelines.fusion",
            fuses=True,
            summary="fusion of any arms' rankings, by reciprocal ranks or by weighted scores",
        ),
        ArmKind(
            "run_file",
            "any",
            "external",
            ("document",),
            "arms.pipelines.run_file",
            searches=False,
            summary="a TREC run that exists already, with stated latencies",
        ),
        ArmKind(
            "none",
            "none",
            "none",
            ("document",),
            "arms.pipelines.none",
            searches=False,
            summary="no retrieval; never a router's default action",
        ),
    )
}


ENTRY_POINTS = "learning_to_route.arms"
"""The group in which installed packages name their arms: each is an :class:`ArmKind`."""
_own: dict[str, ArmKind] = {}


def register(kind: ArmKind) -> None:
    """Add a kind to what this process knows; one of the same name that was added is replaced.

    Raises:
        SettingsError: the catalogue itself has an arm of this name.
    """
    if kind.name in KINDS:
        raise SettingsError(f"the catalogue has an arm '{kind.name}'; give yours another name")
    _own[kind.name] = kind


def find_kind(name: str) -> ArmKind | None:
    """Return the kind of the pipeline ``name``: of the catalogue, registered, or installed."""
    return KINDS.get(name) or _own.get(name) or _installed().get(name)


def all_kinds() -> list[ArmKind]:
    """Return every kind known here: the catalogue's first."""
    return list({**_installed(), **_own, **KINDS}.values())


@cache
def _installed() -> dict[str, ArmKind]:
    found = {}
    for point in entry_points(group=ENTRY_POINTS):
        kind = point.load()
        if not isinstance(kind, ArmKind) or kind.name in KINDS:
            raise SettingsError(
                f"the entry point '{point.name}' of {ENTRY_POINTS} must be an ArmKind with a name "
                f"of its own, got {kind!r:.80}; mend or remove the package {point.value}"
            )
        found[kind.name] = kind
    return found


def kind_of(name: str) -> ArmKind:
    """Return the kind of the pipeline ``name``; raise ``SettingsError`` naming the nearest one."""
    found = find_kind(name)
    if found is not None:
        return found
    known = [kind.name for kind in all_kinds()]
    near = difflib.get_close_matches(name, known, n=1)
    hint = f"did you mean '{near[0]}'? " if near else ""
    raise SettingsError(
        f"no arm is called '{name}'; {hint}known: {', '.join(known)}. An arm of your own is "
        "registered first: arms.from_function"
    )


def missing_packages(kind: ArmKind, encoder: str | None = None) -> tuple[str, ...]:
    """Return the packages that can't be imported here, of its back end and default encoder."""
    needed = kind.requires + (() if encoder else kind.default_encoder_requires)
    return tuple(package for package in needed if find_spec(package) is None)


def spec_of(settings: ArmSettings) -> ArmSpec:
    """Turn one arm's settings into its spec, checked against the catalogue.

    Where no granularity is given, it is the arm's first.

    Raises:
        SettingsError: the catalogue lacks the pipeline, or it lacks the granularity, or takes no
            encoder; or the arm's own name is one that the catalogue has.
    """
    kind = kind_of(settings.arm)
    granularity = settings.granularity or kind.granularities[0]
    if granularity not in kind.granularities:
        raise SettingsError(
            f"arm '{settings.arm}' has granularity {' or '.join(kind.granularities)}, "
            f"got '{granularity}'"
        )
    if settings.encoder and not kind.uses_encoder:
        raise SettingsError(f"arm '{settings.arm}' takes no encoder, got '{settings.encoder}'")
    if settings.name is not None and find_kind(settings.name) is not None:
        raise SettingsError(
            f"an arm can't be named '{settings.name}', which the catalogue has; give it another "
            "'name:', or none"
        )
    return ArmSpec(settings.arm, granularity, settings.encoder, settings.options, settings.name)


def arm_class(name: str) -> type[Arm]:
    """Import the pipeline's class; raise ``MissingExtraError`` when its back end is absent."""
    kind = kind_of(name)
    if kind.load is not None:
        return kind.load()
    missing = [package for package in kind.requires if find_spec(package) is None]
    if missing:
        raise MissingExtraError(missing[0], kind.extra)
    name_the_user()  # torch asks
    loaded: type[Arm] = import_module(kind.module).PipelineArm
    return loaded


def build_arm(
    spec: ArmSpec, corpus: Corpus, index_root: Path, progress: Progress | None = None
) -> None:
    """Build the arm's index, and those it reads, in ``index_root``; do nothing where whole."""
    arm_class(spec.name).build(spec, corpus, index_root, progress or SilentProgress())


def open_arm(spec: ArmSpec, corpus: Corpus, index_root: Path) -> Arm:
    """Open a built arm.

    Raises:
        ArmIndexError: its index is absent, damaged or of another corpus.
    """
    with reading(index_root / spec.folder_name):
        return arm_class(spec.name).open(spec, corpus, index_root)
