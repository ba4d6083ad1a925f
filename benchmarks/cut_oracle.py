"""What `auto` would gain on large graphs from knowing which edges a good plan cuts: `python benchmarks/cut_oracle.py`.

Of each graph the plan of a long search is cut up: ops that its uncut edges join are a piece. Only the pieces are kept,
not where they stand, and a greedy decoder places them: each on the device with least to do, or where its first op
finishes first; and list schedules on the ops, for which tensors that the plan does not send are twenty times as large.
Ops are then dispatched as in every baseline. Prints by how much steps are shorter than those of `auto` in so many
seconds of processor time, in percent, for that plan itself, for its devices with ops ordered anew, for the best of what
is decoded from its cuts, for `auto` with that as a start, and for `layers`. Decoding costs nothing here.
"""

from __future__ import annotations

import argparse
import heapq
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
from auto_oracles import interval
from large_graphs import random_layers, transformer
from numpy.typing import NDArray

import placewright._core as _core
from placewright.graph import Graph
from placewright.importers.graph_set import read_graph_set
from placewright.lab.learning.regal.features import edges_of
from placewright.machines import load_machine
from placewright.problem import Problem, make_problem
from placewright.search.auto import Auto
from placewright.search.constructive.baseline import Baseline, Candidate
from placewright.search.constructive.baselines import BASELINES
from placewright.search.constructive.cluster_list import CLUSTER_LIST
from placewright.search.constructive.layers import LAYERS
from placewright.search.run.budget import UNLIMITED, Budget
from placewright.search.run.method import Method
from placewright.search.run.result import Result
from placewright.search.run.search_run import SearchRun

INSTANCES = Path(__file__).parent / "instances"
SIZES = (5_000, 20_000, 50_000)
#: Real networks of more than 5,000 ops, by the set that holds them.
REAL = {
    "real-networks": ("gnmt4-training", "gnmt8-training"),
    "zoo-test": ("glow-training", "densenet201-training", "hourglass8-training", "stable_diffusion-training"),
    "zoo-valid": ("turing_machine-training", "world_model-training", "randwire_ba-training"),
    "libraries/test": ("transformers_granite_docling-4-training", "timm_xcit_large_24_p8_224-training"),
}
#: How much larger a tensor that is not sent seems to a list scheduler.
PRICE = 20
Int = NDArray[np.int64]


def graphs(sizes: Sequence[int], sets: Sequence[str]) -> Iterator[tuple[Graph, str]]:
    """With the machine that each is planned for."""
    for size in sizes:
        yield transformer(size), "8xa100/nvlink"
        yield random_layers(size), "8xa100/nvlink"
    for name in sets:
        found = read_graph_set(INSTANCES / f"{name}.graphs.gz")
        for label in REAL[name]:
            yield found[found.labels.index(label)], "4xv100-32g/pcie3" if name == "real-networks" else "4xp100/pcie3"


def problem_of(graph: Graph, machine: str) -> Problem:
    problem = make_problem(graph, load_machine(machine), control="signal")
    assert problem.core.num_ops > 0  # made here, so that it is part of no method's time
    return problem


def pieces(problem: Problem, device_of: Int) -> Int:
    """[num ops] which piece each is of: joined by edges within a device, or by what must share one."""
    source, target, _ = edges_of(problem)
    first = problem.groups[0].astype(np.int64)
    uncut = device_of[source] == device_of[target]
    one, other = np.concatenate([source[uncut], np.arange(len(first))]), np.concatenate([target[uncut], first])
    least = np.arange(len(first))
    while True:
        low = np.minimum(least[one], least[other])
        found = least.copy()
        np.minimum.at(found, one, low)
        np.minimum.at(found, other, low)
        found = found[found]
        if np.array_equal(found, least):
            return np.unique(least, return_inverse=True)[1].ravel()
        least = found


def by_load(problem: Problem, piece: Int) -> Iterator[Int]:
    """The largest piece first, and in the order of their first ops, each on the device with least to do."""
    load = np.bincount(piece, problem.time_ns[problem.lowered.graph_op].mean(axis=1))
    for order in (np.argsort(-load, kind="stable"), np.arange(len(load))):
        device, busy = np.zeros(len(load), np.int64), [(0.0, each) for each in range(problem.core.num_devices)]
        for own in order.tolist():
            time_ns, device[own] = heapq.heappop(busy)
            heapq.heappush(busy, (time_ns + load[own], int(device[own])))
        yield device[piece]


