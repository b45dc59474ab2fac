"""Repeated keys and broken YAML."""

import pytest

from arms.errors import SettingsError
from arms.yaml_file import read_yaml


def read(folder, text):
    path = folder / "run.yaml"
    path.write_text(text, encoding="utf-8")
    return read_yaml(path)


def test_every_repeated_key_is_named_with_its_lines(tmp_path):
    text = "corpus: a\noracle:\n  k: 5\n  k: 6\narms:\n  - {arm: bm25, arm: none}\ncorpus: b\n"
    with pytest.raises(SettingsError) as raised:
        read(tmp_path, text)
    assert str(raised.value).splitlines()[1:] == [
        "  oracle.k: lines 3 and 4; keep one",
        "  arms.0.arm: lines 6 and 6; keep one",
        "  corpus: lines 1 and 7; keep one",
    ]


def test_aliases_merges_and_equal_keys_in_different_places_are_no_repeats(tmp_path):
    text = "a: &one {k: 1}\nb: *one\nc: {<<: *one, k: 2}\nd: [{k: 1}, {k: 1}]\n'1': x\n1: y\n"
    assert read(tmp_path, text) == {
        "a": {"k": 1}, "b": {"k": 1}, "c": {"k": 2}, "d": [{"k": 1}] * 2, "1": "x", 1: "y",
    }  # fmt: skip
    assert read(tmp_path, "") is None


@pytest.mark.parametrize("text", ["corpus: [unclosed", "a: b: c", "[" * 5000, "a\n---\nb"])
def test_what_is_no_yaml_is_refused_by_name(tmp_path, text):
    with pytest.raises(SettingsError, match=r"run\.yaml is not valid YAML"):
        read(tmp_path, text)


def test_what_is_no_text_is_refused_by_name(tmp_path):
    (tmp_path / "run.yaml").write_bytes(b"corpus: \xff")
    with pytest.raises(SettingsError, match=r"run\.yaml, line 1: byte 0xff is not UTF-8 text"):
        read_yaml(tmp_path / "run.yaml")
