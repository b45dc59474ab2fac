"""The router on disk: ``router.json`` and one folder per policy under ``policies/``.

``RouterRecord`` *is* ``router.json``. A whole artifact is written at once: either all of it is
there or none. Training writes ``decisions.parquet`` beside it afterwards.
"""

from __future__ import annotations

import json
import math
import platform
import re
import shutil
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from arms.atomic import atomic_folder, write_json
from arms.errors import RouterError
from router.calibration import Calibration, calibration_from_json, calibration_to_json
from router.policies.files import read_policy_json
from router.policy import Expected, Policy

FORMAT_VERSION = 3
_PLAIN_NAME = re.compile(r"[A-Za-z0-9][\w.:@#+-]*")
RECORD = "router.json"
DECISIONS = "decisions.parquet"
_OPTIONAL = ("calibration", "gates", "warnings")
"""Entries that are written only where there is something to write."""
_RECORDED_PACKAGES = (
    "learning-to-route",
    "numpy",
    "scikit-learn",
    "torch",
    "transformers",
    "tokenizers",
    "peft",
    "safetensors",
)


@dataclass(frozen=True)
class Defaults:
    """The policies that answer where a caller names none; validation queries chose them."""

    select: str
    """It needs no index."""
    search: str = ""
    """It may run arms before it decides, and merge or fuse what they found; default: the same."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "search", self.search or self.select)

    @property
    def told(self) -> str:
        """Both, in words."""
        return f"select asks {self.select}, search asks {self.search}"


@dataclass(frozen=True)
class RouterRecord:
    """Everything a router knows beside its weights."""

    arms: tuple[str, ...]
    """A: identities of the arms it chooses from, in column order; ties go to the earlier one."""
    defaults: Defaults
    tau: float | None = None
    """Temperature of the soft targets."""
    lams: tuple[float, ...] = ()
    """The λ it was trained for, ascending."""
    encoder_id: str | None = None
    encoder_revision: str | None = None
    expected: Mapping[str, Mapping[float, Mapping[str, Expected]]] = field(default_factory=dict)
    """Policy → λ → arm → what to expect from that arm where the policy chooses it; any of the
    three may be absent."""
    datasets: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Dataset → the arms of A that it has."""
    arm_options: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """Arm → the options it was labelled with; an arm that is absent has its defaults."""
    arm_encoders: Mapping[str, str] = field(default_factory=dict)
    """Arm with a name of its own → the encoder it was labelled with; absent: its default."""
    overhead_ms: Mapping[str, float] = field(default_factory=dict)
    """Policy → median milliseconds of deciding one query, serial and warm."""
    training_metrics: Mapping[str, Any] = field(default_factory=dict)
    """JSON content; numbers that are not finite are written as null."""
    quality_measure: str | None = None
    """That quality is of: ``nDCG@5``."""
    latency_total_ms: float | None = None
    """Mean over the labelled queries of the sum of the arms' latencies, which λ is relative to."""
    labels_hash: str | None = None
    """Which oracle labels it was trained on."""
    index: str | None = None
    """The index root, absolute or relative to the router's folder; None = ``../index``."""
    library_versions: Mapping[str, str] = field(default_factory=dict)
    calibration: Mapping[str, Calibration] = field(default_factory=dict)
    """Policy → λ ↔ latency and quality, where calibrated."""
    gates: Mapping[str, Mapping[str, float | None]] = field(default_factory=dict)
    """λ → the default policy's gate: ``margin`` (None: closed), ``gain``, its standard ``error``,
    and the validation ``queries``."""
    warnings: tuple[str, ...] = ()
    """What training found that whoever relies on the router should know."""
    policies: tuple[str, ...] = ()
    """Names of the policies in the artifact; :func:`write_router` fills it in."""
    format_version: int = FORMAT_VERSION

    def __post_init__(self) -> None:
        if not self.arms or len(set(self.arms)) != len(self.arms):
            raise RouterError(
                f"a router needs at least one arm and no arm twice, got {list(self.arms)}"
            )


def library_versions() -> dict[str, str]:
    """Return the versions of Python and of the installed packages a router depends on."""
    versions = {"python": platform.python_version()}
    for package in _RECORDED_PACKAGES:
        try:
            versions[package] = version(package)
        except PackageNotFoundError:
            continue
    return versions


