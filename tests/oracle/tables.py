"""Made-up tables of other people: one row per query, two arms."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

ARMS = ("bm25", "text_dense")


def wide_columns(count: int, arms=ARMS, seed: int = 0) -> dict[str, list]:
    """Header → cells; odd queries ask "why" and are answered by the last arm alone."""
    rng = np.random.default_rng(seed)
    odd = np.arange(count) % 2 == 1
    columns: dict[str, list] = {
        "query_id": [f"q{row:05d}" for row in range(count)],
        "query": [f"{'why' if odd[row] else 'what'} is item {row}" for row in range(count)],
        "dataset": ["a" if row % 3 else "b" for row in range(count)],
    }
    for place, arm in enumerate(arms):
        hits = odd if place == len(arms) - 1 else ~odd
        quality = np.where(hits, 0.9, 0.1) + rng.uniform(-0.1, 0.1, count)
        columns[f"{arm}_ndcg_5"] = quality.round(4).tolist()
        columns[f"{arm}_recall_5"] = (quality > 0.5).astype(float).tolist()
        latency_ms = (1 + 10 * place) * rng.lognormal(0, 0.2, count)
        columns[f"{arm}_latency_ms"] = latency_ms.round(6).tolist()  # XLSX keeps 15 digits
    return columns


def write_csv(columns: dict[str, list], path: Path, delimiter: str = ",") -> Path:
    with path.open("w", encoding="utf-8", newline="") as stream:
        writer = csv.writer(stream, delimiter=delimiter)
        writer.writerow(columns)
        writer.writerows(zip(*columns.values(), strict=True))
    return path


def write_xlsx(columns: dict[str, list], path: Path) -> Path:
    import openpyxl

    book = openpyxl.Workbook(write_only=True)
    sheet = book.create_sheet("labels")
    sheet.append(list(columns))
    for row in zip(*columns.values(), strict=True):
        sheet.append(row)
    book.save(path)
    return path


def write_parquet(columns: dict[str, list], path: Path) -> Path:
    pq.write_table(pa.table(columns), path)
    return path


WRITERS = {".csv": write_csv, ".xlsx": write_xlsx, ".parquet": write_parquet}


def write_table(columns: dict[str, list], path: Path) -> Path:
    return WRITERS[path.suffix](columns, path)
