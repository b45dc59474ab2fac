"""What single pipelines promise beyond the contract."""

import json
import unicodedata

import pytest
from pydantic import ValidationError

from arms.arm import ArmSpec
from arms.catalogue import build_arm, open_arm, spec_of
from arms.clock import StageClock
from arms.corpora.corpus import MemoryCorpus
from arms.errors import ArmError, ArmIndexError, SettingsError
from arms.fused_scores import linear_fusion
from arms.pipelines.fusion import reciprocal_rank_fusion
from arms.records import Document, Ranking
from arms.settings import ArmSettings

CORPUS = MemoryCorpus(
    "zoo",
    [
        Document("a", "", "The cats were running after mice"),
        Document("b", "", "A dog runs"),
        Document("c", "", "Das Haus und die Häuser"),
    ],
)


def opened(spec, root, corpus=CORPUS):
    build_arm(spec, corpus, root)
    return open_arm(spec, corpus, root)


def found(root, query, corpus=CORPUS, **options):
    return opened(ArmSpec("bm25", options=options), root, corpus).rank([query], 9)[0].doc_ids


def test_bm25_stems_in_the_corpus_language(tmp_path):
    assert set(found(tmp_path / "en", "run")) == {"a", "b"}
    assert found(tmp_path / "en", "Häusern") == ()
    german = MemoryCorpus("zoo", list(CORPUS), language="german")
    assert found(tmp_path / "de", "Häusern", german) == ("c",)
    assert found(tmp_path / "de", "die", german) == ()


def test_bm25_options_change_the_words(tmp_path):
    assert found(tmp_path / "plain", "run", stemmer=False) == ()
    assert found(tmp_path / "plain", "runs", stemmer=False) == ("b",)
    assert found(tmp_path / "stop", "the", stop_words=False) == ("a",)
    assert found(tmp_path / "own", "dog", stop_words=["dog"]) == ()
    assert found(tmp_path / "letters", "m", token_pattern=r"\w", stemmer=False) == ("a",)


TOPICS = {
    "chinese": ("长城", "熊猫", "茶叶", "地铁"),
    "japanese": ("パンダ", "富士山", "お茶", "地下鉄"),
    "thai": ("กำแพง", "น้ำชา", "รถไฟ", "หมีแพนด้า"),
    "lao": ("ກຳແພງ", "ນ້ຳຊາ", "ລົດໄຟ", "ໝີແພນດ້າ"),
    "khmer": ("ជញ្ជាំង", "តែ", "រថភ្លើង", "ខ្លាឃ្មុំ"),
    "burmese": ("နံရံ", "လက်ဖက်ရည်", "ရထား", "ပန်ဒါ"),
    "hindi": ("दीवार", "चाय", "रेलगाड़ी", "भालू"),
    "tamil": ("சுவர்", "தேநீர்", "ரயில்", "கரடி"),
    "hebrew": ("חוֹמָה", "תֵּה", "רַכֶּבֶת", "דֹּב"),
    "arabic": ("جِدَار", "شَاي", "قِطَار", "دُبّ"),
    "vietnamese": ("tường", "chè", "đường sắt", "gấu trúc"),
    "korean": ("장성", "녹차", "지하철", "판다"),
}
FRAMES = {
    "chinese": ("本文介绍{}的历史以及相关内容。", "{}的历史是什么"),
    "japanese": ("これは{}についての文章です。", "{}の歴史は何ですか"),
    "thai": ("บทความนี้เกี่ยวกับ{}และอื่นๆ", "ประวัติของ{}คืออะไร"),
    "lao": ("ບົດຄວາມນີ້ກ່ຽວກັບ{}ແລະອື່ນໆ", "{}ແມ່ນຫຍັງ"),
    "khmer": ("អត្ថបទនេះអំពី{}និងផ្សេងទៀត", "តើ{}ជាអ្វី"),
    "burmese": ("ဤဆောင်းပါးသည်{}အကြောင်းဖြစ်သည်", "{}ဆိုတာဘာလဲ"),
}


