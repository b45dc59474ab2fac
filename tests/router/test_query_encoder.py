import shutil
import threading

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from arms.errors import RouterError
from router.adapter import CONFIG, WEIGHTS
from router.pooling import embed_tokens, mean_pool, pad_tokens, position_ids
from router.query_encoder import QueryEncoder, length_buckets
from tests.router.tiny_encoders import DIM, WORDS, save_lora, save_tiny_bert, save_tiny_qwen3

QUERIES = [
    "what was the operating margin in 2019 ?",
    "who",
    "list every river in germany and its length",
    "boil an egg",
    "what was the operating margin in 2019 ?",
]
SAVERS = {
    ("bert", "right"): save_tiny_bert,
    ("bert", "left"): save_tiny_bert,
    ("qwen3", "right"): save_tiny_qwen3,
    ("qwen3", "left"): save_tiny_qwen3,
}


@pytest.fixture(scope="module", params=SAVERS, ids="-".join)
def encoder_folder(request, tmp_path_factory):
    return SAVERS[request.param](tmp_path_factory.mktemp("encoder"), request.param[1])


# Pure functions.


def test_mean_pool_by_hand_ignores_what_stands_at_padded_places():
    nan = float("nan")
    hidden = torch.tensor([[[1.0, 2.0], [3.0, 6.0], [nan, 9.0]], [[nan, 9.0], [9.0, nan], [5, 7]]])
    mask = torch.tensor([[1, 1, 0], [0, 0, 1]])
    assert mean_pool(hidden, mask).tolist() == [[2.0, 4.0], [5.0, 7.0]]


def test_mean_pool_of_no_token_is_zeros():
    assert mean_pool(torch.ones(1, 2, 3), torch.zeros(1, 2)).tolist() == [[0.0, 0.0, 0.0]]


def test_mean_pool_adds_in_float32():
    hidden = torch.full((1, 1000, 1), 1.0, dtype=torch.bfloat16)
    hidden[0, 0, 0] = 257.0  # 256 in bfloat16; a bfloat16 sum would stop growing at 256
    assert mean_pool(hidden, torch.ones(1, 1000)).item() == pytest.approx((999 + 256) / 1000)


@pytest.mark.parametrize(
    ("side", "ids", "mask"),
    [
        ("right", [[7, 8, 9], [5, 0, 0]], [[1, 1, 1], [1, 0, 0]]),
        ("left", [[7, 8, 9], [0, 0, 5]], [[1, 1, 1], [0, 0, 1]]),
    ],
)
def test_pad_tokens(side, ids, mask):
    got_ids, got_mask = pad_tokens([[7, 8, 9], [5]], 0, side)
    assert got_ids.tolist() == ids
    assert got_mask.tolist() == mask


def test_position_ids_count_real_tokens():
    mask = torch.tensor([[0, 0, 1, 1], [1, 1, 1, 1]])
    assert position_ids(mask).tolist() == [[0, 0, 0, 1], [0, 1, 2, 3]]


def test_length_buckets_leave_out_empty_rows_and_hold_the_token_limit():
    lengths = [3, 0, 10, 4, 4, 1, 30]
    batches = length_buckets(lengths, batch_tokens=12)
    assert batches == [[6], [2], [3, 4, 0], [5]]
    assert length_buckets([], 12) == []


# Against transformers, and against itself unpadded.


def test_single_query_equals_a_hand_computation(encoder_folder):
    from transformers import AutoModel, AutoTokenizer

    model = AutoModel.from_pretrained(encoder_folder).eval()
    tokens = AutoTokenizer.from_pretrained(encoder_folder)(QUERIES[0], return_tensors="pt")
    with torch.no_grad():
        hidden = model(**tokens).last_hidden_state[0].numpy()
    wanted = sum(hidden) / len(hidden)
    got = QueryEncoder(str(encoder_folder)).embed([QUERIES[0]])
    assert got.shape == (1, DIM)
    assert got.dtype == np.float32
    np.testing.assert_allclose(got[0], wanted, atol=1e-5)


def test_padding_on_either_side_changes_nothing(encoder_folder):
    encoder = QueryEncoder(str(encoder_folder))
    together = encoder.embed(QUERIES)
    alone = np.concatenate([encoder.embed([query]) for query in QUERIES])
    np.testing.assert_allclose(together, alone, atol=1e-5)
    np.testing.assert_allclose(encoder.embed(QUERIES[::-1]), together[::-1], atol=1e-5)
    # The queries differ, so that a mix-up of rows would show.
    assert np.abs(together[0] - together[2]).max() > 0.1


