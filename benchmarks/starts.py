"""What starts that a policy might give would be worth to `auto`: `python benchmarks/starts.py SUITE`.

For each of the suite's graphs above --above ops, percent by which a second (--search-seconds) of `auto` gets better,
baselines included, when its search has one start more, made of the plan that `auto` finds in --seconds: that plan; its
devices or its order alone; it with a share of its clusters of some twenty ops on another device.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

import placewright._core as _core
from placewright.lab.bench.suite import read_suite
from placewright.problem import Problem
from placewright.search.auto import Auto
from placewright.search.metaheuristics.default_first import NUM_STARTS
from placewright.search.metaheuristics.schedule_annealing import ScheduleAnnealing
from placewright.search.run.budget import UNLIMITED, Budget
from placewright.search.run.result import Result, Solution
from placewright.search.run.search_run import SearchRun

CLUSTER_OPS, WRONG_SHARES = 20, (0.02, 0.1, 0.3)


def starts(problem: Problem, plan: Solution) -> Iterator[tuple[str, Solution]]:
    core = problem.core
    order = np.ascontiguousarray(plan.order[plan.order[:, 1] < 0, 0])
    yield "the plan", plan
    yield "its devices", _solution(plan.device_of, _core.dispatch_order(core, plan.device_of))
    yield "its order", _solution(*_core.list_schedule(core, order, False))
    _, cluster_of = _core.coarsen(core, max(2, core.num_ops // CLUSTER_OPS))

    random = np.random.default_rng(0)
    for share in WRONG_SHARES:
        is_wrong = (random.random(int(cluster_of.max()) + 1) < share)[cluster_of]
        moved = random.integers(1, core.num_devices, int(cluster_of.max()) + 1)[cluster_of]
        device_of = np.where(is_wrong, (plan.device_of + moved) % core.num_devices, plan.device_of)
        device_of = device_of[problem.groups[0]].astype(np.int32)
        yield f"{100 * share:.0f}% of clusters elsewhere", _solution(device_of, _core.dispatch_order(core, device_of))


def _solution(device_of: NDArray[np.int32], order: NDArray[np.int32]) -> Solution:
    return Solution(device_of=device_of, order=np.column_stack([order, np.full_like(order, -1)]))


def in_short(problem: Problem, start: Solution | None, seconds: float) -> int:
    """What `auto` reaches, with one start more for its search."""
    began = time.perf_counter()
    baselines = Auto().solve(problem, SearchRun(Budget(evaluations=1, seconds=seconds))).baselines
    ranked = sorted(baselines, key=lambda result: result.metrics.fitness(problem.objective))[:NUM_STARTS]
    seeds = [*([start] if start else []), *(result.solution for result in ranked)]
    left = Budget(evaluations=UNLIMITED, seconds=max(1e-3, seconds - (time.perf_counter() - began)))
    found: Result = ScheduleAnnealing().solve(problem, SearchRun(left, initial_solutions=seeds))
    return int(min(found.metrics.step_time_ns, ranked[0].metrics.step_time_ns))


def parser() -> argparse.ArgumentParser:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("suite", type=Path)
    options.add_argument("--seconds", type=float, default=60.0)
    options.add_argument("--search-seconds", type=float, default=1.0)
    options.add_argument("--above", type=int, default=2000)
    return options


def main() -> None:
    arguments = parser().parse_args()
    path, seconds, short = arguments.suite, arguments.seconds, arguments.search_seconds
    suite = read_suite(path)
    totals: dict[str, list[float]] = {}
    for index, label in enumerate(suite.labels):
        problem = suite.problem(suite.graph(index))
        if problem.core.num_ops <= arguments.above:
            continue
        if problem.objective != "step-time" or problem.core.needs_memory or _core.has_free_barriers(problem.core):
            sys.exit(f"{path} is none of step time without limits, with links that take time")
        plan = Auto().solve(problem, SearchRun(Budget(evaluations=UNLIMITED, seconds=seconds)))
        alone = in_short(problem, None, short)
        gains = {f"auto {seconds:g} s": 100 * (1 - plan.metrics.step_time_ns / alone)}
        for name, start in starts(problem, plan.solution):
            gains[f"start: {name}"] = 100 * (1 - in_short(problem, start, short) / alone)
        print(f"{label}: " + ", ".join(f"{name} {gain:+.1f}" for name, gain in gains.items()), flush=True)
        for name, gain in gains.items():
            totals.setdefault(name, []).append(gain)
    for name, values in totals.items():
        error = np.std(values, ddof=1) / len(values) ** 0.5
        print(f"{name}: mean {np.mean(values):+.2f} ± {error:.2f}% (standard error)")


if __name__ == "__main__":
    main()
