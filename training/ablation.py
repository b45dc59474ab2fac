"""Ablations of the frozen router: what each setting is worth, scored as the paper scores."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ValidationError

from arms.errors import SettingsError
from arms.progress import Progress, SilentProgress
from arms.reward import FloatArray
from oracle.labels import read_labels
from router.policies.encoder import LinearHead
from router.query_encoder import QueryEncoder
from training.baselines import choose
from training.calibrating import bootstrap_mean
from training.embeddings import embed_queries
from training.fitting import Workshop, comparable_rows, fit_frozen
from training.latency_repeats import with_repeats
from training.settings import TrainingSettings
from training.table import Texts, check_trainable, routing_table
from training.work_folder import WorkFolder

VARIABLE = (
    "tau",
    "targets",
    "frozen",
    "head_dropout",
    "warmup_share",
    "max_tokens",
    "encoder",
    "encoder_dtype",
    "seed",
)
"""Settings of training, or blocks of them, that change a frozen router."""
AS_CONFIGURED = "as configured"
SPLITS = ("val", "test")


@dataclass(frozen=True)
class Variation:
    """A setting and the values it takes."""

    key: str
    """Dotted, below ``training``: ``targets.latency_normalisation``."""
    values: tuple[Any, ...]


@dataclass(frozen=True)
class Variant:
    """One set of settings that is trained."""

    name: str
    """``as configured``, or what differs from that: ``tau=0.3``."""
    settings: TrainingSettings


@dataclass(frozen=True)
class Mean:
    """A mean over queries with its bootstrap interval; None where fewer than two are there."""

    value: float
    low: float | None
    high: float | None


@dataclass(frozen=True)
class AblationRow:
    """What one variant comes to at one λ on one split, the router's own overhead not counted."""

    variant: str
    lam: float
    split: str
    queries: int
    reward: Mean
    """Under the paper's definition, whatever the targets were."""
    quality: float
    latency_ms: float
    difference: Mean
    """Of reward, from the settings as configured, query by query."""


def parse_variation(text: str) -> Variation:
    """Read ``tau=0.05,0.1``: a setting and its values, written as in YAML.

    Raises:
        SettingsError: it can't be read, or no such setting changes a frozen router.
    """
    import yaml

    key, equals, written = text.partition("=")
    key = key.strip().removeprefix("training.")
    try:
        values = yaml.safe_load(f"[{written}]") if equals else None
    except yaml.YAMLError as error:
        raise SettingsError(f"--vary {text}: the values can't be read ({error})") from error
    if not values:
        raise SettingsError(f"--vary takes SETTING=VALUE,VALUE, e.g. tau=0.05,0.1; got '{text}'")
    known = [one for block in VARIABLE for one in _leaves(TrainingSettings, block)]
    if key not in known:
        raise SettingsError(f"--vary {text}: {_unknown(key, known)}")
    return Variation(key, tuple(values))


def _leaves(model: type[BaseModel], name: str) -> list[str]:
    """Return the dotted names of the settings at or below ``name``."""
    kind = model.model_fields[name].annotation
    if isinstance(kind, type) and issubclass(kind, BaseModel):
        return [f"{name}.{leaf}" for one in kind.model_fields for leaf in _leaves(kind, one)]
    return [name]


def _unknown(key: str, known: Sequence[str]) -> str:
    last = {one.rpartition(".")[2]: one for one in known}
    near = get_close_matches(key, known, 1) or [
        last[one] for one in get_close_matches(key.rpartition(".")[2], list(last), 1)
    ]
    every = [
        leaf for name in TrainingSettings.model_fields for leaf in _leaves(TrainingSettings, name)
    ]
    problem = "doesn't change a frozen router" if key in every else "is unknown"
    hint = f"; did you mean '{near[0]}'?" if near else f"; these do: {', '.join(known)}"
    return f"the setting '{key}' {problem}{hint}"


def variants_of(
    settings: TrainingSettings, variations: Sequence[Variation], grid: bool = False
) -> tuple[Variant, ...]:
    """Return the settings as configured, then one value changed at a time, or every combination.

    What comes to the same settings is trained once.

    Raises:
        SettingsError: values that a setting can't take, all of them at once.
    """
    singles = [[{one.key: value} for value in one.values] for one in variations]
    changes: list[dict[str, Any]] = (
        [
            {key: value for part in parts for key, value in part.items()}
            for parts in product(*singles)
        ]
        if grid
        else [change for values in singles for change in values]
    )
    problems = []
    variants = {settings.model_dump_json(): Variant(AS_CONFIGURED, settings)}
    for change in changes:
        name = ", ".join(f"{key}={value}" for key, value in change.items())
        try:
            changed = changed_settings(settings, change)
            variants.setdefault(changed.model_dump_json(), Variant(name, changed))
        except ValidationError as error:
            told = "; ".join(one["msg"].removeprefix("Value error, ") for one in error.errors())
            problems.append(f"  {name}: {told}")
    if problems:
        raise SettingsError("\n".join(["--vary has values that can't be:", *problems]))
    return tuple(variants.values())


