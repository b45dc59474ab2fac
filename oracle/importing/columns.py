"""Which column of somebody's table holds what, found by its header."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from oracle.importing.problems import Problems

ALIASES: dict[str, tuple[str, ...]] = {
    "query_id": ("query_id", "qid", "sample_id", "question_id", "id"),
    "text": ("text", "query", "question", "prompt", "query_text"),
    "dataset": ("dataset", "eval_name", "collection", "benchmark"),
    "split": ("split", "partition"),
    "arm": ("arm", "model_name", "model", "pipeline", "method", "retriever"),
    "status": ("status",),
}
"""What a column holds → the headers by which it is known, the likeliest first."""

_MEASURES = {
    "ndcg": "nDCG",
    "mrr": "RR",
    "rr": "RR",
    "recall": "R",
    "r": "R",
    "map": "AP",
    "ap": "AP",
    "precision": "P",
    "p": "P",
    "success": "Success",
    "hit": "Success",
    "hits": "Success",
    "score": "score",
    "quality": "quality",
    "performance": "performance",
    "accuracy": "accuracy",
    "f1": "f1",
    "em": "em",
}
_MEASURE = re.compile(rf"({'|'.join(_MEASURES)})(?:(?:@|_at_|_|-)?(\d+))?", re.IGNORECASE)
_LATENCY = re.compile(r"latency(?:_(ms|s))?", re.IGNORECASE)
UNITS = {"ms": 1.0, "s": 1000.0}
"""Unit of a latency → milliseconds."""


def measure_name(suffix: str) -> str | None:
    """Return the measure as ir-measures writes it (``ndcg_5`` → ``nDCG@5``); None if it's none."""
    found = _MEASURE.fullmatch(suffix)
    if not found:
        return None
    name = _MEASURES[found[1].lower()]
    return f"{name}@{found[2]}" if found[2] else name


def in_order(measures: Sequence[str], quality: str | None) -> tuple[str, ...]:
    """Put the measure that serves as quality first: the wished one, or nDCG@5, or an nDCG."""
    preferred = [quality] if quality else ["nDCG@5"]
    preferred += [name for name in measures if name.startswith("nDCG")]
    first = next((name for name in preferred if name in measures), None)
    return tuple(dict.fromkeys([*([first] if first else []), *measures]))


@dataclass
class LatencyColumn:
    """A column of latencies, and what one of its units is in milliseconds."""

    name: str
    factor: float


@dataclass
class WideColumns:
    """The columns of a table with one row per query."""

    base: dict[str, str]
    """``query_id``, ``text``, ``dataset``, ``split`` → header, where there is one."""
    arms: tuple[str, ...] = ()
    latency: dict[str, LatencyColumn] = field(default_factory=dict)
    quality: dict[str, dict[str, str]] = field(default_factory=dict)
    """Measure → arm → header."""
    status: dict[str, str] = field(default_factory=dict)
    """Arm → header, where there is one."""

    @property
    def names(self) -> list[str]:
        """Every header that is needed, each once."""
        used = [*self.base.values(), *(one.name for one in self.latency.values())]
        used += [name for of_arms in self.quality.values() for name in of_arms.values()]
        return list(dict.fromkeys([*used, *self.status.values()]))


def base_columns(
    header: Sequence[str], wanted: Sequence[str], named: Mapping[str, str], problems: Problems
) -> dict[str, str]:
    """Find the columns ``wanted`` (keys of ``ALIASES``) by alias, or as ``named`` by the user."""
    by_lower = {name.lower(): name for name in reversed(header) if name}
    found = {}
    for key in wanted:
        if key in named:
            if named[key] in header:
                found[key] = named[key]
            else:
                problems.add("missing_column", named[key], None, f"--column {key}={named[key]}")
            continue
        alias = next((one for one in ALIASES[key] if one in by_lower), None)
        if alias is not None:
            found[key] = by_lower[alias]
    for name in found.values():
        if header.count(name) > 1:
            problems.add("ambiguous_column", name, None)
    return found


def wide_columns(
    header: Sequence[str],
    arms: Sequence[str] | None,
    named: Mapping[str, str],
    unit: str | None,
    problems: Problems,
) -> WideColumns:
    """Find ``<ARM>_latency``, ``<ARM>_ndcg`` and the like; add what is missing to ``problems``.

    Args:
        header: the table's headers.
        arms: arms to import; default: every one with a latency or a quality.
        named: ``query_id`` and the like → header, as the user says.
        unit: of latencies whose header doesn't say, ``ms`` or ``s``.
        problems: added to.
    """
    columns = WideColumns(
        base_columns(header, ("query_id", "text", "dataset", "split"), named, problems)
    )
    used = set(columns.base.values())
    parts = [(name, _split(name)) for name in header if name not in used]
    latency: dict[str, list[tuple[str, str | None]]] = {}
    quality: dict[str, dict[str, str]] = {}
    measures: list[str] = []
    for name, part in parts:
        if part is None:
            continue
        arm, suffix = part
        measure = measure_name(suffix)
        timed = _LATENCY.fullmatch(suffix)
        if timed:
            latency.setdefault(arm, []).append((name, timed[1]))
        elif measure:
            if measure in quality.get(arm, {}):
                problems.add("ambiguous_column", name, None, f"{measure} of {arm}")
            quality.setdefault(arm, {})[measure] = name
            measures.append(measure)
        elif suffix.lower() == "status":
            columns.status[arm] = name
    known = list(dict.fromkeys(part[0] for _, part in parts if part is not None))
    found = [arm for arm in known if arm in latency or arm in quality]
    columns.arms = tuple(arms) if arms else tuple(found)
    if not columns.arms:
        problems.add("missing_column", "<ARM>_latency_ms", None, "none of this form is there")
    measures = [one for one in dict.fromkeys(measures) if _of_any(quality, columns.arms, one)]
    for arm in columns.arms:
        _add_latency(columns, arm, latency.get(arm, []), unit, problems)
        for measure in measures or ["nDCG@5"]:
            header_name = quality.get(arm, {}).get(measure)
            if header_name is None:
                problems.add("missing_column", f"{arm}_{_short(measure)}", None, f"{measure}")
            else:
                columns.quality.setdefault(measure, {})[arm] = header_name
    columns.status = {arm: name for arm, name in columns.status.items() if arm in columns.arms}
    for name in columns.names:
        if header.count(name) > 1 and name not in used:
            problems.add("ambiguous_column", name, None)
    return columns


