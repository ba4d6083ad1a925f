"""The problems of same_plans.py: graphs of committed files and random ones, on one, two and four devices."""

from __future__ import annotations

import random
from collections.abc import Callable
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np

from placewright.graph import Graph, Op, Tensor
from placewright.importers.sources import load_graph
from placewright.machine import Device, LaunchMode, Link, Machine, TransferModel
from placewright.machines import load_machine
from placewright.problem import Problem, make_problem
from placewright.problem.constraints import Constraints

_COMMITTED = Path(__file__).parents[1] / "committed.graphs.gz"


@cache
def _graph(source: str) -> Graph:
    """source: "example:NAME", or the name of a graph of the benchmarks that tests read."""
    return load_graph(source if source.startswith("example:") else f"{_COMMITTED}:{source}")


def _committed(source: str, machine: str | Machine, **rest: Any) -> Problem:
    return make_problem(_graph(source), machine if isinstance(machine, Machine) else load_machine(machine), **rest)


def _constrained(source: str, machine: str, **rest: Any) -> Problem:
    """Constrain ops (counted from 0, without views): 10 on the last device, 20 not on the first, 30 with 40."""
    names = [op.name for op in _graph(source).ops if op.kind != "view"]
    devices = [device.name for device in load_machine(machine).devices]
    constraints = Constraints(
        pins=((names[10], devices[-1]),), forbids=((names[20], devices[0]),), colocations=((names[30], names[40]),)
    )
    return _committed(source, machine, constraints=constraints, **rest)


def _drawn(num_ops: int, devices: int, seed: int, **rest: Any) -> Problem:
    graph = _drawn_graph(num_ops, random.Random(seed))
    draw = random.Random(-seed)
    machine = _unequal_machine(devices, draw, rest.pop("transfer_model", "overlapped"), rest.pop("launch", "graphs"))
    time_ns = [[draw.choice([0, 20, 30, 80]) + draw.randrange(9) for _ in range(devices)] for _ in graph.ops]
    views = [op.kind == "view" for op in graph.ops]
    return Problem(graph=graph, machine=machine, time_ns=np.where(np.array(views)[:, None], 0, time_ns), **rest)


def _unequal_machine(count: int, draw: random.Random, model: TransferModel, launch: LaunchMode) -> Machine:
    """Launches of 1 to 5 ns, links of their own speed and latency in each direction, the last device a CPU of sorts."""
    devices = tuple(
        Device(name=f"d{index}", kind="any", launch_overhead_ns=draw.randint(1, 5), launches_itself=index == count - 1)
        for index in range(count)
    )
    links = tuple(
        tuple(
            Link(bandwidth_bytes_per_s=draw.choice([1e9, 3e8, None]), latency_ns=draw.choice([0, 4]))
            for _ in range(count)
        )
        for _ in range(count)
    )
    return Machine(name="unequal", devices=devices, links=links, transfer_model=model, launch=launch)


def _drawn_graph(num_ops: int, draw: random.Random) -> Graph:
    """Ops that read up to three of the twelve newest tensors; some are views, some overwrite a parameter, some follow
    another op without reading it."""
    tensors = [Tensor(name=f"w{index}", size_bytes=40, role="parameter") for index in range(3)]
    ops: list[Op] = []
    for index in range(num_ops):
        newest = range(max(0, len(tensors) - 12), len(tensors))
        inputs = draw.sample(newest, min(len(newest), draw.randint(1, 3)))
        kind, size, alias = "other", draw.choice([0, 1, 20, 50]), None
        if ops and draw.random() < 0.15:
            kind, inputs = "view", inputs[:1]
            size, alias = tensors[inputs[0]].size_bytes // draw.choice([1, 2]), inputs[0]
        elif draw.random() < 0.05:
            alias = draw.randrange(3)
            inputs, size = [*{*inputs, alias}], tensors[alias].size_bytes
        controls = (draw.randrange(index),) if index and draw.random() < 0.15 else ()
        workspace = draw.choice([0, 0, 30])
        outputs = (len(tensors),)
        tensors.append(Tensor(name=f"t{index}", size_bytes=size, alias_of=alias, is_output=draw.random() < 0.05))
        ops.append(
            Op(
                name=f"op{index}",
                kind=kind,
                inputs=tuple(inputs),
                outputs=outputs,
                controls=controls,
                workspace_bytes=0 if kind == "view" else workspace,
            )
        )
    return Graph(name=f"drawn {num_ops}", ops=tuple(ops), tensors=tuple(tensors))


