"""Labels with rankings and grades, sound unless a fault is planted, and decisions on them."""

import json
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from oracle.quality import quality_of_grades
from oracle.split import text_group
from router.decisions import DECISION_SCHEMA, write_decisions

ARMS = ("fast", "slow")
MS = {"fast": 1.0, "slow": 9.0}
WORDS = ("pump", "valve", "rotor", "seal", "shaft", "flange", "gasket", "bearing", "nozzle", "coil")


@dataclass
class Audited:
    """N queries: of even ones ``fast`` finds the relevant document first, of odd ones ``slow``.

    Query n asks about document ``d<n>``; every second test query shares its document with a
    training query.
    """

    n: int = 240
    texts: list[str] = field(default_factory=list)
    splits: list[str] = field(default_factory=list)
    relevant: list[str] = field(default_factory=list)

    def __post_init__(self):
        generator = np.random.default_rng(7)
        for row in range(self.n):
            words = generator.choice(WORDS, 4).tolist()
            self.texts.append(f"{' '.join(words)} number {row * 7919 % 1000:03d}{row}")
        self.splits = ["test" if row % 3 == 0 else "train" for row in range(self.n)]
        # test queries 0, 6, 12, … share their document with training queries 1, 7, 13, …
        self.relevant = [f"d{row + 1}" if row % 6 == 0 else f"d{row}" for row in range(self.n)]

    def write(self, folder: Path, modelled=(), wrong=()) -> Path:
        folder.mkdir(parents=True)
        ids = [f"q{row:04d}" for row in range(self.n)]
        runs, labels = [], []
        for row in range(self.n):
            for place, arm in enumerate(ARMS):
                first = row % 2 == place
                found = (
                    [self.relevant[row], "x1", "x2"] if first else ["x1", "x2", self.relevant[row]]
                )
                grades = [1 if one == self.relevant[row] else 0 for one in found]
                for rank, (one, grade) in enumerate(zip(found, grades, strict=True), 1):
                    runs.append(("reports", ids[row], arm, rank, one, 1.0 / rank, grade))
                quality = quality_of_grades([grades], [(1,)], ["nDCG@5"])["nDCG@5"][0]
                if (row, arm) in wrong:
                    quality /= 2
                labels.append(
                    (
                        *("reports", ids[row], self.splits[row], arm, "ok", quality, MS[arm], 0.1),
                        *((row, arm) in modelled, 0.0, MS[arm], 0.0, 3),
                    )
                )
        names = ("dataset", "query_id", "arm", "rank", "doc_id", "score", "grade")
        _write(folder / "runs.parquet", names, runs)
        names = ("dataset", "query_id", "split", "arm", "status", "nDCG@5", "latency_ms")
        names += ("latency_iqr_ms", "latency_modelled", "encode_ms", "search_ms", "rerank_ms")
        _write(folder / "labels.parquet", (*names, "repeats"), labels)
        queries = {
            "dataset": ["reports"] * self.n,
            "query_id": ids,
            "split": self.splits,
            "text_group": [text_group(text) for text in self.texts],
            "text": self.texts,
            "relevant_grades": [[1]] * self.n,
            "relevant_ids": [[one] for one in self.relevant],
        }
        pq.write_table(pa.table(queries), folder / "queries.parquet")
        manifest = {"schema_version": 1, "measures": ["nDCG@5"]}
        manifest |= {"pipelines": list(ARMS), "router_arms": list(ARMS)}
        (folder / "manifest.json").write_text(json.dumps(manifest))
        return folder

    def decisions(self, folder: Path, knows, overhead_ms=0.0) -> Path:
        """``router`` takes the right arm where ``knows(row)``, else ``fast``, like best static."""
        folder.mkdir(parents=True)
        rows = []
        for row in range(self.n):
            for lam in (0.0, 0.1):
                right = ARMS[row % 2] if knows(row) else "fast"
                for policy, arm in (("router", right), ("best_static", "fast")):
                    plan = (policy, lam, "reports", f"q{row:04d}", self.splits[row], arm)
                    rows.append((*plan, 1.0, overhead_ms if policy == "router" else 0.0))
        table = pa.table(
            {
                name: pa.array([one[place] for one in rows], DECISION_SCHEMA.field(name).type)
                for place, name in enumerate(DECISION_SCHEMA.names[:8])
            }
        )
        write_decisions(table, folder / "decisions.parquet")
        (folder / "router.json").write_text(
            json.dumps({"defaults": {"select": "router", "search": "router"}})
        )
        return folder


def _write(path, names, rows):
    columns = {name: [row[place] for row in rows] for place, name in enumerate(names)}
    pq.write_table(pa.table(columns), path)