def changed_settings(settings: TrainingSettings, change: Mapping[str, Any]) -> TrainingSettings:
    """Return the settings with dotted keys replaced, checked as a file's are."""
    content = settings.model_dump()
    for key, value in change.items():
        place = content
        *blocks, leaf = key.split(".")
        for block in blocks:
            place = place[block]
        place[leaf] = value
    return TrainingSettings.model_validate(content)


def ablate(
    labels_folder: Path,
    texts: Texts | None,
    router_folder: Path,
    variants: Sequence[Variant],
    progress: Progress | None = None,
) -> list[AblationRow]:
    """Train the frozen router of every variant at its λ, and score it on validation and test.

    Heads and query vectors are kept in the work folder beside ``router_folder``, where training
    finds them too, so that a killed run goes on; the router itself isn't touched. Choose by the
    validation rows: test is for reporting what was chosen.

    Raises:
        LabelsError: the labels are unusable, see :func:`training.train_routers.train_routers`.
        RouterError: an encoder can't be loaded.
    """
    progress = progress or SilentProgress()
    labels = read_labels(labels_folder)
    action = routing_table(labels, labels.router_arms, texts)
    check_trainable(action)
    every = routing_table(labels, labels.pipelines, texts)
    if any(one.settings.targets.smoothing == "repeats" for one in variants):
        action = with_repeats(action, labels_folder)
    work = WorkFolder.beside(router_folder)
    work.path.mkdir(parents=True, exist_ok=True)
    encoders: dict[tuple[Any, ...], tuple[QueryEncoder, NDArray[np.float32]]] = {}
    for settings in (one.settings for one in variants):
        key = _encoder_key(settings)
        if key not in encoders:
            encoder = QueryEncoder(*key)
            found = embed_queries(action.texts.tolist(), encoder, work.embeddings, progress)
            encoders[key] = encoder, found
    rows: list[AblationRow] = []
    configured: dict[tuple[float, str], FloatArray] = {}
    total = sum(len(one.settings.lams) for one in variants)
    with progress.task("ablating", total=total) as task:
        for variant in variants:
            encoder, embedded = encoders[_encoder_key(variant.settings)]
            shop = Workshop(variant.settings, encoder, embedded, action, every, work, task)
            for lam, head in _heads(shop).items():
                rows += _scored(shop, variant.name, lam, head, configured)
    return rows


def _encoder_key(settings: TrainingSettings) -> tuple[Any, ...]:
    return settings.encoder, settings.max_tokens, settings.encoder_dtype


def _heads(shop: Workshop) -> Mapping[float, LinearHead]:
    train = comparable_rows(shop, shop.action.splits == "train")
    validation = comparable_rows(shop, shop.action.splits == "val")
    return fit_frozen(shop, shop.settings.lams, train, validation).by_lam


def _scored(
    shop: Workshop,
    variant: str,
    lam: float,
    head: LinearHead,
    configured: dict[tuple[float, str], FloatArray],
) -> list[AblationRow]:
    """Score a head on each split; ``configured`` keeps and gives the rewards of the first."""
    found = []
    for split in SPLITS:
        rows = comparable_rows(shop, shop.action.splits == split)
        if not len(rows):
            continue
        table, places = shop.action.rows(rows), np.arange(len(rows))
        chosen = choose(head.probabilities(shop.embedded[rows]), table.competes)
        rewards = table.rewards(lam)[places, chosen]
        first = configured.setdefault((lam, split), rewards)
        found.append(
            AblationRow(
                variant,
                lam,
                split,
                len(rows),
                mean_of(rewards, shop.settings.seed),
                float(table.quality[places, chosen].mean()),
                float(table.latency_ms[places, chosen].mean()),
                mean_of(rewards - first, shop.settings.seed),
            )
        )
    return found


def mean_of(values: FloatArray, seed: int) -> Mean:
    """Mean of (n,) values with its interval: :func:`training.calibrating.bootstrap_mean`."""
    if len(values) < 2:
        return Mean(float(values.mean()), None, None)
    found = bootstrap_mean(values, seed)
    return Mean(found.value, found.low, found.high)