def test_masked_padding_matters(tiny_bert):
    """The test above can fail: without the mask the padded places would count."""
    encoder = QueryEncoder(str(tiny_bert))
    ids, mask = pad_tokens(encoder._tokenizer(QUERIES[:2]), 3, "right")
    with torch.no_grad():
        right = embed_tokens(encoder._model, ids, mask)
        wrong = embed_tokens(encoder._model, ids, None)
    assert (right[1] - wrong[1]).abs().max() > 1e-3


def test_queries_are_cut_at_max_tokens(tiny_bert):
    encoder = QueryEncoder(str(tiny_bert), max_tokens=5)
    long = encoder.embed(["what was the operating margin in 2019", "what was the"])
    np.testing.assert_allclose(long[0], long[1], atol=1e-6)  # three words beside [CLS] and [SEP]


def test_queries_are_cut_where_the_encoder_ends(tiny_bert):
    """It has 64 positions; asking for 500 must not read beyond them."""
    assert QueryEncoder(str(tiny_bert), max_tokens=500).embed(["who " * 400]).shape == (1, DIM)


def test_a_query_of_ten_thousand_words_is_cut_not_refused(encoder_folder):
    encoder = QueryEncoder(str(encoder_folder), max_tokens=32)
    assert np.isfinite(encoder.embed([" ".join(WORDS * 300), "who"])).all()


@pytest.mark.parametrize("text", ["😀🎉", "北京的河流", "\x00\x07", "\ud800 half", "?!", "a"])
def test_any_text_has_an_embedding(encoder_folder, text):
    embedding = QueryEncoder(str(encoder_folder)).embed([text])
    assert embedding.shape == (1, DIM)
    assert np.isfinite(embedding).all()


def test_no_queries_and_no_tokens(tiny_qwen3):
    encoder = QueryEncoder(str(tiny_qwen3))
    assert encoder.embed([]).shape == (0, DIM)
    assert encoder.embed([""]).tolist() == [[0.0] * DIM]
    mixed = encoder.embed(["", "who"])
    assert mixed[0].tolist() == [0.0] * DIM
    np.testing.assert_allclose(mixed[1], encoder.embed(["who"])[0], atol=1e-6)


def test_bfloat16_is_close_to_float32(encoder_folder):
    exact = QueryEncoder(str(encoder_folder)).embed(QUERIES)
    rounded = QueryEncoder(str(encoder_folder), dtype="bfloat16").embed(QUERIES)
    assert rounded.dtype == np.float32
    assert 0 < np.abs(exact - rounded).max() < 0.2


def test_linear_weights_lie_by_column_and_stay_the_same(tiny_bert):
    from transformers import AutoModel

    wanted = dict(AutoModel.from_pretrained(tiny_bert).named_parameters())
    name = "encoder.layer.0.attention.self.query.weight"
    weight = dict(QueryEncoder(str(tiny_bert))._model.named_parameters())[name]
    assert torch.equal(weight, wanted[name])
    assert weight.t().is_contiguous()


def test_loading_is_silent(tiny_bert, capfd):
    QueryEncoder(str(tiny_bert)).embed(QUERIES)
    assert capfd.readouterr() == ("", "")


def test_offline_default_encoder_equals_sentence_transformers_up_to_length():
    from sentence_transformers import SentenceTransformer

    encoder = QueryEncoder()
    reference = SentenceTransformer(encoder.resolved.path, device="cpu").encode(QUERIES)
    ours = encoder.embed(QUERIES)
    ours /= np.linalg.norm(ours, axis=1, keepdims=True)
    np.testing.assert_allclose(ours, reference, atol=1e-5)


def test_threads_share_an_encoder(tiny_bert):
    encoder = QueryEncoder(str(tiny_bert))
    wanted = encoder.embed(QUERIES)
    wrong = []

    def work():
        for _ in range(20):
            if np.abs(encoder.embed(QUERIES) - wanted).max() > 1e-6:
                wrong.append(1)
            if np.abs(encoder.embed(QUERIES[2:3]) - wanted[2]).max() > 1e-5:
                wrong.append(2)

    threads = [threading.Thread(target=work) for _ in range(8)]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
    assert not wrong


# What can't be loaded.


@pytest.mark.parametrize(
    ("given", "message"),
    [({"max_tokens": 0}, "max_tokens must be at least 1"), ({"dtype": "int8"}, "dtype must be")],
)
def test_settings_out_of_range(tiny_bert, given, message):
    with pytest.raises(RouterError, match=message):
        QueryEncoder(str(tiny_bert), **given)


def test_an_encoder_that_lacks_weights_is_refused(tiny_bert, tmp_path):
    folder = tmp_path / "encoder"
    shutil.copytree(tiny_bert, folder)
    weights = load_file(folder / "model.safetensors")
    dropped = next(name for name in weights if "layer.1" in name)
    del weights[dropped]
    save_file(weights, folder / "model.safetensors", {"format": "pt"})
    with pytest.raises(RouterError, match="lacks the weights"):
        QueryEncoder(str(folder))


