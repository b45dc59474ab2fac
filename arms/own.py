"""Arms of one's own: a function or a class becomes an arm that runs, labels and routers can name.

What is registered here is known to this process alone. Labels and routers hold an arm's name, never
the code behind it: whoever opens them says again which code answers to the name. Installed packages
may do so once for all through the entry-point group ``learning_to_route.arms``.
"""

from __future__ import annotations

import asyncio
import inspect
import math
import sys
from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, ClassVar

from pydantic import Field

from arms.arm import Arm, ArmKind, ArmSpec
from arms.catalogue import register, spec_of
from arms.clock import StageClock
from arms.corpora.corpus import Corpus
from arms.errors import ArmError, SettingsError
from arms.indexes import folder
from arms.progress import Progress
from arms.records import Architecture, Granularity, Modality, Ranking
from arms.settings import ArmSettings, Settings, parse_options

_IDS = "doc_ids.txt"


class FunctionOptions(Settings):
    """Options of an arm that is a function."""

    version: str = Field(
        default="", description="change it when the function answers differently: labels are redone"
    )


class FunctionArm(Arm):
    """A function that searches; its index folder holds the ids that it may return, nothing else."""

    search: ClassVar[Callable[..., Any]]
    batched: ClassVar[bool]

    def __init__(self, spec: ArmSpec, doc_ids: frozenset[str]) -> None:
        self.spec, self._doc_ids = spec, doc_ids

    @classmethod
    def build(cls, spec: ArmSpec, corpus: Corpus, index_root: Path, progress: Progress) -> None:
        """Write the corpus's ids (see :meth:`Arm.build`)."""
        parse_options(FunctionOptions, spec.options, spec.identity)
        source = folder.Source(spec, corpus)
        if not folder.finished(source, index_root):
            with folder.building(source, index_root) as build:
                ids = "\n".join(document.doc_id for document in corpus)
                (build.folder / _IDS).write_text(ids, encoding="utf-8", newline="\n")
                build.n_units = len(corpus)

    @classmethod
    def open(cls, spec: ArmSpec, corpus: Corpus, index_root: Path) -> FunctionArm:
        """Read the ids (see :meth:`Arm.open`)."""
        place = folder.open_folder(folder.Source(spec, corpus), index_root)
        return cls(spec, frozenset((place / _IDS).read_text(encoding="utf-8").split("\n")))

    def rank_batch(self, queries: Sequence[str], k: int, clock: StageClock) -> list[Ranking]:
        """Call the function, and check what it returns."""
        search = type(self).search
        with clock.stage("search"):
            if self.batched:
                found = list(_awaited(search(list(queries), k)))
            else:
                found = [_awaited(search(query, k)) for query in queries]
        if len(found) != len(queries):
            raise ArmError(
                f"'{self.spec.identity}' was asked {len(queries)} queries and returned "
                f"{len(found)} answers; expected one list of (document id, score) for each query"
            )
        return [self._ranking(answer, k) for answer in found]

    def _ranking(self, answer: Any, k: int) -> Ranking:
        """Order by score, then id; refuse what is no ranking of the corpus's documents."""
        name = self.spec.identity
        try:
            pairs = [(doc_id, float(score)) for doc_id, score in answer]
        except (TypeError, ValueError) as error:
            raise ArmError(
                f"'{name}' must return (document id, score) pairs, got {answer!r:.100}"
            ) from error
        ids = [doc_id for doc_id, _ in pairs]
        unknown = [doc_id for doc_id in ids if doc_id not in self._doc_ids]
        if unknown:
            raise ArmError(
                f"'{name}' returned {len(unknown)} ids that the corpus lacks, such as "
                f"{unknown[0]!r}; expected the corpus's own ids"
            )
        if len(set(ids)) < len(ids):
            twice = next(doc_id for doc_id in ids if ids.count(doc_id) > 1)
            raise ArmError(f"'{name}' returned the document {twice!r} twice for one query")
        if not all(math.isfinite(score) for _, score in pairs):
            raise ArmError(f"'{name}' returned a score that is no finite number")
        best = sorted(pairs, key=lambda pair: (-pair[1], pair[0]))[:k]
        return Ranking(tuple(doc_id for doc_id, _ in best), tuple(score for _, score in best))


def _awaited(answer: Any) -> Any:
    return asyncio.run(_result(answer)) if inspect.isawaitable(answer) else answer


async def _result(awaitable: Any) -> Any:
    return await awaitable


