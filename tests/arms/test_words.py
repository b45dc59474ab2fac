"""Words of any script."""

import re
import unicodedata

import pytest

from arms.words import long_terms, search_words, token_pattern, words, words_and_punctuation

PLAIN = (
    "The crane's price rose 3.5 % in 2019_a, e.g. at x",
    "straße, größe – „äpfel“ & čeština, façade … søren’s €5",
    "ελληνικά и русский текст հայերեն việt nam",
    "한국어 검색 x² ½ 😀 text",
)


@pytest.mark.parametrize("text", PLAIN)
def test_latin_greek_cyrillic_and_hangul_are_runs_of_two_characters_or_more(text: str) -> None:
    assert search_words(text) == re.findall(r"(?u)\b\w\w+\b", text)
    assert re.findall(token_pattern(), text) == search_words(text)
    assert words(text) == re.findall(r"\w+", text)
    assert words_and_punctuation(text) == re.findall(r"\w+|[^\w\s]", text)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("हिन्दी भाषा की", ["हिन्दी", "भाषा", "की"]),
        ("தமிழ் மொழி", ["தமிழ்", "மொழி"]),
        ("বাংলা ভাষা", ["বাংলা", "ভাষা"]),
        ("ක්‍රිකට්", ["ක්රිකට්"]),
        ("የአማርኛ ቋንቋ", ["የአማርኛ", "ቋንቋ"]),
        ("afrikɑ̃s", ["afrikɑ̃s"]),
        ("i̇stanbul", ["istanbul"]),
    ],
)
def test_marks_belong_to_words(text: str, expected: list[str]) -> None:
    assert search_words(text) == expected


@pytest.mark.parametrize(
    ("pointed", "plain"),
    [("שָׁלוֹם עוֹלָם", "שלום עולם"), ("الْكِتَابُ", "الكتاب"), ("مـحـمـد", "محمد")],
)
def test_points_that_most_writers_leave_out_make_no_difference(pointed: str, plain: str) -> None:
    composed = unicodedata.normalize("NFC", pointed)
    assert search_words(composed) == search_words(plain) == plain.split()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("长城的", ["长", "城", "的", "长城", "城的"]),
        ("猫の、犬", ["猫", "の", "猫の", "犬"]),
        ("タワー", ["タ", "ワ", "ー", "タワ", "ワー"]),
        ("ﾃｽ", ["テ", "ス", "テス"]),
        ("iphone15长城ａｂ", ["iphone15", "长", "城", "长城", "ab"]),
        ("น้ำตก", ["น้", "ำ", "ต", "ก", "น้ำ", "ำต", "ตก"]),
        ("ລາວ", ["ລ", "າ", "ວ", "ລາ", "າວ"]),
        ("ភាសា", ["ភា", "សា", "ភាសា"]),
        ("ဘာသာ", ["ဘာ", "သာ", "ဘာသာ"]),
        ("ไท\u200bย", ["ไ", "ท", "ย", "ไท", "ทย"]),
    ],
)
def test_scripts_without_spaces_give_characters_and_pairs(text: str, expected: list[str]) -> None:
    assert search_words(text) == expected


def test_counted_words() -> None:
    assert words("长城 x हिन्दी") == ["长", "城", "x", "हिन्दी"]
    assert words("ภาษาไทย") == ["ภาษา", "ไทย"]
    assert words_and_punctuation("长城。ok!") == ["长", "城", "。", "ok", "!"]


def test_terms_of_made_queries() -> None:
    assert long_terms("the cat of 2019 größe") == ["the", "cat", "größe"]
    assert long_terms("长城的 हिन्दी भा") == ["长城", "城的", "हिन्दी"]


def test_the_one_pattern_gives_pairs_too() -> None:
    assert re.findall(token_pattern(), "the iphone15手机 हिन्दी") == [
        *("the", "iphone15", "手机", "机", "हिन्दी")
    ]