def policy_folder(router_folder: Path, policy_name: str) -> Path:
    """Return where the policy lies: its name as one path component under ``policies/``."""
    safe = policy_name.replace("/", "--").replace(":", "..")
    if not safe.strip(". ") or "\\" in safe or "\x00" in safe:
        raise RouterError(f"a policy's name must be usable as a folder name, got {policy_name!r}")
    return router_folder / "policies" / safe


def write_router(
    folder: Path,
    record: RouterRecord,
    policies: Iterable[Policy],
    keep_decisions: bool = True,
) -> RouterRecord:
    """Write the artifact atomically, replacing the one there; return the record as written.

    ``policies`` are saved under their names; ``record.policies`` is filled in, and
    ``record.library_versions`` where empty. A ``decisions.parquet`` that lies in the folder is
    carried over unless ``keep_decisions`` is False (a retrained router decides differently).

    Raises:
        RouterError: the default policy is not among ``policies``, a policy chooses from other
            arms than the record's, or two policies share a name.
    """
    given = list(policies)
    record = replace(
        record,
        policies=tuple(policy.name for policy in given),
        library_versions=dict(record.library_versions) or library_versions(),
    )
    _check_policies(record, given)
    with atomic_folder(folder) as temporary:
        for policy in given:
            target = policy_folder(temporary, policy.name)
            target.mkdir(parents=True)
            policy.save(target)
        if keep_decisions and (folder / DECISIONS).is_file():
            shutil.copyfile(folder / DECISIONS, temporary / DECISIONS)
        write_json(temporary / RECORD, _to_json(record))
    return record


def add_policy(folder: Path, policy: Policy, like: str | None = None) -> RouterRecord:
    """Add a policy to a finished artifact, or replace the one of its name and kind.

    The policy's folder appears at once, then ``router.json`` lists it; decisions stay as they are.
    ``like`` names a policy that decides the same: what is expected of it is expected of the new
    one. Otherwise nothing is.

    Raises:
        RouterError: it chooses from other arms than the router's, or its name belongs to a policy
            of another kind.
    """
    record = read_router(folder)
    check_addable(folder, record, policy.name, policy.kind)
    target = policy_folder(folder, policy.name)
    names = tuple(dict.fromkeys([*record.policies, policy.name]))
    expected = {name: one for name, one in record.expected.items() if name != policy.name}
    if like is not None and like in record.expected:
        expected[policy.name] = record.expected[like]
    record = replace(record, policies=names, expected=expected)
    _check_arms(record, policy)
    with atomic_folder(target) as temporary:
        policy.save(temporary)
    write_json(folder / RECORD, _to_json(record))
    return record


def check_addable(folder: Path, record: RouterRecord, name: str, kind: str) -> None:
    """Raise ``RouterError`` where the name isn't plain, or is that of a policy of another kind."""
    if not _PLAIN_NAME.fullmatch(name):
        raise RouterError(
            "a policy's name begins with a letter or digit and holds letters, digits and "
            f"'_ - . : @ # +' only, got {name!r}"
        )
    present = (
        read_policy_json(policy_folder(folder, name))["kind"] if name in record.policies else kind
    )
    if present != kind:
        raise RouterError(
            f"{folder} has a policy '{name}' of kind '{present}'; give the new one, of kind "
            f"'{kind}', another name"
        )


def update_record(folder: Path, record: RouterRecord) -> None:
    """Replace ``router.json`` alone, atomically: policies and decisions stay as they are."""
    present = read_router(folder)
    if record.arms != present.arms:
        raise RouterError(
            f"{folder} has the arms {', '.join(present.arms)}; a new record can't change them to "
            f"{', '.join(record.arms)}; retrain"
        )
    record = replace(record, policies=present.policies)
    _check_default(record)
    write_json(folder / RECORD, _to_json(record))


