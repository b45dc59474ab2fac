"""``l2r select`` with a search: options, and what a damaged index says."""

import os
from pathlib import Path

import pytest

import l2r
from router.artifact import Defaults, RouterRecord, write_router
from router.policies.static import StaticPolicy
from tests.small_corpus import write_small_corpus
from tests.test_cli import assert_refused, cli, write

ARMS = ("bm25", "bm25@paragraph")


@pytest.fixture(scope="module")
def run(tmp_path_factory) -> Path:
    """Two indexed datasets and a router that always chooses ``bm25``."""
    folder = tmp_path_factory.mktemp("run")
    for name in ("first", "second"):
        write_small_corpus(folder / name)
    arms = "[bm25, {arm: bm25, granularity: paragraph}]"
    write(folder, f"corpus: [first, second]\narms: {arms}\n")
    with pytest.raises(SystemExit, match="0"):
        l2r.main(["index", str(folder / "run.yaml")])
    record = RouterRecord(ARMS, Defaults("best_static"), datasets={"first": ARMS, "second": ARMS})
    write_router(folder / "runs" / "router", record, [StaticPolicy("best_static", ARMS, ARMS[0])])
    return folder / "runs"


def select(capsys, *words: object) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as stopped:
        l2r.main(["select", *map(str, words)])
    return int(stopped.value.code or 0), *capsys.readouterr()


def test_a_search_names_its_dataset(run, capsys):
    asked = (run / "router", "bridge in Lisbon", "--k", 2)
    code, printed, _ = select(capsys, *asked, "--dataset", "first")
    assert code == 0
    assert "lisbon-bridge" in printed
    code, _, told = select(capsys, *asked)
    assert code == 1
    assert "has the datasets first, second; name one" in told
    assert "--dataset" in told


def test_an_index_elsewhere_can_be_named(run, capsys, tmp_path):
    asked = (tmp_path / "router", "bridge in Lisbon", "--k", 2, "--dataset", "first")
    (run / "router").rename(tmp_path / "router")
    try:
        code, _, told = select(capsys, *asked)
        assert code == 1
        assert "--index" in told
        code, printed, _ = select(capsys, *asked, "--index", run / "index")
        assert code == 0
        assert "lisbon-bridge" in printed
        code, _, told = select(capsys, *asked, "--index", tmp_path / "absent")
        assert code == 1
        assert "absent is not a folder" in told
    finally:
        (tmp_path / "router").rename(run / "router")


def test_the_policy_that_answered_is_named_with_its_kind(run, capsys):
    code, printed, _ = select(capsys, run / "router", "bridge in Lisbon")
    assert code == 0
    assert "policy         best_static (static)\n" in printed


def test_a_negative_k_is_refused(run, capsys):
    code, _, told = select(capsys, run / "router", "bridge in Lisbon", "--k", -1)
    assert code == 2
    assert "'--k': Input should be greater than or equal to 0" in told


def test_an_index_is_for_searching_or_for_a_dataset(run, capsys):
    code, _, told = select(capsys, run / "router", "a query", "--index", run / "index")
    assert code == 2
    assert "give --k or --dataset too" in told


@pytest.mark.parametrize("k", [0, 1])
def test_a_dataset_leaves_out_arms_that_it_lacks(run, capsys, tmp_path, k):
    paragraph = StaticPolicy("best_static", ARMS, ARMS[1])
    record = RouterRecord(
        ARMS, Defaults("best_static"), datasets={"first": ARMS[:1], "second": ARMS}
    )
    write_router(tmp_path / "router", record, [paragraph])
    asked = (tmp_path / "router", "bridge in Lisbon", "--k", k)
    code, printed, _ = select(capsys, *asked, "--index", run / "index", "--dataset", "first")
    assert code == 0
    assert printed.startswith("arm            bm25\n")
    assert "bm25@paragraph" not in printed
    code, printed, _ = select(capsys, *asked, "--index", run / "index", "--dataset", "second")
    assert printed.startswith("arm            bm25@paragraph\n")
    code, _, told = select(capsys, *asked, "--dataset", "first")
    assert code == (1 if k else 2)
    assert "--index" in told


@pytest.mark.parametrize("k", ["0", "1"])
def test_a_query_that_isnt_utf8_is_refused_in_one_message(run, k):
    asked = ("router", os.fsdecode(b"caf\xe9"), "--k", k, "--dataset", "first")
    told = cli("select", *asked, cwd=run)
    assert_refused(told, "can be written as UTF-8, got '\\udce9' at character 4")


@pytest.mark.parametrize("damage", ["cut", "empty", "garbage"])
def test_any_damaged_index_file_is_refused_in_one_message(run, capsys, damage):
    folder = run / "index" / "first" / "bm25"
    files = sorted(folder.rglob("*.npy"))
    assert len(files) >= 5
    for path in files:
        whole = path.read_bytes()
        cut = whole[: len(whole) // 2]
        path.write_bytes({"cut": cut, "empty": b"", "garbage": b"\x93garbage"}[damage])
        asked = (run / "router", "bridge in Lisbon", "--k", 2, "--dataset", "first")
        code, _, told = select(capsys, *asked)
        path.write_bytes(whole)
        assert code == 1, path
        assert told.startswith("l2r: the index "), path
        assert "index/first/bm25 can't be read" in told
        assert told.endswith("delete the folder and run l2r index\n")
        assert "pickle" not in told.replace("pickled", "")


def test_no_traceback_reaches_the_user_of_a_damaged_index(run):
    path = run / "index" / "second" / "bm25" / "unit_begin.npy"
    whole = path.read_bytes()
    path.write_bytes(whole[:20])
    asked = ("router", "bridge in Lisbon", "--k", "2", "--dataset", "second")
    told = cli("select", *asked, cwd=run)
    path.write_bytes(whole)
    assert_refused(told, "second/bm25 can't be read")
