import numpy as np
import pytest

from arms.arm import ArmSpec
from arms.catalogue import build_arm, open_arm
from arms.contract import QUERIES, contract_corpus
from arms.encoders import query_states
from arms.encoders.query_states import QueryStates, sharing
from arms.encoders.resolve import resolve
from arms.encoders.text_encoder import load_text_encoder
from arms.encoders.token_encoder import TokenSettings, load_token_encoder

TEXTS = [
    "what is a tree?",
    "a",
    "how do I sort a list of lists in place without copying what is in it",
    "what is a tree?",
    "  the second word  ",
    "naïve café",
]


@pytest.fixture(scope="module")
def dense():
    return load_text_encoder(resolve())


@pytest.fixture(scope="module")
def late():
    return load_token_encoder(resolve(), TokenSettings())


def count_passes(monkeypatch, *encoders):
    """Texts that went through each encoder's transformer."""
    counts = [0] * len(encoders)
    for place, encoder in enumerate(encoders):
        model = getattr(encoder, "_encoder", None) or encoder.pylate_model
        own = model[0].forward

        def forward(features, *given, place=place, own=own, **named):
            counts[place] += len(features["input_ids"])
            return own(features, *given, **named)

        monkeypatch.setattr(model[0], "forward", forward)
    return counts


def assert_alike(ours, theirs):
    for one, other in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(one, other, atol=1e-6)


def test_vectors_are_those_of_each_encoder_alone_from_one_pass(monkeypatch, dense, late):
    means, tokens = dense.embed(TEXTS), late.encode_queries(TEXTS)
    counts = count_passes(monkeypatch, dense, late)
    with sharing(QueryStates(TEXTS)):
        assert_alike(dense.embed(TEXTS[:2]), means[:2])
        assert_alike(late.encode_queries(TEXTS[2:]), tokens[2:])
        assert_alike(dense.embed(TEXTS[::-1]), means[::-1])
    assert counts == [5, 0]  # five texts differ
    dense.embed(TEXTS)
    assert counts == [10, 0]  # outside, each is read again


def test_other_tokens_are_other_states(monkeypatch, dense, late):
    short = load_token_encoder(resolve(), TokenSettings(max_query_tokens=6))
    tokens, prompted = short.encode_queries(TEXTS), dense.embed(TEXTS, "search: ")
    counts = count_passes(monkeypatch, dense, short)
    with sharing(QueryStates(TEXTS)):
        dense.embed(TEXTS)
        assert_alike(short.encode_queries(TEXTS), tokens)
        assert_alike(dense.embed(TEXTS, "search: "), prompted)
    assert counts == [10, 5]


@pytest.mark.parametrize("first", ["dense", "late"])
def test_states_do_not_depend_on_who_asks_first_nor_for_what(dense, late, first):
    def states(ask):
        held = QueryStates(TEXTS)
        with sharing(held):
            ask()
            return late.encode_queries(TEXTS)

    wanted = states(lambda: None)
    got = states(
        (lambda: dense.embed(TEXTS[4:])) if first == "dense" else lambda: late.encode_queries(["a"])
    )
    assert all(np.array_equal(one, other) for one, other in zip(got, wanted, strict=True))


def test_memory_is_bounded_and_what_was_dropped_is_read_again(monkeypatch, dense):
    monkeypatch.setattr(query_states, "_CHUNK_QUERIES", 2)
    means = dense.embed(TEXTS)
    counts = count_passes(monkeypatch, dense)
    held = QueryStates(TEXTS, limit_bytes=1)
    with sharing(held):
        assert_alike(dense.embed(TEXTS), means)
        assert len(held._states) == 1
        assert counts[0] >= 5
        assert_alike(dense.embed(TEXTS[:1]), means[:1])


def test_texts_that_were_not_announced_or_fail_are_read_as_they_come(monkeypatch, dense):
    means = dense.embed(TEXTS)
    with sharing(QueryStates(TEXTS[:2])):
        assert_alike(dense.embed(TEXTS), means)
    own = dense._encoder.tokenize

    def tokenize(texts):
        if "poison" in texts:
            raise RuntimeError("poisoned")
        return own(texts)

    monkeypatch.setattr(dense._encoder, "tokenize", tokenize)
    with sharing(QueryStates([*TEXTS, "poison"])):
        assert_alike(dense.embed(TEXTS), means)
        with pytest.raises(RuntimeError, match="poisoned"):
            dense.embed(["poison"])


def test_a_deadline_in_the_middle_leaves_single_texts_to_be_read(monkeypatch, dense):
    class Passed(BaseException):
        pass

    means = dense.embed(TEXTS)
    own = dense._encoder[0].forward
    with sharing(QueryStates(TEXTS)):
        with monkeypatch.context() as slow:

            def forward(features, **named):
                raise Passed

            slow.setattr(dense._encoder[0], "forward", forward)
            with pytest.raises(Passed):
                dense.embed(TEXTS)
        assert dense._encoder[0].forward == own
        assert_alike(dense.embed(TEXTS), means)


def test_arms_rank_the_same(tmp_path):
    corpus = contract_corpus()
    for name in ("text_dense", "text_late", "text_rerank"):
        spec = ArmSpec(name)
        build_arm(spec, corpus, tmp_path)
        arm = open_arm(spec, corpus, tmp_path)
        plain = arm.rank(QUERIES, 5)
        with sharing(QueryStates(QUERIES)):
            shared = arm.rank(QUERIES, 5)
        for ours, theirs in zip(shared, plain, strict=True):
            assert ours.doc_ids == theirs.doc_ids
            np.testing.assert_allclose(ours.scores, theirs.scores, rtol=1e-5)
