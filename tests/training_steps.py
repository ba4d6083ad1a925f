"""Small random training steps: forward, then backward, which reads what forward made in the opposite order."""

from __future__ import annotations

import random
from dataclasses import replace

import numpy as np

from placewright.graph import Graph, Op, Tensor
from placewright.machine import Link, Machine
from placewright.machines import load_machine
from placewright.machines.host import HostMemory
from placewright.plans.record import Plan
from placewright.problem import Problem

_CPU = load_machine("cpu")
ONE_DEVICE = Machine(
    name="one",
    devices=(replace(_CPU.devices[0], memory_bytes=None),),
    links=_CPU.links,
    transfer_model="overlapped",
    launch="graphs",
)


class _Step:
    def __init__(self, seed: int) -> None:
        self.source = random.Random(seed)
        self.ops: list[Op] = []
        self.tensors: list[Tensor] = []

    def tensor(self, size: int, role: str = "activation", alias_of: int | None = None) -> int:
        name = f"t{len(self.tensors)}"
        self.tensors.append(Tensor(name=name, size_bytes=size, role=role, alias_of=alias_of))  # type: ignore[arg-type]
        return len(self.tensors) - 1

    def op(self, kind: str, inputs: list[int], outputs: list[int], controls: tuple[int, ...] = ()) -> int:
        workspace = self.source.choice([0, 0, 0, 3])
        self.ops.append(
            Op(
                name=f"{kind}{len(self.ops)}",
                kind=kind,
                inputs=tuple(inputs),
                outputs=tuple(outputs),
                controls=controls,
                workspace_bytes=workspace,
                time_ns=self.source.choice([1, 2, 3, 5, 8, 20]),
            )
        )
        return len(self.ops) - 1

    def shown(self, tensor: int) -> int:
        """The tensor, or a view of it."""
        if self.source.random() < 0.8:
            return tensor
        size = self.tensors[tensor].size_bytes
        view = self.tensor(self.source.choice([size, size // 2]), alias_of=tensor)
        self.ops.append(Op(name=f"view{len(self.ops)}", kind="view", inputs=(tensor,), outputs=(view,)))
        return view


def training_step(seed: int, depth: int) -> Graph:
    """Layers of several kinds with shortcuts, dropout, running statistics, views, and in-place updates."""
    step = _Step(seed)
    source = step.source
    x = step.tensor(source.randint(1, 12))
    step.op("input", [], [x])
    made = [x]
    layers: list[tuple[int, list[int], int | None]] = []
    for _ in range(depth):
        kind = source.choice(["conv", "elementwise", "normalization", "random", "elementwise", "other"])
        inputs = [step.shown(made[-1])]
        if source.random() < 0.3:
            inputs.append(source.choice(made))
        parameter = step.tensor(source.randint(1, 4), role="parameter") if kind in ("conv", "normalization") else None
        outputs = [step.tensor(source.randint(4, 30))]
        if source.random() < 0.3:
            outputs.append(step.tensor(source.randint(0, 10)))
        read = [*inputs, *([] if parameter is None else [parameter])]
        if kind == "normalization":
            statistics = step.tensor(2, role="parameter")
            read.append(statistics)
            outputs.append(step.tensor(2, alias_of=statistics))
        step.op(kind, read, outputs)
        made.append(outputs[0])
        kept = [each for each in (inputs[0], *outputs[:2]) if source.random() < 0.6]
        layers.append((inputs[0], kept, parameter))
    gradient = step.tensor(source.randint(4, 30))
    step.op("reduction", [made[-1]], [gradient])
    updates = source.random() < 0.5
    for first, kept, parameter in reversed(layers):
        outputs = [step.tensor(max(1, step.tensors[first].size_bytes))]
        if parameter is not None:
            outputs.append(step.tensor(step.tensors[parameter].size_bytes))
        inputs = [gradient, *kept, *([] if parameter is None else [parameter])]
        step.op("matmul", list(dict.fromkeys(inputs)), outputs)
        gradient = outputs[0]
        if parameter is None:
            continue
        if updates:
            readers = tuple(place for place, op in enumerate(step.ops) if parameter in op.inputs)
            new = step.tensor(step.tensors[parameter].size_bytes, alias_of=parameter)
            step.op("optimizer", [parameter, outputs[1]], [new], readers)
        else:
            step.tensors[outputs[1]] = replace(step.tensors[outputs[1]], is_output=True)
    return Graph(name=f"step{seed}", ops=tuple(step.ops), tensors=tuple(step.tensors))


def limited(graph: Graph, share: float) -> Problem:
    """A problem on one device. share: where its limit is between what its largest op needs, 0, and the peak of the
    captured order, 1."""
    times = np.array([[op.time_ns or 0] for op in graph.ops], np.int64)
    problem = Problem(graph=graph, machine=ONE_DEVICE, time_ns=times)
    lowered, ops = problem.lowered, np.arange(problem.core.num_ops, dtype=np.int32)
    order = np.stack([ops, np.full_like(ops, -1)], axis=1)
    peak = problem.core.simulate(np.zeros_like(ops), order).peak_memory_bytes
    alone = []
    for op in ops.tolist():
        begin, end = lowered.output_begin[op : op + 2]
        read = lowered.storage[lowered.inputs[lowered.input_begin[op] : lowered.input_begin[op + 1]]]
        held = np.unique([*read.tolist(), *lowered.storage[begin:end].tolist()]).astype(int)
        alone.append(int(lowered.allocated_bytes[held].sum() + lowered.workspace_bytes[op]))
    floor = max(alone) + int(lowered.resident_bytes.sum())
    return replace(problem, memory_limits_bytes=(floor + int(share * (peak - floor)),))


def host_at(ns: float, memory_bytes: int | None = None, latency_ns: int = 0) -> HostMemory:
    """Over links that take so long for 10 bytes."""
    link = Link(bandwidth_bytes_per_s=10e9 / ns, latency_ns=latency_ns)
    return HostMemory(there=(link,), back=(link,), memory_bytes=memory_bytes)


def spans(plan: Plan) -> dict[str, tuple[int, int]]:
    """The start and finish of each op, and of each transfer by its tensor with an arrow before it."""
    return {op.name: (op.start_ns, op.finish_ns) for op in plan.ops} | {
        f">{transfer.tensor}": (transfer.start_ns, transfer.finish_ns) for transfer in plan.transfers
    }
