"""Arms of one's own: functions and classes, in Python and in YAML."""

import asyncio
from pathlib import Path

import pytest

from arms import from_class, from_function
from arms.arm import ArmKind, ArmSpec
from arms.catalogue import arm_class, build_arm, find_kind, kind_of, open_arm, register, spec_of
from arms.contract import ArmContract, contract_corpus
from arms.corpora.corpus import MemoryCorpus
from arms.errors import ArmError, SettingsError
from arms.fake_arm import FakeArm
from arms.own import imported, parse_arms
from arms.records import Document
from arms.settings import ArmSettings

CORPUS = MemoryCorpus("c", [Document(one, "", f"text of {one}") for one in ("a", "b", "c")])


def opened(settings, root):
    spec = spec_of(settings)
    build_arm(spec, CORPUS, root)
    return open_arm(spec, CORPUS, root)


WORDS = {
    one.doc_id: frozenset(one.full_text.lower().split()) for one in contract_corpus("document")
}


def shared_words(query, k):
    asked = set(query.lower().split())
    shared = {doc_id: len(words & asked) for doc_id, words in WORDS.items()}
    return [(doc_id, count) for doc_id, count in shared.items() if count]


class TestFunctionArm(ArmContract):
    reads_texts = False

    @pytest.fixture
    def spec(self):
        return ArmSpec(from_function("contract_function", shared_words).arm)


def test_a_function_is_ordered_cut_and_checked(tmp_path):
    arm = opened(
        from_function("plain", lambda query, k: [("b", 1), ("a", 1), ("c", 2.5)]), tmp_path
    )
    (found,) = arm.rank(["words"], 2)
    assert (found.doc_ids, found.scores) == (("c", "a"), (2.5, 1.0))


def test_a_function_may_take_a_batch_or_be_a_coroutine(tmp_path):
    def batch(queries, k):
        return [[("a", float(len(query)))] for query in queries]

    async def later(query, k):
        await asyncio.sleep(0)
        return [("b", 1.0)]

    many = opened(from_function("many", batch, batched=True), tmp_path).rank(["x", "yy"], 3)
    assert [one.scores for one in many] == [(1.0,), (2.0,)]
    assert opened(from_function("later", later), tmp_path).rank(["x"], 3)[0].doc_ids == ("b",)
    short = opened(from_function("short", lambda queries, k: [], batched=True), tmp_path)
    with pytest.raises(ArmError, match="asked 2 queries and returned 0 answers"):
        short.rank(["x", "y"], 3)


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        ([("z", 1.0)], "ids that the corpus lacks, such as 'z'"),
        ([("a", 1.0), ("a", 0.5)], "returned the document 'a' twice"),
        ([("a", float("nan"))], "no finite number"),
        ([("a", None)], r"must return \(document id, score\) pairs"),
        (["ab c"], r"must return \(document id, score\) pairs"),
        (None, r"must return \(document id, score\) pairs"),
    ],
)
def test_what_is_no_ranking_is_refused(tmp_path, answer, said):
    arm = opened(from_function("wrong", lambda query, k: answer), tmp_path)
    with pytest.raises(ArmError, match=said):
        arm.rank(["x"], 3)


def test_a_class_of_the_contract_is_an_arm(tmp_path):
    settings = from_class("fake_one", FakeArm, architecture="sparse", granularities=("paragraph",))
    assert spec_of(settings).identity == "fake_one@paragraph"
    assert arm_class("fake_one") is FakeArm
    assert opened(settings, tmp_path).rank(["text of b"], 1)[0].doc_ids == ("b",)


def test_names_of_the_catalogue_are_taken():
    with pytest.raises(SettingsError, match="the catalogue has an arm 'bm25'"):
        from_function("bm25", lambda query, k: [])
    with pytest.raises(SettingsError, match="name"):
        from_function("a name", lambda query, k: [])
    with pytest.raises(SettingsError, match=r"no arm is called 'unheard'.*arms\.from_function"):
        kind_of("unheard")
    register(ArmKind("told_twice", "text", "external", ("document",), load=lambda: FakeArm))
    register(ArmKind("told_twice", "text", "sparse", ("document",), load=lambda: FakeArm))
    assert kind_of("told_twice").architecture == "sparse"


CODE = """
from arms import from_function
from arms.fake_arm import FakeArm

def search(query, k):
    return [("a", 1.0)]

class MyArm(FakeArm):
    "Counts words."

declared = from_function("declared_arm", search, architecture="dense", version="2")
number = 3
"""


def test_yaml_names_code_beside_it(tmp_path):
    (tmp_path / "own_search_module.py").write_text(CODE)
    given = [
        ArmSettings(arm="own_search_module:search"),
        ArmSettings(arm="own_search_module:search", name="again"),
        ArmSettings(arm="own_search_module:MyArm", options={"fails_on": "x"}),
        ArmSettings(arm="own_search_module:declared"),
        ArmSettings(arm="bm25"),
    ]
    found = imported(given, tmp_path)
    assert [spec_of(one).identity for one in found] == [
        "search", "again", "MyArm", "declared_arm", "bm25",
    ]  # fmt: skip
    assert found[2].options == {"fails_on": "x"}
    assert found[3].options == {"version": "2"}
    assert kind_of("declared_arm").architecture == "dense"
    assert kind_of("MyArm").summary == "Counts words."
    assert opened(found[1], tmp_path / "index").rank(["x"], 1)[0].doc_ids == ("a",)


@pytest.mark.parametrize(
    ("arm", "said"),
    [
        ("no_such_module_here:search", "ModuleNotFoundError"),
        ("json:no_such_function", "AttributeError"),
        ("json:__name__", "got str"),
        (":search", "ValueError"),
    ],
)
def test_code_that_is_no_arm_is_named(arm, said):
    with pytest.raises(SettingsError, match=said):
        imported([ArmSettings(arm=arm)])


def test_all_problems_come_at_once():
    with pytest.raises(SettingsError, match=r"(?s)json:nothing.*bm26.*did you mean 'bm25'"):
        parse_arms(["bm25", "json:nothing", "bm26"])
    assert find_kind("json:nothing") is None


def test_a_path_is_never_imported_from_labels(tmp_path: Path):
    from oracle.labels import labelled_arms

    specs = labelled_arms({"config": {"arms": [{"arm": "somebody.elses:code"}, {"arm": "bm25"}]}})
    assert list(specs) == ["somebody.elses:code", "bm25"]
