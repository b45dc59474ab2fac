"""A release: what is in it, who can load it, and that every way to damage it is named."""

import json
import os
import random
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml

from arms.errors import LabelsError, SettingsError
from oracle.labels import read_labels
from oracle.redact import attach_texts, without_paths
from oracle.release.card import size_category
from oracle.release.checksums import sha256_of, write_checksums
from oracle.release.group_faults import relevant_id_faults
from oracle.release.licences import parse_licence
from oracle.release.verify import verify_release
from oracle.release.write import release_labels
from oracle.split import text_group
from oracle.tables import GROUP_COLUMNS
from tests.analysis.synthetic import make_world

SUITE = Path(__file__).parents[2] / "benchmarks" / "labels" / "text-suite"
LICENCE = parse_licence("cc-by-4.0", None)


def make_labels(folder: Path) -> Path:
    """80 queries with text on four arms, with each status."""
    world = make_world(n=80)
    world.status = np.full(world.quality.shape, "ok", dtype=object)
    world.status[3, 1] = "error"
    world.status[4, 2] = "timeout"
    world.status[5, 0] = "empty"
    world.quality[5, 0] = 0.0
    world.write(folder)
    queries = pq.read_table(folder / "queries.parquet").to_pydict()
    texts = [f"secret question {query_id}" for query_id in queries["query_id"]]
    queries["text"] = texts
    for name in GROUP_COLUMNS:
        queries[name] = [text_group(text) for text in texts]
    pq.write_table(pa.table(queries), folder / "queries.parquet")
    samples = pq.read_table(folder / "latency_samples.parquet").to_pandas()
    samples.dropna().to_parquet(folder / "latency_samples.parquet", index=False)
    return folder


@pytest.fixture(scope="module")
def labels_folder(tmp_path_factory):
    return make_labels(tmp_path_factory.mktemp("labels"))


@pytest.fixture(scope="module")
def sound(labels_folder, tmp_path_factory):
    target = tmp_path_factory.mktemp("release") / "out"
    release_labels(labels_folder, target, LICENCE, "keep")
    return target


@pytest.fixture
def release(sound, tmp_path):
    """A copy to damage."""
    return Path(shutil.copytree(sound, tmp_path / "out"))


def bytes_of(folder):
    return b"".join(path.read_bytes() for path in sorted(folder.iterdir()))


def faults_of(folder):
    return [str(fault) for fault in verify_release(folder)]


def sign(folder):
    """Write checksums that fit, as somebody who means harm would."""
    names = [path.name for path in folder.iterdir() if path.name != "SHA256SUMS"]
    write_checksums(folder, [name for name in names if (folder / name).is_file()])


def edit_json(path, change):
    content = json.loads(path.read_text())
    change(content)
    path.write_text(json.dumps(content, indent=2, sort_keys=True, ensure_ascii=False) + "\n")


def edit_table(path, change):
    frame = pq.read_table(path)
    pq.write_table(change(frame), path)


def with_cell(column, row, value):
    def change(table):
        place = table.column_names.index(column)
        values = table[column].to_pylist()
        values[row] = value
        return table.set_column(place, column, pa.array(values, table.schema.field(column).type))

    return change


def test_a_fresh_release_has_no_fault_and_sha256sum_agrees(sound):
    assert verify_release(sound) == []
    if shutil.which("sha256sum"):
        run = subprocess.run(
            ["sha256sum", "--strict", "-c", "SHA256SUMS"], cwd=sound, capture_output=True, text=True
        )
        assert run.returncode == 0, run.stderr
        assert run.stdout.count(": OK") == len(list(sound.iterdir())) - 1


def test_the_same_labels_give_the_same_bytes(labels_folder, tmp_path):
    one = release_labels(labels_folder, tmp_path / "a" / "out", LICENCE)
    other = release_labels(labels_folder, tmp_path / "b" / "out", LICENCE)
    assert one.digest == other.digest
    assert bytes_of(one.folder) == bytes_of(other.folder)


def test_a_release_is_a_labels_folder(labels_folder, sound):
    before, after = read_labels(labels_folder), read_labels(sound)
    assert np.array_equal(before.status, after.status)
    assert np.array_equal(before.latency_ms, after.latency_ms, equal_nan=True)
    assert after.texts.tolist() == before.texts.tolist()
    again = sound.parent / "again"
    release_labels(sound, again, LICENCE, "hash")
    assert verify_release(again) == []


