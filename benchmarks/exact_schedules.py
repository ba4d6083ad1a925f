"""Small random graphs planned with branch and bound and without: how many plans are proven optimal, and how fast.

    python benchmarks/exact_schedules.py [--ops 18 28 40] [--seeds 15]

Each op reads up to 3 of the last 8. Equal devices, links of 1 GB/s and 3 us; ops take 5 to 100 us, a transfer 4 to 43
us where it is light, 13 to 153 us where it is heavy.
"""

from __future__ import annotations

import argparse
import random
import statistics
import time
from unittest import mock

from placewright.graph import Graph, Op, Tensor
from placewright.machine import Device, Link, Machine
from placewright.problem import Problem, make_problem
from placewright.search import auto
from placewright.search.default_budget import default_evaluations
from placewright.search.metaheuristics.exact_schedule import is_provable
from placewright.search.run.budget import Budget
from placewright.search.run.result import Result
from placewright.search.run.search_run import SearchRun

BYTES = {"light": (1_000, 40_000), "heavy": (10_000, 150_000)}
LINK = Link(bandwidth_bytes_per_s=10**9, latency_ns=3000)
_WINDOW, _SEED = 8, 7000


def problem(sort: str, num_ops: int, num_devices: int, seed: int) -> Problem:
    """A random graph on equal devices."""
    draw = random.Random(seed)
    ops, tensors = [], []
    for index in range(num_ops):
        window = range(max(0, index - _WINDOW), index)
        inputs = tuple(draw.sample(window, min(len(window), draw.choice([0, 1, 1, 2, 2, 3]))))
        time_ns = draw.randint(5, 100) * 1000
        ops.append(Op(name=f"o{index}", kind="other", inputs=inputs, outputs=(index,), time_ns=time_ns))
        tensors.append(Tensor(name=f"o{index}:0", size_bytes=draw.randint(*BYTES[sort])))
    devices = tuple(Device(name=f"d{index}", kind="any") for index in range(num_devices))
    machine = Machine(name="small", devices=devices, links=((LINK,) * num_devices,) * num_devices)
    return make_problem(Graph(name=f"{sort}-{seed}", ops=tuple(ops), tensors=tuple(tensors)), machine)


def solved(problem: Problem, *, proves: bool) -> tuple[Result, float]:
    """What `auto` finds by default, and the processor seconds that it takes."""
    may_prove = is_provable if proves else lambda problem: False
    with mock.patch.object(auto, "is_provable", may_prove):
        began = time.process_time()
        result = auto.Auto().solve(problem, SearchRun(Budget(evaluations=default_evaluations(problem))))
    return result, time.process_time() - began


def row(sort: str, num_ops: int, num_devices: int, seeds: int) -> str:
    """A row of the table."""
    problems = [problem(sort, num_ops, num_devices, _SEED * num_ops + seed) for seed in range(seeds)]
    pairs = [(solved(each, proves=False), solved(each, proves=True)) for each in problems]
    columns = list(zip(*pairs, strict=True))
    optimal = [sum(result.stopped_because == "optimal" for result, _ in column) for column in columns]
    seconds = [sum(took for _, took in column) for column in columns]
    ratios = [after.metrics.step_time_ns / before.metrics.step_time_ns for (before, _), (after, _) in pairs]
    better, worse = sum(ratio < 1 for ratio in ratios), sum(ratio > 1 for ratio in ratios)
    return (
        f"| {sort} | {num_ops}, {num_devices} | {optimal[0]}, {optimal[1]} | {seconds[0]:.1f}, {seconds[1]:.1f} "
        f"| {better}, {worse}; {statistics.mean(ratios) - 1:+.2%} |"
    )


def parser() -> argparse.ArgumentParser:
    """The script's options."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--ops", type=int, nargs="+", default=[18, 28, 40])
    options.add_argument("--seeds", type=int, default=15)
    return options


if __name__ == "__main__":
    chosen = parser().parse_args()
    print("| | ops, devices | called optimal: without, with | seconds | plans better, worse; mean |")
    print("|---|---|---|---|---|")
    for sort in BYTES:
        for num_ops in chosen.ops:
            for num_devices in (2, 3):
                print(row(sort, num_ops, num_devices, chosen.seeds), flush=True)
