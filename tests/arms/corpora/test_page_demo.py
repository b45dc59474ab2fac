"""The generated corpus: its bytes, where its answers stand, and what its questions share."""

import random
import re
from collections import Counter
from pathlib import Path

import pytest

from arms.corpora.page_demo.questions import ask
from arms.corpora.page_demo.words import styles, words
from arms.corpora.page_demo.world import PLACES, draw_organisations
from arms.corpora.page_demo.write import PageDemoSettings, write_page_demo
from arms.corpora.reader import read_dataset
from arms.settings import DatasetSettings
from oracle.groups import STRENGTHS, groups_in_force, split_rows, suite_groupings
from oracle.settings import SplitSettings

SMALL = PageDemoSettings(organisations=5, seed=7)
PIXEL_KINDS = ("chart", "scan")


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    target = tmp_path_factory.mktemp("made") / "pages"
    write_page_demo(target, SMALL)
    return target


@pytest.fixture(scope="module")
def dataset(folder):
    return read_dataset(DatasetSettings(path=folder))


def content(folder: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def plain(text: str) -> str:
    return " ".join(text.split())


def test_one_seed_gives_the_same_bytes_and_another_gives_others(folder, tmp_path):
    first = content(folder)
    write_page_demo(tmp_path / "pages", SMALL)
    assert content(tmp_path / "pages") == first
    other = SMALL.model_copy(update={"organisations": 1, "seed": 8})
    write_page_demo(tmp_path / "other", other)
    second = content(tmp_path / "other")
    assert set(second) - {"corpus.jsonl", "queries.jsonl", "qrels/test.tsv"} <= set(first)
    assert not set(second.values()) & set(first.values())


def test_every_document_is_a_page_with_a_picture(dataset):
    documents = list(dataset.corpus)
    assert [len(document.pages) for document in documents] == [1] * len(documents)
    assert {document.metadata["page_kind"] for document in documents} == {
        "text", "table", "chart", "scan",
    }  # fmt: skip
    assert not any(document.title for document in documents)


def test_each_question_has_one_page_of_the_stated_kind(dataset):
    kinds = {document.doc_id: document.metadata["page_kind"] for document in dataset.corpus}
    assert len(dataset.queries) == 42 * SMALL.organisations
    for query in dataset.queries:
        ((doc_id, grade),) = dataset.qrels[query.query_id].items()
        assert (kinds[doc_id], grade) == (query.metadata["page_kind"], 1)


def test_the_text_layer_holds_the_answer_of_text_and_table_questions_alone(dataset):
    texts = {document.doc_id: plain(document.text) for document in dataset.corpus}
    seen = Counter()
    for query in dataset.queries:
        (doc_id,) = dataset.qrels[query.query_id]
        answer, kind = query.metadata["answer"], query.metadata["page_kind"]
        seen[kind] += 1
        found = re.search(rf"(?<![\w.]){re.escape(answer)}(?![\w])", texts[doc_id])
        assert bool(found) == (kind not in PIXEL_KINDS), (query, texts[doc_id])
    assert min(seen[kind] for kind in ("text", "table", *PIXEL_KINDS)) > 5


def test_text_layers_of_charts_and_scans_name_nobody(dataset):
    names = [one.name for one in draw_organisations(SMALL.seed, SMALL.organisations)]
    words_of_names = {word for name in names for word in name.split()}
    for document in dataset.corpus:
        if document.metadata["page_kind"] == "scan":
            assert document.text.strip() == ""
        if document.metadata["page_kind"] == "chart":
            assert not words_of_names & set(document.text.split())


def test_no_other_page_states_a_questions_fact(dataset):
    """An organisation has each topic once, and an item's code stands on one page."""
    organisations = draw_organisations(3, 40)
    assert len({one.name for one in organisations}) == 40
    codes = [
        fact.subject for one in organisations for fact in one.facts if fact.family == "records"
    ]
    assert len(set(codes)) == len(codes)
    for one in organisations:
        asked = [(fact.topic, fact.subject, fact.year) for fact in one.facts]
        assert len(set(asked)) == len(asked)
        places: dict[tuple[str, str], set[str]] = {}
        for fact in one.facts:
            places.setdefault((fact.topic, fact.subject), set()).add(fact.place)
        assert all(len(found) == 1 for found in places.values())
        listed = {item.code for item in one.items}
        for fact in one.facts:
            if fact.family == "records":
                assert (fact.subject in listed) == (fact.place == "table")


@pytest.mark.parametrize("by", STRENGTHS)
def test_test_questions_come_in_frames_phrasings_and_of_pages_that_training_never_saw(dataset, by):
    force = groups_in_force(suite_groupings([dataset]), by)
    assert not force.fallbacks
    shares = SplitSettings(train=0.6, val=0.2, test=0.2)
    splits = split_rows([dataset.name] * len(dataset.queries), force, shares, seed=42)
    by_split = {name: [] for name in ("train", "val", "test")}
    queries = sorted(dataset.queries, key=lambda one: one.query_id)
    for query, split in zip(queries, splits, strict=True):
        by_split[split].append(query)
    assert {name: len(found) for name, found in by_split.items()} == {
        "train": 126, "val": 42, "test": 42,
    }  # fmt: skip
    for seen, unseen in (("train", "test"), ("train", "val"), ("val", "test")):
        for trait in ("frame", "split_group"):
            first, second = ({q.metadata[trait] for q in by_split[name]} for name in (seen, unseen))
            assert not first & second
        pages = (
            {d for q in by_split[n] for d in dataset.qrels[q.query_id]} for n in (seen, unseen)
        )
        assert not set.intersection(*pages)


def test_no_phrasing_is_shared_by_two_styles():
    families = ("figures", "reasons", "paperwork")
    lists = [topic["asked"] for family in families for topic in words()[family]]
    lists += [*words()["records"]["asked"].values(), words()["records"]["named"]]
    assert all(len(one) == len(set(one)) == 2 * styles() for one in lists)
    frames = [frame for one in words()["frames"] for frame in one]
    assert len(set(frames)) == len(frames)


def test_all_families_and_page_kinds_share_the_frames():
    used: dict[tuple[int, int], set[str]] = {}
    rng = random.Random(0)
    for organisation in draw_organisations(42, 200):
        for fact in organisation.facts:
            asked = ask(fact, organisation.style, rng)
            assert len({text for text, _ in asked}) == len({frame for _, frame in asked}) == 2
            for _, frame in asked:
                key = (organisation.style, frame)
                used.setdefault(key, set()).update((fact.family, fact.place))
    assert len(used) == sum(len(one) for one in words()["frames"])
    everything = {*PLACES, *(place for places in PLACES.values() for place in places)}
    assert all(found == everything for found in used.values())


def test_a_family_stands_mostly_but_not_only_on_its_usual_page():
    places: dict[str, Counter[str]] = {}
    for organisation in draw_organisations(42, 200):
        for fact in organisation.facts:
            places.setdefault(fact.family, Counter())[fact.place] += 1
    for family, expected in PLACES.items():
        total = places[family].total()
        for place, share in expected.items():
            assert places[family][place] / total == pytest.approx(share, abs=0.05)