@pytest.mark.parametrize("graded", [True, False])
def test_rankings_are_released_with_their_grades_where_they_have_them(
    labels_folder, tmp_path, graded
):
    labels = Path(shutil.copytree(labels_folder, tmp_path / "labels"))
    queries = pq.read_table(labels / "queries.parquet").select(["dataset", "query_id"]).to_pylist()
    rows = [
        {**query, "arm": read_labels(labels).pipelines[0], "rank": rank, "doc_id": f"d{rank}"}
        | {"score": 1.0 / rank}
        | ({"grade": grade} if graded else {})
        for query in queries
        for rank, grade in ((1, 0), (2, 2), (3, None))
    ]
    pq.write_table(pa.Table.from_pylist(rows), labels / "runs.parquet")
    release_labels(labels, tmp_path / "out", LICENCE)
    assert verify_release(tmp_path / "out") == []
    released = pq.read_table(tmp_path / "out" / "runs.parquet")
    assert (released.column_names[6:] == ["grade"]) is graded
    described = json.loads((tmp_path / "out" / "schema.json").read_text())["$defs"]["runs"]
    assert described["properties"].get("grade", {}).get("type") == (
        ["integer", "null"] if graded else None
    )
    if graded:
        assert released["grade"].to_pylist()[:3] == [0, 2, None]
        edit_table(tmp_path / "out" / "runs.parquet", lambda one: one.drop_columns(["grade"]))
        sign(tmp_path / "out")
        assert any("grade" in fault for fault in faults_of(tmp_path / "out"))


@pytest.fixture(scope="module")
def sound_graded(labels_folder, tmp_path_factory):
    """A release whose rankings hold five documents, the second relevant where nDCG@5 isn't 0."""
    folder = tmp_path_factory.mktemp("graded")
    labels = Path(shutil.copytree(labels_folder, folder / "labels"))
    rows = [
        {name: label[name] for name in ("dataset", "query_id", "arm")}
        | {"rank": rank, "doc_id": f"{label['arm'] * (rank == 2)}d{rank}", "score": -float(rank)}
        | {"grade": int(rank == 2 and label["nDCG@5"] > 0)}
        for label in pq.read_table(labels / "labels.parquet").to_pylist()
        if label["status"] == "ok"
        for rank in range(1, 7)
    ]
    pq.write_table(pa.Table.from_pylist(rows), labels / "runs.parquet")
    release_labels(labels, folder / "out", LICENCE)
    return folder / "out"


@pytest.fixture
def graded(sound_graded, tmp_path):
    """A copy to damage."""
    return Path(shutil.copytree(sound_graded, tmp_path / "graded"))


def grade_faults_of(release, row, grade):
    edit_table(release / "runs.parquet", with_cell("grade", row, grade))
    sign(release)
    return faults_of(release)


def named(release, row, columns):
    runs = pq.read_table(release / "runs.parquet", columns=list(columns)).to_pylist()
    return ", ".join(str(runs[row][column]) for column in columns)


@pytest.mark.parametrize("grade", [-101, 1001, 2**31 - 1, -(2**31)])
def test_an_absurd_grade_is_named(graded, grade):
    faults = grade_faults_of(graded, 1, grade)
    row = named(graded, 1, ("dataset", "query_id", "arm", "rank", "grade"))
    assert faults[0] == f"runs.parquet: value: grade lies outside [-100, 1000]: row 2 ({row})"


@pytest.mark.parametrize("grade", [1, 1000])
def test_a_possible_grade_is_no_fault(graded, grade):
    assert grade_faults_of(graded, 1, grade) == []


def test_two_grades_of_one_document_are_named_unless_one_is_unknown(graded):
    runs = pq.read_table(graded / "runs.parquet").to_pylist()
    key = ("dataset", "query_id", "doc_id")
    later = next(
        row
        for row, one in enumerate(runs)
        if row > 5 and all(one[name] == runs[5][name] for name in key)
    )
    row = named(graded, later, ("dataset", "query_id", "arm", "doc_id"))
    assert grade_faults_of(graded, later, 3) == [
        "runs.parquet: value: grade differs from that of an earlier row of the same query and "
        f"document: row {later + 1} ({row}: 3, in row 6 0)"
    ]
    assert grade_faults_of(graded, later, None) == []