# Adapters.


@pytest.fixture(scope="module")
def adapter(encoder_folder, tmp_path_factory):
    return save_lora(encoder_folder, tmp_path_factory.mktemp("lora") / "adapter")


def test_an_adapter_equals_peft_and_leaves_the_base_alone(encoder_folder, adapter):
    from peft import PeftModel
    from transformers import AutoModel

    base = QueryEncoder(str(encoder_folder))
    plain = base.embed(QUERIES)
    adapted = base.with_adapter(adapter)
    model = PeftModel.from_pretrained(AutoModel.from_pretrained(encoder_folder), adapter).eval()
    ids, mask = pad_tokens(base._tokenizer(QUERIES), 3, base._tokenizer.padding_side)
    with torch.no_grad():
        wanted = embed_tokens(model, ids, mask).numpy()
    np.testing.assert_allclose(adapted.embed(QUERIES), wanted, atol=2e-5)
    assert np.abs(wanted - plain).max() > 0.05
    assert np.array_equal(base.embed(QUERIES), plain)
    alone = QueryEncoder(str(encoder_folder), adapter=adapter).embed(QUERIES)
    np.testing.assert_allclose(alone, wanted, atol=2e-5)


def test_adapters_share_the_weights_they_leave_alone(tiny_bert, tmp_path):
    base = QueryEncoder(str(tiny_bert))
    twin = base.with_adapter(save_lora(tiny_bert, tmp_path / "adapter"))
    ours, theirs = (
        {name: weight.data_ptr() for name, weight in encoder._model.named_parameters()}
        for encoder in (base, twin)
    )
    assert ours.keys() == theirs.keys()
    own = {name for name in ours if ours[name] != theirs[name]}
    assert own
    assert all("attention.self" in name for name in own)


def test_bfloat16_adapters_are_not_merged(tiny_bert, tmp_path):
    adapter = save_lora(tiny_bert, tmp_path / "adapter")
    base = QueryEncoder(str(tiny_bert), dtype="bfloat16")
    twin = base.with_adapter(adapter)
    assert any("lora_A" in name for name, _ in twin._model.named_parameters())
    exact = QueryEncoder(str(tiny_bert), adapter=adapter).embed(QUERIES)
    assert np.abs(twin.embed(QUERIES) - exact).max() < 0.2


def test_a_saved_adapter_is_two_files(tiny_bert, tmp_path):
    adapter = save_lora(tiny_bert, tmp_path / "adapter")
    assert sorted(path.name for path in adapter.iterdir()) == sorted([CONFIG, WEIGHTS])


def _drop(weights):
    del weights[sorted(weights)[0]]


def _add(weights):
    weights["base_model.model.extra.lora_A.weight"] = torch.zeros(2, 2)


def _reshape(weights):
    name = sorted(weights)[0]
    weights[name] = torch.zeros(3, 3)


@pytest.mark.parametrize(
    ("damage", "message"), [(_drop, "missing"), (_add, "unexpected"), (_reshape, "has shape")]
)
def test_an_adapter_must_fit_exactly(tiny_bert, tmp_path, damage, message):
    adapter = save_lora(tiny_bert, tmp_path / "adapter")
    weights = load_file(adapter / WEIGHTS)
    damage(weights)
    save_file(weights, adapter / WEIGHTS)
    with pytest.raises(RouterError, match=f"doesn't fit its base model: .*{message}"):
        QueryEncoder(str(tiny_bert), adapter=adapter)


@pytest.mark.parametrize("name", [CONFIG, WEIGHTS])
def test_an_adapter_with_a_file_missing_or_damaged(tiny_bert, tmp_path, name):
    adapter = save_lora(tiny_bert, tmp_path / "adapter")
    (adapter / name).write_bytes(b"\x00not it")
    with pytest.raises(RouterError, match="adapter"):
        QueryEncoder(str(tiny_bert), adapter=adapter)
    (adapter / name).unlink()
    with pytest.raises(RouterError, match=f"holds no {name}"):
        QueryEncoder(str(tiny_bert), adapter=adapter)


def test_an_adapter_of_another_architecture(tiny_bert, tiny_qwen3, tmp_path):
    adapter = save_lora(tiny_qwen3, tmp_path / "adapter")
    with pytest.raises(RouterError, match="doesn't fit its base model"):
        QueryEncoder(str(tiny_bert), adapter=adapter)


def test_a_query_alone_may_run_as_a_graph_with_the_same_vectors() -> None:
    pytest.importorskip("onnxruntime")
    encoder = QueryEncoder()
    assert encoder._alone.name != "torch", encoder._alone.reason
    alone = np.concatenate([encoder.embed([query]) for query in QUERIES])
    np.testing.assert_allclose(alone, encoder.embed(QUERIES), atol=1e-4)
