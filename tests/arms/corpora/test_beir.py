import gzip

import pytest

from arms.corpora.beir import BeirCorpus, find_folder, write_beir
from arms.corpora.corpus import Dataset, MemoryCorpus
from arms.corpora.reader import read_dataset, read_documents
from arms.errors import CorpusError
from arms.records import Document, Query
from arms.settings import DatasetSettings
from tests.arms.corpora.folders import JUDGEMENTS, write_folder


def read(folder, **options):
    return read_dataset(DatasetSettings(path=folder, **options))


@pytest.mark.parametrize("gz", [False, True])
def test_reads_a_folder_plain_or_gzipped(tmp_path, gz):
    dataset = read(write_folder(tmp_path / "tea", gz=gz), language="german")
    assert dataset.name == "tea"
    assert dataset.corpus.name == "tea"
    assert dataset.corpus.language == "german"
    assert list(dataset.corpus) == [
        Document("d1", "Tea", "Leaves in hot water."),
        Document("d2", "", "Beans, ground and brewed."),
        Document("d3", "Milk", "From cows."),
    ]
    assert len(dataset.corpus) == 3
    assert dataset.queries == (Query("q1", "hot leaves"), Query("q2", "ground beans"))
    assert dataset.qrels == {"q1": {"d1": 2}, "q2": {"d2": 1, "d3": 0}}
    assert dataset.dropped == {}


def test_all_judgement_files_are_merged(tmp_path):
    parts = {"train.tsv": JUDGEMENTS, "dev.tsv": "query-id\tcorpus-id\tscore\nq1\td3\t1\n"}
    folder = write_folder(tmp_path, judgements=parts)
    (folder / "qrels" / "more.tsv.gz").write_bytes(gzip.compress(b"q1\td2\t3\n"))
    assert read(folder).qrels["q1"] == {"d1": 2, "d2": 3, "d3": 1}


def test_a_judgement_file_without_header_loses_no_line(tmp_path):
    folder = write_folder(tmp_path, judgements="q1\td1\t1\nq2\td2\t1.0\n")
    assert read(folder).qrels == {"q1": {"d1": 1}, "q2": {"d2": 1}}


def test_byte_order_mark_windows_line_ends_and_blank_lines(tmp_path):
    folder = write_folder(tmp_path, judgements=JUDGEMENTS.replace("\n", "\r\n"))
    path = folder / "corpus.jsonl"
    path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes().replace(b"\n", b"\r\n\r\n"))
    dataset = read(folder)
    assert len(dataset.corpus) == len(list(dataset.corpus)) == 3
    assert dataset.qrels["q2"] == {"d2": 1, "d3": 0}


def test_ids_may_hold_spaces_and_be_numbers(tmp_path):
    documents = [{"_id": 7, "text": "one"}, {"_id": "Ada Lovelace", "text": "two"}]
    folder = write_folder(tmp_path, documents, judgements="q1\t7\t1\nq2\tAda Lovelace\t1\n")
    assert [document.doc_id for document in read(folder).corpus] == ["7", "Ada Lovelace"]


def test_walking_twice_gives_the_same_and_the_fingerprint_sees_changes(tmp_path):
    first = read(write_folder(tmp_path / "a")).corpus
    again = read(write_folder(tmp_path / "b", gz=True)).corpus
    changed = read(write_folder(tmp_path / "c", [{"_id": "d1", "text": "x"}]), strict=False).corpus
    assert list(first) == list(first)
    assert first.fingerprint == again.fingerprint != changed.fingerprint


def test_control_characters_and_emoji_pass(tmp_path):
    text = "bell\x07 null\x00 escape\x1b 🙂 \u2028 end"
    documents = [{"_id": "d1", "text": text}, {"_id": "d2", "text": "\ud83d\ude42"}]
    folder = write_folder(tmp_path, documents, judgements="q1\td1\t1\nq2\td2\t1\n")
    assert [document.text for document in read(folder).corpus] == [text, "🙂"]