def test_quality_without_a_relevant_document_is_named_and_the_reverse(graded):
    row = named(graded, 0, ("dataset", "query_id", "arm"))
    assert grade_faults_of(graded, 1, 0) == [
        "runs.parquet: value: nDCG@5 in labels.parquet is above 0, and no grade of the first 5 "
        f"is: row 1 ({row})"
    ]
    assert len(grade_faults_of(graded, 1, -1)) == 1
    grade_faults_of(graded, 1, 1)
    labels = pq.read_table(graded / "labels.parquet").to_pylist()
    names = ("dataset", "query_id", "arm")
    label = [", ".join(one[name] for name in names) for one in labels].index(row)
    edit_table(graded / "labels.parquet", with_cell("nDCG@5", label, 0.0))
    sign(graded)
    assert faults_of(graded) == [
        "runs.parquet: value: nDCG@5 in labels.parquet is 0, and a grade of the first 5 is above "
        f"0: row 1 ({row})"
    ]


def test_a_ranking_that_cannot_be_judged_is_no_fault(graded):
    for row in (0, 1):  # the relevant document, or another of the first five, isn't known
        assert len(grade_faults_of(graded, 1, 0)) == 1
        assert grade_faults_of(graded, row, None) == []
        grade_faults_of(graded, 0, 0)
    grade_faults_of(graded, 1, 0)
    edit_table(
        graded / "runs.parquet",
        lambda runs: pa.concat_tables([runs.slice(0, 4), runs.slice(5)]),  # rank 5 is away
    )
    sign(graded)
    assert [fault.split(" the manifest")[0] for fault in faults_of(graded)] == [
        f"runs.parquet: value: has {pq.read_metadata(graded / 'runs.parquet').num_rows:,} rows,"
    ]


def order_faults_of(release, column, values):
    """``values`` of the first rows of the rankings: ranks 1 to 6 of one."""
    for row, value in enumerate(values):
        edit_table(release / "runs.parquet", with_cell(column, row, value))
    sign(release)
    return faults_of(release)


def test_scores_that_do_not_descend_are_named(graded):
    def name(row):
        return named(graded, row, ("dataset", "query_id", "arm", "rank", "doc_id"))

    told = "runs.parquet: value: score is higher than that of the rank before; it should descend: "
    assert order_faults_of(graded, "score", [-1.0, -2.5, -2.0]) == [f"{told}row 3 ({name(2)})"]
    assert order_faults_of(graded, "score", [3.0, 2.0, 1.0]) == []
    # The order is that of the ranks, wherever their rows stand.
    edit_table(graded / "runs.parquet", lambda runs: runs.take(list(range(len(runs)))[::-1]))
    sign(graded)
    assert faults_of(graded) == []


def test_equal_scores_go_by_document_unless_they_were_rounded(graded):
    def name(row):
        return named(graded, row, ("dataset", "query_id", "arm", "rank", "doc_id"))

    # Documents: d1, an arm's name before d2, d3, d4, …
    told = (
        "runs.parquet: value: score equals that of the rank before, whose doc_id is greater; equal "
        "scores go by ascending doc_id: "
    )
    wrong = f"{told}row 2 ({name(1)})"
    assert order_faults_of(graded, "score", [-1.0, -1.0, -3.0, -3.0, -3.0]) == [wrong]
    cut = ["failures", "runs below rank 6"]
    edit_json(graded / "manifest.json", lambda one: one.update(withheld=cut))
    sign(graded)
    assert faults_of(graded) == []


def test_a_document_that_a_ranking_has_twice_is_named(graded):
    name = named(graded, 3, ("dataset", "query_id", "arm", "rank"))
    faults = order_faults_of(graded, "doc_id", ["d1", "other", "d3", "d1"])
    assert f"runs.parquet: value: the ranking has the document already: row 4 ({name}, d1)" in (
        faults
    )


def labels_of(release, **wanted):
    labels = pq.read_table(release / "labels.parquet").to_pylist()
    return next(
        (row, one) for row, one in enumerate(labels) if all(one[k] == v for k, v in wanted.items())
    )


@pytest.mark.parametrize(
    ("column", "what"),
    [("latency_ms", "the median"), ("latency_iqr_ms", "the interquartile range")],
)
def test_a_latency_that_its_samples_do_not_give_is_named(release, column, what):
    row, label = labels_of(release, status="ok")
    name = ", ".join(label[key] for key in ("dataset", "query_id", "arm"))

    def faults_with(value):
        edit_table(release / "labels.parquet", with_cell(column, row, value))
        sign(release)
        return faults_of(release)

    assert faults_with(label[column] * 1.01) == [
        f"labels.parquet: value: {column} isn't {what} of latency_samples.parquet: row {row + 1} "
        f"({name}: {label[column] * 1.01:.6g}, by the samples {label[column]:.6g})"
    ]
    assert faults_with(float(np.float32(label[column]))) == []
    edit_table(release / "labels.parquet", with_cell("latency_modelled", row, True))
    assert faults_with(label[column] * 1.01) == []


