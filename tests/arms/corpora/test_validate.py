import pytest

from arms.corpora.problems import FILE_PROBLEMS, PROBLEM_KINDS
from arms.corpora.reader import read_dataset
from arms.errors import CorpusError
from arms.settings import DatasetSettings
from tests.arms.corpora.folders import REAL_DATA, needs_real_data, write_folder
from tests.arms.corpora.page_files import write_picture

HEADER = "query-id\tcorpus-id\tscore\n"
DOCUMENTS = [
    {"_id": "d1", "text": "one"},
    {"_id": "d2", "text": "two"},
    {"_id": "d1", "text": "one again"},  # line 3
    {"_id": "blank", "title": " ", "text": "\n"},  # line 4
    b'{"_id": "d5", "text": ',  # line 5
    b"[1, 2]",  # line 6
    {"_id": "d7", "title": "no text"},  # line 7
    {"_id": True, "text": "id is no text"},  # line 8
    b'{"_id": "d9", "text": "caf\xe9"}',  # line 9
    {"_id": "d10", "text": "half a pair \ud800"},  # line 10
    {"_id": "title", "title": "only a title", "text": ""},
    {"_id": "picture", "text": "", "metadata": {"image": "a.jpg"}},
    {"_id": "th\u00e9", "text": "composed"},
    {"_id": "the\u0301", "text": "decomposed"},  # line 14
]
QUERIES = [
    {"_id": "q1", "text": "one"},
    {"_id": "q1", "text": "one once more"},  # line 2
    {"_id": "q2", "text": " ONE "},
    {"_id": "q3", "text": "not judged"},
    {"_id": "q4", "text": "judged irrelevant"},
    {"_id": "q5", "text": "\t "},  # line 6
    {"_id": "q6"},  # line 7
    {"_id": "q7", "text": "\u200b\u2060"},  # line 8
]
JUDGEMENTS = (
    HEADER
    + "q1\td1\t1\n"
    + "q2\td2\t1\n"
    + "q2\td2\t1\n"  # line 4: repeated
    + "q2\td2\t3\n"  # line 5: conflicting
    + "q4\td2\t0\n"
    + "q1\tnowhere\t1\n"  # line 7
    + "nobody\td1\t1\n"  # line 8
    + "q1\td2\t-1\n"  # line 9
    + "q2\td1\t0.5\n"  # line 10
    + "q2 d1 1\n"  # line 11
    + "q2\tpicture\tnan\n"  # line 12
    + "nobody\tnowhere\tx\n"  # line 13: three at once
    + "q1\tthe\u0301\t1\n"  # line 14
    + "q1\td2\t1_0\n"  # line 15
)
EXPECTED_ERRORS = {
    "malformed_json": 2,
    "missing_field": 3,
    "not_utf8": 2,
    "duplicate_document_id": 1,
    "duplicate_query_id": 1,
    "empty_document": 1,
    "ids_differ_in_form": 1,
    "id_of_other_form": 1,
    "empty_query": 2,
    "malformed_judgement": 1,
    "bad_grade": 5,
    "conflicting_judgement": 1,
    "judgement_of_absent_document": 2,
    "judgement_of_absent_query": 2,
    "query_without_judgement": 2,
}


@pytest.fixture
def broken(tmp_path):
    folder = write_folder(tmp_path / "broken", DOCUMENTS, QUERIES, JUDGEMENTS)
    write_picture(folder / "a.jpg")
    return folder


def test_strict_lists_every_kind_at_once_with_counts_and_lines(broken):
    with pytest.raises(CorpusError) as caught:
        read_dataset(DatasetSettings(path=broken))
    message = str(caught.value)
    for kind, count in EXPECTED_ERRORS.items():
        assert f"  {kind} ({count}): " in message
    for notice in (
        "repeated_judgement (1)",
        "same_query_text (2)",
        "document_with_title_only (1)",
        "document_without_text (1)",
    ):
        assert f"  {notice}: " in message
    for place in (
        "corpus.jsonl:3: 'd1'",
        "corpus.jsonl:5: Expecting value at column 23",
        "corpus.jsonl:6: expected an object, got list",
        "corpus.jsonl:7: expected text in 'text', got the fields _id, title",
        "corpus.jsonl:8: expected text in '_id', got True",
        "corpus.jsonl:9: byte 27 of the line, 0xe9",
        "queries.jsonl:2: 'q1'",
        r"corpus.jsonl:14: 'the\u0301', after 'th\xe9'",
        r"qrels/test.tsv:14: 'the\u0301'; it is there as 'th\xe9'",
        "qrels/test.tsv:7: 'nowhere'",
        "qrels/test.tsv:9: '-1'",
        "qrels/test.tsv:11: expected 3 columns, got 1",
        "'q1', 'q2'",
    ):
        assert place in message
    assert "strict: false" in message


