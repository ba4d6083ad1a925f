"""Tiny named problems for tests whose comments do the arithmetic."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from placewright.graph import Graph, Op, Tensor, TensorRole
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


def sketch(*lines: str, name: str = "sketch", kind: str = "other", **of_ops: Any) -> Graph:
    """A line for each op: its name, with ~ behind it for a view, the tensors that it reads, behind -> those that it
    makes, behind < the ops that it follows, and behind | what else is said of it, as in "time_ns=5 kind=matmul".

    "x=8" owns 8 bytes, "x=8:y" shares the memory of y, "x=8!" is a graph output; "w=8" alone is a parameter. kind,
    of_ops: of all ops that do not say otherwise.
    """
    ops: dict[str, Op] = {}
    tensors: dict[str, Tensor] = {}

    def added(text: str, role: TensorRole = "activation") -> int:
        own, _, rest = text.rstrip("!").partition("=")
        size, _, base = rest.partition(":")
        alias_of = list(tensors).index(base) if base else None
        tensors[own] = Tensor(
            name=own, size_bytes=int(size), alias_of=alias_of, role=role, is_output=text.endswith("!")
        )
        return len(tensors) - 1

    for line in lines:
        head, _, said = line.partition(" | ")
        head, _, after = head.partition(" < ")
        head, _, made = head.partition(" -> ")
        own, *read = head.split()
        if "=" in own:
            added(own, "parameter")
            continue
        more = dict(each.split("=") for each in said.split())
        settings = {"kind": "view" if own.endswith("~") else kind} | (of_ops if not own.endswith("~") else {})
        settings |= {key: int(value) if value.isdecimal() else value for key, value in more.items()}
        op = own.rstrip("~")
        ops[op] = Op(
            name=op,
            inputs=tuple(list(tensors).index(each) for each in read),
            outputs=tuple(map(added, made.split())),
            controls=tuple(list(ops).index(each) for each in after.split()),
            **settings,
        )
    return Graph(name=name, ops=tuple(ops.values()), tensors=tuple(tensors.values()))


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
