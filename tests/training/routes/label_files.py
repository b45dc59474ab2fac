"""Routing labels for tests: three routes that a few words, or letter case, tell apart."""

import json
import random
from pathlib import Path

WORDS = {
    "paragraph": "who painted ceiling",
    "document": "list every river germany",
    "video": "how do i boil an egg",
}


def made_queries(per_route: int, seed: int, split: str) -> list[dict]:
    draw = random.Random(seed)
    queries = []
    for route, words in WORDS.items():
        for number in range(per_route):
            chosen = [draw.choice(words.split()) for _ in range(4)]
            if route == "document":
                chosen[0] = chosen[0].capitalize()
            text = " ".join([*chosen, draw.choice("abcd"), str(number), split])
            queries.append({"id": f"{route}_{split}_{number}", "text": text, "route": route})
    draw.shuffle(queries)
    return queries


def write_labels(folder: Path, train: int = 40, test: int = 12) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "routes").mkdir()
    lines = []
    for seed, (split, count) in enumerate({"train": train, "test": test}.items()):
        queries = made_queries(count, seed, split)
        lines += [
            json.dumps(
                {
                    "_id": one["id"],
                    "text": one["text"],
                    "metadata": {"source": "films" if one["route"] == "video" else "wiki"},
                }
            )
            for one in queries
        ]
        rows = "".join(f"{one['id']}\t{one['route']}\n" for one in queries)
        (folder / "routes" / f"{split}.tsv").write_text(f"query-id\troute\n{rows}", "utf-8")
    (folder / "queries.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return folder