def test_every_refusing_kind_is_injected():
    errors = {kind for kind, (severity, _) in PROBLEM_KINDS.items() if severity == "error"}
    of_tables = {"malformed_row", "empty_key"}
    assert errors - set(FILE_PROBLEMS) - of_tables == set(EXPECTED_ERRORS)


def test_at_most_three_examples_of_a_kind(broken):
    with pytest.raises(CorpusError) as caught:
        read_dataset(DatasetSettings(path=broken))
    listed = str(caught.value).split("bad_grade (5)")[1].split("conflicting_judgement")[0]
    assert listed.count("qrels/test.tsv:") == 3


def test_lenient_drops_and_counts(broken):
    dataset = read_dataset(DatasetSettings(path=broken, strict=False))
    assert dataset.dropped == EXPECTED_ERRORS
    assert [(d.doc_id, d.text) for d in dataset.corpus] == [
        ("d1", "one"),
        ("d2", "two"),
        ("title", ""),
        ("picture", ""),
        ("thé", "composed"),
    ]
    assert len(dataset.corpus) == 5
    assert [query.query_id for query in dataset.queries] == ["q1", "q2"]
    assert dataset.qrels == {"q1": {"d1": 1}, "q2": {"d2": 1}}


def test_notices_alone_neither_refuse_nor_drop(tmp_path):
    queries = [{"_id": "a", "text": "same  text"}, {"_id": "b", "text": "Same text"}]
    folder = write_folder(tmp_path, queries=queries, judgements="a\td1\t1\nb\td2\t1\nb\td2\t1\n")
    dataset = read_dataset(DatasetSettings(path=folder))
    assert len(dataset.queries) == 2
    assert dataset.dropped == {}


@pytest.mark.parametrize("strict", [True, False])
def test_a_corpus_without_documents_is_refused_either_way(tmp_path, strict):
    folder = write_folder(tmp_path, documents=[])
    with pytest.raises(CorpusError, match=r"no_document \(1\)"):
        read_dataset(DatasetSettings(path=folder, strict=strict))


def test_nothing_judged_is_refused_even_when_lenient(tmp_path):
    folder = write_folder(tmp_path, judgements=HEADER)
    with pytest.raises(CorpusError, match=r"no_query \(1\)"):
        read_dataset(DatasetSettings(path=folder, strict=False))


def test_judgements_that_are_not_text(tmp_path):
    folder = write_folder(tmp_path, judgements=b"q1\td1\t1\nq2\td2\t1\nq\xff\td1\t1\n")
    with pytest.raises(CorpusError, match=r"not_utf8 \(1\)(.|\n)*qrels/test.tsv:3"):
        read_dataset(DatasetSettings(path=folder))


def test_json_nested_too_deeply_is_a_problem_not_a_crash(tmp_path):
    deep = b'{"_id": "x", "text": ' + b"[" * 200_000 + b"]" * 200_000 + b"}"
    folder = write_folder(tmp_path, documents=[{"_id": "d1", "text": "t"}, deep])
    with pytest.raises(CorpusError, match="malformed_json"):
        read_dataset(DatasetSettings(path=folder))


def test_json_with_a_number_too_long_is_a_problem_not_a_crash(tmp_path):
    long = b'{"_id": "x", "text": "t", "metadata": {"n": ' + b"9" * 10_000 + b"}}"
    folder = write_folder(tmp_path, documents=[{"_id": "d1", "text": "t"}, long])
    with pytest.raises(CorpusError, match="malformed_json"):
        read_dataset(DatasetSettings(path=folder))


STRICTLY_READABLE = {
    "videorag-wikihow": (8648, 160),
    "videorag-synth": (2000, 160),
    "wikitablequestions": (2108, 1200),
    "tatqa": (1634, 1668),
    "scifact": (5183, 809),
    "npl": (11429, 51),
    "hotpotqa-100": (1000, 66),
    "kgrag-sec10q": (20, 110),
    "xquad-en": (135, 705),
    "xquad-de": (135, 705),
    "limit-small": (46, 567),
}


@needs_real_data
@pytest.mark.parametrize("name", STRICTLY_READABLE)
def test_real_collections_read_strictly(name):
    dataset = read_dataset(DatasetSettings(path=REAL_DATA / name))
    assert (len(dataset.corpus), len(dataset.queries)) == STRICTLY_READABLE[name]


@needs_real_data
def test_cranfield_has_two_empty_abstracts():
    with pytest.raises(CorpusError, match=r"empty_document \(2\)(.|\n)*'c471'(.|\n)*'c995'"):
        read_dataset(DatasetSettings(path=REAL_DATA / "cranfield"))
    dataset = read_dataset(DatasetSettings(path=REAL_DATA / "cranfield", strict=False))
    assert dataset.dropped == {"empty_document": 2}
    assert (len(dataset.corpus), len(dataset.queries)) == (1398, 129)
