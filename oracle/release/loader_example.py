"""Load these labels; say what each arm is worth, and what the best arm per query would be.

pip install datasets
python example.py
"""

from pathlib import Path

import pandas as pd
from datasets import load_dataset

FOLDER = Path(__file__).parent


def load(name: str) -> pd.DataFrame:
    """Return one table of the release."""
    files = {"full": str(FOLDER / f"{name}.parquet")}
    return load_dataset("parquet", data_files=files, split="full").to_pandas()


def main() -> None:
    """Print quality and mean latency of each arm, and of the best arm per query at each λ."""
    labels, best = load("labels"), load("best_arms")
    columns = list(labels.columns)
    quality = columns[columns.index("status") + 1]

    print(f"{quality} and mean latency of always running one arm:")
    ran = labels[labels["status"].isin(["ok", "empty"])]
    for arm, rows in ran.groupby("arm", sort=False):
        print(f"  {arm:24} {rows[quality].mean():.3f} {rows['latency_ms'].mean():10.2f} ms")

    print("the best arm for each query, among those a router may choose:")
    chosen = best[best["arm_set"].eq("router") & best["best_arm"].notna()]
    keys = ["dataset", "query_id"]
    chosen = chosen.merge(labels, left_on=[*keys, "best_arm"], right_on=[*keys, "arm"])
    for lam, rows in chosen.groupby("lam"):
        mean_ms = rows["latency_ms"].mean()
        print(f"  λ = {lam:<20g} {rows[quality].mean():.3f} {mean_ms:10.2f} ms")


if __name__ == "__main__":
    main()