def test_median_and_spread_of_samples_by_hand(release):
    row, label = labels_of(release, status="ok")
    table = pq.read_table(release / "latency_samples.parquet").to_pylist()
    key = ("dataset", "query_id", "arm")
    mine = [one for one in table if all(one[name] == label[name] for name in key)]
    others = [one for one in table if one not in mine]
    taken = [4.0, 1.0, 2.0, 9.0]  # in the middle 2 and 4; quartiles 1.75 and 5.25
    rows = [{**mine[0], "repeat": repeat, "latency_ms": ms} for repeat, ms in enumerate(taken)]
    samples = pa.Table.from_pylist([*others, *rows], pq.read_schema(
        release / "latency_samples.parquet"
    ))  # fmt: skip
    pq.write_table(samples, release / "latency_samples.parquet")
    edit_json(
        release / "manifest.json",
        lambda one: one["release"]["rows"].update(latency_samples=len(samples)),
    )

    def faults_with(latency_ms, iqr_ms):
        edit_table(release / "labels.parquet", with_cell("latency_ms", row, latency_ms))
        edit_table(release / "labels.parquet", with_cell("latency_iqr_ms", row, iqr_ms))
        sign(release)
        return [one.split(" of latency")[0] for one in faults_of(release)]

    assert faults_with(3.0, 3.5) == faults_with(3.0, None) == []
    assert faults_with(2.0, 3.5) == ["labels.parquet: value: latency_ms isn't the median"]
    assert len(faults_with(4.0, 8.0)) == 2


@pytest.mark.parametrize("damage", ["changed", "linked"])
def test_a_ranking_that_is_there_is_not_called_absent(graded, tmp_path, damage):
    runs = graded / "runs.parquet"
    if damage == "changed":
        runs.write_bytes(runs.read_bytes() + b"x")
        expected = [("runs.parquet", "checksum")]
    else:
        runs.rename(tmp_path / "runs.parquet")
        runs.symlink_to(tmp_path / "runs.parquet")
        expected = [("runs.parquet", "unsafe path"), ("runs.parquet", "missing file")]
    assert [(fault.place, fault.kind) for fault in verify_release(graded)] == expected


def test_a_ranking_that_only_the_card_names_is_called_absent(graded):
    (graded / "runs.parquet").unlink()
    sign(graded)
    assert "README.md: card: configs: 'runs.parquet' isn't there" in faults_of(graded)


def test_text_leaves_only_where_asked(labels_folder, tmp_path):
    texts = {
        (dataset, query_id): text
        for dataset, query_id, text in zip(
            *(
                getattr(read_labels(labels_folder), name)
                for name in ("datasets", "query_ids", "texts")
            ),
            strict=True,
        )
    }
    for mode in ("omit", "hash"):
        release_labels(labels_folder, tmp_path / mode, LICENCE, mode)
        assert verify_release(tmp_path / mode) == []
        assert b"secret question" not in bytes_of(tmp_path / mode)
        assert read_labels(tmp_path / mode).texts is None
        found = attach_texts(read_labels(tmp_path / mode), texts)
        assert found.texts.tolist() == read_labels(labels_folder).texts.tolist()
    hashes = {text_group(text).encode() for text in texts.values()}
    assert set(read_labels(tmp_path / "hash").text_groups) == {one.decode() for one in hashes}
    content = bytes_of(tmp_path / "omit")
    assert not any(one in content for one in hashes)
    wrong = {key: "another text" for key in texts}
    with pytest.raises(LabelsError, match="have another text"):
        attach_texts(read_labels(tmp_path / "hash"), wrong)
    with pytest.raises(SettingsError, match="hold no query text"):
        release_labels(tmp_path / "omit", tmp_path / "x", LICENCE, "keep")
    with pytest.raises(SettingsError, match="neither text nor hashes"):
        release_labels(tmp_path / "omit", tmp_path / "x", LICENCE, "hash")


