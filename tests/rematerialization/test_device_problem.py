"""One device's part of a schedule of several, as a problem of one device: its steps by hand."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from training_steps import ONE_DEVICE

from placewright.graph import Graph, Op, Tensor
from placewright.machine import Link, Machine
from placewright.machines.host import HostMemory
from placewright.problem import Problem
from placewright.rematerialization.device_problem import DeviceProblem
from placewright.rematerialization.placed_problem import PlacedProblem

#: One byte a nanosecond.
LINK = Link(bandwidth_bytes_per_s=1e9, latency_ns=0)


def placed(device_of: list[int], *, host: HostMemory | None = None) -> PlacedProblem:
    """The ops a to d, of 10 ns each: b reads a's 5 bytes, c reads b's 5 bytes and a's, d reads c's."""
    ops = (
        Op(name="a", kind="elementwise", outputs=(0,), time_ns=10),
        Op(name="b", kind="elementwise", inputs=(0,), outputs=(1,), time_ns=10),
        Op(name="c", kind="elementwise", inputs=(0, 1), outputs=(2,), time_ns=10),
        Op(name="d", kind="elementwise", inputs=(2,), outputs=(3,), time_ns=10),
    )
    graph = Graph(name="g", ops=ops, tensors=tuple(Tensor(name=name, size_bytes=5) for name in "abcd"))
    machine = Machine(
        name="two",
        devices=tuple(replace(ONE_DEVICE.devices[0], name=name) for name in ("cpu0", "cpu1")),
        links=((Link(), LINK), (LINK, Link())),
        launch="graphs",
    )
    problem = Problem(graph=graph, machine=machine, time_ns=np.full((4, 2), 10, np.int64))
    return PlacedProblem(problem, np.array(device_of, np.int32), np.arange(4, dtype=np.int32), (), host)


def steps(start: PlacedProblem, device: int) -> list[tuple[int, str, int]]:
    kinds = ("arrives", "sent", "waits", "runs")
    return [(place, kinds[kind], item) for place, kind, item in DeviceProblem(start.once, device).steps]


def test_what_is_sent_is_held_until_its_last_transfer_ends() -> None:
    # cpu0: a until 10, then its copy goes to cpu1 until 15. b runs there until 25, and what it makes arrives at 30.
    # c and d run from 30 on, so a's transfer ends before c, the second op here.
    assert steps(placed([0, 1, 0, 0]), 0) == [
        (0, "runs", 0),
        (1, "arrives", 1),
        (1, "sent", 0),
        (1, "runs", 2),
        (2, "runs", 3),
    ]


def test_a_copy_is_there_from_the_begin_of_its_transfer() -> None:
    # cpu1: the transfer of a begins at 10, before its only op b. What b makes is sent behind it.
    assert steps(placed([0, 1, 0, 0]), 1) == [(0, "arrives", 0), (0, "runs", 1), (1, "sent", 1)]


def test_the_device_waits_where_tensors_may_be_moved_meanwhile() -> None:
    # cpu0 does nothing from 10, where a ends, until 30, where what b makes is there.
    host = HostMemory(there=(LINK, LINK), back=(LINK, LINK))
    waits = [step for step in steps(placed([0, 1, 0, 0], host=host), 0) if step[1] == "waits"]
    assert waits == [(1, "waits", 20)]