@pytest.mark.parametrize("forms", [("NFC", "NFD"), ("NFD", "NFC"), ("NFC", "NFC")])
@pytest.mark.parametrize("language", TOPICS)
def test_bm25_finds_the_topic_in_any_script_and_form(tmp_path, language, forms):
    of_documents, of_queries = forms
    document, query = FRAMES.get(language, ("a1 {} b2", "c3 {}"))
    corpus = MemoryCorpus(
        "many",
        [
            Document(str(number), "", unicodedata.normalize(of_documents, document.format(topic)))
            for number, topic in enumerate(TOPICS[language])
        ],
        language,
    )
    arm = opened(ArmSpec("bm25"), tmp_path, corpus)
    for number, topic in enumerate(TOPICS[language]):
        asked = unicodedata.normalize(of_queries, query.format(topic))
        (ranking,) = arm.rank([asked], 4)
        assert ranking.doc_ids[0] == str(number)
        assert arm.shares_terms(asked)


def test_bm25_finds_one_chinese_character(tmp_path):
    corpus = MemoryCorpus(
        "tea", [Document("a", "", "绿茶叶"), Document("b", "", "地铁")], "chinese"
    )
    assert found(tmp_path, "茶", corpus) == ("a",)


def test_bm25_says_whether_it_knows_a_term(tmp_path):
    arm = opened(ArmSpec("bm25"), tmp_path)
    assert arm.shares_terms("running dogs")
    assert not arm.shares_terms("长城")


@pytest.mark.parametrize(
    ("pattern", "why"),
    [
        ("([", "no regular expression"),
        ("(a)(b)", "has 2 groups"),
        (r"(\w+)", "has 1 group"),
        (r"\w*", "matches the empty text"),
        ("a{99999999999}", "no regular expression"),
    ],
)
def test_bm25_refuses_a_pattern_that_gives_no_words(tmp_path, pattern, why):
    with pytest.raises(SettingsError, match=why):
        opened(ArmSpec("bm25", options={"token_pattern": pattern}), tmp_path)


def test_bm25_takes_a_pattern_with_groups_that_capture_nothing(tmp_path):
    assert found(tmp_path, "runs", token_pattern="(?:[a-z])+", stemmer=False) == ("b",)


def test_bm25_takes_a_language_without_stemmer_unless_told_to_stem(tmp_path):
    chinese = MemoryCorpus("zh", [Document("a", "", "潮汐 月亮")], language="chinese")
    assert found(tmp_path / "zh", "月亮", chinese) == ("a",)
    with pytest.raises(SettingsError, match="no stemmer for the language 'chinese'; known: "):
        found(tmp_path / "zh", "月亮", chinese, stemmer=True)
    with pytest.raises(SettingsError, match="no stop words for the language 'icelandic'"):
        found(tmp_path / "zh", "x", language="icelandic", stop_words=True)


def test_bm25_writes_the_same_bytes_again(tmp_path):
    for name in ("one", "two"):
        opened(ArmSpec("bm25"), tmp_path / name)
    files = [path for path in (tmp_path / "one").rglob("*") if path.suffix in (".npy", ".json")]
    for path in files:
        if path.name != "arm.json":
            twin = tmp_path / "two" / path.relative_to(tmp_path / "one")
            assert path.read_bytes() == twin.read_bytes(), path.name
    assert len(files) > 5


def test_bm25_refuses_an_index_of_other_options(tmp_path):
    build_arm(ArmSpec("bm25"), CORPUS, tmp_path)
    open_arm(ArmSpec("bm25", options={"k1": 1.5}), CORPUS, tmp_path)  # the default, said aloud
    with pytest.raises(ArmIndexError, match="options"):
        open_arm(ArmSpec("bm25", options={"k1": 0.9}), CORPUS, tmp_path)


def test_fusion_by_hand():
    one = Ranking(("a", "b", "c"), (9.0, 8.0, 7.0))
    two = Ranking(("c", "a"), (0.2, 0.1))
    fused = reciprocal_rank_fusion([one, two], 9, k_constant=60)
    assert fused.doc_ids == ("a", "c", "b")
    assert fused.scores == (1 / 61 + 1 / 62, 1 / 63 + 1 / 61, 1 / 62)
    assert reciprocal_rank_fusion([one, two], 1).doc_ids == ("a",)
    swapped = [Ranking(("b", "a"), (2.0, 1.0)), Ranking(("a", "b"), (2.0, 1.0))]
    assert reciprocal_rank_fusion(swapped, 2).doc_ids == ("a", "b")


