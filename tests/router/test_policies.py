import json
import threading

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression

from arms.errors import RouterError
from router.policies import load_policy
from router.policies.encoder import EncoderPolicy, LinearHead
from router.policies.files import lam_folder_name
from router.policies.static import StaticPolicy
from router.policies.tfidf import TfidfHead, TfidfPolicy
from router.policy import PolicyInputs
from router.query_encoder import QueryEncoder
from tests.router.tiny_encoders import DIM, save_lora, save_tiny_bert

ARMS = ("bm25", "text_dense", "text_rerank", "text_late")
TEXTS = [
    "what was the operating margin",
    "who painted the ceiling",
    "list every river in germany",
    "how do i boil an egg",
    "margin of the firm in 2019",
    "who wrote it and when",
    "rivers and lakes in the north",
    "how long must an egg boil",
]
QUERIES = [*TEXTS, "unseen words entirely", "北京 😀", "\x00", "egg " * 5000]


def random_heads(lams, arms=4, dim=DIM, seed=0):
    generator = np.random.default_rng(seed)
    return {
        lam: LinearHead(
            generator.normal(size=(arms, dim)).astype(np.float32),
            generator.normal(size=arms).astype(np.float32),
        )
        for lam in lams
    }


def saved(policy, folder):
    folder.mkdir()
    policy.save(folder)
    return folder


# λ


@pytest.mark.parametrize(
    ("lam", "used"), [(0.0, 0.0), (0.05, 0.0), (0.2, 0.1), (0.21, 0.3), (0.65, 0.3), (1, 1.0)]
)
def test_nearest_lam_and_ties_downwards(lam, used):
    policy = StaticPolicy("table", ARMS, {1.0: "bm25", 0.0: "bm25", 0.3: "bm25", 0.1: "bm25"})
    assert policy.lams == (0.0, 0.1, 0.3, 1.0)
    assert policy.nearest_lam(lam) == used


@pytest.mark.parametrize("lams", [[], [1.5], [float("nan")], [0.1, 0.1 + 1e-14]])
def test_lams_that_no_policy_can_have(lams):
    with pytest.raises(RouterError, match="lam"):
        StaticPolicy("table", ARMS, {lam: "bm25" for lam in lams})


def test_lam_folders():
    assert [lam_folder_name(lam) for lam in (0, 0.1, 1.0, 1 / 3)] == [
        "lam-0",
        "lam-0.1",
        "lam-1",
        "lam-0.333333333333",
    ]


# Static


def test_static_is_one_hot_and_round_trips(tmp_path):
    policy = StaticPolicy("static:text_rerank", ARMS, "text_rerank")
    assert policy.lams is None
    loaded = load_policy(saved(policy, tmp_path / "policy"))
    assert (loaded.name, loaded.arms, loaded.lams) == (policy.name, ARMS, None)
    assert loaded.probabilities(["a", "b"], 0.37).tolist() == [[0, 0, 1, 0]] * 2
    assert loaded.probabilities([], 0.37).shape == (0, 4)


def test_static_table_answers_by_lam_and_round_trips(tmp_path):
    table = {0.0: "text_rerank", 0.5: "text_dense", 1.0: "bm25"}
    loaded = load_policy(saved(StaticPolicy("best_static", ARMS, table), tmp_path / "policy"))
    assert loaded.lams == (0.0, 0.5, 1.0)
    chosen = [ARMS[loaded.probabilities(["a"], lam)[0].argmax()] for lam in (0, 0.3, 0.74, 0.8)]
    assert chosen == ["text_rerank", "text_dense", "text_dense", "bm25"]


def test_static_refuses_an_unknown_arm():
    with pytest.raises(RouterError, match=r"chooses from bm25, .*; got colbert"):
        StaticPolicy("static:colbert", ARMS, "colbert")


# TF-IDF


def fitted(columns, **settings):
    vectorizer = TfidfVectorizer(**settings)
    features = vectorizer.fit_transform(TEXTS)
    classifier = LogisticRegression(max_iter=500).fit(features, columns)
    return vectorizer, classifier


