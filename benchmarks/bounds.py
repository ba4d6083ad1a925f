"""Gap between the best of the baselines and the lower bounds: all of them, and the simple ones alone.

    python benchmarks/bounds.py GRAPHS DEVICES OBJECTIVE CONTROL [--every N]

GRAPHS: a graph set, of which with --every each N-th graph by size is taken. Limits are left out, so that every plan
keeps them.
"""

from __future__ import annotations

import argparse
import time
from dataclasses import replace
from typing import get_args

import numpy as np

from placewright.bounds import critical_path, largest_op, lower_bound, spread_residents, total_work
from placewright.importers.graph_set import read_graph_set
from placewright.machines import load_machine
from placewright.problem import Problem, make_problem
from placewright.problem.objective import ControlMode, Objective
from placewright.search.constructive.baselines import BASELINES
from placewright.search.run.search_run import SearchRun

SIMPLE = {"step-time": (critical_path, total_work), "peak-memory": (largest_op, spread_residents)}


def measure(problem: Problem) -> tuple[float, float, float]:
    """Gap over the simple bounds, gap over all, and the seconds for all."""
    assert problem.core, "built before the clock starts"
    began = time.perf_counter()
    bound = lower_bound(problem).value
    seconds = time.perf_counter() - began
    simple = max(of(problem).value for of in SIMPLE[problem.objective])
    plans = [method.solve(problem, SearchRun()).metrics for method in BASELINES]
    best = min(metrics.objective_value(problem.objective) for metrics in plans)
    assert bound <= best, problem.graph.name
    return best / simple - 1, best / bound - 1, seconds


def parser() -> argparse.ArgumentParser:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("graphs")
    options.add_argument("devices")
    options.add_argument("objective", choices=get_args(Objective))
    options.add_argument("control", choices=get_args(ControlMode))
    options.add_argument("--every", type=int, default=1)
    return options


def main() -> None:
    arguments = parser().parse_args()
    machine, rows = load_machine(arguments.devices), []
    for graph in sorted(read_graph_set(arguments.graphs), key=lambda graph: len(graph.ops))[:: arguments.every]:
        problem = make_problem(graph, machine, objective=arguments.objective, control=arguments.control)
        rows.append(measure(replace(problem, memory_limits_bytes=(None,) * machine.num_devices)))
    simple, full, seconds = np.array(rows).T
    print(
        f"{len(rows)} graphs: mean gap {simple.mean():.2%} over the simple bounds, {full.mean():.2%} over all; "
        f"proven optimal {np.mean(simple == 0):.0%}, {np.mean(full == 0):.0%}; "
        f"within 0.2% {np.mean(full < 0.002):.0%}; {seconds.mean() * 1e3:.0f} ms, at most {seconds.max() * 1e3:.0f}"
    )


if __name__ == "__main__":
    main()
