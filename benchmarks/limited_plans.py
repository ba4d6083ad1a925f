"""Plans on request within seconds of processor time, for plans_against.py; it uses nothing but the public interface, so
that it runs with the package of an earlier commit too.

Reads lines "GRAPH DEVICES SECONDS SEED", where SECONDS may be "default", and answers each with the seconds of processor
time that `placewright.plan` takes on one thread, and the step time of the plan in ns.
"""

from __future__ import annotations

import sys
import time
from functools import lru_cache

# Limits are of processor time, so that what else the machine does costs a plan nothing.
time.perf_counter = time.process_time

import placewright  # noqa: E402


@lru_cache(1)
def graph_of(source: str) -> placewright.Graph:
    return placewright.load_graph(source)


def main() -> None:
    for line in sys.stdin:
        source, devices, seconds, seed = line.split()
        graph = graph_of(source)
        limit = None if seconds == "default" else float(seconds)
        began = time.process_time()
        plan = placewright.plan(graph, devices, time_limit=limit, seed=int(seed), threads=1)
        print(time.process_time() - began, plan.metrics.step_time_ns, flush=True)


if __name__ == "__main__":
    main()
