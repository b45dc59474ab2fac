import subprocess
import sys
import threading
import zlib
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from arms.errors import RouterError
from router.policies import load_policy
from router.policies.static_embedding import LamHeads, StaticEmbeddingPolicy, bernstein
from router.text_views import ByteTable, NgramSpec, TextFeatures, TokenIds, View, ngram_ids
from tests.router.tiny_encoders import word_tokenizer

ARMS = ("bm25", "text_dense", "text_rerank")
WORDS = NgramSpec("words", 1, 2, 97)
CHARACTERS = NgramSpec("characters", 2, 4, 131)
SHAPES = NgramSpec("shapes", 1, 3, 61)
QUERIES = [
    "what was the operating margin in 2019 ?",
    "who painted the ceiling",
    "words unseen",
    "北京 😀",
    "\ud800 alone",
    "\x00",
    "!",
    "a " * 5000,
]


def normal(*size, seed=0):
    return np.random.default_rng(seed).normal(size=size).astype(np.float32)


def tiny_tokens(max_tokens=8):
    tokenizer = word_tokenizer("right", bert=True)
    return TokenIds(tokenizer.backend_tokenizer.to_str(), max_tokens)


def tiny_features():
    tokens = tiny_tokens()
    return TextFeatures(
        (
            View(tokens, ByteTable.of(normal(tokens.largest + 1, 5))),
            View(WORDS, ByteTable.of(normal(97, 4, seed=1))),
            View(
                CHARACTERS, ByteTable.of(normal(131, 3, seed=2)), "l2", np.abs(normal(131, seed=3))
            ),
            View(SHAPES, ByteTable.of(normal(61, 2, seed=4))),
        )
    )


def tiny_policy(lams=None, heads=3):
    features = tiny_features()
    weight, bias = normal(heads, 3, features.dim, seed=5), normal(heads, 3, seed=6)
    provenance = {"encoder": "tiny"}
    return StaticEmbeddingPolicy("static", ARMS, features, LamHeads(weight, bias, lams), provenance)


def saved(policy, folder):
    folder.mkdir()
    policy.save(folder)
    return folder


# Ids


def crc_of(*parts):
    value = 0
    for part in parts:
        value = zlib.crc32(b"\x1f" + part, value)
    return value % 97


def test_word_ngrams_are_cased_and_see_the_ends():
    expected = [
        (b"\x02",),
        (b"\x02", b"Who"),
        (b"Who",),
        (b"Who", b"?"),
        (b"?",),
        (b"?", b"\x03"),
        (b"\x03",),
    ]
    assert ngram_ids("Who ?", WORDS).tolist() == [crc_of(*parts) for parts in expected]
    assert ngram_ids("who ?", WORDS).tolist() != ngram_ids("Who ?", WORDS).tolist()


def test_shapes_forget_long_words_and_keep_short_ones():
    def of(text):
        return ngram_ids(text, SHAPES).tolist()

    assert of("Where is Lisbon in 2019") == of("Which is Berlin in 1066")
    assert of("Where is Lisbon in 2019") != of("Which of Berlin in 1066")
    assert of("painted") == of("swimming") != of("paint-ed")


def test_byte_ngrams_by_hand():
    spec = NgramSpec("characters", 2, 3, 2**20)
    text = b"\x02ab\x03"
    expected = []
    for length in (2, 3):
        for begin in range(len(text) - length + 1):
            value = 0
            for place, byte in enumerate(text[begin : begin + length]):
                value = byte if place == 0 else value * 0x100000001B3 + byte
            mixed = ((value + length) * 0x9E3779B97F4A7C15) % 2**64
            expected.append((mixed >> 32) % 2**20)
    assert ngram_ids("ab", spec).tolist() == expected


@pytest.mark.parametrize("spec", [WORDS, CHARACTERS, SHAPES])
@pytest.mark.parametrize("text", ["", "a", "e\u0301\u0308", "x" * 100_000, "word " * 20_000])
def test_ids_lie_in_the_table_and_are_bounded(spec, text):
    ids = ngram_ids(text, spec)
    assert ids.min() >= 0 and ids.max() < spec.buckets
    assert len(ids) <= 3 * 2050