def read_router(folder: Path) -> RouterRecord:
    """Read ``router.json``; raise ``RouterError`` if it is absent, partial, damaged or newer."""
    path = folder / RECORD
    if not path.is_file():
        raise RouterError(
            f"{folder} is not a router: it holds no {RECORD}; give the folder that l2r train wrote"
        )
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        found = content["format_version"]
    except (UnicodeDecodeError, json.JSONDecodeError, KeyError, TypeError) as error:
        raise RouterError(f"{path} is damaged ({error}); rerun l2r train") from error
    if found != FORMAT_VERSION:
        raise RouterError(
            f"{path} has format version {found}, this release reads {FORMAT_VERSION}; "
            "install the release that wrote it, or rerun l2r train"
        )
    record = _from_json(content, path)
    _check_default(record)
    for name in record.policies:
        if not (policy_folder(folder, name) / "policy.json").is_file():
            raise RouterError(
                f"{folder} lists the policy '{name}' and lacks its files; copy the whole folder, "
                "or rerun l2r train"
            )
    return record


def _check_default(record: RouterRecord) -> None:
    for name in (record.defaults.select, record.defaults.search):
        if name not in record.policies:
            raise RouterError(
                f"the default policy '{name}' is not among the router's policies: "
                f"{', '.join(record.policies) or 'none'}"
            )


def _check_policies(record: RouterRecord, policies: list[Policy]) -> None:
    _check_default(record)
    folders = {policy_folder(Path(), name) for name in record.policies}
    if len(folders) != len(policies):
        raise RouterError(f"two policies share a name: {', '.join(record.policies)}")
    for policy in policies:
        _check_arms(record, policy)


def _check_arms(record: RouterRecord, policy: Policy) -> None:
    if policy.arms != record.arms:
        raise RouterError(
            f"policy '{policy.name}' chooses from {', '.join(policy.arms)}; the router's arms "
            f"are {', '.join(record.arms)}, in this order"
        )


def _finite(content: Any) -> Any:
    """Return JSON content with every number that is not finite replaced by None."""
    if isinstance(content, Mapping):
        return {str(key): _finite(value) for key, value in content.items()}
    if isinstance(content, list | tuple):
        return [_finite(value) for value in content]
    if isinstance(content, bool | int | str) or content is None:
        return content
    value = float(content)
    return value if math.isfinite(value) else None


def _to_json(record: RouterRecord) -> dict[str, Any]:
    content = {entry.name: getattr(record, entry.name) for entry in fields(record)}
    content["defaults"] = asdict(record.defaults)
    content["expected"] = [
        {
            "policy": policy,
            "lam": float(lam),
            "arm": arm,
            "quality": expected.quality,
            "latency_ms": expected.latency_ms,
            "queries": int(expected.queries),
        }
        for policy, by_lam in record.expected.items()
        for lam, by_arm in by_lam.items()
        for arm, expected in by_arm.items()
    ]
    content["lams"] = [float(lam) for lam in record.lams]
    content["calibration"] = {
        name: calibration_to_json(one) for name, one in record.calibration.items()
    }
    content = {key: value for key, value in content.items() if value or key not in _OPTIONAL}
    cleaned: dict[str, Any] = _finite(content)
    return cleaned


def _from_json(content: dict[str, Any], path: Path) -> RouterRecord:
    known = {entry.name for entry in fields(RouterRecord)}
    wrong = sorted((known ^ set(content)) - (set(_OPTIONAL) - set(content)))
    if wrong:
        raise RouterError(
            f"{path} has missing or unexpected entries: {', '.join(wrong)}; rerun l2r train"
        )
    try:
        expected: dict[str, dict[float, dict[str, Expected]]] = {}
        for row in content["expected"]:
            by_arm = expected.setdefault(row["policy"], {}).setdefault(float(row["lam"]), {})
            by_arm[row["arm"]] = Expected(row["quality"], row["latency_ms"], row["queries"])
        return RouterRecord(
            **{
                **content,
                "arms": tuple(content["arms"]),
                "defaults": Defaults(**content["defaults"]),
                "lams": tuple(float(lam) for lam in content["lams"]),
                "policies": tuple(content["policies"]),
                "datasets": {name: tuple(arms) for name, arms in content["datasets"].items()},
                "expected": expected,
                "warnings": tuple(content.get("warnings", ())),
                "calibration": {
                    name: calibration_from_json(one)
                    for name, one in content.get("calibration", {}).items()
                },
            }
        )
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise RouterError(f"{path} is damaged ({error!r}); rerun l2r train") from error
