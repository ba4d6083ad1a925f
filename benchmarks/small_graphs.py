"""What `auto` reaches in a second (--auto-seconds) on small problems, against what `cp-sat` proves, one model after
another.

    python benchmarks/small_graphs.py [--seconds 10] [--sizes 10 15 20 30 45 60] [--models NAME ...]

Of every size a random graph and so many consecutive ops of a real network. One line per problem: model, graph, ops,
seconds to CP-SAT's proof ("-" where it has none after --seconds), gaps of auto and of the bound before CP-SAT to what
is proven, or, where nothing is, to CP-SAT's bound.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from placewright.bounds import lower_bound
from placewright.graph import Graph, Op, Tensor
from placewright.importers.graph_set import read_graph_set
from placewright.lab.peers.cp_sat import CpSat
from placewright.machine import Device, Link, Machine, TransferModel
from placewright.machines import load_machine
from placewright.problem import Problem, make_problem
from placewright.problem.objective import Objective
from placewright.search.auto import Auto
from placewright.search.run.budget import Budget
from placewright.search.run.search_run import SearchRun

NETWORKS = Path(__file__).parent / "instances" / "real-networks.graphs.gz"
SIZES = (10, 15, 20, 30, 45, 60)
#: NVLink 2. A random graph's op takes 1 to 100 us, and its tensor as much to move.
LINK = Link(bandwidth_bytes_per_s=25e9, latency_ns=5_000)
MODELS: dict[str, tuple[int, TransferModel, Link, Objective]] = {
    "free barriers, 2 devices": (2, "blocking", Link(), "step-time"),
    "slow barriers, 2 devices": (2, "blocking", LINK, "step-time"),
    "slow links, 2 devices": (2, "overlapped", LINK, "step-time"),
    "slow links, 4 devices": (4, "overlapped", LINK, "step-time"),
    "free links, 4 devices": (4, "overlapped", Link(), "step-time"),
    "memory, 1 device": (1, "overlapped", Link(), "peak-memory"),
    "memory, 2 devices": (2, "blocking", Link(), "peak-memory"),
}


def random_graph(num_ops: int) -> Graph:
    """Every op reads up to three of the eight before it."""
    rng = np.random.default_rng(num_ops)
    reads = [sorted({int(rng.integers(max(0, op - 8), op)) for _ in range(rng.integers(1, 4))} if op else ())
             for op in range(num_ops)]  # fmt: skip
    times, sizes = rng.integers(1_000, 100_000, (2, num_ops)).tolist()
    return _graph("random", reads, times, [25 * size for size in sizes])


def real_graphs() -> Iterator[tuple[int, Graph]]:
    """Consecutive ops from the middle of the forward part of real networks, with times of a V100, one of each size."""
    networks, machine = read_graph_set(NETWORKS), load_machine("2xv100-32g/nvlink")
    for index, num_ops in enumerate(SIZES):
        problem = make_problem(networks[(4 * index + 1) % len(networks)], machine)
        lowered, first = problem.lowered, problem.core.num_ops // 4
        makers = np.split(lowered.producer[lowered.inputs], lowered.input_begin[1:-1])[first : first + num_ops]
        reads = [sorted({int(maker) - first for maker in own if maker >= first}) for own in makers]
        times = problem.time_ns[lowered.graph_op, 0].tolist()[first : first + num_ops]
        sizes = np.add.reduceat(np.append(lowered.transfer_bytes, 0), lowered.output_begin[:-1]).tolist()
        yield num_ops, _graph(problem.graph.name, reads, times, sizes[first : first + num_ops])


def _graph(name: str, reads: list[list[int]], times: list[int], sizes: list[int]) -> Graph:
    tensors = tuple(Tensor(name=f"t{index}", size_bytes=size) for index, size in enumerate(sizes))
    ops = tuple(
        Op(name=f"op{index}", kind="other", inputs=tuple(own), outputs=(index,), time_ns=times[index])
        for index, own in enumerate(reads)
    )
    return Graph(name=name, ops=ops, tensors=tensors)


def problem_of(graph: Graph, model: str) -> Problem:
    num_devices, transfer_model, link, objective = MODELS[model]
    devices = tuple(Device(name=f"d{index}", kind="any") for index in range(num_devices))
    machine = Machine(
        name="small",
        devices=devices,
        links=((link,) * num_devices,) * num_devices,
        transfer_model=transfer_model,
    )
    times = np.array([[op.time_ns] * num_devices for op in graph.ops], np.int64)
    return Problem(graph=graph, machine=machine, time_ns=times, objective=objective)


def compare(problem: Problem, seconds: float, auto_seconds: float) -> str:
    quick = Budget(seconds=auto_seconds, evaluations=10**9)
    auto = Auto().solve(problem, SearchRun(quick)).metrics.objective_value(problem.objective)
    solved = CpSat().solve(problem, SearchRun(Budget(seconds=seconds)))
    best = solved.metrics.objective_value(problem.objective)
    at = f"{solved.seconds:.2f}" if solved.stopped_because == "optimal" else "-"
    simple = lower_bound(problem).value
    proven = max(solved.proven_bound or 0, simple)
    return f"{at} | {auto / proven - 1:.3%} | {auto / best - 1:.3%} | {proven / simple - 1:.3%} | {solved.found_by}"


def parser() -> argparse.ArgumentParser:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--seconds", type=float, default=10.0, help="of cp-sat")
    options.add_argument("--auto-seconds", type=float, default=1.0)
    options.add_argument("--sizes", type=int, nargs="+", choices=SIZES, default=SIZES, metavar="OPS")
    options.add_argument("--models", nargs="+", choices=MODELS, default=list(MODELS), metavar="NAME")
    return options


def main() -> None:
    arguments = parser().parse_args()
    graphs = [*((n, random_graph(n)) for n in SIZES), *real_graphs()]
    print("model | graph | ops | seconds to the proof | auto over what is proven | over CP-SAT | bound raised | by")
    for model in arguments.models:
        for num_ops, graph in graphs:
            if num_ops in arguments.sizes:
                line = compare(problem_of(graph, model), arguments.seconds, arguments.auto_seconds)
                print(f"{model} | {graph.name} | {num_ops} | {line}", flush=True)


if __name__ == "__main__":
    main()
