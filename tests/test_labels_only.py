"""From somebody's spreadsheet to a router and a report, with no corpus at hand."""

import json
import re
import shlex
import shutil
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

import l2r
from analysis.compare_source import open_side
from analysis.write_report import write_report
from oracle.importing.tables import import_wide
from oracle.importing.write import ImportOptions
from oracle.labels import read_labels
from router.decisions import read_decisions
from router.router import Router
from tests.oracle import tables
from tests.router.tiny_encoders import save_tiny_bert
from training.settings import BaselineSettings, TrainingSettings
from training.train_routers import train_routers

ROOT = Path(__file__).parent.parent
ROWS = 600


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    folder = tmp_path_factory.mktemp("run")
    path = tables.write_xlsx(tables.wide_columns(ROWS), folder / "labels.xlsx")
    import_wide(path, folder / "labels", ImportOptions())
    settings = TrainingSettings(
        lams=(0.0, 0.3),
        encoder=str(save_tiny_bert(folder / "encoder")),
        cross_validation_folds=0,
        overhead_queries=2,
        baselines=BaselineSettings(inverse_regularisation=(1.0,)),
    )
    train_routers(folder / "labels", None, folder / "router", settings)
    return folder


def test_imported_labels_train(trained):
    labels = read_labels(trained / "labels")
    quality = dict(zip(labels.query_ids, labels.quality["nDCG@5"], strict=True))
    decisions = read_decisions(trained / "router" / "decisions.parquet")
    at_zero = decisions.filter(
        pc.and_(pc.equal(decisions["lam"], 0.0), pc.equal(decisions["split"], "test"))
    ).to_pylist()
    reached = {}
    for policy in ("tfidf", "best_static"):
        mine = [row for row in at_zero if row["policy"] == policy]
        assert len(mine) == ROWS // 10
        found = [quality[row["query_id"]][labels.pipelines.index(row["plan"])] for row in mine]
        reached[policy] = sum(found) / len(found)
    assert reached["tfidf"] > 0.85 and reached["best_static"] < 0.6
    choice = Router.load(trained / "router").select("why is item 3", lam=0.0)
    assert choice.arm in tables.ARMS


def test_imported_labels_report(trained):
    paths = write_report(trained / "labels", trained / "router", trained / "report")
    report = paths.markdown.read_text()
    assert "were stated with the run, not measured" in report
    assert paths.html.is_file() and all(path.is_file() for path in (*paths.csv, *paths.figures))
    assert "l2r train" in report and "l2r oracle run.yaml" not in report


def test_a_run_whose_labels_lie_elsewhere_is_found_by_its_report(trained, tmp_path):
    shutil.copytree(trained / "router", tmp_path / "run" / "router")
    write_report(trained / "labels", tmp_path / "run" / "router", tmp_path / "run" / "report")
    expected = read_labels(trained / "labels").query_ids.tolist()
    for given in (tmp_path / "run", tmp_path / "run" / "report"):
        assert open_side(given).labels.query_ids.tolist() == expected


@pytest.mark.slow
def test_the_commands_of_the_documentation_run(tmp_path, monkeypatch, capsys):
    page = (ROOT / "docs" / "labels.md").read_text(encoding="utf-8")
    columns = tables.wide_columns(60)
    wide = {name.replace("text_dense", "dense"): cells for name, cells in columns.items()}
    tables.write_csv(wide, tmp_path / "table.csv")
    rows = [
        {
            "sample_id": f"q{query}",
            "prompt": f"prompt {query}",
            "eval_name": "mmlu",
            "model_name": arm,
            "performance": float(query % 2),
            "total_cost": 0.1,
        }
        for query in range(20)
        for arm in ("a", "b")
    ]
    pq.write_table(pa.Table.from_pylist(rows), tmp_path / "results.parquet")
    (tmp_path / "qrels.txt").write_text("".join(f"q{n} 0 d{n} 1\n" for n in range(5)))
    for arm in ("bm25", "dense"):
        lines = "".join(f"q{n} Q0 d{n} 1 1.0 t\n" for n in range(5))
        (tmp_path / f"{arm}.run").write_text(lines)
    timed = "".join(f"q{n},{arm},2.5\n" for n in range(5) for arm in ("bm25", "dense"))
    (tmp_path / "latency.csv").write_text("query_id,arm,latency_ms\n" + timed)
    texts = "".join(json.dumps({"_id": f"q{n}", "text": f"text {n}"}) + "\n" for n in range(5))
    (tmp_path / "queries.jsonl").write_text(texts)
    (settings,) = re.findall(r"```yaml\n(.*?)```", page, flags=re.DOTALL)
    for name in ("my.yaml", "theirs.yaml"):
        (tmp_path / name).write_text(settings)
    commands = re.findall(r"^l2r .*$", page, flags=re.MULTILINE)
    assert len(commands) == 10
    monkeypatch.chdir(tmp_path)
    for command in commands:  # in this process: each of its own would load every library again
        with pytest.raises(SystemExit) as ended:
            l2r.main(shlex.split(command, comments=True)[1:])
        assert not ended.value.code, f"{command}\n{capsys.readouterr().err}"
