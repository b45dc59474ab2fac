"""The training-free router's prompt: criteria for each route, and examples that contrast them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from arms.errors import SettingsError
from router.policies.prompted import Asking, PromptedPolicy, endpoint_url
from training.routes.settings import PromptSettings
from training.routes.table import RouteTable

CRITERIA: Mapping[str, str] = {
    "no": "general knowledge, reasoning or calculation answers it; nothing has to be looked up",
    "none": "general knowledge, reasoning or calculation answers it; nothing has to be looked up",
    "paragraph": "one fact about one thing, which a single paragraph of an encyclopaedia states",
    "document": "several facts about several things have to be put together, over whole articles",
    "table": "a number or an entry has to be looked up in, or worked out from, a table",
    "image": "it asks how something looks: colours, shapes, counts of what a picture shows",
    "clip": "it asks about one moment or a short scene of a particular video",
    "video": "it asks how something is done or goes on, as a whole video would show step by step",
}
"""Criteria for the names that UniversalRAG gives its routes."""


def make_prompted(train: RouteTable, settings: PromptSettings, seed: int) -> PromptedPolicy | None:
    """Return the training-free router; None where no model is configured.

    Raises:
        SettingsError: with every problem: no endpoint, an unknown fallback, or criteria for
            unknown routes or none for a known one.
    """
    if settings.model is None:
        return None
    fallback = settings.fallback or train.routes[int(train.needed.sum(axis=0).argmax())]
    criteria = {**{r: CRITERIA[r] for r in train.routes if r in CRITERIA}, **settings.criteria}
    problems = []
    try:
        endpoint_url(settings.base_url, "prompted")
    except SettingsError as error:
        problems.append(str(error))
    unknown = [route for route in settings.criteria if route not in train.routes]
    lacking = [route for route in train.routes if route not in criteria]
    known = ", ".join(train.routes)
    if unknown:
        problems.append(f"prompt.criteria names {', '.join(unknown)}; the routes are {known}")
    if lacking and settings.examples == 0:
        problems.append(f"prompt.criteria lacks {', '.join(lacking)}, and no examples are shown")
    if fallback not in train.routes:
        problems.append(f"prompt.fallback is {fallback}; the routes are {known}")
    if problems:
        raise SettingsError("\n".join(["the training-free router:", *(f"  {p}" for p in problems)]))
    asking = Asking(
        model=settings.model,
        base_url=settings.base_url,
        api_key_env=settings.api_key_env,
        instructions=instructions(train.routes, criteria, examples(train, settings.examples, seed)),
        max_tokens=settings.max_tokens,
        workers=settings.workers,
        timeout_s=settings.timeout_s,
        retries=settings.retries,
        backoff_s=settings.backoff_s,
    )
    key = settings.api_key.get_secret_value() if settings.api_key else None
    return PromptedPolicy("prompted", train.routes, asking, fallback, key)


def examples(train: RouteTable, count: int, seed: int) -> list[tuple[str, str]]:
    """Draw ``count`` training queries for each route: (text, its routes), routes in turn.

    Short ones: the draw is among the shorter half of the route's queries.
    """
    random = np.random.default_rng(seed)
    drawn: list[list[int]] = []
    for column in range(len(train.routes)):
        rows = np.flatnonzero(train.needed[:, column])
        lengths = np.array([len(train.texts[row]) for row in rows])
        short = rows[np.argsort(lengths, kind="stable")][: max(count, -(-len(rows) // 2))]
        drawn.append(random.permutation(short)[:count].tolist())
    turns = [rows[turn] for turn in range(count) for rows in drawn if turn < len(rows)]
    return [(str(train.texts[row]), _named(train, row)) for row in dict.fromkeys(turns)]


def instructions(
    routes: Sequence[str], criteria: Mapping[str, str], shown: Sequence[tuple[str, str]]
) -> str:
    """Return the system message."""
    lines = [
        "Decide where the answer to a question should be looked up. The places are:",
        *(f"- {route}: {criteria.get(route, 'see the examples')}" for route in routes),
        "",
        "Answer with the name of the place and nothing else. Only where the question can't be "
        "answered from one place, name each one needed, with commas between.",
    ]
    if shown:
        lines += ["", "Examples:"]
        lines += [f"Question: {text}\nPlace: {named}" for text, named in shown]
    return "\n".join(lines)


def _named(table: RouteTable, row: int) -> str:
    return ", ".join(table.routes[column] for column in np.flatnonzero(table.needed[row]))