def test_rankings_stay_away_where_asked_and_paths_always_do(labels_folder, tmp_path):
    folder = Path(shutil.copytree(labels_folder, tmp_path / "labels"))
    edit_json(
        folder / "manifest.json",
        lambda manifest: manifest.update(config={"arms": [{"path": "/home/jane/run.txt"}]}),
    )
    release_labels(folder, tmp_path / "out", LICENCE)
    assert b"jane" not in bytes_of(tmp_path / "out")
    assert without_paths(["C:\\Users\\jane\\x", "~/x", "org/model", 3]) == [
        "x",
        "x",
        "org/model",
        3,
    ]


def test_a_licence_is_demanded_and_checked():
    with pytest.raises(SettingsError, match="--license NAME"):
        parse_licence(None, None)
    with pytest.raises(SettingsError, match=r"did you mean 'cc-by-4\.0'"):
        parse_licence("cc-by4.0", None)
    with pytest.raises(SettingsError, match="--license-link"):
        parse_licence("other", None)
    assert parse_licence("CC-BY-4.0", None).name == "cc-by-4.0"


def test_the_card_says_what_it_must(sound):
    card = (sound / "README.md").read_text()
    header = yaml.safe_load(card.split("---\n")[1])
    assert header["license"] == "cc-by-4.0"
    assert [config["config_name"] for config in header["configs"]] == [
        "labels", "queries", "best_arms", "latency_samples",
    ]  # fmt: skip
    for words in ("arXiv:2608.25625", "interleaved", "error 1, ok 79", "| `latency_ms` | double |"):
        assert words in card


def test_sizes_are_named_as_the_hub_does():
    names = [size_category(rows) for rows in (5, 1_000, 80_000, 10**9)]
    assert names == ["n<1K", "1K<n<10K", "10K<n<100K", "n>1B"]


def test_the_json_schema_describes_every_row(sound):
    import jsonschema

    schema = json.loads((sound / "schema.json").read_text())
    jsonschema.Draft202012Validator.check_schema(schema)
    for table in schema["$defs"]:
        check = jsonschema.Draft202012Validator({**schema, "$ref": f"#/$defs/{table}"})
        rows = pq.read_table(sound / f"{table}.parquet").to_pylist()
        assert rows
        for row in rows[:200]:
            check.validate(row)
    rows = pq.read_table(sound / "labels.parquet").to_pylist()
    failed = next(row for row in rows if row["status"] == "error")
    check = jsonschema.Draft202012Validator(schema)
    for wrong in ({"nDCG@5": 0.0}, {"status": "ok"}, {"arm": "unknown"}, {"extra": 1}):
        assert not check.is_valid({**failed, **wrong})
    assert not check.is_valid({**rows[0], "nDCG@5": 1.5})


def test_nothing_else_is_overwritten_and_faulty_labels_are_not_released(labels_folder, tmp_path):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.tex").write_text("years of work")
    with pytest.raises(SettingsError, match="isn't an earlier release"):
        release_labels(labels_folder, tmp_path / "mine", LICENCE)
    folder = Path(shutil.copytree(labels_folder, tmp_path / "labels"))
    edit_table(folder / "labels.parquet", with_cell("nDCG@5", 0, 1.25))
    with pytest.raises(LabelsError, match=r"nDCG@5 lies outside \[0, 1\]: row 1"):
        release_labels(folder, tmp_path / "out", LICENCE)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    "name", ["labels.parquet", "queries.parquet", "README.md", "manifest.json", "example.py"]
)
def test_one_flipped_byte_is_named(release, name):
    content = bytearray((release / name).read_bytes())
    for place in (0, len(content) // 2, len(content) - 1):
        flipped = bytearray(content)
        flipped[place] ^= 1
        (release / name).write_bytes(flipped)
        faults = verify_release(release)
        assert [(fault.place, fault.kind) for fault in faults] == [(name, "checksum")]


def test_a_flipped_byte_of_the_checksums_is_named(release):
    content = (release / "SHA256SUMS").read_bytes()
    for place in range(0, len(content), 5):
        flipped = bytearray(content)
        flipped[place] ^= 1
        (release / "SHA256SUMS").write_bytes(flipped)
        assert verify_release(release), place


def test_a_dropped_a_strange_and_a_retyped_column_are_named(release):
    edit_table(release / "labels.parquet", lambda table: table.drop_columns(["latency_ms"]))
    edit_table(
        release / "queries.parquet",
        lambda table: table.append_column("extra", pa.array([1] * len(table))),
    )
    edit_table(
        release / "best_arms.parquet",
        lambda table: table.set_column(2, "lam", table["lam"].cast(pa.float32())),
    )
    sign(release)
    assert faults_of(release) == [
        "labels.parquet: schema: column latency_ms is missing",
        "queries.parquet: schema: column 'extra' doesn't belong there",
        "best_arms.parquet: schema: column lam should be double, is float",
    ]


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("../../etc/passwd", "leads out of the release"),
        ("..\\\\secret", "leads out of the release"),
        ("/etc/passwd", "is no path inside the release"),
        ("C:\\\\secret", "is no path inside the release"),
        ("sub/labels.parquet", "is no plain file name"),
    ],
)
def test_a_path_that_leads_elsewhere_is_named_wherever_it_stands(release, name, told):
    line = f"{'0' * 64}  {name}\n"
    (release / "SHA256SUMS").write_text((release / "SHA256SUMS").read_text() + line)
    assert [(f.place, f.kind) for f in verify_release(release)] == [("SHA256SUMS", "unsafe path")]
    assert told in faults_of(release)[0]
    card = (release / "README.md").read_text().replace("path: queries.parquet", f"path: '{name}'")
    (release / "README.md").write_text(card)
    sign(release)
    assert [(f.place, f.kind) for f in verify_release(release)] == [("README.md", "unsafe path")]