def by_first_op(problem: Problem, piece: Int) -> Int:
    """Each piece where its first op finishes first, in the order of bottom levels; links as if nobody shared them."""
    lowered, devices = problem.lowered, problem.core.num_devices
    times = problem.time_ns[lowered.graph_op]
    link = problem.machine.links[0][1]
    late = link.latency_ns + lowered.transfer_bytes * link.inverse_bandwidth / 2**32
    inputs = np.split(lowered.inputs, lowered.input_begin[1:-1])
    device, free, done = np.full(int(piece.max()) + 1, -1), np.zeros(devices), np.zeros(len(piece))
    for op in _core.bottom_level_order(problem.core).tolist():
        made = lowered.producer[inputs[op]]
        home = device[piece[made]]
        arrival = [
            max(free[each], (done[made] + np.where(home == each, 0, late[inputs[op]])).max(initial=0.0))
            for each in (range(devices) if device[piece[op]] < 0 else (device[piece[op]],))
        ]
        where = int(np.argmin(arrival)) if device[piece[op]] < 0 else int(device[piece[op]])
        device[piece[op]] = where
        free[where] = done[op] = min(arrival) + times[op, where]
    return device[piece]


def by_price(problem: Problem, device_of: Int) -> Iterator[Int]:
    """List schedules that see tensors which are not sent as larger."""
    lowered, graph = problem.lowered, problem.graph
    leaves = device_of[lowered.producer[lowered.inputs]] != device_of[lowered.reader]
    sent = set(lowered.graph_tensor[lowered.inputs[leaves]].tolist())
    tensors = tuple(
        each if index in sent or each.role == "parameter" else replace(each, size_bytes=PRICE * each.size_bytes)
        for index, each in enumerate(graph.tensors)
    )
    dear = make_problem(replace(graph, tensors=tensors), problem.machine, control="signal")
    dear = replace(dear, time_ns=problem.time_ns)
    yield _core.earliest_task_first(dear.core)[0].astype(np.int64)
    for _, candidate in zip(range(8), CLUSTER_LIST.candidates(dear), strict=False):
        yield candidate.device_of.astype(np.int64)


class Known(Baseline):
    """Placements that are given."""

    name = "known"

    def __init__(self, placements: list[Int]) -> None:
        self._placements = [each.astype(np.int32) for each in placements]

    def candidates(self, problem: Problem) -> Iterator[Candidate]:
        for each in self._placements:
            yield Candidate(name=self.name, device_of=each, order=_core.dispatch_order(problem.core, each))


def planned(problem: Problem, method: Method, seconds: float) -> tuple[Result, float]:
    """And the seconds of processor time that it took."""
    with mock.patch("time.perf_counter", time.process_time):
        began = time.process_time()
        result = method.solve(problem, SearchRun(Budget(evaluations=UNLIMITED, seconds=seconds)))
        return result, time.process_time() - began


def row_of(graph: Graph, machine: str, seconds: float, long: float) -> dict[str, Any]:
    short, took = planned(problem_of(graph, machine), Auto(), seconds)
    layers, _ = planned(problem_of(graph, machine), LAYERS, seconds)
    problem = problem_of(graph, machine)
    best, _ = planned(problem, Auto(), long)
    device_of = best.solution.device_of.astype(np.int64)
    piece = pieces(problem, device_of)
    decoded = {"by load": list(by_load(problem, piece)), "by first op": [by_first_op(problem, piece)]}
    decoded["by price"] = list(by_price(problem, device_of))
    results = {label: planned(problem, Known(each), 1e9)[0] for label, each in decoded.items()}
    results["its devices, ordered anew"] = planned(problem, Known([device_of]), 1e9)[0]
    cuts = min((results[label] for label in decoded), key=lambda each: each.metrics.step_time_ns)
    start = Known([cuts.solution.device_of.astype(np.int64)])
    with mock.patch("placewright.search.portfolio.BASELINES", (start, *BASELINES)):
        results["auto that begins with the cuts"] = planned(problem_of(graph, machine), Auto(), seconds)[0]
    results |= {"the long search's plan": best, "the best by its cuts": cuts, "layers": layers}
    gains = {
        label: 100 * (1 - each.metrics.step_time_ns / short.metrics.step_time_ns) for label, each in results.items()
    }
    return {"ops": problem.core.num_ops, "pieces": int(piece.max()) + 1, "auto took": took, **gains}


def parser() -> argparse.ArgumentParser:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--seconds", type=float, default=0.1, help="of `auto`, of processor time")
    options.add_argument("--long", type=float, default=10.0, help="of the search whose cuts are known")
    options.add_argument("--sizes", type=int, nargs="*", default=SIZES, help="ops of graphs that are made")
    options.add_argument("--sets", nargs="*", default=tuple(REAL), help="of real networks")
    return options


def main() -> None:
    arguments = parser().parse_args()
    rows: list[dict[str, Any]] = []
    for graph, machine in graphs(arguments.sizes, arguments.sets):
        rows.append(row_of(graph, machine, arguments.seconds, arguments.long))
        if len(rows) == 1:
            print(f"| graph | {' | '.join(rows[0])} |\n|---|{'---:|' * len(rows[0])}")
        print(f"| {graph.name}, {machine} | {' | '.join(map(shown, rows[-1].values()))} |", flush=True)
    for label in list(rows[0])[3:]:
        print(f"{label}: {interval(np.array([row[label] for row in rows]))}")


def shown(value: float) -> str:
    return f"{value:.2f}" if isinstance(value, float) else f"{value:,}"


if __name__ == "__main__":
    main()
