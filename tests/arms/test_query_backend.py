"""Query encoders run as graphs: PyTorch's vectors, or PyTorch itself with a reason."""

import json
import logging

import numpy as np
import pytest
import torch
from transformers import AutoTokenizer

from arms.arm import ArmSpec
from arms.catalogue import build_arm, open_arm
from arms.contract import QUERIES, contract_corpus
from arms.encoders import query_backend
from arms.encoders.query_backend import TORCH, OnnxStates, QueryBackend, choose_backend
from arms.encoders.query_states import one_pass
from arms.encoders.resolve import resolve
from arms.encoders.text_encoder import TextEncoder, load_text_encoder
from arms.encoders.token_encoder import TokenEncoder, TokenSettings, load_token_encoder
from arms.errors import SettingsError
from oracle.hardware import fixed_threads
from tests.router.tiny_encoders import save_tiny_bert, save_tiny_qwen3

TEXTS = ["margin", "how was every egg", "what was the margin and how was it in 2019 " * 9, "b egg"]


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    """A cache of this file's own, where a graph is exported once."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("L2R_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield


@pytest.fixture(scope="module")
def tiny(tmp_path_factory):
    return resolve(str(save_tiny_bert(tmp_path_factory.mktemp("bert"))))


def assert_near(ours, theirs):
    for one, other in zip(ours, theirs, strict=True):
        assert np.linalg.norm(np.atleast_2d(one - other), axis=1).max() <= 1e-4


class Wrong(OnnxStates):
    """Gives states that are not the transformer's."""

    def _run(self, opened, ids, mask):
        return super()._run(opened, ids, mask) + np.linspace(0, 1, 16, dtype=np.float32)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["onnx", "openvino"])
def test_graphs_give_pytorchs_vectors(cache, tiny, name):
    dense, late = TextEncoder(tiny), TokenEncoder(tiny)
    pooled, states = dense.backend(name), late.backend(name)
    assert (pooled.told, states.told) == (name, name)
    assert pooled.graph is states.graph  # one transformer, one graph
    assert_near(dense.embed(TEXTS, backend=pooled), dense.embed(TEXTS))
    assert_near(late.encode_queries(TEXTS, backend=states), late.encode_queries(TEXTS))
    for text in TEXTS:
        assert_near(dense.embed([text], backend=pooled), dense.embed([text]))
    assert_near(late.encode_queries(TEXTS[1:2], backend=states), late.encode_queries(TEXTS)[1:2])


@pytest.mark.slow
def test_a_decoder_that_pads_on_the_left_gives_pytorchs_vectors(cache, tmp_path):
    folder = save_tiny_qwen3(tmp_path / "qwen3")
    tokenizer = AutoTokenizer.from_pretrained(folder)
    tokenizer.pad_token = "[UNK]"
    tokenizer.save_pretrained(folder)
    encoder = TextEncoder(resolve(str(folder)))
    assert encoder._encoder.tokenizer.padding_side == "left"
    for name in ("onnx", "openvino"):
        backend = encoder.backend(name)
        assert backend.told == name
        assert_near(encoder.embed(TEXTS, backend=backend), encoder.embed(TEXTS))


@pytest.mark.slow
@pytest.mark.parametrize("name", ["onnx", "openvino"])
def test_minilm_ranks_the_same(tmp_path, name):
    corpus = contract_corpus()
    for arm in ("text_dense", "text_late", "text_rerank"):
        found = {}
        for backend in (name, "torch"):
            spec = ArmSpec(arm, options={"backend": backend})
            build_arm(spec, corpus, tmp_path)
            opened = open_arm(spec, corpus, tmp_path)
            assert set(opened.query_backends().values()) == {backend}
            found[backend] = [opened.rank([query], 5)[0] for query in QUERIES]
        for ours, theirs in zip(found[name], found["torch"], strict=True):
            assert ours.doc_ids == theirs.doc_ids
            np.testing.assert_allclose(ours.scores, theirs.scores, rtol=1e-4)