def from_function(
    name: str,
    search: Callable[..., Any],
    *,
    batched: bool = False,
    modality: Modality = "text",
    granularity: Granularity = "document",
    architecture: Architecture = "external",
    version: str = "",
) -> ArmSettings:
    """Make a function an arm called ``name``; return what stands for it wherever arms are named.

    Args:
        name: in labels, routers and reports; letters, digits and ``_ . -``.
        search: ``(query, k) -> [(doc_id, score), …]`` in any order, or a coroutine function of the
            same form. An exception is a status of that query (``error``), never a score of 0.
        batched: ``search`` takes a list of queries and returns a list per query.
        modality: of what it searches.
        granularity: of what it indexes; ids are always the corpus's documents.
        architecture: ``late`` and ``none`` are kept out of a router's reach unless the run says
            otherwise, as in RetrievalRouter.
        version: change it when the function answers differently, and labels are made anew.

    Raises:
        SettingsError: the name can't be used.

    >>> arm = from_function("ours", lambda query, k: [("d1", 1.0)])
    >>> label(corpus, arms=["bm25", arm])  # doctest: +SKIP
    """
    members = {"search": staticmethod(search), "batched": batched}
    loaded = type(FunctionArm.__name__, (FunctionArm,), members)
    return from_class(
        name, loaded, modality=modality, granularities=(granularity,), architecture=architecture,
        options={"version": version} if version else {},
    )  # fmt: skip


def from_class(
    name: str,
    arm_class: type[Arm],
    *,
    modality: Modality = "text",
    granularities: Sequence[Granularity] = ("document",),
    architecture: Architecture = "external",
    uses_encoder: bool = False,
    options: dict[str, Any] | None = None,
) -> ArmSettings:
    """Make a class of the arm contract (:class:`arms.arm.Arm`) an arm called ``name``.

    ``options`` are the class's own, which it checks itself; for the rest see
    :func:`from_function`. ``arms.contract.ArmContract`` tests such a class.
    """
    settings = parse_options(ArmSettings, {"arm": name, "name": name}, name)
    register(
        ArmKind(
            name, modality, architecture, tuple(granularities), uses_encoder=uses_encoder,
            load=lambda: arm_class, summary=_first_line(arm_class),
        )
    )  # fmt: skip
    return settings.model_copy(update={"name": None, "options": options or {}})


def imported(arms: Sequence[ArmSettings], beside: Path | None = None) -> list[ArmSettings]:
    """Import the code of arms that a run's own file names as ``package.module:attribute``.

    Call it on what a user wrote, never on what labels or a router hold. The attribute is a function
    as in :func:`from_function`, a class of the arm contract, or what :func:`from_function`
    returned. The arm is called by its ``name``, or else by the attribute's.

    Args:
        arms: as read.
        beside: a folder in which modules are looked for first.

    Raises:
        SettingsError: the module or the attribute is absent, or is none of these.
    """
    return [one if ":" not in one.arm else _imported(one, beside) for one in arms]


def _imported(settings: ArmSettings, beside: Path | None) -> ArmSettings:
    module, _, attribute = settings.arm.partition(":")
    path = [] if beside is None else [str(beside.resolve())]
    sys.path[:0] = path
    try:
        found = getattr(import_module(module), attribute)
    except (ImportError, AttributeError, ValueError) as error:
        raise SettingsError(
            f"arm '{settings.arm}': expected package.module:attribute that can be imported here, "
            f"got {type(error).__name__}: {error}"
        ) from error
    finally:
        for one in path:
            sys.path.remove(one)
    name = settings.name or attribute
    if isinstance(found, ArmSettings):
        return settings.model_copy(
            update={
                "arm": found.arm,
                "name": settings.name if settings.name != found.arm else None,
                "options": {**found.options, **settings.options},
            }
        )
    if inspect.isclass(found) and issubclass(found, Arm):
        made = from_class(name, found)
    elif callable(found) and not inspect.isclass(found):
        made = from_function(name, found)
    else:
        raise SettingsError(
            f"arm '{settings.arm}': expected a function, a class of arms.arm.Arm, or what "
            f"arms.from_function returned, got {type(found).__name__}"
        )
    return settings.model_copy(update={"arm": made.arm, "name": None})


def _first_line(arm_class: type[Arm]) -> str:
    return (inspect.getdoc(arm_class) or "").partition("\n")[0]


def parse_arms(given: Sequence[Any]) -> list[ArmSettings]:
    """Check arms that Python code names: settings, mappings as in YAML, or plain names.

    Raises:
        SettingsError: with the problems of all arms.
    """
    arms, problems = [], []
    for one in [given] if isinstance(given, str) else given:
        try:
            settings = (
                one if isinstance(one, ArmSettings) else parse_options(ArmSettings, one, str(one))
            )
            arms += imported([settings])
            spec_of(arms[-1])
        except SettingsError as error:
            problems.append(str(error))
    if problems:
        raise SettingsError("\n".join(problems))
    return arms
