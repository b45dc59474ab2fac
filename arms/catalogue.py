"""Every pipeline by name, as data: planning a run imports no back end."""

from __future__ import annotations

import difflib
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

from arms.arm import Arm, ArmKind, ArmSpec
from arms.corpora.corpus import Corpus
from arms.errors import MissingExtraError, SettingsError
from arms.indexes.folder import reading
from arms.progress import Progress, SilentProgress
from arms.records import Granularity
from arms.settings import ArmSettings

_BOTH: tuple[Granularity, ...] = ("document", "paragraph")

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
        ArmKind(
            "fusion",
            "any",
            "fusion",
            ("document",),
            "arms.pipelines.fusion",
            summary="reciprocal-rank fusion of named arms",
        ),
        ArmKind(
            "run_file",
            "any",
            "external",
            ("document",),
            "arms.pipelines.run_file",
            summary="a TREC run that exists already, with stated latencies",
        ),
        ArmKind(
            "none",
            "none",
            "none",
            ("document",),
            "arms.pipelines.none",
            summary="no retrieval; never a router's default action",
        ),
    )
}


def kind_of(name: str) -> ArmKind:
    """Return the kind of the pipeline ``name``; raise ``SettingsError`` naming the nearest one."""
    if name in KINDS:
        return KINDS[name]
    near = difflib.get_close_matches(name, KINDS, n=1)
    hint = f"did you mean '{near[0]}'? " if near else ""
    raise SettingsError(f"no arm is called '{name}'; {hint}known: {', '.join(KINDS)}")


def missing_packages(kind: ArmKind) -> tuple[str, ...]:
    """Return the packages of the kind's back end that can't be imported here."""
    return tuple(package for package in kind.requires if find_spec(package) is None)


def spec_of(settings: ArmSettings) -> ArmSpec:
    """Turn one arm's settings into its spec, checked against the catalogue."""
    kind = kind_of(settings.arm)
    if settings.granularity not in kind.granularities:
        raise SettingsError(
            f"arm '{settings.arm}' has granularity {' or '.join(kind.granularities)}, "
            f"got '{settings.granularity}'"
        )
    if settings.encoder and not kind.uses_encoder:
        raise SettingsError(f"arm '{settings.arm}' takes no encoder, got '{settings.encoder}'")
    return ArmSpec(settings.arm, settings.granularity, settings.encoder, settings.options)


def arm_class(name: str) -> type[Arm]:
    """Import the pipeline's class; raise ``MissingExtraError`` when its back end is absent."""
    kind = kind_of(name)
    missing = missing_packages(kind)
    if missing:
        raise MissingExtraError(missing[0], kind.extra)
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
