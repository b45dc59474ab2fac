"""A query's vector made elsewhere stands in for an arm's own where both would be the same."""

import json
from dataclasses import replace

import numpy as np
import pytest

from arms.arm import ArmSpec
from arms.catalogue import build_arm, open_arm
from arms.clock import StageClock
from arms.contract_corpus import QUERIES as ASKED
from arms.contract_corpus import contract_corpus
from arms.encoders.given_queries import QueryVectors
from arms.encoders.query_encoding import QueryEncoding, text_encoding
from arms.encoders.resolve import ResolvedEncoder, resolve
from arms.encoders.text_encoder import TextEncoder, load_text_encoder

QUERIES = list(ASKED)
PLAIN = QueryEncoding("rev", "mean", "", "float32", 512)
FUSION = {"arms": ["bm25", "text_dense"]}
SPECS = [ArmSpec("text_dense"), ArmSpec("text_rerank"), ArmSpec("fusion", options=FUSION)]
FILES = {
    "config.json": {"max_position_embeddings": 512},
    "tokenizer_config.json": {"model_max_length": 600},
    "modules.json": [
        {"path": "", "type": "sentence_transformers.models.Transformer"},
        {"path": "1_Pooling", "type": "sentence_transformers.models.Pooling"},
    ],
    "1_Pooling/config.json": {"pooling_mode_cls_token": False, "pooling_mode_mean_tokens": True},
}


def encoder_of(folder, changes):
    for name, content in {**FILES, **changes}.items():
        path = folder / name
        path.parent.mkdir(exist_ok=True)
        if content is not None:
            path.write_text(json.dumps(content))
    return ResolvedEncoder("e", str(folder), "rev")


DENSE = {"path": "2_Dense", "type": "sentence_transformers.models.Dense"}
NORMALIZE = {"path": "2_Normalize", "type": "sentence_transformers.models.Normalize"}


@pytest.mark.parametrize(
    ("changes", "given", "wanted"),
    [
        ({}, {}, PLAIN),
        ({"modules.json": [*FILES["modules.json"], NORMALIZE]}, {}, PLAIN),
        ({"modules.json": None, "1_Pooling/config.json": None}, {}, PLAIN),
        ({"sentence_bert_config.json": {"max_seq_length": 64}}, {}, replace(PLAIN, max_tokens=64)),
        ({}, {"max_tokens": 32}, replace(PLAIN, max_tokens=32)),
        ({}, {"max_tokens": 1000}, PLAIN),
        ({"config_sentence_transformers.json": {"prompts": {"query": "q: "}}}, {},
         replace(PLAIN, prompt="q: ")),
        ({"config_sentence_transformers.json": {"prompts": {"query": "q: "}}}, {"prompt": ""},
         PLAIN),
        ({"modules.json": [*FILES["modules.json"], DENSE]}, {}, None),
        ({"1_Pooling/config.json": {"pooling_mode_cls_token": True}}, {}, None),
        ({"1_Pooling/config.json": {"pooling_mode": "lasttoken"}}, {}, None),
        ({"sentence_bert_config.json": {"max_seq_length": 9, "do_lower_case": True}}, {}, None),
        ({"config.json": {}}, {}, None),
        ({"modules.json": {"not": "a list"}}, {}, None),
    ],
)  # fmt: skip
def test_an_encoders_files_tell_how_it_encodes(tmp_path, changes, given, wanted):
    assert text_encoding(encoder_of(tmp_path, changes), **given) == wanted


def test_what_the_files_tell_is_what_sentence_transformers_does():
    resolved = resolve()
    told, loaded = text_encoding(resolved), load_text_encoder(resolved)
    assert told == QueryEncoding(resolved.revision, "mean", "", "float32", 256)
    assert loaded._limit == told.max_tokens and loaded.prompt("query", None) == told.prompt
    kinds = [type(module).__name__ for module in loaded._encoder]
    assert kinds == ["Transformer", "Pooling", "Normalize"]
    assert loaded._encoder[1].get_pooling_mode_str() == "mean"