def test_an_address_in_the_card_is_named(release):
    card = (release / "README.md").read_text()
    card = card.replace("path: labels.parquet", "path: https://example.org/x.parquet")
    (release / "README.md").write_text(card)
    sign(release)
    assert "is no path inside the release" in faults_of(release)[0]


def test_links_and_strangers_are_named_and_never_followed(release, tmp_path):
    (tmp_path / "elsewhere").write_text("private")
    moved = release / "queries.parquet"
    moved.rename(tmp_path / "queries.parquet")
    moved.symlink_to(tmp_path / "queries.parquet")
    (release / "data").mkdir()
    (release / "setup.py").write_text("raise SystemExit")
    os.mkfifo(release / "runs.parquet")
    found = {(fault.place, fault.kind) for fault in verify_release(release)}
    assert found == {
        ("queries.parquet", "unsafe path"),
        ("runs.parquet", "unsafe path"),
        ("data", "unexpected file"),
        ("setup.py", "unexpected file"),
    }


def test_what_a_hub_adds_is_no_fault(release):
    (release / ".gitattributes").write_text("*.parquet filter=lfs\n")
    (release / ".cache" / "huggingface").mkdir(parents=True)
    assert verify_release(release) == []


def test_another_example_is_named_though_its_checksum_fits(release):
    (release / "example.py").write_text("import os\n")
    sign(release)
    assert "read it before you run it" in faults_of(release)[0]


def test_missing_files_are_named(release):
    for name in ("labels.parquet", "SHA256SUMS", "latency_samples.parquet"):
        (release / name).unlink()
    faults = faults_of(release)
    assert "SHA256SUMS: missing file: every release has it" in faults
    assert "labels.parquet: missing file: every release has it" in faults


@pytest.mark.parametrize("key", ["schema_version", "format_version"])
def test_a_future_version_is_named(release, key):
    def raise_version(manifest):
        (manifest if key in manifest else manifest["release"])[key] = 99

    edit_json(release / "manifest.json", raise_version)
    sign(release)
    (fault,) = verify_release(release)
    assert fault.kind == "version"
    assert "is 99, this reads 1; install a newer learning-to-route" in fault.message


@pytest.mark.parametrize(
    ("column", "row", "value", "told"),
    [
        ("nDCG@5", 0, 1.01, "nDCG@5 lies outside [0, 1]"),
        ("RR@5", 0, -0.1, "RR@5 lies outside [0, 1]"),
        ("nDCG@5", 0, float("nan"), "nDCG@5 is NaN"),
        ("nDCG@5", 0, None, "status is ok or empty, and nDCG@5 is null"),
        ("nDCG@5", 13, 0.0, "a failure has a nDCG@5"),
        ("nDCG@5", 20, 0.5, "status is empty, nDCG@5 isn't 0"),
        ("latency_ms", 0, -1.0, "latency_ms is negative"),
        ("latency_ms", 0, float("nan"), "latency_ms is NaN"),
        ("latency_ms", 0, float("inf"), "latency_ms is infinite"),
        ("latency_ms", 13, 3.0, "a failure has a latency_ms"),
        ("status", 0, "fine", "status is none of ok, empty"),
        ("status", 0, None, "status is null"),
        ("arm", 0, "gpt", "arm isn't in the manifest"),
        ("arm", 0, "text_dense", "the same dataset, query_id and arm as an earlier row"),
        ("query_id", 0, "q999", "the query isn't in queries.parquet"),
        ("split", 0, "dev", "split differs from that of queries.parquet"),
    ],
)
def test_a_value_out_of_place_is_named_with_its_row(release, column, row, value, told):
    edit_table(release / "labels.parquet", with_cell(column, row, value))
    sign(release)
    assert any(f"labels.parquet: value: {told}" in fault for fault in faults_of(release))
    assert all("labels.parquet" in fault for fault in faults_of(release))


