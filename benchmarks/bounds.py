"""How far the best of the baselines stands above the lower bounds: all of them, and the simple ones alone.

    python benchmarks/bounds.py GRAPHS DEVICES OBJECTIVE CONTROL [EVERY]

GRAPHS: a graph set. EVERY: take each EVERY-th graph by size. Limits are left out, so that every plan keeps them.
"""

from __future__ import annotations

import sys
import time
from dataclasses import replace

import numpy as np

from placewright.bounds import critical_path, largest_op, lower_bound, spread_residents, total_work
from placewright.importers.graph_set import read_graph_set
from placewright.machines import load_machine
from placewright.problem import Problem, make_problem
from placewright.search.baselines import BASELINES
from placewright.search.budget import Budget

SIMPLE = {"step-time": (critical_path, total_work), "peak-memory": (largest_op, spread_residents)}


def measure(problem: Problem) -> tuple[float, float, float]:
    """Gap over the simple bounds, gap over all, and the seconds for all."""
    assert problem.core, "built before the clock starts"
    began = time.perf_counter()
    bound = lower_bound(problem).value
    seconds = time.perf_counter() - began
    simple = max(of(problem).value for of in SIMPLE[problem.objective])
    plans = [method.solve(problem, Budget(), 0).metrics for method in BASELINES]
    best = min(metrics.objective_value(problem.objective) for metrics in plans)
    assert bound <= best, problem.graph.name
    return best / simple - 1, best / bound - 1, seconds


def main(graphs: str, devices: str, objective: str, control: str, every: str = "1") -> None:
    """Measures and prints one line."""
    machine, rows = load_machine(devices), []
    for graph in sorted(read_graph_set(graphs), key=lambda graph: len(graph.ops))[:: int(every)]:
        problem = make_problem(graph, machine, objective=objective, control=control)  # type: ignore[arg-type]
        rows.append(measure(replace(problem, memory_limits_bytes=(None,) * machine.num_devices)))
    simple, full, seconds = np.array(rows).T
    print(
        f"{len(rows)} graphs: mean gap {simple.mean():.2%} over the simple bounds, {full.mean():.2%} over all; "
        f"proven optimal {np.mean(simple == 0):.0%}, {np.mean(full == 0):.0%}; "
        f"within 0.2% {np.mean(full < 0.002):.0%}; {seconds.mean() * 1e3:.0f} ms, at most {seconds.max() * 1e3:.0f}"
    )


if __name__ == "__main__":
    main(*sys.argv[1:])
