import errno
import json
import math
from dataclasses import replace

import pytest

from arms.errors import RouterError, WriteError
from router.artifact import (
    DECISIONS,
    Defaults,
    RouterRecord,
    add_policy,
    library_versions,
    policy_folder,
    read_router,
    update_record,
    write_router,
)
from router.policies.static import StaticPolicy
from router.policy import Expected

ARMS = ("bm25", "text_dense@paragraph", "text_dense#thenlper/gte-small")
RECORD = RouterRecord(
    arms=ARMS,
    defaults=Defaults("best_static"),
    tau=0.1,
    lams=(0.0, 0.1),
    encoder_id="all-MiniLM-L6-v2",
    encoder_revision="53aa",
    expected={
        "best_static": {
            0.0: {"bm25": Expected(0.25, 1.5, 40), ARMS[1]: Expected(0.5, 12.25, 2)},
            0.1: {"bm25": Expected(0.125, None, 0)},
        },
        "other": {0.1: {"bm25": Expected(0.5, 3.0, 7)}},
    },
    warnings=("7 validation queries calibrated the default policy",),
    datasets={"scifact": ARMS, "npl": ("bm25",)},
    arm_options={"bm25": {"language": "german", "k1": 0.9}},
    overhead_ms={"best_static": 0.001},
    training_metrics={"val_reward": {"0.1": 0.7}, "note": "größer", "epochs": 2},
    labels_hash="abc",
    index="../index",
)
POLICIES = [
    StaticPolicy("best_static", ARMS, {0.0: ARMS[2], 0.1: "bm25"}),
    StaticPolicy(f"static:{ARMS[2]}", ARMS, ARMS[2]),
]


def test_record_round_trips_exactly(tmp_path):
    written = write_router(tmp_path / "router", RECORD, POLICIES)
    assert written.policies == ("best_static", f"static:{ARMS[2]}")
    assert written.library_versions == library_versions()
    assert "numpy" in written.library_versions
    assert read_router(tmp_path / "router") == written
    assert replace(written, policies=(), library_versions={}) == RECORD


def test_a_minimal_record_round_trips(tmp_path):
    record = RouterRecord(arms=("bm25",), defaults=Defaults("static:bm25"))
    policy = StaticPolicy("static:bm25", ["bm25"], "bm25")
    written = write_router(tmp_path / "router", record, [policy])
    assert read_router(tmp_path / "router") == written


def test_numbers_that_are_not_finite_become_null(tmp_path):
    record = replace(RECORD, training_metrics={"loss": [math.nan, math.inf, 1.5]})
    write_router(tmp_path / "router", record, POLICIES)
    assert read_router(tmp_path / "router").training_metrics == {"loss": [None, None, 1.5]}


def test_rewriting_keeps_decisions_unless_told_not_to(tmp_path):
    folder = tmp_path / "router"
    write_router(folder, RECORD, POLICIES)
    (folder / DECISIONS).write_bytes(b"decided")
    write_router(folder, RECORD, POLICIES[:1])
    assert (folder / DECISIONS).read_bytes() == b"decided"
    assert not policy_folder(folder, POLICIES[1].name).exists()
    write_router(folder, RECORD, POLICIES, keep_decisions=False)
    assert not (folder / DECISIONS).exists()
    assert [path.name for path in tmp_path.iterdir()] == ["router"]


def test_a_failed_write_leaves_the_old_router(tmp_path):
    folder = tmp_path / "router"
    before = write_router(folder, RECORD, POLICIES)

    class Failing(StaticPolicy):
        def save(self, folder):
            (folder / "half").write_text("x")
            raise OSError(errno.ENOSPC, "disk full")

    with pytest.raises(WriteError, match="can't be written"):
        write_router(folder, RECORD, [POLICIES[0], Failing("other", ARMS, "bm25")])
    assert read_router(folder) == before
    left = [path.name for path in tmp_path.iterdir() if not path.name.endswith(".lock")]
    assert left == ["router"]


