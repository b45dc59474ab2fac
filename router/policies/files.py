"""How a policy lies in its folder: ``policy.json`` and safetensors, read strictly."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from arms.atomic import write_json
from arms.errors import RouterError
from arms.read_errors import damage

POLICY = "policy.json"
FORMAT_VERSION = 1
_REMEDY = "copy the whole router folder, or rerun l2r train"


def lam_folder_name(lam: float) -> str:
    """``lam-0``, ``lam-0.1``, …: the folder of what belongs to one λ."""
    return f"lam-{float(lam):.12g}"


def ascending_lams(lams: Iterable[float]) -> tuple[float, ...]:
    """Return the λ ascending; raise ``RouterError`` when none is given or one lies outside [0, 1].

    Two that differ only beyond twelve digits are refused too: they would share a folder.
    """
    ordered = tuple(sorted(float(lam) for lam in lams))
    if not ordered or not all(0.0 <= lam <= 1.0 for lam in ordered):
        raise RouterError(f"a policy needs at least one lam, each in [0, 1], got {list(ordered)}")
    if len({lam_folder_name(lam) for lam in ordered}) != len(ordered):
        raise RouterError(f"a policy needs distinct lams, got {list(ordered)}")
    return ordered


def write_policy_json(folder: Path, kind: str, content: Mapping[str, Any]) -> None:
    """Write ``policy.json`` with its kind and format version."""
    write_json(folder / POLICY, {"kind": kind, "format_version": FORMAT_VERSION, **content})


def read_policy_json(folder: Path, keys: Iterable[str] = ()) -> dict[str, Any]:
    """Read ``policy.json``; with ``keys``, exactly those must stand beside kind and version."""
    path = folder / POLICY
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        kind, found = content["kind"], content["format_version"]
    except (OSError, UnicodeDecodeError, json.JSONDecodeError, KeyError, TypeError) as error:
        raise RouterError(
            f"{damage(path, error)}; copy the whole router folder, or rerun l2r train"
        ) from error
    if found != FORMAT_VERSION:
        raise RouterError(
            f"{path} has format version {found}, this release reads {FORMAT_VERSION} "
            f"(kind '{kind}'); install the release that wrote it, or rerun l2r train"
        )
    expected = set(keys)
    wrong = sorted((set(content) - {"kind", "format_version"}) ^ expected) if expected else []
    if wrong:
        raise RouterError(
            f"{path} has missing or unexpected entries: {', '.join(wrong)}; rerun l2r train"
        )
    result: dict[str, Any] = content
    return result


def check_numbers(
    place: str,
    content: Mapping[str, Any],
    whole: Mapping[str, int] | None = None,
    positive: Iterable[str] = (),
    finite: Iterable[str] = (),
) -> None:
    """Raise ``RouterError``, with every problem, where an entry of ``content`` isn't the number.

    Args:
        place: the file that holds the entries, and where in it.
        content: they.
        whole: name → the least it may be, of whole numbers.
        positive: names of finite numbers above 0.
        finite: names of finite numbers.
    """

    def is_finite(name: str) -> bool:
        value = content.get(name)
        return type(value) in (int, float) and math.isfinite(value or 0)

    problems = [
        f"{name} should be a whole number of at least {least}, got {content.get(name)!r}"
        for name, least in (whole or {}).items()
        if type(content.get(name)) is not int or content[name] < least
    ]
    problems += [
        f"{name} should be a finite number above 0, got {content.get(name)!r}"
        for name in positive
        if not is_finite(name) or content[name] <= 0
    ]
    problems += [
        f"{name} should be a finite number, got {content.get(name)!r}"
        for name in finite
        if not is_finite(name)
    ]
    if problems:
        raise RouterError(f"{place} is damaged: {'; '.join(problems)}; {_REMEDY}")


@contextmanager
def well_described(folder: Path, what: str) -> Iterator[None]:
    """Turn what goes wrong while ``what`` of a policy's entries is read into a ``RouterError``."""
    try:
        yield
    except (AttributeError, KeyError, OverflowError, TypeError, ValueError) as error:
        raise RouterError(
            f"{folder / POLICY} describes its {what} wrongly ({error!r}); {_REMEDY}"
        ) from error


def sha256_of(content: bytes) -> str:
    """Return the SHA-256 of a file's content, which :func:`read_held` asks for."""
    return hashlib.sha256(content).hexdigest()


def read_held(path: Path, sha256: str) -> bytes:
    """Read a file that its policy holds by its hash.

    Raises:
        RouterError: it is absent, or another than was written.
    """
    try:
        content = path.read_bytes()
    except OSError as error:
        raise RouterError(f"{damage(path, error)}; {_REMEDY}") from error
    if sha256_of(content) != sha256:
        raise RouterError(
            f"{path} is not the file that training wrote; copy the router folder again, "
            "or rerun l2r train"
        )
    return content


def write_arrays(path: Path, arrays: Mapping[str, NDArray[Any]]) -> None:
    """Write named arrays as safetensors, exactly."""
    from safetensors.numpy import save_file

    path.parent.mkdir(parents=True, exist_ok=True)
    save_file({name: np.ascontiguousarray(array) for name, array in arrays.items()}, path)


def read_arrays(
    path: Path, shapes: Mapping[str, tuple[int | None, ...]]
) -> dict[str, NDArray[Any]]:
    """Read safetensors that must hold exactly the keys of ``shapes``; None fits any length.

    Raises:
        RouterError: the file is absent or damaged, a key is missing or unexpected, a shape is
            another, or a value is not finite.
    """
    from safetensors import SafetensorError
    from safetensors.numpy import load_file

    try:
        arrays = load_file(path)
    except (OSError, SafetensorError, ValueError, KeyError, TypeError) as error:
        raise RouterError(
            f"{damage(path, error)}; copy the whole router folder, or rerun l2r train"
        ) from error
    wrong = sorted(set(arrays) ^ set(shapes))
    if wrong:
        raise RouterError(
            f"{path} must hold the weights {', '.join(sorted(shapes))}; missing or unexpected: "
            f"{', '.join(wrong)}; rerun l2r train"
        )
    for name, shape in shapes.items():
        _check_array(path, name, arrays[name], shape)
    return arrays


def _check_array(path: Path, name: str, array: NDArray[Any], shape: tuple[int | None, ...]) -> None:
    fits = array.ndim == len(shape) and all(
        wanted is None or wanted == length
        for wanted, length in zip(shape, array.shape, strict=False)
    )
    if not fits:
        wanted = "×".join("any" if length is None else str(length) for length in shape)
        raise RouterError(
            f"{path} must hold '{name}' of shape {wanted}, got "
            f"{'×'.join(map(str, array.shape))}; rerun l2r train"
        )
    if not np.isfinite(array).all():
        raise RouterError(f"{path} holds values of '{name}' that are not finite; rerun l2r train")
