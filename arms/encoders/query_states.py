"""Hidden states of queries that arms share while rankings are computed in batches.

Arms of a run often read one transformer: dense retrieval takes the mean of a query's hidden states,
late interaction the states themselves, reranking both. Inside :func:`sharing` each query goes
through the transformer once, in batches of like length, and every arm makes its vectors from those
states. Nothing is shared unless a caller asks for it, and none may while arms are timed.

An arm that composes others shares states within one call, timed or not: see :func:`one_pass`.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from arms.encoders.chunks import length_sorted_batches

if TYPE_CHECKING:
    import torch

_CHUNK_QUERIES = 512
_BATCH_QUERIES = 32
_LIMIT_BYTES = 256_000_000

Features = dict[str, Any]
Tokens = tuple[tuple[int, ...], tuple[int, ...]]
"""Token ids and attention mask of one text."""


@dataclass(frozen=True)
class TransformerPass:
    """How an encoder gets hidden states.

    Equal weights give equal tokens equal states, whichever encoder asks.
    """

    weights: Hashable
    """Names the weights, their data type and device."""
    wording: Hashable
    """Names what else shapes a text's tokens: prompt, prefix, limit."""
    tokenize: Callable[[list[str]], Features]
    """Texts → padded ``input_ids`` and ``attention_mask``, (n, tokens) each."""
    run: Callable[[Features], Features]
    """Adds ``token_embeddings``, (n, tokens, d)."""
    keeps_padding: bool = False
    """Whether states of tokens that aren't attended to are needed: query expansion."""


_Asked = tuple[Hashable, Hashable, int]
"""Weights, wording, number of a chunk."""


@dataclass(frozen=True, eq=False)
class _Chunk:
    """Texts as one wording makes tokens of them; wordings that make the same share it."""

    tokens: tuple[Tokens, ...]


class QueryStates:
    """States of the queries of one dataset; the oldest go when memory is full.

    Queries are read a chunk at a time. What a chunk holds, and so the last bit of each state,
    depends on ``texts`` alone, not on which arm asks first: a run that continues after a kill gets
    the states it would have had.

    Args:
        texts: every query that arms may be asked, in a fixed order.
        limit_bytes: of states held; those of one chunk always are.
    """

    def __init__(self, texts: Sequence[str], limit_bytes: int = _LIMIT_BYTES) -> None:
        unique = list(dict.fromkeys(text for text in texts if text.strip()))
        self._chunks = [
            unique[first : first + _CHUNK_QUERIES]
            for first in range(0, len(unique), _CHUNK_QUERIES)
        ]
        self._place = {
            text: (number, row)
            for number, chunk in enumerate(self._chunks)
            for row, text in enumerate(chunk)
        }
        self._limit_bytes = limit_bytes
        self._chunk_of: dict[_Asked, _Chunk] = {}
        self._alike: dict[tuple[Hashable, tuple[Tokens, ...]], _Chunk] = {}
        self._states: OrderedDict[_Chunk, list[torch.Tensor]] = OrderedDict()
        self._failed: set[_Asked] = set()

    def features(self, transformer: TransformerPass, texts: Sequence[str]) -> Features | None:
        """Return ids, mask and states of some texts, (n, tokens, …), padded on the right.

        None: a text wasn't announced, or its chunk can't be read whole, or in time; such texts are
        read as they come.
        """
        if not all(text in self._place for text in texts):
            return None
        tokens, states = [], []
        for number, row in (self._place[text] for text in texts):
            chunk = self._read(transformer, number)
            if chunk is None:
                return None
            tokens.append(chunk.tokens[row])
            states.append(self._states[chunk][row])
        return _padded(tokens, states)

    def _read(self, transformer: TransformerPass, number: int) -> _Chunk | None:
        """Return a chunk whose states are held from now on; None where it has failed."""
        asked = (transformer.weights, transformer.wording, number)
        if asked in self._failed:
            return None
        chunk = self._chunk_of.get(asked)
        if chunk is None or chunk not in self._states:
            self._failed.add(asked)  # until it has succeeded: a deadline may end it at any moment
            texts = self._chunks[number]
            try:
                if chunk is None:
                    tokens = _tokens(transformer, texts)
                    chunk = self._alike.setdefault((transformer.weights, tokens), _Chunk(tokens))
                if chunk not in self._states:
                    self._states[chunk] = _states(transformer, texts, chunk.tokens)
            except Exception:  # the query at fault will say so itself, alone
                return None
            self._failed.discard(asked)
            self._chunk_of[asked] = chunk
            self._drop_oldest()
        self._states.move_to_end(chunk)
        return chunk

    def _drop_oldest(self) -> None:
        sizes = [sum(one.nbytes for one in states) for states in self._states.values()]
        while len(sizes) > 1 and sum(sizes) > self._limit_bytes:
            self._states.popitem(last=False)
            sizes.pop(0)


