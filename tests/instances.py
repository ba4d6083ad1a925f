"""Tiny named problems for tests whose comments do the arithmetic."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from placewright.graph import Graph, Op, Tensor
from placewright.machine import Device, Link, Machine, TransferModel
from placewright.plans.assemble import assemble_plan
from placewright.plans.record import Plan
from placewright.problem import Problem
from placewright.search.run.result import Result, Solution, measure

FREE = Link()


def graph_of(ops: Mapping[str, tuple[str, int]], controls: Mapping[str, str] | None = None) -> Graph:
    """Graph of op -> (ops it reads, separated by spaces; bytes of its output). controls: op -> ops it must follow."""
    index = {name: position for position, name in enumerate(ops)}
    return Graph(
        name="tiny",
        ops=tuple(
            Op(
                name=name,
                kind="other",
                inputs=tuple(index[before] for before in reads.split()),
                outputs=(index[name],),
                controls=tuple(index[before] for before in (controls or {}).get(name, "").split()),
            )
            for name, (reads, _) in ops.items()
        ),
        tensors=tuple(Tensor(name=f"{name}:0", size_bytes=size) for name, (_, size) in ops.items()),
    )


def machine_of(num_devices: int, link: Link = FREE, transfer_model: TransferModel = "overlapped") -> Machine:
    """Equal devices d0, d1 ..., every pair joined by the same link."""
    devices = tuple(Device(name=f"d{index}", kind="any") for index in range(num_devices))
    links = ((link,) * num_devices,) * num_devices
    return Machine(name="tiny", devices=devices, links=links, transfer_model=transfer_model)


def problem_of(graph: Graph, machine: Machine, times_ns: ArrayLike = 1, **rest: Any) -> Problem:
    """A problem in which each op takes the same time on every device: one number for all ops, or one per op."""
    own = np.broadcast_to(np.array(times_ns, np.int64), (len(graph.ops),))
    return Problem(graph=graph, machine=machine, time_ns=np.repeat(own[:, None], machine.num_devices, axis=1), **rest)


def names_in_order(problem: Problem, ops: Sequence[int] | NDArray[np.integer[Any]]) -> str:
    """Names of scheduled ops, separated by spaces."""
    return " ".join(problem.graph.ops[problem.lowered.graph_op[op]].name for op in ops)


def devices_by_name(problem: Problem, device_of: Sequence[int] | NDArray[np.integer[Any]]) -> dict[str, int]:
    return {
        problem.graph.ops[graph_op].name: int(device)
        for graph_op, device in zip(problem.lowered.graph_op, device_of, strict=True)
    }


def plan_of(problem: Problem, solution: Solution) -> Plan:
    """The plan of a solution that no method made."""
    result = Result(
        method="given",
        solution=solution,
        metrics=measure(problem, solution),
        found_by="given",
        evaluations=1,
        seconds=0.0,
        stopped_because="complete",
        seed=0,
    )
    return assemble_plan(problem, result, solver="given", seconds=0.0)