@pytest.mark.parametrize("columns", [[0, 1, 2, 3] * 2, [0, 1, 3, 3] * 2, [3, 1] * 4])
@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"ngram_range": (1, 2), "sublinear_tf": True, "min_df": 2, "stop_words": "english"},
        {"analyzer": "char_wb", "ngram_range": (2, 4), "dtype": np.float32},
        {"use_idf": False, "norm": None, "binary": True, "stop_words": ["who"]},
    ],
)
def test_tfidf_saved_equals_fitted_bit_for_bit(tmp_path, columns, settings):
    vectorizer, classifier = fitted(columns, **settings)
    policy = TfidfPolicy("tfidf", ARMS, vectorizer, {0.1: TfidfHead.of(classifier)})
    loaded = load_policy(saved(policy, tmp_path / "policy"))
    wanted = np.zeros((len(QUERIES), len(ARMS)))
    wanted[:, classifier.classes_] = classifier.predict_proba(vectorizer.transform(QUERIES))
    np.testing.assert_array_equal(policy.probabilities(QUERIES, 0.1), wanted)
    np.testing.assert_array_equal(loaded.probabilities(QUERIES, 0.1), wanted)
    np.testing.assert_allclose(wanted.sum(axis=1), 1.0)
    assert loaded.probabilities([], 0.1).shape == (0, 4)


def test_tfidf_arms_absent_from_training_get_zero(tmp_path):
    vectorizer, classifier = fitted([3, 1] * 4)
    policy = TfidfPolicy("tfidf", ARMS, vectorizer, {0.1: TfidfHead.of(classifier)})
    assert policy.probabilities(QUERIES, 0.1)[:, [0, 2]].max() == 0.0
    terms = len(vectorizer.vocabulary_)
    constant = TfidfPolicy("tfidf", ARMS, vectorizer, {0.1: TfidfHead.constant(2, terms)})
    loaded = load_policy(saved(constant, tmp_path / "policy"))
    assert loaded.probabilities(["a", "b"], 0.1).tolist() == [[0, 0, 1, 0]] * 2


def test_tfidf_has_a_head_per_lam(tmp_path):
    vectorizer, first = fitted([0, 1, 2, 3] * 2)
    _, second = fitted([3, 2, 1, 0] * 2)
    heads = {0.5: TfidfHead.of(second), 0.0: TfidfHead.of(first)}
    loaded = load_policy(saved(TfidfPolicy("tfidf", ARMS, vectorizer, heads), tmp_path / "policy"))
    assert loaded.lams == (0.0, 0.5)
    assert loaded.probabilities(TEXTS[:1], 0.2).argmax() == 0
    assert loaded.probabilities(TEXTS[:1], 0.3).argmax() == 3


def test_tfidf_refuses_what_it_cant_persist():
    vectorizer = TfidfVectorizer(tokenizer=str.split, token_pattern=None).fit(TEXTS)
    head = TfidfHead.constant(0, len(vectorizer.vocabulary_))
    with pytest.raises(RouterError, match="can't persist the vectoriser's tokenizer"):
        TfidfPolicy("tfidf", ARMS, vectorizer, {0.1: head})
    plain = TfidfVectorizer().fit(TEXTS)
    with pytest.raises(RouterError, match="needs heads over 4 arms"):
        TfidfPolicy("tfidf", ARMS, plain, {0.1: TfidfHead.constant(0, 3)})
    with pytest.raises(RouterError, match="needs heads over 4 arms"):
        TfidfPolicy("tfidf", ARMS, plain, {0.1: TfidfHead.constant(4, len(plain.vocabulary_))})


# Encoder