def test_a_question_on_two_sides_is_named(release):
    queries = pq.read_table(release / "queries.parquet").to_pydict()
    test, train = queries["split"].index("test"), queries["split"].index("train")
    group = queries["text_group"][test]
    edit_table(release / "queries.parquet", with_cell("text_group", train, group))
    sign(release)
    assert "train and test share a question" in faults_of(release)[0]


def test_all_faults_come_at_once(release):
    (release / "stranger").write_text("")
    edit_table(release / "labels.parquet", with_cell("nDCG@5", 0, 7.0))
    edit_table(
        release / "latency_samples.parquet", lambda t: with_cell("latency_ms", 1, -3.0)(t).slice(1)
    )
    edit_json(release / "schema.json", lambda schema: schema.pop("title"))
    sign(release)
    (release / "README.md").write_text("# no header\n")
    kinds = [(fault.place, fault.kind) for fault in verify_release(release)]
    assert kinds == [
        ("stranger", "unexpected file"),
        ("README.md", "checksum"),
        ("SHA256SUMS", "unexpected file"),
        ("latency_samples.parquet", "value"),
        ("schema.json", "schema"),
        ("labels.parquet", "value"),
        ("latency_samples.parquet", "value"),
    ]


def test_content_that_is_no_content_gives_faults_and_no_traceback(release):
    for name, content in (
        ("manifest.json", "[" * 100_000),
        ("manifest.json", "{}"),
        ("manifest.json", '{"release": {"format_version": true}, "schema_version": "1"}'),
        ("labels.parquet", "PAR1 but not really PAR1"),
        ("README.md", "---\na: [\n---\n"),
    ):
        before = (release / name).read_bytes()
        (release / name).write_text(content)
        sign(release)
        assert name in faults_of(release)[0]
        (release / name).write_bytes(before)
    with pytest.raises(LabelsError, match="is no folder"):
        verify_release(release / "absent")


@pytest.mark.slow
def test_a_damaged_file_whose_checksum_fits_never_ends_in_a_traceback(release):
    rng = random.Random(5)
    names = sorted(path.name for path in release.iterdir() if path.suffix in (".parquet", ".json"))
    for _ in range(1000):
        path = release / rng.choice(names)
        before = path.read_bytes()
        damaged = bytearray(before)
        for _ in range(rng.choice((1, 3, 20))):
            damaged[rng.randrange(len(damaged))] = rng.randrange(256)
        path.write_bytes(damaged)
        sign(release)
        for fault in verify_release(release):
            assert str(fault)
        path.write_bytes(before)


