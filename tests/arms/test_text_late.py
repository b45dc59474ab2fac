import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from arms.arm import ArmSpec
from arms.catalogue import build_arm, open_arm
from arms.contract import QUERIES, ArmContract, contract_corpus
from arms.corpora.corpus import MemoryCorpus
from arms.encoders.resolve import ResolvedEncoder, resolve
from arms.encoders.token_encoder import (
    TokenEncoder,
    TokenSettings,
    is_late_checkpoint,
    load_token_encoder,
)
from arms.errors import ArmIndexError, SettingsError
from arms.indexes.folder import read_record
from arms.indexes.plaid import PlaidIndex, default_centroids, write_plaid
from arms.indexes.plaid_shape import PlaidShape
from arms.indexes.token_vectors import TokenVectors, TokenVectorWriter
from arms.records import Document

TEXTS = ["High tides, twice a day.", "x", "Bees dance to tell the hive where flowers bloom."]


class TestExact(ArmContract):
    fills_k = True

    @pytest.fixture(params=["document", "paragraph"])
    def spec(self, request):
        return ArmSpec("text_late", request.param)


class TestPlaid(ArmContract):
    """PLAID from the first token vector on; too few candidates make it probe every list."""

    fills_k = True

    @pytest.fixture
    def spec(self):
        return ArmSpec("text_late", options={"exact_limit": 0})


@pytest.fixture(scope="module")
def plain():
    return TokenEncoder(resolve())


def test_two_loads_of_a_plain_encoder_give_the_same_vectors(plain):
    torch.manual_seed(1)
    again = TokenEncoder(resolve())
    for one, other in zip(
        plain.encode_documents(TEXTS), again.encode_documents(TEXTS), strict=True
    ):
        np.testing.assert_array_equal(one, other)
    assert plain.dimension == 384


def test_documents_and_queries_equal_pylate(plain):
    theirs = plain.pylate_model.encode(TEXTS, is_query=False)
    for one, other in zip(plain.encode_documents(TEXTS), theirs, strict=True):
        np.testing.assert_allclose(one, other, atol=1e-5)
    # Of a query [CLS] and [SEP] are left out: PyLate keeps them, first and last.
    theirs = plain.pylate_model.encode(TEXTS, is_query=True)
    for one, other in zip(plain.encode_queries(TEXTS), theirs, strict=True):
        np.testing.assert_allclose(one, other[1:-1], atol=1e-5)


def test_vectors_have_length_one_and_do_not_depend_on_the_batch(plain):
    together = plain.encode_documents([*TEXTS, TEXTS[0]], batch_size=4)
    np.testing.assert_array_equal(together[0], together[3])
    for text, vectors in zip(TEXTS, together, strict=False):
        np.testing.assert_allclose(vectors, plain.encode_documents([text])[0], atol=2e-6)
        np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-5)
    assert plain.encode_documents([]) == []


def test_long_texts_are_cut_and_texts_of_nothing_keep_a_token(plain):
    (query,) = plain.encode_queries(["word " * 10_000])
    assert query.shape == (126, 384)  # 128 with [CLS] and [SEP]
    (document,) = plain.encode_documents(["word " * 10_000])
    assert document.shape == (256, 384)
    assert len(plain.encode_queries(["\x00\x01"])[0]) == 2  # [CLS] and [SEP] alone, so they stay


def test_skip_words_do_not_score_unless_nothing_else_is_left():
    settings = TokenSettings(skip_words=(".", ","), max_document_tokens=8)
    encoder = TokenEncoder(resolve(), settings)
    with_comma, without = encoder.encode_documents(["tides, bees", "tides bees"])
    assert len(with_comma) == len(without) == 4
    assert len(encoder.encode_documents(["one two three four five six seven eight"])[0]) == 8
    theirs = encoder.pylate_model.encode(["tides, bees."], is_query=False)[0]
    np.testing.assert_allclose(encoder.encode_documents(["tides, bees."])[0], theirs, atol=1e-5)