_SYNTHETIC = "synthetic-2020-"
#: Devices that transfers occupy, and links that take no time.
_FREE_BARRIERS = Machine(
    name="free barriers",
    devices=tuple(Device(name=f"d{index}", kind="any") for index in range(4)),
    links=((Link(),) * 4,) * 4,
    transfer_model="blocking",
)

#: By name; made when called.
PROBLEMS: dict[str, Callable[[], Problem]] = {
    "synthetic, as in the paper": partial(_committed, _SYNTHETIC + "15690", "2xideal/free", control="order"),
    "synthetic, peak memory": partial(
        _committed, _SYNTHETIC + "15093", "2xideal/free", control="order", objective="peak-memory"
    ),
    "synthetic, four devices": partial(_committed, _SYNTHETIC + "15378", "4xideal/free", control="transfer"),
    "synthetic, one device, peak memory": partial(
        _committed, _SYNTHETIC + "15670", "1xideal/free", objective="peak-memory"
    ),
    "synthetic, barriers that take no time": partial(_committed, _SYNTHETIC + "15320", _FREE_BARRIERS),
    "vae, a host thread": partial(_committed, "vae-inference", "2xp100"),
    "deep and cross, a thread per device": partial(_committed, "deep_and_cross-inference", "2xv100@device-threads"),
    "wavenet, graphs": partial(_committed, "wavenet10-inference", "2xh100@graphs"),
    "isomorphism, four devices with NVLink": partial(
        _committed, "isomorphism5-inference", "4xa100/nvlink", control="order"
    ),
    "two towers, a CPU and two GPUs": partial(_committed, "two_towers-inference", "cpu+2xp100"),
    "all-CNN training, peak memory": partial(_committed, "all_cnn-training", "2xp100", objective="peak-memory"),
    "deepfm, within limits": partial(_committed, "deepfm-inference", "2xp100", memory_limit=20_000_000),
    "actor and critic, pins": partial(_constrained, "soft_actor_critic-inference", "2xv100@graphs"),
    "dlrm, pins, four devices, peak memory": partial(_constrained, "dlrm-inference", "4xv100", objective="peak-memory"),
    "resnet50, peak memory": partial(_committed, "example:resnet50-onnx", "2xh100", objective="peak-memory"),
    "inception, coarse problems": partial(_committed, "example:inception-v3", "2xv100@graphs"),
    "inception, coarse problems within limits": partial(
        _committed, "example:inception-v3", "2xv100@graphs", memory_limit=330_000_000
    ),
    "drawn, limits no plan keeps": partial(_drawn, 60, 2, 1, memory_limits_bytes=(90, 60)),
    "drawn, unequal, four devices": partial(_drawn, 70, 4, 2, control="transfer"),
    "drawn, blocking": partial(_drawn, 55, 2, 3, transfer_model="blocking", control="order"),
    "drawn, one device": partial(_drawn, 50, 1, 4),
    "drawn, limits, peak memory": partial(
        _drawn, 60, 2, 5, memory_limits_bytes=(400, None), objective="peak-memory", launch="device-threads"
    ),
    "drawn, blocking, peak memory, four devices": partial(
        _drawn, 50, 4, 6, transfer_model="blocking", objective="peak-memory"
    ),
}