def test_fusion_by_default_fuses_bm25_with_dense(tmp_path):
    default = opened(ArmSpec("fusion"), tmp_path / "default")
    named = ArmSpec("fusion", options={"arms": ["bm25", "text_dense"]})
    found = default.rank(["red planet"], 3)
    assert found == opened(named, tmp_path / "named").rank(["red planet"], 3)


def test_fusion_adds_up_its_parts_stages_and_memory(tmp_path):
    parts = ["bm25", {"arm": "bm25", "granularity": "paragraph"}]
    arm = opened(ArmSpec("fusion", options={"arms": parts}), tmp_path)
    clock = StageClock()
    arm.rank(["dog"], 2, clock)
    assert all(clock.stage_ms[stage] > 0 for stage in ("encode", "search", "rerank"))
    assert arm.memory_bytes() == sum(
        open_arm(ArmSpec("bm25", view), CORPUS, tmp_path).memory_bytes()
        for view in ("document", "paragraph")
    )


def test_linear_fusion_sums_weighted_scores(tmp_path):
    parts = ["bm25", {"arm": "bm25", "granularity": "paragraph"}]
    options = {"arms": parts, "method": "linear", "weights": [3, 1], "normalisation": "min_max"}
    arm = opened(ArmSpec("fusion", options=options), tmp_path)
    found = [
        open_arm(ArmSpec("bm25", view), CORPUS, tmp_path).rank(["red dog"], 100)[0]
        for view in ("document", "paragraph")
    ]
    wanted = linear_fusion(found, (0.75, 0.25), "min_max", 3)
    assert arm.rank(["red dog"], 3) == [wanted]
    assert wanted.doc_ids
    # the depth is what the parts contribute, not what is asked for
    assert arm.rank(["red dog"], 1)[0].doc_ids == wanted.doc_ids[:1]


def test_several_fusions_of_one_run_have_names(tmp_path):
    options = {"arms": ["bm25", {"arm": "bm25", "granularity": "paragraph"}]}
    plain = ArmSpec("fusion", options=options)
    linear = spec_of(
        ArmSettings(arm="fusion", name="weighted", options={**options, "method": "linear"})
    )
    assert (linear.identity, linear.folder_name, linear.name) == ("weighted",) * 2 + ("fusion",)
    first, second = opened(plain, tmp_path), opened(linear, tmp_path)
    assert first.rank(["red dog"], 3) != second.rank(["red dog"], 3)
    assert {path.parent.name for path in tmp_path.glob("*/arm.json")} == {
        *("bm25", "bm25@paragraph", "fusion", "weighted")
    }


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "a b", "bm25@paragraph", "a>b", "ü"])
def test_an_arms_own_name_is_one_plain_word(name):
    with pytest.raises(ValidationError, match="name"):
        ArmSettings(arm="bm25", name=name)


def test_an_arms_own_name_is_none_of_the_catalogues():
    with pytest.raises(SettingsError, match="can't be named 'text_late'"):
        spec_of(ArmSettings(arm="bm25", name="text_late"))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"weights": [1, 1]}, "'weights' belong to 'method: linear'"),
        ({"method": "linear", "weights": [1]}, "one weight for each of the 2 arms, got 1"),
        ({"method": "linear", "weights": [1, -1]}, "weights of at least 0"),
        ({"method": "linear", "weights": [0, 0]}, "one of them above"),
        ({"method": "linear", "normalisation": "softmax"}, "normalisation"),
    ],
)
def test_fusion_refuses_weights(tmp_path, options, message):
    with pytest.raises(SettingsError, match=message):
        build_arm(ArmSpec("fusion", options=options), CORPUS, tmp_path)


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        (["bm25", "fusion"], "'fusion' can't be fused"),
        (["bm25", "run_file"], "'run_file' can't be fused"),
        (["bm25", "bm25"], "each part may stand once, got bm25, bm25"),
        (["bm25", "bm26"], "did you mean 'bm25'?"),
        (["bm25", {"arm": "text_dense", "only": ["x"]}], "'only' belongs to the fusion itself"),
    ],
)
def test_fusion_refuses_parts(tmp_path, parts, message):
    with pytest.raises(SettingsError) as raised:
        build_arm(ArmSpec("fusion", options={"arms": parts}), CORPUS, tmp_path)
    assert message in str(raised.value)