@pytest.mark.parametrize("with_adapters", [False, True])
def test_encoder_round_trips_exactly(tiny_bert, tmp_path, with_adapters):
    lams = (0.0, 0.1, 1.0)
    adapters = {lam: save_lora(tiny_bert, tmp_path / f"a{lam}", int(10 * lam)) for lam in lams}
    policy = EncoderPolicy(
        "router",
        ARMS,
        random_heads(lams),
        str(tiny_bert),
        adapters if with_adapters else None,
        max_tokens=16,
    )
    folder = saved(policy, tmp_path / "policy")
    loaded = load_policy(folder)
    assert (loaded.name, loaded.arms, loaded.lams) == ("router", ARMS, lams)
    assert loaded.encoder_id == str(tiny_bert)
    assert json.loads((folder / "policy.json").read_text())["max_tokens"] == 16
    assert loaded.encoder_revision == policy.encoder_revision
    rows = [loaded.probabilities(QUERIES, lam) for lam in lams]
    for lam, row in zip(lams, rows, strict=True):
        np.testing.assert_array_equal(row, policy.probabilities(QUERIES, lam))
        np.testing.assert_allclose(row.sum(axis=1), 1.0, atol=1e-12)
    assert np.abs(rows[0] - rows[1]).max() > 0.01
    # Adapters and heads only: no copy of the base model.
    sizes = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
    assert sizes < (tiny_bert / "model.safetensors").stat().st_size


def test_encoder_probabilities_by_hand(tiny_bert):
    encoder = QueryEncoder(str(tiny_bert))
    heads = random_heads([0.1])
    policy = EncoderPolicy("router", ARMS, heads, query_encoder=encoder)
    vector = encoder.embed(QUERIES[:1])[0]
    logits = [heads[0.1].weight[arm] @ vector + heads[0.1].bias[arm] for arm in range(4)]
    wanted = np.exp(logits) / np.exp(logits).sum()
    np.testing.assert_allclose(policy.probabilities(QUERIES[:1], 0.1)[0], wanted, rtol=1e-5)
    embedded = policy.embed(QUERIES, 0.1)
    np.testing.assert_array_equal(
        policy.probabilities(QUERIES, 0.1, PolicyInputs(embeddings=embedded)),
        policy.probabilities(QUERIES, 0.1),
    )
    assert policy.probabilities([], 0.1).shape == (0, 4)


def test_encoder_heads_survive_extreme_logits():
    head = LinearHead(np.array([[1e4], [-1e4]], dtype=np.float32), np.zeros(2, dtype=np.float32))
    assert head.probabilities(np.ones((1, 1), dtype=np.float32)).tolist() == [[1.0, 0.0]]


def test_encoder_refuses_heads_and_adapters_that_dont_fit(tiny_bert, tmp_path):
    with pytest.raises(RouterError, match="heads of one shape over 4 arms"):
        EncoderPolicy("router", ARMS, random_heads([0.1], arms=3), str(tiny_bert))
    adapter = save_lora(tiny_bert, tmp_path / "adapter")
    with pytest.raises(RouterError, match="an adapter for every lam or none"):
        EncoderPolicy("router", ARMS, random_heads([0.1, 0.5]), str(tiny_bert), {0.1: adapter})
    narrow = EncoderPolicy("router", ARMS, random_heads([0.1], dim=3), str(tiny_bert))
    with pytest.raises(RouterError, match=r"heads for vectors of length 3; .* gives 16"):
        narrow.prepare(0.1)


def test_encoder_of_another_revision_is_refused(tmp_path):
    encoder = save_tiny_bert(tmp_path / "encoder")
    policy = EncoderPolicy("router", ARMS, random_heads([0.1]), str(encoder))
    folder = saved(policy, tmp_path / "policy")
    save_tiny_bert(encoder, seed=9)
    with pytest.raises(RouterError, match=r"trained with revision .* found here is"):
        load_policy(folder)