@pytest.mark.parametrize(
    "given", [("words", 0, 1, 5), ("words", 2, 1, 5), ("words", 1, 1, 0), ("lines", 1, 1, 5)]
)
def test_impossible_ngrams_are_refused(given):
    with pytest.raises(RouterError, match="n-grams need"):
        NgramSpec(*given)


# Tables and pooling


def test_bytes_are_off_by_at_most_half_a_step():
    rows = normal(50, 16)
    rows[3] = 0.0
    table = ByteTable.of(rows)
    back = table.values * table.scales[:, None]
    step = np.abs(rows).max(axis=1) / 127
    assert (np.abs(back - rows) <= 0.5001 * step[:, None]).all()
    assert (back[3] == 0).all()


def test_pooling_by_hand():
    features = tiny_features()
    tokens, words, characters, _ = features.views
    text = "who painted egg"
    vector = features([text])[0]

    def mean(view, ids):
        return (view.table.values * view.table.scales[:, None])[ids].mean(axis=0)

    assert vector[:5] == pytest.approx(mean(tokens, tokens.all_ids([text])[0]), rel=1e-5)
    assert vector[5:9] == pytest.approx(mean(words, ngram_ids(text, WORDS)), rel=1e-5)
    ids = ngram_ids(text, CHARACTERS)
    total = (characters.table.values * characters.table.scales[:, None])[ids].sum(axis=0)
    length = np.sqrt((characters.weights[ids] ** 2).sum())
    assert vector[9:12] == pytest.approx(total / length, rel=1e-5)


def test_tokens_are_without_special_ones_and_cut():
    tokens = tiny_tokens(max_tokens=3)
    ids = tokens(["who painted the ceiling", ""])
    assert [len(one) for one in ids] == [3, 0]
    assert not {1, 2, 3} & set(ids[0].tolist())
    view = View(tokens, ByteTable.of(normal(tokens.largest + 1, 5)))
    assert (TextFeatures((view,))([""]) == 0).all()


# λ


def test_bernstein_polynomials_are_a_partition_and_reach_lines():
    lams = np.linspace(0, 1, 11)
    basis = bernstein(lams, 2)
    assert basis.sum(axis=1) == pytest.approx(np.ones(11))
    assert basis @ [3.0, 4.0, 5.0] == pytest.approx(3 + 2 * lams)
    assert bernstein([0.0, 1.0], 2).tolist() == [[1, 0, 0], [0, 0, 1]]


def test_any_lam_mixes_heads_and_trained_ones_answer_alone():
    anywhere, features = tiny_policy(), tiny_features()
    vectors = features(QUERIES[:2])
    logits = [
        vectors @ weight.T + bias
        for weight, bias in zip(anywhere.heads.weight, anywhere.heads.bias, strict=True)
    ]
    mixed = 0.49 * logits[0] + 0.42 * logits[1] + 0.09 * logits[2]
    expected = np.exp(mixed) / np.exp(mixed).sum(axis=1, keepdims=True)
    assert anywhere.probabilities(QUERIES[:2], 0.3) == pytest.approx(expected, rel=1e-4)
    assert anywhere.nearest_lam(0.3) == 0.3

    trained = tiny_policy(lams=(0.0, 0.5, 1.0))
    expected = np.exp(logits[1]) / np.exp(logits[1]).sum(axis=1, keepdims=True)
    assert trained.probabilities(QUERIES[:2], 0.6) == pytest.approx(expected, rel=1e-4)


# Files


@pytest.mark.parametrize("lams", [None, (0.0, 0.1, 1.0)])
def test_round_trip_is_exact_and_any_text_is_answered(tmp_path, lams):
    policy = tiny_policy(lams)
    loaded = load_policy(saved(policy, tmp_path / "policy"))
    assert (loaded.name, loaded.arms, loaded.lams) == (policy.name, policy.arms, policy.lams)
    rows = loaded.probabilities(QUERIES, 0.1)
    assert (rows == policy.probabilities(QUERIES, 0.1)).all()
    assert rows.sum(axis=1) == pytest.approx(np.ones(len(QUERIES)))
    assert loaded.probabilities([], 0.1).shape == (0, 3)
    alone = np.concatenate([loaded.probabilities([query], 0.1) for query in QUERIES])
    assert alone == pytest.approx(rows, rel=1e-5)
    assert isinstance(loaded.features.views[0].table.values, np.memmap)


