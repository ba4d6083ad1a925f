"""BRKGA on a random graph of 20,000 ops: the process whose memory process.py measures."""

from __future__ import annotations

import argparse
import random

import numpy as np

from placewright import Device, Graph, Link, Machine, Op, Tensor
from placewright.lab.peers.brkga import Brkga
from placewright.problem import Problem
from placewright.search.run.budget import Budget
from placewright.search.run.search_run import SearchRun


def random_graph(num_ops: int, seed: int) -> Graph:
    """A graph in which every op makes one tensor and reads up to three of the 200 before it."""
    draw = random.Random(seed)
    tensors = tuple(Tensor(name=f"t{index}", size_bytes=draw.randint(1, 100)) for index in range(num_ops))
    ops = tuple(
        Op(
            name=f"op{index}",
            kind="other",
            inputs=tuple({draw.randrange(max(0, index - 200), index) for _ in range(draw.randint(1, 3)) if index}),
            outputs=(index,),
        )
        for index in range(num_ops)
    )
    return Graph(name="random", ops=ops, tensors=tensors)


def parser() -> argparse.ArgumentParser:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--ops", type=int, default=20_000)
    options.add_argument("--evaluations", type=int, default=500)
    return options


def main() -> None:
    arguments = parser().parse_args()
    devices = tuple(Device(name=f"d{index}", kind="any") for index in range(2))
    machine = Machine(name="two", devices=devices, links=((Link(),) * 2,) * 2, transfer_model="blocking")
    time_ns = np.random.default_rng(0).integers(1, 1000, (arguments.ops, 2))
    problem = Problem(graph=random_graph(arguments.ops, seed=0), machine=machine, time_ns=time_ns)
    result = Brkga().solve(problem, SearchRun(Budget(evaluations=arguments.evaluations)))
    print(f"step time {result.metrics.step_time_ns} ns after {result.evaluations} evaluations")


if __name__ == "__main__":
    main()