def _of_any(quality: Mapping[str, Mapping[str, str]], arms: Sequence[str], measure: str) -> bool:
    return any(measure in quality.get(arm, {}) for arm in arms)


def _short(measure: str) -> str:
    return measure.lower().replace("@", "_")


def _split(name: str) -> tuple[str, str] | None:
    """Cut ``text_dense_ndcg_5`` into arm and a suffix that is known; None where there is none."""
    for separator in re.finditer(r"[_. |]+", name):
        arm, suffix = name[: separator.start()], name[separator.end() :]
        if arm and (
            _LATENCY.fullmatch(suffix) or measure_name(suffix) or suffix.lower() == "status"
        ):
            return arm, suffix
    return None


def _add_latency(
    columns: WideColumns,
    arm: str,
    found: Sequence[tuple[str, str | None]],
    unit: str | None,
    problems: Problems,
) -> None:
    if not found:
        problems.add("missing_column", f"{arm}_latency_ms", None, f"the latency of {arm}")
        return
    if len(found) > 1:
        names = " and ".join(name for name, _ in found)
        problems.add("ambiguous_column", f"latency of {arm}", None, names)
    name, stated = found[0]
    chosen = (stated or unit or "").lower()
    if chosen in UNITS:
        columns.latency[arm] = LatencyColumn(name, UNITS[chosen])
    else:
        problems.add("unit", name, None, "say --latency-unit ms or --latency-unit s")


@dataclass
class LongColumns:
    """The columns of a table with one row per query and arm."""

    base: dict[str, str]
    latency: LatencyColumn | None
    quality: dict[str, str]
    """Measure → header."""

    @property
    def names(self) -> list[str]:
        """Every header that is needed, each once."""
        timed = [self.latency.name] if self.latency else []
        return list(dict.fromkeys([*self.base.values(), *timed, *self.quality.values()]))


def long_columns(
    header: Sequence[str], named: Mapping[str, str], unit: str | None, problems: Problems
) -> LongColumns:
    """Find query, arm, latency and measures; add what is missing to ``problems``.

    ``named`` may also hold ``latency`` → header, for one that isn't called so (``total_cost``).
    """
    base = base_columns(
        header, ("query_id", "text", "dataset", "split", "arm", "status"), named, problems
    )
    if "arm" not in base and "arm" not in named:
        problems.add("missing_column", "arm", None, f"one of {', '.join(ALIASES['arm'])}")
    if "query_id" not in base and "text" not in base:
        problems.add("missing_column", "query_id", None, "or one with the query's text")
    free = [name for name in header if name and name not in base.values()]
    quality: dict[str, str] = {}
    for name in free:
        measure = measure_name(name)
        if measure and measure in quality:
            problems.add("ambiguous_column", name, None, f"{measure}, as {quality[measure]} is")
        elif measure:
            quality[measure] = name
    if not quality:
        problems.add("missing_column", "quality", None, "or ndcg_5, recall_5, performance, …")
    return LongColumns(base, latency_column(free, named, unit, problems), quality)


def latency_column(
    free: Sequence[str], named: Mapping[str, str], unit: str | None, problems: Problems
) -> LatencyColumn | None:
    """Find the one column of latencies; None, and a problem added, where that isn't clear."""
    wished = named.get("latency")
    if wished is not None and wished not in free:
        problems.add("missing_column", wished, None, f"--column latency={wished}")
        return None
    matches = [(name, _LATENCY.fullmatch(name)) for name in free]
    found = [(name, match[1]) for name, match in matches if match]
    if wished is not None:
        match = _LATENCY.fullmatch(wished)
        found = [(wished, match[1] if match else None)]
    if len(found) != 1:
        kind = "ambiguous_column" if found else "missing_column"
        names = " and ".join(name for name, _ in found)
        problems.add(kind, "latency_ms", None, names or "or say --column latency=HEADER")
        return None
    name, stated = found[0]
    chosen = (stated or unit or "").lower()
    if chosen not in UNITS:
        problems.add("unit", name, None, "say --latency-unit ms or --latency-unit s")
        return None
    return LatencyColumn(name, UNITS[chosen])