def test_missing_files_are_named_together(tmp_path):
    (tmp_path / "corpus.jsonl").write_text('{"_id": "d", "text": "t"}\n')
    with pytest.raises(CorpusError, match=r"lacks queries.jsonl, qrels/\*.tsv .*l2r queries"):
        find_folder(tmp_path)
    with pytest.raises(CorpusError, match="not a folder"):
        find_folder(tmp_path / "nowhere")
    with pytest.raises(CorpusError, match="should hold corpus"):
        read_documents(DatasetSettings(path=tmp_path / "nowhere"))


def test_an_unlabelled_corpus_reads_alone(tmp_path):
    (tmp_path / "corpus.jsonl").write_text('{"_id": "d", "text": "t"}\n{"_id": "d", "text": "u"}\n')
    with pytest.raises(CorpusError, match="duplicate_document_id"):
        read_documents(DatasetSettings(path=tmp_path))
    corpus = read_documents(DatasetSettings(path=tmp_path, strict=False))
    assert [document.text for document in corpus] == ["t"]
    assert len(corpus) == 1


def test_damaged_gzip_is_a_clear_error(tmp_path):
    folder = write_folder(tmp_path, gz=True)
    path = folder / "corpus.jsonl.gz"
    path.write_bytes(path.read_bytes()[:-12])
    with pytest.raises(CorpusError, match="damaged"):
        read(folder)
    path.write_bytes(b"not gzip at all")
    with pytest.raises(CorpusError, match="damaged"):
        read(folder)


def test_an_unchecked_bad_line_is_named_by_number(tmp_path):
    path = tmp_path / "corpus.jsonl"
    path.write_bytes(b'{"_id": "d1", "text": "t"}\n{"_id": "d2"\n')
    with pytest.raises(CorpusError, match=r"corpus.jsonl:2: malformed_json"):
        list(BeirCorpus(path, "c"))


def test_documents_are_streamed(tmp_path):
    path = tmp_path / "corpus.jsonl"
    path.write_bytes(b'{"_id": "d1", "text": "t"}\nbroken\n')
    assert next(iter(BeirCorpus(path, "c"))).doc_id == "d1"


def sample() -> Dataset:
    documents = [Document("a b", "T", "x\ny 你好", {"kind": "p"}), Document("c", "", "z\x07")]
    queries = (Query("q 1", "what?", {"kind": "k"}), Query("q2", "wo\tß"))
    qrels = {"q 1": {"a b": 3, "c": 0}, "q2": {"c": 1}}
    return Dataset("s", MemoryCorpus("s", documents), queries, qrels)


def test_a_written_folder_reads_back_equal(tmp_path):
    dataset = sample()
    write_beir(dataset, tmp_path / "out")
    back = read(tmp_path / "out")
    assert list(back.corpus) == list(dataset.corpus)
    assert (back.queries, back.qrels) == (dataset.queries, dataset.qrels)
    assert back.corpus.fingerprint == dataset.corpus.fingerprint


def test_writing_refuses_an_existing_folder_unless_told(tmp_path):
    out = write_folder(tmp_path / "out")
    with pytest.raises(CorpusError, match="exists already"):
        write_beir(sample(), out)
    assert read(out).queries[0].text == "hot leaves"
    write_beir(sample(), out, overwrite=True)
    assert read(out).queries[0].text == "what?"


def test_a_failed_write_leaves_nothing(tmp_path):
    broken = Dataset("s", MemoryCorpus("s", []), (), {"q\t1": {"d": 1}})
    with pytest.raises(CorpusError, match="holds a tab"):
        write_beir(broken, tmp_path / "out")
    assert list(tmp_path.iterdir()) == []


def test_beir_settings_need_a_path():
    with pytest.raises(ValueError, match="needs 'path'"):
        DatasetSettings(format="beir")
