"""`auto` against the schedules of a public library, SAGA 2.0.2: `python benchmarks/saga_schedules.py`.

--count random task graphs of 31 to 58 tasks on 3 to 6 devices of unequal speeds and links, transfers taking 0.2, 1 or 5
times as long as computing in the mean; graph i is drawn from --seed + i. Each of the library's heuristics schedules
each graph; its devices, and its tasks by start time with transfers early or late, are simulated as any plan of ours.
The best of them is compared with the baselines of `auto`, and `auto` with 5,000 evaluations and in --seconds. HBMCT is
left out, as its schedules break dependencies, and so are heuristics that search or try everything.
"""

from __future__ import annotations

import argparse
import logging
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import numpy as np
from numpy.typing import NDArray
from saga import Network, Scheduler, TaskGraph

from placewright.graph import Graph, Op, Tensor
from placewright.machine import Device, Link, Machine
from placewright.problem import Problem
from placewright.search.auto import Auto
from placewright.search.constructive.baseline import Candidate, evaluate
from placewright.search.run.budget import UNLIMITED, Budget
from placewright.search.run.search_run import SearchRun

SCHEDULERS = (
    *("bil", "cpop", "dps", "duplex", "etf", "fastest_node", "fcp", "flb", "gdl", "heft"),
    *("maxmin", "mct", "met", "minmin", "msbc", "mst", "olb", "sufferage", "wba"),
)
RATIOS = (0.2, 1.0, 5.0)


@dataclass(frozen=True, kw_only=True)
class Instance:
    """A problem. sizes: bytes per edge. costs: work per task. speeds: work per ns, by device. rates: bytes per ns, by
    link."""

    sizes: dict[tuple[int, int], int]
    costs: NDArray[np.int64]
    speeds: NDArray[np.float64]
    rates: NDArray[np.float64]

    @property
    def ops(self) -> tuple[Op, ...]:
        edges = list(self.sizes)
        return tuple(
            Op(
                name=f"t{task}",
                kind="other",
                inputs=tuple(index for index, (_, target) in enumerate(edges) if target == task),
                outputs=tuple(index for index, (source, _) in enumerate(edges) if source == task),
            )
            for task in range(len(self.costs))
        )

    @property
    def problem(self) -> Problem:
        tensors = tuple(Tensor(name=f"{a}-{b}", size_bytes=size) for (a, b), size in self.sizes.items())
        graph = Graph(name="tasks", ops=self.ops, tensors=tensors)
        links = tuple(tuple(Link(bandwidth_bytes_per_s=float(rate) * 1e9) for rate in row) for row in self.rates)
        devices = tuple(Device(name=f"d{device}", kind="any") for device in range(len(self.speeds)))
        machine = Machine(name="unequal", devices=devices, links=links, transfer_model="overlapped")
        times = np.rint(self.costs[:, None] / self.speeds[None, :]).astype(np.int64)
        return Problem(graph=graph, machine=machine, time_ns=times)

    @property
    def theirs(self) -> tuple[Any, Any]:
        """The library's network and task graph of the instance."""
        count = len(self.speeds)
        network = Network.create(
            nodes=[(f"d{device}", float(speed)) for device, speed in enumerate(self.speeds)],
            edges=[(f"d{a}", f"d{b}", float(self.rates[a, b])) for a in range(count) for b in range(a + 1, count)],
        )
        tasks = TaskGraph.create(
            tasks=[(f"t{task}", float(cost)) for task, cost in enumerate(self.costs)],
            dependencies=[(f"t{a}", f"t{b}", float(size)) for (a, b), size in self.sizes.items()],
        )
        return network, tasks


def instance(seed: int) -> Instance:
    """A random instance. Seeds take the ratios of transfers to computing in turn, and likewise two kinds of graph:
    tasks that read one or two of any before them, and layers of tasks that read one to three of the two layers before.
    """
    random = np.random.default_rng(seed)
    num_tasks, num_devices = int(random.integers(31, 59)), int(random.integers(3, 7))
    reads = _layered(random, num_tasks) if seed % 2 else _reads_of_any(random, num_tasks)
    costs = random.integers(10**6, 10**8, num_tasks)
    speeds = random.uniform(0.25, 1.0, num_devices)
    rates = random.uniform(0.5, 2.0, (num_devices, num_devices))
    rates = (rates + rates.T) / 2
    mean_ns_per_byte = np.mean(1 / rates[~np.eye(num_devices, dtype=bool)])
    mean_bytes = RATIOS[seed % 3] * costs.mean() * np.mean(1 / speeds) / mean_ns_per_byte
    edges = [(source, target) for target, sources in enumerate(reads) for source in sources]
    sizes = {edge: max(1, int(random.uniform(0.1, 1.9) * mean_bytes)) for edge in edges}
    return Instance(sizes=sizes, costs=costs, speeds=speeds, rates=rates)


