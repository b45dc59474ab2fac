"""One Unicode form for every text."""

import unicodedata

import pytest

from arms.arm import check_query
from arms.errors import QueryError
from arms.records import Document, Query
from arms.text_form import KnownIds, code_points, composed, is_visible, normalised_text

WORDS = ("café", "Việt Nam", "Tiếng", "한국어", "Dvořák", "ǖ", "ががパパ")


@pytest.mark.parametrize("word", WORDS)
def test_both_forms_become_one(word: str) -> None:
    apart = unicodedata.normalize("NFD", word)
    assert apart != word
    assert composed(apart) == composed(word) == unicodedata.normalize("NFC", word)
    assert normalised_text(f" {apart.upper()}\n") == normalised_text(word)


def test_composed_text_is_returned_as_it_is() -> None:
    for text in ("plain", "café"):
        assert composed(text) is text


@pytest.mark.parametrize("word", WORDS)
def test_records_hold_composed_texts_and_ids_as_given(word: str) -> None:
    apart = unicodedata.normalize("NFD", word)
    document = Document(apart, apart, f"{apart} text")
    assert (document.doc_id, document.title, document.text) == (apart, word, f"{word} text")
    assert Query(apart, apart).text == word
    assert check_query(apart) == word


def test_an_id_in_the_other_form_is_found() -> None:
    known = KnownIds(["cafe\u0301", "plain"])
    assert known.in_other_form("café") == "cafe\u0301"
    assert known.in_other_form("cafe\u0301") is None
    assert known.in_other_form("thé") is None
    assert known.in_other_form("plain") is None
    assert code_points("café") == r"'caf\xe9'"


@pytest.mark.parametrize(
    "text",
    [
        "",
        " \n",
        "\u200b",
        "\u200d\u2060\ufeff",
        "\u00ad",
        "\u3164",
        "\u2800",
        "\ufe0f",
        "\u00a0\u3000",
    ],
)
def test_what_nobody_sees_is_no_query(text: str) -> None:
    assert not is_visible(text)
    with pytest.raises(QueryError, match="empty"):
        check_query(text)


@pytest.mark.parametrize("text", ["a", "\u200bа", "?", "€", "字", "ก", "☂\ufe0f", "\u0301e"])
def test_what_can_be_seen_is(text: str) -> None:
    assert is_visible(text)
