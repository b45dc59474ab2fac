"""Resolving encoders, chunks that outlive a kill, and text vectors."""

import hashlib

import numpy as np
import pytest

from arms.encoders.chunks import encode_in_chunks, length_sorted_batches
from arms.encoders.resolve import resolve
from arms.errors import SettingsError
from arms.records import Unit

MINILM_SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
UNITS = [Unit(f"u{n}", f"d{n}", "x" * n) for n in range(7)]


class Bar:
    moved = 0

    def advance(self, amount=1):
        self.moved += amount


class LengthEncoder:
    """Encodes a unit as its text's length; dies at the call number given."""

    def __init__(self, dies_at=None):
        self.calls = []
        self.dies_at = dies_at

    def __call__(self, units):
        self.calls.append(len(units))
        if len(self.calls) == self.dies_at:
            raise KeyboardInterrupt
        return {"lengths": np.array([len(unit.text) for unit in units], dtype=np.int32)}


def lengths(tmp_path, encode, fingerprint="f", bar=None, units=UNITS):
    chunks = encode_in_chunks(iter(units), encode, tmp_path, fingerprint, bar or Bar(), 3)
    return [length for chunk in chunks for length in chunk.arrays["lengths"].tolist()]


def test_the_default_encoder_is_the_packaged_one():
    default = resolve()
    assert default.revision == MINILM_SHA256
    assert resolve("all-MiniLM-L6-v2") == default
    assert default.is_folder and default.hub_revision is None


def test_a_folder_is_known_by_its_weights(tmp_path):
    with pytest.raises(SettingsError, match="holds no weights"):
        resolve(str(tmp_path))
    (tmp_path / "model.safetensors").write_bytes(b"weights")
    assert resolve(str(tmp_path)).revision == hashlib.sha256(b"weights").hexdigest()
    with pytest.raises(SettingsError, match="is not a folder: nothing of that name is there"):
        resolve(str(tmp_path / "absent"))


def test_chunks_come_in_order_and_move_the_bar(tmp_path):
    encode, bar = LengthEncoder(), Bar()
    assert lengths(tmp_path, encode, bar=bar) == list(range(7))
    assert encode.calls == [3, 3, 1]
    assert bar.moved == 7


def test_a_killed_encoding_loses_the_chunk_in_flight_alone(tmp_path):
    with pytest.raises(KeyboardInterrupt):
        lengths(tmp_path, LengthEncoder(dies_at=3))
    again = LengthEncoder()
    assert lengths(tmp_path, again) == list(range(7))
    assert again.calls == [1]


def test_chunks_of_another_encoder_or_text_are_not_reused(tmp_path):
    lengths(tmp_path, LengthEncoder())
    other, edited = LengthEncoder(), LengthEncoder()
    lengths(tmp_path, other, fingerprint="g")
    assert other.calls == [3, 3, 1]
    assert lengths(tmp_path, edited, units=[*UNITS[:6], Unit("u6", "d6", "new")])[-1] == 3
    assert edited.calls == [1]


def test_batches_hold_texts_of_like_length():
    assert list(length_sorted_batches([1, 9, 5, 9, 2], 2)) == [[1, 3], [2, 4], [0]]
    assert list(length_sorted_batches([], 2)) == []


def test_an_unloadable_folder_is_a_clear_error(tmp_path):
    from arms.encoders.text_encoder import load_text_encoder

    (tmp_path / "model.safetensors").write_bytes(b"not weights")
    with pytest.raises(SettingsError, match="can't be loaded as a text encoder"):
        load_text_encoder(resolve(str(tmp_path)), device="cpu")
