import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from arms.errors import LabelsError, RouterError
from router.artifact import Defaults, RouterRecord, write_router
from router.policies.encoder import EncoderPolicy, LinearHead
from router.policies.static import StaticPolicy
from router.query_encoder import QueryEncoder
from tests.training.tables import make_table
from training.bandit import Outcomes, estimate_outcomes, simulate_log
from training.learn_log import encoder_of, learn_from_log
from training.outcome_log import read_outcomes
from training.policy_settings import BanditSettings

ARMS = ("bm25", "text_dense")
PENALTIES = (0.1, 1.0, 100.0)


def linear_world(count=600, seed=0):
    """Qualities that are linear in the vector: arm 0 likes its first number, arm 1 dislikes it."""
    random = np.random.default_rng(seed)
    vectors = random.normal(size=(count, 4)).astype(np.float32)
    slope = 0.15 * np.clip(vectors[:, 0], -2, 2)
    quality = np.clip(np.column_stack([0.5 + slope, 0.5 - slope]), 0, 1)
    return vectors, make_table(quality, latency_ms=np.tile([2.0, 8.0], (count, 1)))


def test_the_log_shows_one_outcome_per_query_and_how_likely_it_was():
    vectors, table = linear_world()
    log = simulate_log(table, vectors, BanditSettings(), seed=3)
    np.testing.assert_array_equal(log.quality, table.quality[np.arange(len(table)), log.columns])
    assert (log.propensity == 0.5).all()
    assert 0.4 < log.columns.mean() < 0.6
    again = simulate_log(table, vectors, BanditSettings(), seed=3)
    np.testing.assert_array_equal(again.columns, log.columns)
    assert (simulate_log(table, vectors, BanditSettings(), seed=4).columns != log.columns).any()


def test_an_arm_that_does_not_compete_is_never_logged():
    vectors, table = linear_world(100)
    competes = np.ones((100, 2), dtype=bool)
    competes[:50, 0] = competes[50:, 1] = False
    masked = make_table(table.quality, table.latency_ms, competes=competes)
    for logging in ("uniform", "epsilon_greedy"):
        log = simulate_log(masked, vectors, BanditSettings(logging=logging), seed=0)
        assert log.columns.tolist() == [1] * 50 + [0] * 50
        np.testing.assert_allclose(log.propensity, 1.0)


def test_epsilon_greedy_exploits_what_it_has_seen():
    vectors, table = linear_world()
    options = BanditSettings(logging="epsilon_greedy", epsilon=0.2, log_lam=0.0)
    log = simulate_log(table, vectors, options, seed=1)
    assert set(log.propensity.round(6)) == {0.5, 0.1, 0.9}
    # A random arm has 0.5 in the mean, the better one of each query 0.62.
    assert log.quality.mean() > 0.58


@pytest.mark.parametrize("logging", ["uniform", "epsilon_greedy"])
def test_estimates_recover_linear_qualities(logging):
    vectors, table = linear_world(2000)
    log = simulate_log(table, vectors, BanditSettings(logging=logging, log_lam=0.0), seed=0)
    found = estimate_outcomes(log, 2, PENALTIES)
    guess = vectors @ found.quality.weight.T + found.quality.bias
    assert np.abs(guess - table.quality).mean() < 0.02
    np.testing.assert_allclose(found.latency_ms, [2.0, 8.0])
    assert found.logged.sum() == 2000


def test_outcomes_count_by_the_inverse_of_their_probability():
    """Nine outcomes of 1 seen for sure and one of 0 seen once in ten stand for 9 and 10 queries."""
    few = Outcomes(
        np.zeros((9, 2), np.float32),
        np.zeros(9, dtype=np.intp),
        np.array([1.0] * 8 + [0.0]),
        np.array([1.0] * 8 + [4.0]),
        np.array([1.0] * 8 + [0.125]),
    )
    found = estimate_outcomes(few, 2, PENALTIES)
    np.testing.assert_allclose(found.quality.bias, [0.5, 0.0])
    np.testing.assert_allclose(found.latency_ms, [2.5, 0.0])
    assert found.logged.tolist() == [9, 0]


def write_csv(folder, text):
    (folder / "log.csv").write_text(text, encoding="utf-8")
    return folder / "log.csv"


def test_a_users_log_is_read(tmp_path):
    path = write_csv(
        tmp_path,
        "dataset,query,arm,quality,latency_ms,propensity\n"
        "d,who wrote it,bm25,0.5,2.5,0.25\n"
        "d,2019,text_dense,1,40,0.75\n",
    )
    log = read_outcomes(path, ARMS)
    assert log.queries == ("who wrote it", "2019")
    assert log.columns.tolist() == [0, 1]
    assert log.quality.tolist() == [0.5, 1.0] and log.latency_ms.tolist() == [2.5, 40.0]
    assert log.propensity.tolist() == [0.25, 0.75]
    bare = write_csv(tmp_path, "query,arm,quality,latency_ms\nwho,bm25,0,1\n")
    assert read_outcomes(bare, ARMS).propensity.tolist() == [0.5]