def test_a_prefix_must_be_a_token():
    settings = TokenSettings(query_prefix="[unused0]", document_prefix="[unused1]")
    encoder = TokenEncoder(resolve(), settings)
    assert len(encoder.encode_documents(["tides"])[0]) == 4
    assert len(encoder.encode_queries(["tides"])[0]) == 1  # the prefix is a special of the query
    with pytest.raises(SettingsError, match=r"'\[Q\] ' isn't a token of its vocabulary"):
        TokenEncoder(resolve(), TokenSettings(query_prefix="[Q] "))


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory):
    """A saved PyLate checkpoint: two layers and a random projection, standing for a trained one."""
    from pylate.models import ColBERT, Dense
    from sentence_transformers.models import Transformer
    from transformers import BertConfig, BertModel

    base = tmp_path_factory.mktemp("base")
    plain_folder = Path(resolve().path)
    torch.manual_seed(0)
    config = BertConfig(
        vocab_size=30522,
        hidden_size=16,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=32,
    )
    BertModel(config).save_pretrained(base)
    for name in ("tokenizer.json", "tokenizer_config.json", "vocab.txt"):
        (base / name).write_bytes((plain_folder / name).read_bytes())
    torch.manual_seed(0)
    colbert = ColBERT(
        modules=[Transformer(str(base)), Dense(16, 8, bias=False)],
        query_prefix="[Q] ",
        document_prefix="[D] ",
        query_length=24,
        document_length=32,
        device="cpu",
    )
    folder = tmp_path_factory.mktemp("colbert")
    colbert.save(str(folder), create_model_card=False)
    return folder


def test_a_checkpoint_loads_as_it_is(checkpoint):
    encoder = TokenEncoder(resolve(str(checkpoint)))
    assert encoder.is_checkpoint and encoder.dimension == 8
    (query,) = encoder.encode_queries(["tides"])
    assert query.shape == (24, 8)  # expanded with masks, as it was trained
    theirs = encoder.pylate_model.encode(["tides, bees"], is_query=True)[0]
    np.testing.assert_allclose(encoder.encode_queries(["tides, bees"])[0], theirs, atol=1e-5)
    theirs = encoder.pylate_model.encode(["tides, bees"], is_query=False)[0]
    ours = encoder.encode_documents(["tides, bees"])[0]
    assert len(ours) == 5  # [CLS] [D] tides bees [SEP]: its skip-list drops the comma
    np.testing.assert_allclose(ours, theirs, atol=1e-5)
    again = TokenEncoder(resolve(str(checkpoint))).encode_documents(["tides, bees"])[0]
    np.testing.assert_array_equal(ours, again)


def test_only_a_projection_with_colbert_settings_makes_a_checkpoint(checkpoint, tmp_path):
    assert is_late_checkpoint(resolve(str(checkpoint)))
    assert not is_late_checkpoint(resolve())
    (tmp_path / "config.json").write_text(json.dumps({"architectures": ["HF_ColBERT"]}))
    assert is_late_checkpoint(ResolvedEncoder("stanford", str(tmp_path), "0"))


def test_an_unusable_encoder_is_a_clear_error(tmp_path):
    (tmp_path / "model.safetensors").write_bytes(b"")
    with pytest.raises(SettingsError, match="late-interaction encoder"):
        TokenEncoder(resolve(str(tmp_path)))


def test_opened_arms_share_an_encoder():
    first = load_token_encoder(resolve(), TokenSettings())
    assert load_token_encoder(resolve(), TokenSettings()) is first
    assert load_token_encoder(resolve(), TokenSettings(max_query_tokens=16)) is not first


def test_bfloat16_documents_rank_alike(tmp_path):
    corpus = contract_corpus()
    rankings = []
    for dtype in ("float32", "bfloat16"):
        spec = ArmSpec("text_late", options={"dtype": dtype})
        build_arm(spec, corpus, tmp_path / dtype)
        rankings.append(open_arm(spec, corpus, tmp_path / dtype).rank(QUERIES, 1))
    assert [one.doc_ids for one in rankings[0]] == [one.doc_ids for one in rankings[1]]


def random_store(folder, n_units=300, dimension=32, seed=0):
    generator = np.random.default_rng(seed)
    lengths = generator.integers(0, 12, n_units)
    vectors = generator.standard_normal((lengths.sum(), dimension))
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    writer = TokenVectorWriter(folder, dimension)
    writer.add(vectors[: lengths[:100].sum()], lengths[:100])
    writer.add(vectors[lengths[:100].sum() :], lengths[100:])
    return writer.close()