def test_update_record_replaces_router_json_alone(tmp_path):
    folder = tmp_path / "router"
    written = write_router(folder, RECORD, POLICIES)
    update_record(folder, replace(written, overhead_ms={"best_static": 2.0}, policies=()))
    assert read_router(folder) == replace(written, overhead_ms={"best_static": 2.0})
    with pytest.raises(RouterError, match=r"can't change them to bm25; retrain"):
        update_record(folder, replace(written, arms=("bm25",)))


@pytest.mark.parametrize(
    ("record", "policies", "message"),
    [
        (replace(RECORD, defaults=Defaults("router")), POLICIES, "default policy 'router' is not"),
        (RECORD, [*POLICIES, POLICIES[0]], "two policies share a name"),
        (
            replace(RECORD, defaults=Defaults("other")),
            [StaticPolicy("other", ARMS[::-1], "bm25")],
            "in this order",
        ),
        (
            replace(RECORD, defaults=Defaults("..")),
            [StaticPolicy("..", ARMS, "bm25")],
            "usable as a folder name",
        ),
    ],
)
def test_policies_that_dont_belong(tmp_path, record, policies, message):
    with pytest.raises(RouterError, match=message):
        write_router(tmp_path / "router", record, policies)
    assert not (tmp_path / "router").exists()


@pytest.mark.parametrize("arms", [(), ("bm25", "bm25")])
def test_arms_must_be_distinct(arms):
    with pytest.raises(RouterError, match="at least one arm and no arm twice"):
        RouterRecord(arms=arms, defaults=Defaults("x"))


def test_absent(tmp_path):
    with pytest.raises(RouterError, match=r"holds no router\.json"):
        read_router(tmp_path)
    with pytest.raises(RouterError, match=r"holds no router\.json"):
        read_router(tmp_path / "nowhere")


def changed(folder, **change):
    content = json.loads((folder / "router.json").read_text()) | change
    (folder / "router.json").write_text(
        json.dumps({key: value for key, value in content.items() if value != "gone"})
    )


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"format_version": 4}, "format version 4, this release reads 3;"),
        ({"format_version": "gone"}, "is damaged"),
        ({"tau": "gone"}, "missing or unexpected entries: tau"),
        ({"extra": 1}, "missing or unexpected entries: extra"),
        ({"expected": [{"policy": "best_static", "lam": 0.1}]}, "is damaged"),
        (
            {
                "expected": [
                    {"lam": 0.1, "arm": "bm25", "quality": 1, "latency_ms": 1, "queries": 1}
                ]
            },
            "is damaged",
        ),
        ({"lams": ["x"]}, "is damaged"),
        ({"arms": []}, "at least one arm"),
        (
            {"defaults": {"select": "other", "search": "best_static"}},
            "default policy 'other' is not among",
        ),
        ({"policies": ["best_static", "lost"]}, "lists the policy 'lost' and lacks its files"),
    ],
)
def test_partial_or_newer(tmp_path, change, message):
    write_router(tmp_path / "router", RECORD, POLICIES)
    changed(tmp_path / "router", **change)
    with pytest.raises(RouterError, match=message):
        read_router(tmp_path / "router")


def test_what_is_expected_of_a_policy_like_the_added_one(tmp_path):
    write_router(tmp_path / "router", RECORD, POLICIES)
    added = StaticPolicy("again", ARMS, "bm25")
    assert "again" not in add_policy(tmp_path / "router", added).expected
    record = add_policy(tmp_path / "router", added, like="best_static")
    assert record.expected["again"] == RECORD.expected["best_static"]
    assert read_router(tmp_path / "router").expected == record.expected
    assert "again" not in add_policy(tmp_path / "router", added).expected  # another of its name


@pytest.mark.parametrize("text", [b"", b"{", b"[]", b"\xff", b"null"])
def test_damaged(tmp_path, text):
    write_router(tmp_path / "router", RECORD, POLICIES)
    (tmp_path / "router" / "router.json").write_bytes(text)
    with pytest.raises(RouterError, match=r"router\.json is damaged .*; rerun l2r train"):
        read_router(tmp_path / "router")
