"""Does ``max_latency_ms`` hold on queries that calibration never saw?

    python benchmarks/latency_wishes.py [--router runs/text-suite/router] [--policy NAME]

Needs the text suite's labels with their texts, and a router trained on them (l2r oracle, l2r train
training/recipes/text-suite.yaml). Five wishes are spread evenly over the calibrated range of mean
latency. Each is turned into λ as ``Router.select`` does it; the policy then decides every test
query at that λ, and the labels say what its plans take. Calibration was made on validation queries.
A wish holds where the realised mean lies within the interval that was promised. That interval is
about the true mean; the mean of a few hundred test queries has noise of its own, which is printed
beside it. The overhead of deciding is the one in the router, on both sides.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT))

from benchmarks.results_file import write_result  # noqa: E402
from router import Router  # noqa: E402
from router.artifact import policy_folder  # noqa: E402
from router.policies import load_policy  # noqa: E402
from router.targets import lam_for_latency  # noqa: E402
from training.calibrate_router import open_held_out, overheads_ms  # noqa: E402
from training.calibrating import bootstrap_mean, realised_by  # noqa: E402
from training.labels_hash import labels_hash  # noqa: E402

SHARES_OF_RANGE = (0.1, 0.3, 0.5, 0.7, 0.9)


def wishes_of(router: Router, policy: str) -> list[float]:
    """Five mean latencies in ms, evenly spread between the fastest and the slowest calibrated."""
    means = [point.latency_ms.value for point in router.record.calibration[policy].points]
    return [min(means) + share * (max(means) - min(means)) for share in SHARES_OF_RANGE]


def measure(router_folder: Path, labels_folder: Path, policy_name: str | None) -> dict[str, Any]:
    """Ask for each wish and look up what the test queries then take."""
    router = Router.load(router_folder, policy=policy_name)
    name, record = router.defaults.select, router.record
    if labels_hash(labels_folder) != record.calibration[name].labels_hash:
        raise SystemExit(f"{router_folder} was calibrated on other labels than {labels_folder}")
    policy = load_policy(policy_folder(router_folder, name))
    held_out, known = open_held_out(policy, labels_folder, "test")
    realised = realised_by(
        policy, held_out, overheads_ms(record, policy, held_out.action, known), known
    )
    rows = []
    for wish in wishes_of(router, name):
        point = lam_for_latency(record.calibration[name], wish)
        outcomes = realised(policy.nearest_lam(point.lam))
        mean = bootstrap_mean(outcomes.latency_ms)
        rows.append(
            {
                "wish_ms": wish,
                "lam": point.lam,
                "promised_ms": point.latency_ms.value,
                "promised_low_ms": point.latency_ms.low,
                "promised_high_ms": point.latency_ms.high,
                "realised_ms": mean.value,
                "realised_low_ms": mean.low,
                "realised_high_ms": mean.high,
                "within_promised_interval": point.latency_ms.low
                <= mean.value
                <= point.latency_ms.high,
                "promised_quality": point.quality.value,
                "realised_quality": float(np.mean(outcomes.quality)),
            }
        )
    return {
        "policy": name,
        "any_lam": record.calibration[name].any_lam,
        "calibration_split": record.calibration[name].split,
        "calibration_queries": record.calibration[name].queries,
        "test_queries": len(held_out.every),
        "overhead_ms": record.overhead_ms.get(name, 0.0),
        "wishes_within_interval": sum(row["within_promised_interval"] for row in rows),
        "wishes": rows,
    }


def main() -> None:
    """Print a line per wish and write ``benchmarks/results/latency_wishes.json``."""
    parser = argparse.ArgumentParser(description=__doc__)
    suite = ROOT / "runs" / "text-suite"
    parser.add_argument("--router", type=Path, default=suite / "router")
    parser.add_argument("--labels", type=Path, default=suite / "labels")
    parser.add_argument("--policy", action="append", help="may be repeated; default: the router's")
    given = parser.parse_args()
    if not (given.labels / "queries.parquet").is_file() or not given.router.is_dir():
        print(f"no labels or no router under {suite}: nothing measured")
        return
    found = [measure(given.router, given.labels, name) for name in given.policy or [None]]
    for one in found:
        print(
            f"{one['policy']}: {one['wishes_within_interval']} of {len(one['wishes'])} within the "
            f"promised interval, {one['test_queries']} test queries"
        )
        for row in one["wishes"]:
            print(
                f"  wish {row['wish_ms']:6.1f} ms → λ = {row['lam']:.4f}: promised "
                f"{row['promised_ms']:.1f} [{row['promised_low_ms']:.1f}, "
                f"{row['promised_high_ms']:.1f}], realised {row['realised_ms']:.1f} "
                f"[{row['realised_low_ms']:.1f}, {row['realised_high_ms']:.1f}], quality "
                f"{row['promised_quality']:.3f} / {row['realised_quality']:.3f}"
                + ("" if row["within_promised_interval"] else "   outside")
            )
    first = found[0]
    figures = {
        "wishes": len(first["wishes"]),
        "wishes_within_interval": first["wishes_within_interval"],
        "test_queries": first["test_queries"],
        "policies": found,
    }
    print(write_result("latency_wishes", figures))


if __name__ == "__main__":
    main()