def _reads_of_any(random: np.random.Generator, num_tasks: int) -> list[list[int]]:
    return [sorted(set(random.integers(0, task, 2).tolist())) if task else [] for task in range(num_tasks)]


def _layered(random: np.random.Generator, num_tasks: int) -> list[list[int]]:
    layer = np.sort(random.integers(0, max(3, num_tasks // 5), num_tasks))
    reads: list[list[int]] = []
    for task in range(num_tasks):
        before = [other for other in range(task) if layer[other] < layer[task]]
        near = [other for other in before if layer[other] >= layer[task] - 2] or before
        count = min(int(random.integers(1, 4)), len(near))
        reads.append(sorted(set(random.choice(near, count, replace=False).tolist())) if near else [])
    return reads


def schedulers() -> Iterator[tuple[str, Any]]:
    for name in SCHEDULERS:
        module = import_module(f"saga.schedulers.{name}")
        (found,) = {
            value
            for value in vars(module).values()
            if isinstance(value, type) and issubclass(value, Scheduler) and value.__module__ == module.__name__
        }
        yield name, found()


def simulated_ns(problem: Problem, schedule: Any) -> int:
    """Step time of the schedule's devices and order of tasks, without its tasks of length 0 at both ends."""
    num_ops = problem.core.num_ops
    placed = {
        int(task.name[1:]): (task.start, task.end, int(node[1:]))
        for node, tasks in schedule.mapping.items()
        for task in tasks
        if task.name[1:].isdigit()
    }
    candidate = Candidate(
        name="saga",
        device_of=np.array([placed[op][2] for op in range(num_ops)], np.int32),
        order=np.array(sorted(placed, key=lambda op: placed[op][:2]), np.int32),
    )
    return evaluate(problem, candidate, 2).fitness[1]


def parser() -> argparse.ArgumentParser:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--count", type=int, default=20)
    options.add_argument("--seed", type=int, default=0)
    options.add_argument("--seconds", type=float, default=1.0)
    return options


def main() -> None:
    arguments = parser().parse_args()
    count, seed, seconds = arguments.count, arguments.seed, arguments.seconds
    logging.disable(logging.WARNING)
    print(f"| seed | tasks | devices | ratio | best of SAGA | baselines | 5,000 evaluations | {seconds:g} s |")
    print("| ---: | ---: | ---: | ---: | --- | ---: | ---: | ---: |")
    rows = []
    for own in range(seed, seed + count):
        drawn = instance(own)
        problem, (network, tasks) = drawn.problem, drawn.theirs
        theirs = {name: simulated_ns(problem, method.schedule(network, tasks)) for name, method in schedulers()}
        best = min(theirs, key=lambda name: theirs[name])
        result = Auto().solve(problem, SearchRun(Budget(evaluations=5000)))
        timed = Auto().solve(problem, SearchRun(Budget(evaluations=UNLIMITED, seconds=seconds)))
        ours = (
            min(baseline.metrics.step_time_ns for baseline in result.baselines),
            result.metrics.step_time_ns,
            timed.metrics.step_time_ns,
        )
        rows.append([100 * (value / theirs[best] - 1) for value in ours])
        sizes = f"{len(drawn.costs)} | {len(drawn.speeds)} | {RATIOS[own % 3]}"
        print(f"| {own} | {sizes} | {best} | " + " | ".join(f"{row:+.1f}%" for row in rows[-1]) + " |", flush=True)
    table = np.array(rows)
    for name, column in zip(("baselines", "5,000 evaluations", f"{seconds:g} s"), table.T, strict=True):
        print(f"{name}: worse on {int((column > 0).sum())} of {count}, mean {column.mean():+.1f}%")


if __name__ == "__main__":
    main()