def files_of(folder):
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}


def test_plaid_is_deterministic_and_unpickled(tmp_path):
    store = random_store(tmp_path / "tokens")
    torch.manual_seed(5)
    write_plaid(tmp_path / "one", store, PlaidShape())
    torch.manual_seed(6)
    before = torch.random.get_rng_state()
    write_plaid(tmp_path / "two", store, PlaidShape())
    assert torch.equal(torch.random.get_rng_state(), before)
    one, two = files_of(tmp_path / "one"), files_of(tmp_path / "two")
    assert one == two
    for path in (tmp_path / "one").glob("*.npy"):
        np.load(path, allow_pickle=False)
    write_plaid(tmp_path / "three", store, PlaidShape(seed=7))
    assert files_of(tmp_path / "three") != one


def test_plaid_finds_what_exact_search_finds(tmp_path):
    store = random_store(tmp_path / "tokens")
    write_plaid(tmp_path / "plaid", store, PlaidShape())
    index = PlaidIndex(tmp_path / "plaid", store, PlaidShape(), n_probe=8, n_full_scores=256)
    units = [unit for unit in range(store.n_units) if len(store.of(unit)) > 3]
    for unit in units[:20]:
        scores, found = index.search(store.of(unit).astype(np.float32), 5)
        assert found[0] == unit
        assert scores[0] == pytest.approx(len(store.of(unit)), abs=2e-2)
        assert list(scores) == sorted(scores, reverse=True)


def test_a_killed_plaid_build_leaves_nothing_that_opens(tmp_path):
    random_store(tmp_path / "tokens")
    script = (
        "import os, sys; from pathlib import Path; from arms.indexes import plaid\n"
        "from arms.indexes.token_vectors import TokenVectors\n"
        "plaid._merge_chunks = lambda folder: os._exit(9)\n"
        "root = Path(sys.argv[1])\n"
        "plaid.write_plaid(root / 'plaid', TokenVectors(root / 'tokens'), plaid.PlaidShape())"
    )
    root = Path(__file__).parents[2]
    run = subprocess.run([sys.executable, "-c", script, str(tmp_path)], cwd=root)
    assert run.returncode == 9
    assert not (tmp_path / "plaid").exists()
    write_plaid(tmp_path / "plaid", TokenVectors(tmp_path / "tokens"), PlaidShape())
    assert (tmp_path / "plaid" / "units.npy").is_file()
    assert not list(tmp_path.glob(".*"))


def test_default_centroids():
    assert [default_centroids(n) for n in (0, 1, 100, 1_000_000)] == [1, 4, 32, 2048]


def test_changing_the_index_encodes_nothing(tmp_path, monkeypatch):
    corpus = contract_corpus()
    place = tmp_path / "text_late"

    def spec(**options):
        return ArmSpec("text_late", options=options)

    build_arm(spec(), corpus, tmp_path)
    assert not (place / "plaid").exists()
    exact = open_arm(spec(), corpus, tmp_path).rank(QUERIES, 3)
    with pytest.raises(ArmIndexError, match="holds no PLAID index"):
        open_arm(spec(exact_limit=0), corpus, tmp_path)
    monkeypatch.setattr(TokenEncoder, "encode_documents", None)
    for options in ({"exact_limit": 0}, {"exact_limit": 0, "nbits": 2}):
        build_arm(spec(**options), corpus, tmp_path)
        found = open_arm(spec(**options), corpus, tmp_path).rank(QUERIES, 3)
        assert [one.doc_ids for one in found] == [one.doc_ids for one in exact]
        others = [path for path in place.rglob("*") if path.is_file() and path.name != "arm.json"]
        assert read_record(place).size_bytes == sum(path.stat().st_size for path in others)
    assert open_arm(spec(), corpus, tmp_path).rank(QUERIES, 3) == exact
    with pytest.raises(ArmIndexError, match="nbits=4"):
        open_arm(spec(exact_limit=0), corpus, tmp_path)


def test_an_unknown_option_names_the_nearest(tmp_path):
    spec = ArmSpec("text_late", options={"exact_limits": 3})
    with pytest.raises(SettingsError, match="did you mean 'exact_limit'"):
        build_arm(spec, MemoryCorpus("one", [Document("a", "", "tides")]), tmp_path)
