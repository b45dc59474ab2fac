"""Small BEIR folders for tests, and where the real collections lie."""

import gzip
import json
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent.parent
REAL_DATA = ROOT.parent / "shared" / "data"
needs_real_data = pytest.mark.skipif(
    not REAL_DATA.is_dir(), reason=f"the real collections are not at {REAL_DATA}"
)

DOCUMENTS = [
    {"_id": "d1", "title": "Tea", "text": "Leaves in hot water."},
    {"_id": "d2", "title": "", "text": "Beans, ground and brewed."},
    {"_id": "d3", "title": "Milk", "text": "From cows."},
]
QUERIES = [{"_id": "q1", "text": "hot leaves"}, {"_id": "q2", "text": "ground beans"}]
JUDGEMENTS = "query-id\tcorpus-id\tscore\nq1\td1\t2\nq2\td2\t1\nq2\td3\t0\n"


def jsonl(records) -> bytes:
    """Dicts as JSON lines; bytes are taken as a line as they are."""
    lines = [r if isinstance(r, bytes) else json.dumps(r).encode() for r in records]
    return b"".join(line + b"\n" for line in lines)


def write_folder(
    folder: Path, documents=DOCUMENTS, queries=QUERIES, judgements=JUDGEMENTS, gz=False
) -> Path:
    """Write a BEIR folder; ``judgements`` is text, or a mapping of file name to text or bytes."""
    if isinstance(judgements, (str, bytes)):
        judgements = {"test.tsv": judgements}
    contents = {"corpus.jsonl": jsonl(documents), "queries.jsonl": jsonl(queries)}
    for name, text in judgements.items():
        contents[f"qrels/{name}"] = text.encode() if isinstance(text, str) else text
    for name, content in contents.items():
        path = folder / (name + ".gz" if gz else name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(gzip.compress(content) if gz else content)
    return folder
