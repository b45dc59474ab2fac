"""How long the package semantic-router takes to route a query with the same local encoder.

Called by ``select_latency.py`` in a process of its own; needs semantic-router, torch and
transformers, and nothing of ours. Routes are as many as the arms there, of 16 example queries each.
Prints milliseconds as one line of JSON.

    echo '["query", …]' | python benchmarks/semantic_router_latency.py ENCODER_FOLDER
"""

from __future__ import annotations

import json
import statistics
import sys
import time

ROUTES, UTTERANCES, WARM_UP = 4, 16, 20


def main() -> None:
    from importlib.metadata import version

    from semantic_router import Route
    from semantic_router.encoders import HuggingFaceEncoder
    from semantic_router.routers import IndexedRouter

    queries = json.load(sys.stdin)
    encoder = HuggingFaceEncoder(name=sys.argv[1], device="cpu")
    routes = [
        Route(name=f"route-{place}", utterances=queries[place::ROUTES][:UTTERANCES])
        for place in range(ROUTES)
    ]
    router = IndexedRouter(encoder, routes)
    for query in queries[:WARM_UP]:
        router(query)
    taken_ms = []
    for query in queries:
        begin = time.perf_counter_ns()
        router(query)
        taken_ms.append((time.perf_counter_ns() - begin) / 1e6)
    hundredths = statistics.quantiles(taken_ms, n=100, method="inclusive")
    found = {"p50_ms": hundredths[49], "p95_ms": hundredths[94], "min_ms": min(taken_ms)}
    print(json.dumps({**found, "version": version("semantic-router")}))


if __name__ == "__main__":
    main()
