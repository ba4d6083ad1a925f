"""Core searches on small random problems, for the tests of this folder."""

from __future__ import annotations

import random
from typing import Any

import numpy as np

import placewright._core as _core
from placewright.graph import Graph, Op, Tensor
from placewright.machine import Device, Link, Machine
from placewright.problem import Problem

SETTINGS = {
    "population": 20,
    "elites": 4,
    "mutants": 3,
    "elite_bias": 0.7,
    "populations": 1,
    "exchange_interval": 5,
    "exchanged": 0,
}


def random_problem(num_ops: int, seed: int, **fields: Any) -> Problem:
    """Return a problem of two equal devices with blocking transfers; every op makes a tensor and reads up to two
    earlier ones."""
    draw = random.Random(seed)
    tensors = tuple(Tensor(name=f"t{index}", size_bytes=draw.randint(1, 9)) for index in range(num_ops))
    reads = [{draw.randrange(index) for _ in range(draw.randint(0, 2)) if index} for index in range(num_ops)]
    ops = tuple(
        Op(name=f"op{index}", kind="other", inputs=tuple(sorted(read)), outputs=(index,))
        for index, read in enumerate(reads)
    )
    link = Link(bandwidth_bytes_per_s=1e9, latency_ns=2)
    devices = tuple(Device(name=f"d{index}", kind="any") for index in range(2))
    machine = Machine(name="two", devices=devices, links=((link,) * 2,) * 2, transfer_model="blocking")
    time_ns = np.random.default_rng(seed).integers(1, 30, (num_ops, 2))
    return Problem(graph=Graph(name="random", ops=ops, tensors=tensors), machine=machine, time_ns=time_ns, **fields)


def search(problem: Problem, **changed: Any) -> _core.Brkga:
    """A search that has not begun; any setting may be changed."""
    return _core.Brkga(**{"problem": problem.core, "seed": 0, "threads": 1, "seeds": [], **SETTINGS, **changed})
