"""The dataset card: a README.md with the YAML header that the Hugging Face Hub reads."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import yaml

from oracle.labels import Labels
from oracle.release.layout import SUMMARIES, TextMode, description_of
from oracle.release.licences import Licence
from oracle.release.statistics import ArmStatistics, DatasetStatistics

HF_SPLIT = "full"
"""Each file is one split to the Hub: train, val and test are a column, as in any labels folder."""

_CITATION = """\
@article{kuru2026retrievalrouter,
  title   = {RetrievalRouter: Joint Modality and Architecture Selection for Document Retrieval},
  author  = {Kuru, Emre and Farahbakhsh, Reza and Crespi, Noel},
  journal = {arXiv preprint arXiv:2608.25625},
  year    = {2026},
  url     = {https://arxiv.org/abs/2608.25625}
}"""

_TEXTS: dict[TextMode, str] = {
    "keep": "The text of every query is included. `text_group` is a hash of the normalised text.",
    "hash": "The texts are left out. `text_group` is the first 16 hexadecimal digits of the "
    "SHA-256 of the text with case folded and white space collapsed: whoever has the texts can "
    "check that they are the ones labelled here. It has no salt, so that a guess at a text can be "
    "confirmed.",
    "omit": "The texts are left out, and `text_group` is a plain number: it says which queries "
    "share a text, and nothing about the text itself.",
}


@dataclass(frozen=True)
class CardContent:
    """Everything a card says."""

    name: str
    licence: Licence
    text: TextMode
    labels: Labels
    schemas: Mapping[str, pa.Schema]
    """Of the tables that are in the release."""
    rows: Mapping[str, int]
    """Table → number of rows."""
    arms: Sequence[ArmStatistics]
    datasets: Sequence[DatasetStatistics]


def write_card(content: CardContent) -> str:
    """Return README.md."""
    header = yaml.safe_dump(_header(content), sort_keys=False, allow_unicode=True)
    parts = (
        f"---\n{header}---",
        f"# {content.name}",
        _introduction(content),
        "## Files\n\n" + _files(content),
        "## Statistics\n\n" + _arm_table(content) + "\n\n" + _dataset_table(content),
        "## How it was measured\n\n" + _protocol(content.labels.manifest),
        "## Query text\n\n" + _TEXTS[content.text],
        "## Columns\n\n"
        + "\n\n".join(_columns(name, one) for name, one in content.schemas.items()),
        "## Loading\n\n" + _loading(),
        f"## Citation\n\nThe method:\n\n```bibtex\n{_CITATION}\n```",
    )
    return "\n\n".join(parts) + "\n"


def _header(content: CardContent) -> dict[str, Any]:
    header: dict[str, Any] = {"pretty_name": content.name, "license": content.licence.name}
    if content.licence.name == "other":
        header["license_name"] = "other"
    if content.licence.link:
        header["license_link"] = content.licence.link
    header |= {
        "task_categories": ["text-retrieval"],
        "tags": ["query-routing", "retrieval", "oracle-labels"],
        "size_categories": [size_category(content.rows["labels"])],
        "configs": [
            {
                "config_name": table,
                **({"default": True} if table == "labels" else {}),
                "data_files": [{"split": HF_SPLIT, "path": f"{table}.parquet"}],
            }
            for table in content.schemas
        ],
    }
    return header


def size_category(rows: int) -> str:
    """Return the Hub's name for a number of rows, e.g. ``10K<n<100K``."""
    lower = ""
    for power, name in enumerate(("1K", "10K", "100K", "1M", "10M", "100M", "1B"), start=3):
        if rows < 10**power:
            return f"{lower}<n<{name}" if lower else f"n<{name}"
        lower = name
    return "n>1B"


def _introduction(content: CardContent) -> str:
    labels = content.labels
    return (
        f"Every one of {len(labels.pipelines)} retrieval pipelines (*arms*) was run on each of "
        f"{len(labels.query_ids):,} queries, and its quality and latency recorded. From that a "
        "*router* learns to pick, from a query's text alone, the arm that is worth its time. For a "
        "weight λ of latency, the reward of arm i on query q is\n\n"
        "    r_i(q) = (1 − λ) · s_i(q) + λ · (1 − L_i(q) / Σ_j L_j(q))\n\n"
        f"with quality s ({labels.primary_measure} here) and latency L; Σ runs over the arms that "
        "compete. A failure is a status, never a score of 0."
    )


def _files(content: CardContent) -> str:
    rows = [
        (f"`{table}.parquet`", f"{content.rows[table]:,}", SUMMARIES[table])
        for table in content.schemas
    ]
    rows += [
        ("`manifest.json`", "", "what was run, on what, with which settings and versions"),
        ("`schema.json`", "", "JSON Schema of a row of each table"),
        ("`SHA256SUMS`", "", "check with `sha256sum -c SHA256SUMS`, or `l2r verify .`"),
        ("`example.py`", "", "loads the labels and prints what each arm is worth"),
    ]
    return _table(("file", "rows", "holds"), rows)


def _arm_table(content: CardContent) -> str:
    lams = sorted({lam for arm in content.arms for lam in arm.share_best})
    heads = ["arm", "router may choose", "status", content.labels.primary_measure]
    heads += ["mean ms", "P95 ms", *(f"best at λ = {lam:g}" for lam in lams)]
    rows = []
    for arm in content.arms:
        status = ", ".join(f"{name} {count:,}" for name, count in arm.status.items())
        rows.append(
            (
                f"`{arm.arm}`",
                "yes" if arm.chosen_by_router else "no",
                status,
                _number(arm.mean_quality, 3),
                _number(arm.mean_latency_ms, 2),
                _number(arm.p95_latency_ms, 2),
                *(
                    f"{100 * arm.share_best[lam]:.0f} %" if lam in arm.share_best else "–"
                    for lam in lams
                ),
            )
        )
    return _table(heads, rows) + (
        "\n\nMeans are over the queries on which the arm ran, which may differ between arms. "
        "*Best* is the share of queries on which the arm has the highest reward among those a "
        "router may choose; ties go to the arm named first."
    )


def _dataset_table(content: CardContent) -> str:
    rows = [
        (one.dataset, *(f"{one.queries[split]:,}" for split in one.queries), str(one.arms))
        for one in content.datasets
    ]
    return _table(("dataset", "train", "val", "test", "arms"), rows)


def _protocol(manifest: Mapping[str, Any]) -> str:
    source = manifest.get("imported")
    if isinstance(source, Mapping):
        return (
            f"These labels were imported from a table ({source.get('format')}); the latencies "
            "are as their owner stated them, and how they were taken isn't known here."
        )
    oracle = manifest.get("config", {}).get("oracle", {})
    latency = oracle.get("latency", {})
    machines = [
        f"{one.get('cpu')}, {one.get('cores')} cores, {one.get('threads')} threads"
        for one in manifest.get("latency_measured_on", ())
    ]
    lines = [
        "Latency is wall-clock time of one query on one arm: serial, one process, a fixed number "
        "of threads, warm-up discarded, arms interleaved in random order per query, the median of "
        "the repeats. No cache is shared between arms.",
        f"Repeats: {latency.get('repeats', 'not stated')}; warm-up queries: "
        f"{latency.get('warm_up', 'not stated')}; time limit: "
        f"{latency.get('timeout_s', 'not stated')} s.",
        f"Measured on: {'; '.join(machines) or 'not stated'}.",
        f"Rankings are cut at {oracle.get('k', 'an unknown number of')} documents; quality is "
        "computed by ir-measures from our own rank (score, then document id).",
    ]
    sample = latency.get("sample")
    if sample:
        lines.append(
            f"{sample} queries of each dataset were timed. The latency of the others comes from a "
            "model fitted per arm and dataset and is marked `latency_modelled`: its spread, and a "
            "P95 over it, is too small."
        )
    if any(one == "best_arms" for one in manifest.get("withheld", ())):
        lines.append("`best_arms.parquet` was derived from the labels when they were released.")
    return "\n\n".join(lines)


def _columns(table: str, schema: pa.Schema) -> str:
    rows = [(f"`{one.name}`", str(one.type), description_of(one.name)) for one in schema]
    return f"### {table}\n\n" + _table(("column", "type", "holds"), rows)


def _loading() -> str:
    return (
        "```python\n"
        "from datasets import load_dataset\n\n"
        'labels = load_dataset("parquet", data_files="labels.parquet", split="train")\n'
        'test = labels.filter(lambda row: row["split"] == "test")\n'
        "```\n\n"
        "(`train` is the name `datasets` gives a lone file: it holds every row.) The folder is "
        "also a labels folder of learning-to-route: name it under `labels:` in a run's YAML file "
        "to train and report on it."
    )


def _number(value: float | None, digits: int) -> str:
    return "–" if value is None else f"{value:,.{digits}f}"


def _table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    def line(cells: Sequence[str]) -> str:
        return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"

    return "\n".join([line(heads), line(["---"] * len(heads)), *map(line, rows)])