@pytest.mark.slow
def test_the_real_suite_loads_with_datasets_offline(tmp_path):
    target = tmp_path / "text-suite"
    released = release_labels(SUITE, target, LICENCE)
    assert verify_release(target) == []
    assert released.digest == sha256_of(target / "SHA256SUMS")
    code = """
import datasets, sys
labels = datasets.load_dataset("parquet", data_files=sys.argv[1] + "/labels.parquet", split="train")
print(labels.num_rows, labels.column_names[:6])
repository = datasets.load_dataset(sys.argv[1])
print(list(repository), repository["full"].num_rows, datasets.get_dataset_config_names(sys.argv[1]))
queries = datasets.load_dataset(sys.argv[1], "queries", split="full")
print(queries.num_rows, queries.column_names)
"""
    offline = {
        **os.environ,
        "HF_HOME": str(tmp_path / "hub"),
        "HF_HUB_OFFLINE": "1",
        "HF_DATASETS_OFFLINE": "1",
    }
    run = subprocess.run(
        [sys.executable, "-c", code, str(target)], capture_output=True, text=True, env=offline
    )
    assert run.returncode == 0, run.stderr
    assert run.stdout.splitlines() == [
        "44310 ['dataset', 'query_id', 'split', 'arm', 'status', 'nDCG@5']",
        "['full'] 44310 ['labels', 'queries', 'best_arms', 'runs']",
        "6330 ['dataset', 'query_id', 'split', 'text_group', 'near_duplicate_group', "
        "'document_group', 'visual_density', 'page_kind', 'relevant_grades', 'relevant_ids']",
    ]
    shown = subprocess.run(
        [sys.executable, "example.py"], cwd=target, capture_output=True, text=True, env=offline
    )
    assert shown.returncode == 0, shown.stderr
    held = pq.read_table(target / "labels.parquet", filters=[("arm", "=", "bm25")])
    quality, latency_ms = (np.mean(held[name].to_numpy()) for name in ("nDCG@5", "latency_ms"))
    assert quality == pytest.approx(0.6815, abs=1e-3)
    assert f"bm25                     {quality:.3f} {latency_ms:10.2f} ms" in shown.stdout
    assert "λ = 0" in shown.stdout
    assert verify_release(target) == []  # running the example leaves nothing behind


def test_a_group_on_two_sides_is_named_where_the_split_is_by_it(release):
    queries = pq.read_table(release / "queries.parquet").to_pydict()
    sides = list(zip(queries["split"], queries["dataset"], strict=True))
    test, train = sides.index(("test", "claims")), sides.index(("train", "claims"))
    group = queries["near_duplicate_group"][test]
    edit_table(release / "queries.parquet", with_cell("near_duplicate_group", train, group))
    edit_table(release / "queries.parquet", with_cell("document_group", train, group))
    sign(release)
    assert faults_of(release) == []  # the split is by equal texts alone
    for by in ("near_duplicate", "document"):
        edit_json(release / "manifest.json", lambda one, by=by: one.update(split={"by": by}))
        sign(release)
        assert (
            f"the split is by {by}, and a query of its group is in another" in faults_of(release)[0]
        )
    for odd in ({"by": "document", "given": True}, {"by": "moon"}, "document", [], {"by": []}):
        edit_json(release / "manifest.json", lambda one, odd=odd: one.update(split=odd))
        sign(release)
        assert faults_of(release) == []


def test_a_group_that_parts_a_looser_one_is_named(release):
    queries = pq.read_table(release / "queries.parquet").to_pydict()
    rows = [row for row, split in enumerate(queries["split"]) if split == "train"][:2]
    for row in rows:
        edit_table(release / "queries.parquet", with_cell("text_group", row, "shared"))
    sign(release)
    assert "near_duplicate_group parts queries of one text_group" in faults_of(release)[0]


@pytest.mark.parametrize(
    ("grades", "ids", "told"),
    [
        ([2, 1], ["a"], "relevant_ids doesn't name as many documents as relevant_grades"),
        ([2, 1], None, "relevant_ids doesn't name as many documents as relevant_grades"),
        ([1, 1], ["b", "a"], "relevant_ids isn't a list of different documents by grade, then id"),
        ([1, 1], ["a", "a"], "relevant_ids isn't a list of different documents by grade, then id"),
        ([1], [None], "relevant_ids isn't a list of different documents by grade, then id"),
        ([2, 1], ["a", "b"], "grade isn't the one that relevant_ids and relevant_grades tell of"),
        ([2, 1], ["b", "a"], None),
        ([1, 1], ["a", "b"], None),
        ([], [], "grade isn't the one that relevant_ids and relevant_grades tell of"),
        (None, None, None),
    ],
)
def test_relevant_documents_that_do_not_fit_are_named(grades, ids, told):
    queries = pa.table(
        {
            "dataset": ["d"],
            "query_id": ["q"],
            "relevant_grades": pa.array([grades], pa.list_(pa.int32())),
            "relevant_ids": pa.array([ids], pa.list_(pa.string())),
        }
    )
    runs = pa.table(
        {
            "dataset": ["d", "d", "d"],
            "query_id": ["q", "q", "strange"],
            "arm": ["bm25"] * 3,
            "doc_id": ["a", "z", "a"],
            "grade": pa.array([1, 0, 9], pa.int32()),
        }
    )
    faults = [fault.message for fault in relevant_id_faults(queries, runs)]
    assert len(faults) == (told is not None)
    assert told is None or faults[0].startswith(told)