def test_other_tables_than_csv_are_read_too(tmp_path):
    rows = {"query": ["who"], "arm": ["bm25"], "quality": [True], "latency_ms": [2]}
    pq.write_table(pa.table(rows), tmp_path / "log.parquet")
    assert read_outcomes(tmp_path / "log.parquet", ARMS).quality.tolist() == [1.0]
    (tmp_path / "log.tsv").write_text("query\tarm\tquality\tlatency_ms\na, b\tbm25\t0\t1\n")
    assert read_outcomes(tmp_path / "log.tsv", ARMS).queries == ("a, b",)


def test_a_log_that_is_not_utf_8_is_refused(tmp_path):
    (tmp_path / "log.csv").write_bytes(b"query,arm,quality,latency_ms\nna\xefve,bm25,1,1\n")
    with pytest.raises(LabelsError, match="is no UTF-8 text with a header"):
        read_outcomes(tmp_path / "log.csv", ARMS)


def test_every_problem_of_a_log_is_told_at_once(tmp_path):
    path = write_csv(
        tmp_path,
        "query,arm,quality,latency_ms,propensity\n"
        "who,bm52,0.5,1,0.5\nwhat,bm25,1.5,-1,0\n ,bm25,,1,0.5\n",
    )
    with pytest.raises(LabelsError) as caught:
        read_outcomes(path, ARMS)
    message = str(caught.value)
    for told in (
        "'arm' must be one of bm25, text_dense: row 2 has 'bm52'",
        "'quality' must be a number in [0, 1]: row 3 has '1.5', row 4 has nothing",
        "'latency_ms' must be a number of at least 0: row 3 has '-1'",
        "'propensity' must be a number above 0 and at most 1: row 3 has '0'",
        "'query' must be text: row 4 has nothing",
    ):
        assert told in message


@pytest.mark.parametrize(
    ("name", "text", "told"),
    [
        ("log.csv", "query,arm\nwho,bm25\n", "lacks the columns quality, latency_ms"),
        ("log.csv", "query,arm,quality,latency_ms\n", "has no rows"),
        ("log.csv", "", "is empty; its first row should name the columns"),
        ("log.json", "{}", "tables end in .csv, .tsv, .xlsx, .parquet"),
        ("log.parquet", "no parquet", "is no readable parquet file"),
        (None, None, "is not a file"),
    ],
)
def test_logs_that_cannot_be_used(tmp_path, name, text, told):
    path = tmp_path / (name or "absent.csv")
    if text is not None:
        path.write_text(text, encoding="utf-8")
    with pytest.raises(LabelsError, match=told):
        read_outcomes(path, ARMS)


@pytest.mark.parametrize("name", ["", " ", "../evil", "a/b", ".hidden"])
def test_names_that_are_no_plain_ones_are_refused_before_anything_is_read(tmp_path, name):
    write_router(
        tmp_path / "r", RouterRecord(("a",), Defaults("x")), [StaticPolicy("x", ("a",), "a")]
    )
    with pytest.raises(RouterError, match="a policy's name begins with"):
        learn_from_log(tmp_path / "r", tmp_path / "absent.csv", name)


def test_a_log_is_embedded_with_the_routers_own_encoder_settings(tiny_bert, tmp_path):
    arms, encoder = ("a", "b"), QueryEncoder(str(tiny_bert), 7, "bfloat16")
    heads = {0.0: LinearHead(np.zeros((2, encoder.dim), np.float32), np.zeros(2, np.float32))}
    policy = EncoderPolicy("x", arms, heads, max_tokens=7, dtype="bfloat16", query_encoder=encoder)
    resolved = encoder.resolved
    record = RouterRecord(
        arms, Defaults("x"), encoder_id=resolved.encoder_id, encoder_revision=resolved.revision
    )
    write_router(tmp_path / "r", record, [policy])
    text = "the report of the year about the page of the report of the year " * 3
    lines = [f"{text} {row},{arms[row % 2]},{row % 3 / 2},1" for row in range(20)]
    log = write_csv(tmp_path, "\n".join(["query,arm,quality,latency_ms", *lines]))
    learned = learn_from_log(tmp_path / "r", log)
    assert (learned.queries.max_tokens, learned.queries.dtype) == (7, "bfloat16")
    assert learned.queries.resolved.revision == resolved.revision
    # Without a policy that reads the encoder: as the record names it, with the defaults.
    write_router(tmp_path / "r", record, [StaticPolicy("x", arms, "a")])
    assert encoder_of(tmp_path / "r", record).max_tokens == 128