def _tokens(transformer: TransformerPass, texts: Sequence[str]) -> tuple[Tokens, ...]:
    features = transformer.tokenize(list(texts))
    masks = features["attention_mask"]
    return tuple(
        (tuple(ids[kept].tolist()), tuple(mask[kept].tolist()))
        for ids, mask, kept in zip(
            features["input_ids"], masks, _kept(transformer, masks), strict=True
        )
    )


def _states(
    transformer: TransformerPass, texts: Sequence[str], tokens: Sequence[Tokens]
) -> list[torch.Tensor]:
    """(tokens, d) of each text."""
    import torch

    states: dict[int, torch.Tensor] = {}
    for batch in length_sorted_batches([len(ids) for ids, _ in tokens], _BATCH_QUERIES):
        with torch.inference_mode():
            features = transformer.tokenize([texts[row] for row in batch])
            kept = _kept(transformer, features["attention_mask"])
            read = transformer.run(features)["token_embeddings"].cpu()
            states |= {row: read[place][kept[place]] for place, row in enumerate(batch)}
    return [states[row] for row in range(len(texts))]


def _kept(transformer: TransformerPass, mask: torch.Tensor) -> torch.Tensor:
    """(n, tokens) which tokens have states that count."""
    return mask.bool() | transformer.keeps_padding


def _padded(tokens: Sequence[Tokens], states: Sequence[torch.Tensor]) -> Features:
    import torch

    pad = partial(torch.nn.utils.rnn.pad_sequence, batch_first=True)
    return {
        "input_ids": pad([torch.tensor(ids) for ids, _ in tokens]),
        "attention_mask": pad([torch.tensor(mask) for _, mask in tokens]),
        "token_embeddings": pad(list(states)),
    }


_shared: ContextVar[QueryStates | None] = ContextVar("query_states", default=None)


@contextmanager
def sharing(states: QueryStates) -> Iterator[None]:
    """Let arms that rank inside the ``with`` block share hidden states."""
    token = _shared.set(states)
    try:
        yield
    finally:
        _shared.reset(token)


def shared_by_arms() -> QueryStates | None:
    """Return what arms share here; None outside :func:`sharing`."""
    return _shared.get()


_passed: ContextVar[dict[Hashable, Features] | None] = ContextVar("one_pass", default=None)


@contextmanager
def one_pass() -> Iterator[None]:
    """Let encoders that are asked inside the ``with`` block share the passes made in it.

    Encoders of equal weights that make the same tokens of a query take its states from one pass,
    which the first of them makes. What an inner block makes belongs to the outer one.
    """
    if _passed.get() is not None:
        yield
        return
    token = _passed.set({})
    try:
        yield
    finally:
        _passed.reset(token)


def passed_features(transformer: TransformerPass, features: Features) -> Features:
    """Run a transformer on tokenised texts, or take what this :func:`one_pass` has of them."""
    passed = _passed.get()
    if passed is None:
        return transformer.run(features)
    key = _content(transformer, features)
    if key not in passed:
        passed[key] = transformer.run(dict(features))
    return {**passed[key], **features}


def _content(transformer: TransformerPass, features: Features) -> Hashable:
    """Name the weights and the tokens. What stands at places that don't count is left out."""
    ids, mask = features["input_ids"], features["attention_mask"]
    if not transformer.keeps_padding:
        ids = ids * mask
    return (
        transformer.weights,
        transformer.keeps_padding,
        tuple(ids.shape),
        ids.numpy().tobytes(),
        mask.numpy().tobytes(),
    )


def shared_features(transformer: TransformerPass, texts: Sequence[str]) -> Features | None:
    """See :meth:`QueryStates.features`; None where nothing is shared."""
    states = shared_by_arms()
    return None if states is None else states.features(transformer, texts)
