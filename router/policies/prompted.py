"""A router that was never trained: a language model is asked which routes a query needs.

Source: UniversalRAG (arXiv 2504.20734, appendix B and figure 8): a prompt that defines each route
by criteria and contrasting examples. Any OpenAI-compatible endpoint answers. An answer counts only
where it is nothing but names of routes; any other, and a request that fails, falls back on a stated
route and is counted. Answers are kept in the cache as soon as they come, so that a stopped run goes
on where it was and no query is asked about twice. The key is in no file.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import threading
from collections import Counter
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np

from arms.atomic import write_json
from arms.cache import cache_folder
from arms.chat_endpoint import URL_VARIABLE, ChatEndpoint, ChatError
from arms.errors import RouterError, SettingsError
from arms.reward import FloatArray
from router.policies.files import read_policy_json, write_policy_json
from router.policy import NO_INPUTS, Decisions, Plan, Policy, PolicyInputs, masked

_BETWEEN = re.compile(r"\s*[,+]\s*")
_AROUND = " \t\r\n.`'\"*"
PARSED, UNPARSABLE, FAILED = "parsed", "unparsable", "failed"


@dataclass(frozen=True)
class Asking:
    """What is asked, and of whom."""

    model: str
    base_url: str | None
    """None: ``$OPENAI_BASE_URL`` at the time of asking."""
    api_key_env: str
    """Environment variable that holds the key; it may be unset."""
    instructions: str
    """The system message: task, criteria, examples, and the form of an answer."""
    max_tokens: int = 20
    workers: int = 4
    timeout_s: float = 60.0
    retries: int = 2
    backoff_s: float = 1.0


@dataclass(frozen=True)
class Reply:
    """What came of one query."""

    outcome: str
    """``parsed``, ``unparsable`` or ``failed``."""
    columns: tuple[int, ...]
    """Routes to take, in the order named; the fallback's where the outcome isn't ``parsed``."""
    detail: str = ""


def parse_answer(answer: str, routes: Sequence[str]) -> tuple[int, ...] | None:
    """Return the columns of the routes that ``answer`` names, or None where it says more or less.

    Names may stand in any case, with commas or plus signs between and quotes, asterisks or a full
    stop around; each counts once.
    """
    column = {route.casefold(): place for place, route in enumerate(routes)}
    parts = [part.strip(_AROUND).casefold() for part in _BETWEEN.split(answer.strip(_AROUND))]
    if not parts or any(part not in column for part in parts):
        return None
    return tuple(dict.fromkeys(column[part] for part in parts))


class PromptedPolicy(Policy):
    """Routes by the answer of a language model; takes any λ and ignores it.

    Args:
        name: in reports, e.g. ``prompted``.
        arms: the routes, in column order; distinct whatever their case.
        asking: see there.
        fallback: the route of a query without a usable answer.
        api_key: in place of the environment's; never saved.

    Raises:
        RouterError: ``fallback`` is not a route, or two routes differ in case alone.
    """

    kind: ClassVar[str] = "prompted"

    def __init__(
        self,
        name: str,
        arms: Sequence[str],
        asking: Asking,
        fallback: str,
        api_key: str | None = None,
    ) -> None:
        self.name, self.arms, self.lams = name, tuple(arms), None
        self.asking, self.fallback, self._api_key = asking, fallback, api_key
        if fallback not in self.arms or len({arm.casefold() for arm in arms}) < len(self.arms):
            raise RouterError(
                f"policy '{name}' needs a fallback among routes that differ in more than case: "
                f"{', '.join(self.arms)}; got '{fallback}'"
            )
        self.counts: Counter[str] = Counter()
        """Outcome → queries decided so far, repeats counted."""
        self._lock = threading.Lock()
        self._endpoint: ChatEndpoint | None = None

    def probabilities(
        self, queries: Sequence[str], lam: float, known: PolicyInputs = NO_INPUTS
    ) -> FloatArray:
        """(len(queries), len(arms)) even over the routes named."""
        return self._rows(self.replies(queries))

    def decide(
        self, queries: Sequence[str], lam: float, known: PolicyInputs = NO_INPUTS
    ) -> Decisions:
        """Take the routes named, fused where there are several; say where the fallback answers."""
        replies = self.replies(queries)
        rows = masked(self._rows(replies), known)
        plans = []
        for row, reply in zip(rows, replies, strict=True):
            kept = [column for column in reply.columns if row[column] > 0]
            names = tuple(self.arms[column] for column in kept or [int(row.argmax())])
            plans.append(Plan(names, "fuse" if len(names) > 1 else "single"))
        reasons = tuple(
            None if one.outcome == PARSED else f"fallback, {one.outcome}: {one.detail}"
            for one in replies
        )
        return Decisions(tuple(plans), rows, reasons=reasons)

    def replies(self, queries: Sequence[str]) -> list[Reply]:
        """Ask about every query that the cache doesn't answer; count what came."""
        distinct = list(dict.fromkeys(queries))
        with ThreadPoolExecutor(self.asking.workers) as pool:
            of_query = dict(zip(distinct, pool.map(self._reply, distinct), strict=True))
        replies = [of_query[query] for query in queries]
        with self._lock:
            self.counts.update(one.outcome for one in replies)
        return replies

    def outcome_text(self) -> str:
        """Return ``2831 answers: 2800 parsed, 11 unparsable, 20 failed (fallback: paragraph)``."""
        named = (f"{self.counts[one]} {one}" for one in (PARSED, UNPARSABLE, FAILED))
        total = sum(self.counts.values())
        return f"{total} answers: {', '.join(named)} (fallback: {self.fallback})"

    def _rows(self, replies: Sequence[Reply]) -> FloatArray:
        rows = np.zeros((len(replies), len(self.arms)))
        for row, reply in zip(rows, replies, strict=True):
            row[list(reply.columns)] = 1.0 / len(reply.columns)
        return rows

    def _reply(self, query: str) -> Reply:
        fallback = (self.arms.index(self.fallback),)
        try:
            answer = self._cached(query)
        except ChatError as error:
            return Reply(FAILED, fallback, str(error))
        columns = parse_answer(answer, self.arms)
        if columns is None:
            return Reply(UNPARSABLE, fallback, f"{answer[:80]!r}")
        return Reply(PARSED, columns)

    def _cached(self, query: str) -> str:
        asked = [self.asking.model, self.asking.instructions, self.asking.max_tokens, query]
        name = hashlib.sha256(json.dumps(asked).encode()).hexdigest()[:40]
        path = cache_folder("prompted-routes") / name[:2] / f"{name}.json"
        try:
            return str(json.loads(path.read_text(encoding="utf-8"))["answer"])
        except (OSError, ValueError, KeyError, TypeError):
            answer = self._ask(query)
        write_json(path, {"answer": answer, "model": self.asking.model})
        return answer

    def _ask(self, query: str) -> str:
        messages = [
            {"role": "system", "content": self.asking.instructions},
            {"role": "user", "content": query},
        ]
        return self._open().ask(messages, self.asking.max_tokens)

    def _open(self) -> ChatEndpoint:
        with self._lock:
            if self._endpoint is None:
                asking = self.asking
                self._endpoint = ChatEndpoint(
                    endpoint_url(asking.base_url, self.name),
                    asking.model,
                    self._api_key or os.environ.get(asking.api_key_env),
                    asking.timeout_s,
                    asking.retries,
                    asking.backoff_s,
                    "prompt",
                )
            return self._endpoint

    def save(self, folder: Path) -> None:
        """Write ``policy.json``: what is asked and of whom, without the key."""
        content = {
            "name": self.name,
            "arms": list(self.arms),
            "fallback": self.fallback,
            "asking": asdict(self.asking),
        }
        write_policy_json(folder, self.kind, content)

    @classmethod
    def load(cls, folder: Path) -> PromptedPolicy:
        """Read what :meth:`save` wrote; nothing is asked yet."""
        content = read_policy_json(folder, ("name", "arms", "fallback", "asking"))
        try:
            asking = Asking(**content["asking"])
        except TypeError as error:
            raise RouterError(f"{folder} is damaged ({error}); rerun l2r routes train") from error
        return cls(content["name"], content["arms"], asking, content["fallback"])


def endpoint_url(given: str | None, policy: str) -> str:
    """Return the endpoint's address; raise ``SettingsError`` where neither place names one."""
    found: Mapping[str, str] = os.environ
    url = given or found.get(URL_VARIABLE)
    if not url:
        raise SettingsError(
            f"policy '{policy}' asks an endpoint: set its base_url, or ${URL_VARIABLE}"
        )
    return url