def test_the_table_on_disk_is_bytes(tmp_path):
    features = TextFeatures((View(WORDS, ByteTable.of(normal(97, 64))),))
    heads = LamHeads(normal(1, 3, 64), normal(1, 3), None)
    folder = saved(StaticEmbeddingPolicy("static", ARMS, features, heads), tmp_path / "policy")
    assert (folder / "tables.safetensors").stat().st_size < 97 * 64 + 97 * 4 + 400
    assert not (folder / "tokenizer.json").exists()
    loaded = load_policy(folder)
    assert loaded.probabilities(["x"], 0.0).shape == (1, 3)


def test_threads_agree(tmp_path):
    loaded = load_policy(saved(tiny_policy(), tmp_path / "policy"))
    alone, answers = loaded.probabilities(QUERIES, 0.3), []
    threads = [
        threading.Thread(target=lambda: answers.append(loaded.probabilities(QUERIES, 0.3)))
        for _ in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(answers) == 8
    assert all((one == alone).all() for one in answers)


@pytest.mark.parametrize(
    ("name", "damage"),
    [
        ("tables.safetensors", lambda path: path.write_bytes(path.read_bytes()[:-1])),
        ("tables.safetensors", lambda path: path.write_bytes(b"")),
        ("tables.safetensors", lambda path: path.unlink()),
        ("heads.safetensors", lambda path: path.unlink()),
        ("tokenizer.json", lambda path: path.write_text("{}")),
        ("tokenizer.json", lambda path: path.unlink()),
    ],
)
def test_damaged_files_are_named(tmp_path, name, damage):
    folder = saved(tiny_policy(), tmp_path / "policy")
    damage(folder / name)
    with pytest.raises(RouterError, match=name.split(".")[0] + "|tokeniser"):
        load_policy(folder)


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (lambda arrays: arrays.pop("1.scales"), "must hold 0.scales"),
        (lambda arrays: arrays.update({"9.values": arrays["0.values"]}), "9.values"),
        (lambda arrays: arrays.update({"1.values": normal(97, 4)}), "'1.values' as int8"),
        (lambda arrays: arrays.update({"1.scales": normal(97, 1)}), "of shape any, got"),
        (lambda arrays: arrays.update({"1.scales": arrays["1.scales"][:96]}), "a scale per row"),
        (lambda arrays: arrays["1.scales"].fill(np.nan), "not all finite"),
    ],
)
def test_wrong_weights_are_refused(tmp_path, change, told):
    folder = saved(tiny_policy(), tmp_path / "policy")
    arrays = load_file(folder / "tables.safetensors")
    change(arrays)
    save_file(arrays, folder / "tables.safetensors")
    with pytest.raises(RouterError, match=told):
        load_policy(folder)


def test_heads_that_fit_nothing_are_refused():
    features = tiny_features()
    with pytest.raises(RouterError, match="needs heads over 3 arms and 14 numbers"):
        StaticEmbeddingPolicy(
            "static", ARMS, features, LamHeads(normal(1, 3, 13), normal(1, 3), None)
        )
    with pytest.raises(RouterError, match="a lam each"):
        LamHeads(normal(2, 3, 14), normal(2, 3), (0.0,))
    with pytest.raises(RouterError, match="need biases"):
        LamHeads(normal(2, 3, 14), normal(1, 3), None)


def test_selecting_loads_no_torch(tmp_path):
    folder = saved(tiny_policy(), tmp_path / "policy")
    code = (
        "import sys; from pathlib import Path; from router.policies import load_policy; "
        f"load_policy(Path({str(folder)!r})).probabilities(['who'], 0.1); "
        "print(' '.join(sys.modules))"
    )
    root = Path(__file__).parent.parent.parent
    run = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=root
    )
    loaded = {name.split(".")[0] for name in run.stdout.split()}
    assert not loaded & {"torch", "transformers", "sklearn", "scipy", "pandas", "pyarrow"}
