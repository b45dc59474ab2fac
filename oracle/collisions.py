"""Arms of one run that would fill the same index folder with different things."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields

from arms.arm import ArmSpec
from arms.catalogue import arm_class, spec_of
from arms.corpora.corpus import Corpus, Dataset
from arms.errors import SettingsError
from arms.settings import ArmSettings


@dataclass(frozen=True, slots=True)
class _Wish:
    """An index that an arm of the run has or reads."""

    owner: str
    spec: ArmSpec

    def __str__(self) -> str:
        if self.owner == self.spec.identity:
            return f"the arm '{self.owner}'"
        return f"'{self.spec.identity}' as a part of '{self.owner}'"


def check_collisions(datasets: Sequence[Dataset], arms: Sequence[ArmSettings]) -> None:
    """Refuse arms and parts of arms that share an index folder and not what it is made from.

    Raises:
        SettingsError: every such pair is named, with what differs.
    """
    problems: dict[str, None] = {}
    for dataset in datasets:
        wishes: dict[str, _Wish] = {}
        for arm in arms:
            if arm.only is not None and dataset.name not in arm.only:
                continue
            spec = spec_of(arm)
            for one in _indexes(spec):
                wish = _Wish(spec.identity, one)
                first = wishes.setdefault(one.folder_name, wish)
                differences = _differences(first.spec, one, dataset.corpus)
                if differences:
                    problems[
                        f"{first} and {wish} need the same index folder, made from different "
                        f"things: {'; '.join(differences)}. Give both the same ones, or "
                        "one of them a 'name:'"
                    ] = None
    if problems:
        raise SettingsError("\n".join(problems))


def _indexes(spec: ArmSpec) -> Iterator[ArmSpec]:
    yield spec
    for part in arm_class(spec.name).parts(spec):
        yield from _indexes(part)


def _differences(one: ArmSpec, other: ArmSpec, corpus: Corpus) -> list[str]:
    """Compare what two indexes are made from; options that only steer a search don't count."""
    if one == other:
        return []
    if one.identity != other.identity:
        if (one.own_name, other.own_name) == (None, None):
            return [f"the encoders' names {one.encoder!r} and {other.encoder!r}"]
        return [f"the arms' names {one.identity!r} and {other.identity!r}"]
    first, second = (arm_class(spec.name).source(spec, corpus).record() for spec in (one, other))
    found = []
    for item in fields(first):
        wanted, got = getattr(first, item.name), getattr(second, item.name)
        if isinstance(wanted, dict) and isinstance(got, dict):
            keys = [key for key in {**wanted, **got} if wanted.get(key) != got.get(key)]
            found += [f"{key} {wanted.get(key)!r} and {got.get(key)!r}" for key in keys]
        elif wanted != got:
            found.append(f"{item.name} {wanted!r} and {got!r}")
    return found