def test_encoder_from_the_hub_is_pinned_to_its_commit(tiny_bert, tmp_path):
    """Loading asks neither hub nor cache; the stored commit is what would be loaded."""
    policy = EncoderPolicy("router", ARMS, random_heads([0.1]), str(tiny_bert))
    folder = saved(policy, tmp_path / "policy")
    content = json.loads((folder / "policy.json").read_text())
    content |= {"encoder": "Qwen/Qwen3-0.6B-Base", "encoder_revision": "abc"}
    (folder / "policy.json").write_text(json.dumps(content))
    resolved = load_policy(folder).queries.resolved
    assert (resolved.path, resolved.hub_revision) == ("Qwen/Qwen3-0.6B-Base", "abc")


def test_encoder_threads_loading_lazily_agree(tiny_bert, tmp_path):
    lams = (0.0, 0.5)
    adapters = {lam: save_lora(tiny_bert, tmp_path / f"a{lam}", int(10 * lam)) for lam in lams}
    made = EncoderPolicy("router", ARMS, random_heads(lams), str(tiny_bert), adapters)
    wanted = {lam: made.probabilities(QUERIES, lam) for lam in lams}
    loaded = load_policy(saved(made, tmp_path / "policy"))
    barrier, wrong = threading.Barrier(8), []

    def work(number):
        barrier.wait()
        for turn in range(4):
            lam = lams[(number + turn) % 2]
            if not np.allclose(loaded.probabilities(QUERIES, lam), wanted[lam], atol=1e-6):
                wrong.append(number)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
    assert not wrong


# Damage


def damaged_weights(path, damage):
    arrays = load_file(path)
    damage(arrays)
    save_file(arrays, path)


DAMAGE = {
    "missing": (lambda arrays: arrays.pop("bias"), "missing or unexpected: bias"),
    "unexpected": (
        lambda arrays: arrays.update(scale=np.ones(1)),
        "missing or unexpected: scale",
    ),
    "shape": (
        lambda arrays: arrays.update(bias=np.ones(3, np.float32)),
        "'bias' of shape 4, got 3",
    ),
    "nan": (
        lambda arrays: arrays.update(bias=np.full(4, np.nan, np.float32)),
        "'bias' that are not finite",
    ),
}


@pytest.mark.parametrize("kind", DAMAGE)
def test_damaged_weights_are_refused(tiny_bert, tmp_path, kind):
    policy = EncoderPolicy("router", ARMS, random_heads([0.1]), str(tiny_bert))
    folder = saved(policy, tmp_path / "policy")
    damage, message = DAMAGE[kind]
    damaged_weights(folder / "lam-0.1" / "head.safetensors", damage)
    with pytest.raises(RouterError, match=message):
        load_policy(folder)


@pytest.mark.parametrize("content", [b"", b"\x08\x00", b"not safetensors at all"])
def test_weights_cut_short_are_refused(tiny_bert, tmp_path, content):
    policy = EncoderPolicy("router", ARMS, random_heads([0.1]), str(tiny_bert))
    folder = saved(policy, tmp_path / "policy")
    (folder / "lam-0.1" / "head.safetensors").write_bytes(content)
    with pytest.raises(RouterError, match="is damaged"):
        load_policy(folder)
    (folder / "lam-0.1" / "head.safetensors").unlink()
    with pytest.raises(RouterError, match="is absent"):
        load_policy(folder)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"format_version": 2}, "format version 2, this release reads 1"),
        ({"kind": "forest"}, "of kind 'forest', known are static"),
        ({"extra": 1}, "missing or unexpected entries: extra"),
    ],
)
def test_policy_json_of_another_kind(tmp_path, change, message):
    folder = saved(StaticPolicy("static:bm25", ARMS, "bm25"), tmp_path / "policy")
    content = json.loads((folder / "policy.json").read_text())
    (folder / "policy.json").write_text(json.dumps(content | change))
    with pytest.raises(RouterError, match=message):
        load_policy(folder)


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", "\xff"])
def test_policy_json_damaged(tmp_path, text):
    (tmp_path / "policy.json").write_bytes(text.encode("latin-1"))
    with pytest.raises(RouterError, match="is damaged"):
        load_policy(tmp_path)
    with pytest.raises(RouterError, match="is absent"):
        load_policy(tmp_path / "nowhere")