@pytest.fixture
def run(tmp_path):
    (tmp_path / "zoo.run").write_text("q1 Q0 b 1 0.5 t\nq1 Q0 a 2 0.5 t\nq1 Q0 c 3 0.9 t\n")
    queries = {"q1": "first", "q2": "second", "q3": "first"}
    lines = [json.dumps({"_id": one, "text": text}) for one, text in queries.items()]
    (tmp_path / "queries.jsonl").write_text("\n".join(lines))
    (tmp_path / "ms.tsv").write_text("query_id\tms\nq1\t4.5\nq2\t7\nq3\t9\n")
    return {
        "path": str(tmp_path / "{dataset}.run"),
        "queries_path": str(tmp_path / "queries.jsonl"),
        "latencies_path": str(tmp_path / "ms.tsv"),
    }


def test_a_run_is_replayed_by_text(run, tmp_path):
    arm = opened(ArmSpec("run_file", options=run), tmp_path / "index")
    first, second = arm.rank(["first", "second"], 2)
    assert first == Ranking(("c", "a"), (0.9, 0.5))
    assert second.doc_ids == ()
    assert arm.stated_latency_ms("first") == 4.5
    assert arm.stated_latency_ms("second") == 7.0
    with pytest.raises(ArmError, match="has no answer to 'third'"):
        arm.rank(["third"], 2)


def test_queries_of_a_run_that_nobody_can_ask_are_counted_and_left_out(run, tmp_path, caplog):
    path = tmp_path / "zoo.run"
    path.write_text(path.read_text() + "q8 Q0 a 1 1 t\nq9 Q0 a 1 1 t\n")
    arm = opened(ArmSpec("run_file", options=run), tmp_path / "index")
    assert arm.rank(["first"], 1) == [Ranking(("c",), (0.9,))]
    (record,) = caplog.records
    assert "2 of 3 queries of the run are left out" in record.getMessage()
    assert record.getMessage().endswith("q8, q9")


def test_other_arms_state_no_latency(tmp_path):
    assert opened(ArmSpec("none"), tmp_path).stated_latency_ms("first") is None


def test_a_run_that_changed_is_refused(run, tmp_path):
    spec = ArmSpec("run_file", options=run)
    build_arm(spec, CORPUS, tmp_path / "index")
    (tmp_path / "zoo.run").write_text("q1 Q0 b 1 0.5 t\n")
    with pytest.raises(ArmIndexError, match="options"):
        open_arm(spec, CORPUS, tmp_path / "index")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"latency_ms": 3.0}, "give either latency_ms or latencies_path"),
        ({"latencies_path": None}, "give either latency_ms or latencies_path"),
        ({"path": "/absent"}, "path: /absent is not a file"),
        ({"latency_ms": -1.0, "latencies_path": None}, "latency_ms"),
    ],
)
def test_run_options_are_checked(run, tmp_path, change, message):
    with pytest.raises(SettingsError) as raised:
        build_arm(ArmSpec("run_file", options=run | change), CORPUS, tmp_path)
    assert message in str(raised.value)


@pytest.mark.parametrize(
    ("file", "content", "message"),
    [
        ("zoo.run", "q1 Q0 zebra 1 1 t\n", "1 documents that the corpus lacks: zebra"),
        ("zoo.run", "q9 Q0 a 1 1 t\n", "1 queries, and queries_path has none of them: q9"),
        ("ms.tsv", "q1\t1\nq2\t1\nq3\t1\nq1\t2\n", "ms.tsv has the query id 'q1' in lines 1 and 4"),
        (
            "queries.jsonl",
            '{"_id": "q1", "text": "one"}\n\n{"_id": "q1", "text": "two"}\n',
            "queries.jsonl has the query id 'q1' in lines 1 and 3; keep one",
        ),
        ("queries.jsonl", '{"_id": "q1"', "queries.jsonl, line 1: "),
        ("ms.tsv", "q1\t1\n", "2 queries without a latency in latencies_path: q2, q3"),
        ("ms.tsv", "q1\t1\nq2\tsoon\n", "line 2: expected a query id, a tab and milliseconds"),
    ],
)
def test_run_files_are_checked_against_one_another(run, tmp_path, file, content, message):
    (tmp_path / file).write_text(content)
    with pytest.raises(SettingsError) as raised:
        build_arm(ArmSpec("run_file", options=run), CORPUS, tmp_path / "index")
    assert message in str(raised.value)
