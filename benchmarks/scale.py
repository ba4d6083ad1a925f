"""Seconds and memory of every stage from a graph to a saved plan, at any size.

python benchmarks/scale.py transformer 20000 prints one line per stage: processor seconds, and the most memory of the
process so far in 10**6 bytes; for auto and each of its baselines also the step time over the lower bound.
"""

from __future__ import annotations

import argparse
import resource
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from large_graphs import random_layers, transformer

import placewright._core as _core
from placewright.bounds import Bound, lower_bound
from placewright.graph import Graph
from placewright.machines import load_machine
from placewright.plans import schedule
from placewright.plans.assemble import assemble_plan
from placewright.plans.buffers import buffers_and_curves
from placewright.plans.file import read_plan, write_plan
from placewright.problem import make_problem
from placewright.search.auto import Auto
from placewright.search.default_budget import default_evaluations
from placewright.search.run.budget import Budget
from placewright.search.run.result import Result, measure
from placewright.search.run.search_run import SearchRun

GRAPHS: dict[str, Callable[[int], Graph]] = {"transformer": transformer, "random": random_layers}


@contextmanager
def stage(name: str) -> Iterator[list[str]]:
    """Prints the time and memory of the block, and after them what it appends to the list."""
    notes: list[str] = []
    began = time.process_time()
    yield notes
    seconds = time.process_time() - began
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e6
    print(f"{name:34} {seconds:9.3f} s {peak:9.0f} MB  {' '.join(notes)}", flush=True)


def _above(bound: Bound, result: Result) -> str:
    metrics = result.metrics
    return f"{metrics.step_time_ns / bound.value - 1:+.2%} over the bound, {metrics.bytes_over_limit} bytes over limits"


def parser() -> argparse.ArgumentParser:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("kind", choices=GRAPHS)
    options.add_argument("num_ops", type=int)
    return options


def main() -> None:
    arguments = parser().parse_args()
    kind, num_ops = arguments.kind, arguments.num_ops
    with stage("make the graph"):
        graph = GRAPHS[kind](num_ops)
    with stage("costs and problem"):
        problem = make_problem(graph, load_machine("8xa100/nvlink"))
    with stage("lower"):
        _ = problem.lowered
    with stage("groups"):
        _ = problem.groups
    with stage("core") as notes:
        notes.append(f"{problem.core.num_ops} ops, {problem.core.num_tensors} tensors")
    with stage("lower bound") as notes:
        bound = lower_bound(problem)
        notes.append(bound.reason)
    with stage("auto, default budget") as notes:
        result = Auto().solve(problem, SearchRun(Budget(evaluations=default_evaluations(problem))))
        notes.append(f"{_above(bound, result)}, {result.evaluations:,} evaluations")
    for baseline in result.baselines:
        print(f"  {baseline.method:32} {baseline.seconds:9.3f} s {'':12}  {_above(bound, baseline)}", flush=True)
    with stage("coarsen to 4,000") as notes:
        coarse, _ = _core.coarsen(problem.core, 4000)
        notes.append(f"{coarse.num_ops} ops")
    with stage("measure"):
        measure(problem, result.solution)
    with stage("schedule"):
        timed = schedule.simulate(problem, result.solution)
    with stage("rows: ops and transfers"):
        schedule.scheduled_ops(timed), schedule.transfers(timed)
    with stage("buffers and curves"):
        buffers_and_curves(timed)
    del timed
    with stage("assemble the plan"):
        plan = assemble_plan(problem, result, solver="auto", seconds=result.seconds)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "plan.json.gz"
        with stage("write the plan") as notes:
            write_plan(plan, path)
            notes.append(f"{path.stat().st_size / 1e6:.1f} MB")
        with stage("read the plan"):
            assert read_plan(path) == plan


if __name__ == "__main__":
    main()