def test_a_query_that_only_one_of_them_cuts_has_two_vectors():
    shorter = replace(PLAIN, max_tokens=10)
    assert PLAIN.same_vector(shorter, 10) and not PLAIN.same_vector(shorter, 11)
    assert shorter.same_vector(PLAIN, 9) and not shorter.same_vector(PLAIN, 10)
    assert PLAIN.same_vector(PLAIN, 512) and not PLAIN.same_vector(PLAIN, 0)
    for other in (
        replace(PLAIN, revision="other"),
        replace(PLAIN, pooling="cls"),
        replace(PLAIN, prompt="query: "),
        replace(PLAIN, dtype="bfloat16"),
    ):
        assert not PLAIN.same_vector(other, 5)
    assert PLAIN.differences(replace(PLAIN, prompt="q: ", dtype="bfloat16")) == [
        "prompt '' and 'q: '",
        "dtype 'float32' and 'bfloat16'",
    ]


def test_vectors_are_scaled_and_queries_with_outer_space_make_their_own():
    rows = np.array([[3, 4], [0, 0], [1, 1]], dtype=np.float32)
    given = QueryVectors(PLAIN, ["a", "b", " c"], rows, [3, 3, 3])
    np.testing.assert_allclose(given.take("a", PLAIN), [0.6, 0.8])
    np.testing.assert_array_equal(given.take("b", PLAIN), [0, 0])
    assert given.take(" c", PLAIN) is None and given.take("unknown", PLAIN) is None
    assert given.taken == 2


@pytest.fixture(scope="module")
def index_root(tmp_path_factory):
    root = tmp_path_factory.mktemp("index")
    for spec in SPECS:
        build_arm(spec, contract_corpus(), root)
    return root


def vectors_of(queries, **changes):
    """Raw mean-pooled vectors, three times as long as the arms' own."""
    rows = load_text_encoder(resolve()).embed(queries) * np.float32(3)
    encoding = replace(text_encoding(resolve()), **changes)
    return QueryVectors(encoding, queries, rows, [5] * len(queries))


@pytest.mark.parametrize("spec", SPECS, ids=lambda spec: spec.name)
@pytest.mark.parametrize("same", [True, False])
def test_arms_take_the_same_vector_and_rank_the_same(index_root, spec, same, monkeypatch):
    arm = open_arm(spec, contract_corpus(), index_root)
    expected = arm.rank(QUERIES, 4)
    given = vectors_of(QUERIES, **({} if same else {"prompt": "query: "}))
    embedded = []
    embed = TextEncoder.embed

    def counting(self, texts, *args, **kwargs):
        embedded.extend(texts)
        return embed(self, texts, *args, **kwargs)

    monkeypatch.setattr(TextEncoder, "embed", counting)
    clock = StageClock()
    found = arm.with_query_vectors(given).rank(QUERIES, 4, clock)
    assert [one.doc_ids for one in found] == [one.doc_ids for one in expected]
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one.scores, other.scores, rtol=1e-5)
    assert given.taken == (len(QUERIES) if same else 0)
    assert embedded == ([] if same else QUERIES)
    assert clock.stage_ms["encode"] > 0
    assert arm.rank(QUERIES, 4) == expected  # the arm itself goes on making its own
    assert embedded == (QUERIES if same else QUERIES * 2)


def test_queries_that_were_not_given_are_encoded(index_root):
    arm = open_arm(SPECS[0], contract_corpus(), index_root)
    given = vectors_of(QUERIES[1:2])
    found = arm.with_query_vectors(given).rank(QUERIES, 4)
    assert [one.doc_ids for one in found] == [one.doc_ids for one in arm.rank(QUERIES, 4)]
    assert given.taken == 1


def test_other_arms_stay_as_they_are(index_root):
    arm = open_arm(ArmSpec("bm25"), contract_corpus(), index_root)
    assert arm.with_query_vectors(vectors_of(QUERIES)) is arm
