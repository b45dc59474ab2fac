import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from arms.corpora.beir import BeirCorpus
from arms.corpora.corpus import MemoryCorpus
from arms.corpora.granularity import pieces, sentence_spans, units, windows, words
from arms.records import Document, Unit
from tests.arms.corpora.folders import REAL_DATA, needs_real_data


def sentences(text):
    return [text[begin:end].strip() for begin, end in sentence_spans(text)]


def corpus(*documents):
    return MemoryCorpus("c", [Document(*document) for document in documents])


ALPHABET = st.sampled_from(list('ab Z. \n!?"3你好。！，」 ؟é\t\u2028\x1c)'))
TEXTS = st.text(ALPHABET, max_size=400) | st.text(max_size=200)


@given(TEXTS, st.integers(1, 9))
def test_windows_keep_every_word_once_in_order_and_fit(text, max_words):
    found = list(windows(text, max_words))
    assert [word for window in found for word in words(window)] == words(text)
    assert all(1 <= len(words(window)) <= max_words for window in found)


@given(TEXTS)
def test_words_leave_no_visible_character_out(text):
    assert "".join(words(text)) == "".join(text.split())


@given(TEXTS)
def test_sentences_cover_the_text_without_gap(text):
    assert "".join(text[begin:end] for begin, end in sentence_spans(text)) == text


@given(TEXTS, st.integers(1, 9))
def test_pieces_count_their_words_and_do_not_overlap(text, max_words):
    last = 0
    for begin, end, n_words in pieces(text, max_words):
        assert last <= begin < end
        assert 1 <= n_words == len(words(text[begin:end])) <= max_words
        last = end


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("One. Two! Three? Four", ["One.", "Two!", "Three?", "Four"]),
        ('He said "No." Then he left.', ['He said "No."', "Then he left."]),
        ("Dr. Smith saw e.g. The U.S. Army, J. Doe.", 1),
        ("See No. 5 and Sec. 7. That is all.", 1),
        ("Version 3.11 is out. It costs 2.5 euros.", 2),
        ("Am 3. Oktober kam z. B. Dr. Müller, vgl. S. 512. Er blieb.", 2),
        ("Sie sagte: „Nein.“ Dann ging sie.", 2),
        ("approx. three dogs etc. and cats.", 1),
        ("the wing . an experiment . its end .", 3),
        ("one thing. another thing. a third.", 3),
        ("今天下雨。我们在家！你呢？", ["今天下雨。", "我们在家！", "你呢？"]),
        ("他说：「好。」然后走了。", ["他说：「好。」", "然后走了。"]),
        ("كيف حالك؟ أنا بخير. شكرا", 3),
        ("Heading\n\nText under it", ["Heading", "Text under it"]),
        ("a line\nthat goes on", 1),
        ("no marks at all", 1),
        ("", []),
    ],
)
def test_sentence_borders(text, expected):
    found = sentences(text)
    assert (len(found) if isinstance(expected, int) else found) == expected


def test_document_units():
    given_corpus = corpus(("a", "Title", "text"), ("b", "", "more"), ("c", "", ""))
    assert list(units(given_corpus, "document")) == [
        Unit("a", "a", "Title text"),
        Unit("b", "b", "more"),
        Unit("c", "c", ""),
    ]


def test_paragraphs_are_whole_sentences_up_to_100_words_with_the_title():
    sentence = "w " * 39 + "end. "
    text = (sentence.capitalize() * 5).strip()
    found = list(units(corpus(("a", "T", text)), "paragraph"))
    assert [unit.unit_id for unit in found] == ["a#0", "a#1", "a#2"]
    assert {unit.doc_id for unit in found} == {"a"}
    assert [len(words(unit.text)) for unit in found] == [81, 81, 41]
    assert all(unit.text.startswith("T W w") and unit.text.endswith("end.") for unit in found)


@pytest.mark.parametrize("n_words", [1, 99, 100, 101, 200, 250])
def test_text_without_punctuation_is_cut_after_100_words(n_words):
    text = " ".join(f"w{number}" for number in range(n_words))
    sizes = [len(words(unit.text)) for unit in units(corpus(("a", "", text)), "paragraph")]
    assert sizes == [100] * (n_words // 100) + [n_words % 100] * (n_words % 100 > 0)


def test_a_long_sentence_fills_no_neighbour_and_its_rest_joins_the_next():
    text = "Short one. " + "W " * 149 + "end. Next one."
    assert [len(words(window)) for window in windows(text)] == [2, 100, 52]


def test_rows_of_a_table_stay_whole():
    row = " | ".join("cell" for _ in range(20))  # 39 words
    found = list(windows("\n".join([row] * 5)))
    assert [window.count("\n") + 1 for window in found] == [2, 2, 1]


def test_chinese_is_counted_by_character():
    assert [len(words(window)) for window in windows("好" * 250)] == [100, 100, 50]
    assert list(windows("你好。" * 60)) == ["你好。" * 50, "你好。" * 10]


@pytest.mark.parametrize("text", ["", " \n\t", "\u2028"])
def test_every_document_gives_a_unit(text):
    (unit,) = units(corpus(("a", "Only title", text)), "paragraph")
    assert unit.unit_id == "a#0"
    assert unit.text.strip() == "Only title"


def test_unit_ids_stay_distinct_when_document_ids_look_like_them():
    found = list(units(corpus(("a", "", "x " * 150), ("a#1", "", "y")), "paragraph"))
    assert len({unit.unit_id for unit in found}) == 3


def test_an_unknown_granularity_is_refused():
    with pytest.raises(ValueError, match="document, paragraph or page"):
        units(corpus(), "clip")  # type: ignore[arg-type]


@pytest.mark.parametrize("text", ["." * 200_000 + "a", "。" * 200_000, "\n " * 100_000 + "a"])
def test_no_text_takes_quadratic_time(text):
    begin = time.process_time()
    list(windows(text + " w" * 101))
    assert time.process_time() - begin < 5


@pytest.mark.slow
@needs_real_data
def test_seven_million_words_take_well_under_a_minute():
    wikihow = BeirCorpus(REAL_DATA / "videorag-wikihow" / "corpus.jsonl", "wikihow")
    begin = time.process_time()
    n_units = sum(1 for _ in units(wikihow, "paragraph"))
    assert n_units > 75_000
    assert time.process_time() - begin < 60