@pytest.mark.slow
def test_a_graph_computes_with_pytorchs_number_of_threads(cache, tiny, monkeypatch):
    encoder = TextEncoder(tiny)
    backend = encoder.backend("onnx")
    asked = []
    monkeypatch.setattr(backend.graph, "_opened", type(backend.graph._opened)())
    own = backend.graph._open
    monkeypatch.setattr(backend.graph, "_open", lambda n: (asked.append(n), own(n))[1])
    for threads in (1, 2, 1, 3, 3):
        with fixed_threads(threads):
            encoder.embed(["w1"], backend=backend)
    assert asked == [1, 2, 3]
    assert list(backend.graph._opened) == [2, 3]  # the oldest is let go
    session = backend.graph._opened[3]
    assert session.get_session_options().intra_op_num_threads == 3


@pytest.mark.slow
def test_a_damaged_graph_is_made_anew(cache, tiny, monkeypatch):
    encoder = TextEncoder(tiny)
    graph = encoder.backend("onnx").graph._path
    whole = graph.read_bytes()
    query_backend._graphs.clear()
    for damage in (b"", whole[: len(whole) // 2], whole[:2000] + b"\0" * 64 + whole[2064:]):
        graph.write_bytes(damage)
        query_backend._graphs.clear()
        backend = encoder.backend("onnx")
        assert backend.told == "onnx"
        assert_near(encoder.embed(TEXTS, backend=backend), encoder.embed(TEXTS))
    (graph.parent / "made.json").write_text("{")
    query_backend._graphs.clear()
    assert encoder.backend("onnx").told == "onnx"
    assert not list(graph.parent.parent.glob(".*"))


@pytest.mark.slow
def test_other_vectors_than_pytorchs_are_refused_once_exported(cache, tiny, monkeypatch, caplog):
    encoder = TextEncoder(tiny)
    encoder.backend("onnx")
    query_backend._graphs.clear()
    monkeypatch.setitem(query_backend._ENGINES, "onnx", ("onnxruntime", Wrong))
    monkeypatch.setattr(query_backend, "_export", None)  # the kept graph is whole: no new one
    with caplog.at_level(logging.WARNING):
        backend = encoder.backend("onnx")
    assert backend.name == "torch"
    assert "onnx gives vectors" in backend.told and "away from PyTorch's" in caplog.text
    assert encoder.embed(TEXTS, backend=backend).tolist() == encoder.embed(TEXTS).tolist()
    query_backend._graphs.clear()


def test_what_cant_be_exported_is_told_and_not_tried_again(tmp_path, tiny, monkeypatch):
    monkeypatch.setenv("L2R_CACHE", str(tmp_path))
    tries = []

    def refuse(*given):
        tries.append(given)
        raise RuntimeError("no such operator\nand much more")

    monkeypatch.setattr(query_backend, "write_graph", refuse)
    encoder = TextEncoder(tiny)
    for _ in range(2):
        told = encoder.backend("onnx").told
        assert told == "torch (the encoder can't be exported (RuntimeError: no such operator))"
    assert len(tries) == 1
    (made,) = tmp_path.rglob("made.json")
    assert json.loads(made.read_text()) == {"reason": told[7:-1]}


def test_what_a_graph_isnt_for_stays_with_pytorch(tiny, monkeypatch):
    encoder = TextEncoder(tiny)
    assert encoder.backend("torch") is TORCH
    assert encoder.backend("auto").told == "torch (fewer than 1,000,000 weights)"
    half = TextEncoder(tiny, "bfloat16")
    assert half.backend("onnx").told == "torch (the encoder's weights are torch.bfloat16)"
    found = choose_backend("onnx", "x", "y", torch.nn.Linear(2, 2), lambda graph: 0.0)
    assert found.reason == "the encoder's first part is no transformer"
    monkeypatch.setattr(query_backend, "find_spec", lambda name: None)
    assert "not installed: onnxruntime" in encoder.backend("onnx").reason


def test_a_back_end_changes_no_index(tmp_path):
    corpus = contract_corpus()
    dense, late = {"dtype": "float32"}, {}
    given = {"dense": dense, "late": late}
    fused = {"arms": ["bm25", {"arm": "text_rerank", "options": given}]}
    specs = [
        ArmSpec("text_dense"),
        ArmSpec("text_late"),
        ArmSpec("text_rerank", options=given),
        ArmSpec("fusion", options=fused),
    ]
    for spec in specs:
        build_arm(spec, corpus, tmp_path)
    before = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("arm.json")}
    named = {**given, "backend": "torch"}
    fused = {"arms": ["bm25", {"arm": "text_rerank", "options": named}]}
    for spec in (
        ArmSpec("text_dense", options={"backend": "torch"}),
        ArmSpec("text_rerank", options=named),
        ArmSpec("fusion", options=fused),
    ):
        build_arm(spec, corpus, tmp_path)
        assert set(open_arm(spec, corpus, tmp_path).query_backends().values()) == {"torch"}
    assert before == {path: path.stat().st_mtime_ns for path in tmp_path.rglob("arm.json")}
    with pytest.raises(SettingsError, match="backend"):
        build_arm(ArmSpec("text_late", options={"backend": "tensorrt"}), corpus, tmp_path)


class Counting(QueryBackend):
    """PyTorch that counts what goes through."""

    def run(self, features, by_torch):
        PASSES.append(tuple(features["input_ids"].shape))
        return by_torch(features)


PASSES: list[tuple[int, int]] = []


@pytest.fixture
def counted(monkeypatch):
    monkeypatch.setattr(TextEncoder, "backend", lambda *given: Counting(None))
    monkeypatch.setattr(TokenEncoder, "backend", lambda *given: Counting(None))
    PASSES.clear()
    return PASSES


RERANK = {"arm": "text_rerank", "options": {}}
LONG = "how do planets move around the sun"


@pytest.mark.parametrize(
    ("name", "options", "passes"),
    [
        ("text_dense", {}, 1),
        ("text_rerank", {}, 1),
        ("text_rerank", {"late": {"tokens": {"max_query_tokens": 4}}}, 2),  # other tokens
        ("text_rerank", {"dense": {"query_prompt": "query: "}}, 2),
        ("fusion", {"arms": ["text_dense", "text_late"]}, 1),
        ("fusion", {"arms": ["bm25", RERANK, "text_late", "text_dense"]}, 1),
        ("fusion", {"arms": ["text_dense", {"arm": "text_dense", "granularity": "paragraph"}]}, 1),
    ],
)
def test_an_arm_encodes_a_query_once(tmp_path, counted, name, options, passes):
    corpus, spec = contract_corpus(), ArmSpec(name, options=options)
    build_arm(spec, corpus, tmp_path)
    arm = open_arm(spec, corpus, tmp_path)
    first = arm.rank([LONG], 5)
    assert len(counted) == passes
    assert arm.rank([LONG], 5) == first
    assert len(counted) == 2 * passes  # nothing outlives a call


def test_a_query_that_neither_part_cuts_is_encoded_once(tmp_path, counted):
    options = {"late": {"tokens": {"max_query_tokens": 4}}}
    corpus, spec = contract_corpus(), ArmSpec("text_rerank", options=options)
    build_arm(spec, corpus, tmp_path)
    open_arm(spec, corpus, tmp_path).rank(["planet"], 5)
    assert counted == [(1, 3)]


def test_shared_passes_change_no_vector(monkeypatch):
    dense, late = load_text_encoder(resolve()), load_token_encoder(resolve(), TokenSettings())
    queries = ["how do planets move", "a", "naïve café, and what is in it"]
    apart = dense.embed(queries), late.encode_queries(queries)
    with one_pass(), one_pass():
        assert_near(dense.embed(queries), apart[0])
        assert_near(late.encode_queries(queries), apart[1])
        alone = [late.encode_queries([query])[0] for query in queries]
        assert_near(alone, apart[1])
