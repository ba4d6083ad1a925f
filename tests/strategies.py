"""Hypothesis strategies for graphs, machines and problems: small by default, and everything a graph may hold."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from placewright.graph import Graph, Op, Tensor
from placewright.machine import Device, LaunchMode, Link, Machine, TransferModel
from placewright.methods.table import METHODS
from placewright.problem import Problem
from placewright.problem.constraints import Constraints, placement_groups
from placewright.search.run.result import Solution
from placewright.search.run.search_run import SearchRun
from placewright.support.errors import InputError

SIZES = st.sampled_from([4, 1, 0, 2, 3, 7, 20])
TIMES = st.sampled_from([1, 0, 2, 3, 8])
BANDWIDTHS = st.sampled_from([None, 1e9, 3e8, 2e9])


class _Drawing:
    """A graph while it is drawn: ops and tensors so far."""

    def __init__(self, draw: st.DrawFn) -> None:
        self.draw = draw
        self.ops: list[Op] = []
        self.tensors: list[Tensor] = []

    def new_tensor(self, size_bytes: int, alias_of: int | None = None, role: str = "activation") -> int:
        name = f"{'t' if role == 'activation' else 'w'}{len(self.tensors)}"
        tensor = Tensor(
            name=name,
            size_bytes=size_bytes,
            alias_of=alias_of,
            role=role,  # type: ignore[arg-type]
            memory_bytes=self.draw(st.sampled_from([None, None, None, 0, 5])),
        )
        self.tensors.append(tensor)
        return len(self.tensors) - 1

    def some_tensors(self, most: int) -> list[int]:
        """Some of the tensors so far, newest first when shrunk; one may come twice."""
        if not self.tensors:
            return []
        newest = st.integers(0, len(self.tensors) - 1).map(lambda back: len(self.tensors) - 1 - back)
        return self.draw(st.lists(newest, min_size=self.draw(st.sampled_from([1, 0])), max_size=most))

    def some_ops(self, most: int) -> list[int]:
        if not self.ops:
            return []
        return self.draw(st.lists(st.integers(0, len(self.ops) - 1), min_size=1, max_size=most, unique=True))

    def add_op(self, kind: str, inputs: list[int], outputs: list[int], workspace_bytes: int = 0) -> None:
        controls = self.some_ops(2) if self.draw(st.booleans()) else []
        self.ops.append(
            Op(
                name=f"op{len(self.ops)}",
                kind=kind,
                module=self.draw(st.sampled_from(["", "layer.0", "layer.1"])),
                inputs=tuple(inputs),
                outputs=tuple(outputs),
                controls=tuple(controls),
                workspace_bytes=workspace_bytes,
            )
        )

    def add_plain(self) -> None:
        """An op with 0 to 2 outputs of its own; the second may share the memory of the first."""
        inputs = self.some_tensors(3)
        outputs = [self.new_tensor(self.draw(SIZES)) for _ in range(self.draw(st.sampled_from([1, 0, 2])))]
        if len(outputs) == 2 and self.draw(st.integers(0, 4)) == 4:
            self.tensors[outputs[1]] = replace(self.tensors[outputs[1]], alias_of=outputs[0])
        self.add_op("other", inputs, outputs, self.draw(st.sampled_from([0, 0, 5])))

    def add_view(self) -> None:
        """One or two views of one or two tensors: whole, smaller, or larger as an expanded one is."""
        inputs = self.some_tensors(2) or [len(self.tensors) - 1]
        shown = self.draw(st.lists(st.sampled_from(inputs), min_size=1, max_size=2))
        sizes = [
            self.draw(st.sampled_from([self.tensors[t].size_bytes // 2, self.tensors[t].size_bytes, 21])) for t in shown
        ]
        self.add_op("view", inputs, [self.new_tensor(s, t) for s, t in zip(sizes, shown, strict=True)])

    def add_in_place(self) -> None:
        """An op whose result takes the memory of a tensor or parameter, which it may or may not read."""
        inputs = self.some_tensors(2)
        overwritten = self.draw(st.integers(0, len(self.tensors) - 1))
        if self.draw(st.booleans()):
            inputs.append(overwritten)
        outputs = [self.new_tensor(self.tensors[overwritten].size_bytes, overwritten)]
        if self.draw(st.integers(0, 3)) == 3:
            outputs.append(self.new_tensor(self.draw(SIZES)))
        self.add_op("other", inputs, outputs)


@st.composite
def graphs(draw: st.DrawFn, max_ops: int = 8) -> Graph:
    """Graphs in a valid order: views, in-place results, changed parameters, controls, outputs kept or never read."""
    drawing = _Drawing(draw)
    for _ in range(draw(st.integers(0, 2))):
        drawing.new_tensor(draw(SIZES), role="parameter")
    for _ in range(draw(st.integers(min(2, max_ops), max_ops))):
        what = draw(st.sampled_from([*["plain"] * 5, *["view"] * 2, "in-place"]))
        if what == "plain" or not drawing.tensors:
            drawing.add_plain()
        elif what == "view":
            drawing.add_view()
        else:
            drawing.add_in_place()
    for index in draw(st.sets(st.integers(0, max(len(drawing.tensors) - 1, 0)), max_size=3)):
        if index < len(drawing.tensors):
            drawing.tensors[index] = replace(drawing.tensors[index], is_output=True)
    if all(op.kind == "view" for op in drawing.ops):
        drawing.add_plain()
    return _renumbered(drawing, draw(st.permutations(range(len(drawing.tensors)))))


def _renumbered(drawing: _Drawing, new_index: list[int]) -> Graph:
    """The drawn graph, its tensors in another order: nothing may depend on how they are numbered."""
    tensors: list[Tensor | None] = [None] * len(new_index)
    for old, tensor in enumerate(drawing.tensors):
        alias = None if tensor.alias_of is None else new_index[tensor.alias_of]
        tensors[new_index[old]] = replace(tensor, alias_of=alias)
    ops = [
        replace(op, inputs=tuple(new_index[t] for t in op.inputs), outputs=tuple(new_index[t] for t in op.outputs))
        for op in drawing.ops
    ]
    return Graph(name="drawn", ops=tuple(ops), tensors=tuple(t for t in tensors if t is not None))


@st.composite
def machines(draw: st.DrawFn, max_devices: int = 3) -> Machine:
    """Machines with links that may be free, slow, far or different in each direction; half of them with launches."""
    count = draw(st.sampled_from([min(2, max_devices), *range(1, max_devices + 1)]))
    overhead = draw(st.sampled_from([st.just(0), st.sampled_from([2, 0, 5])]))
    devices = tuple(
        Device(
            name=f"d{index}",
            kind="drawn",
            launch_overhead_ns=draw(overhead),
            launches_itself=draw(st.sampled_from([False, False, True])),
        )
        for index in range(count)
    )
    link = st.builds(Link, bandwidth_bytes_per_s=BANDWIDTHS, latency_ns=st.sampled_from([0, 1, 4]))
    links = tuple(tuple(draw(link) for _ in range(count)) for _ in range(count))
    model: TransferModel = draw(st.sampled_from(["blocking", "overlapped"]))
    launch: LaunchMode = draw(st.sampled_from(["host-thread", "device-threads", "graphs"]))
    return Machine(name="drawn", devices=devices, links=links, transfer_model=model, launch=launch)


@st.composite
def problems(draw: st.DrawFn, max_ops: int = 8, max_devices: int = 3) -> Problem:
    """Problems with all objectives, control modes, limits and constraints that leave every op a device."""
    graph, machine = draw(graphs(max_ops)), draw(machines(max_devices))
    limit = st.one_of(st.none(), st.integers(1, 60))
    problem = Problem(
        graph=graph,
        machine=machine,
        time_ns=draw(hnp.arrays(np.int64, (len(graph.ops), machine.num_devices), elements=TIMES, fill=st.nothing())),
        objective=draw(st.sampled_from(["step-time", "peak-memory"])),
        control=draw(st.sampled_from(["order", "signal", "transfer"])),
        memory_limits_bytes=tuple(draw(limit) for _ in machine.devices),
    )
    constraints = draw(_constraints(graph, machine)) if draw(st.integers(0, 2)) == 2 else Constraints()
    try:
        placement_groups(graph, problem.lowered, machine, constraints)
    except InputError:
        return problem
    return replace(problem, constraints=constraints)


@st.composite
def tight_problems(draw: st.DrawFn, max_ops: int = 8, max_devices: int = 3) -> Problem:
    """Problems whose limits lie at, just below or far below what the captured order holds on one device, so that most
    plans break them, and many of the best by the objective do."""
    problem = draw(problems(max_ops, max_devices))
    free = replace(problem, memory_limits_bytes=(None,) * problem.machine.num_devices)
    held = METHODS["input-order"].solve(free, SearchRun()).metrics.peak_memory_bytes
    less = st.sampled_from([1, 0, 2, held // 2, held])
    limits = tuple(max(1, held - draw(less)) for _ in problem.machine.devices)
    return replace(problem, memory_limits_bytes=limits)


@st.composite
def _constraints(draw: st.DrawFn, graph: Graph, machine: Machine) -> Constraints:
    scheduled = [op.name for op in graph.ops if op.kind != "view"]
    name = st.sampled_from(scheduled)
    device = st.sampled_from([device.name for device in machine.devices])
    few = st.lists(st.tuples(name, device), max_size=1).map(tuple)
    together = st.lists(st.lists(name, min_size=2, max_size=3).map(tuple), max_size=1).map(tuple)
    return Constraints(pins=draw(few), forbids=draw(few), colocations=draw(together))


def chromosomes(num_keys: int) -> st.SearchStrategy[np.ndarray]:
    """uint32 keys: few values, so that ties are met, or any, so that ops spread over the devices."""
    few = hnp.arrays(np.uint32, num_keys, elements=st.integers(0, 3), fill=st.nothing())
    return st.builds(_random_keys, st.just(num_keys), st.integers(0, 2**16), st.sampled_from([2**32, 2])) | few


def _random_keys(num_keys: int, seed: int, end: int) -> np.ndarray:
    return np.random.default_rng(seed).integers(end, size=num_keys, dtype=np.uint32)


@st.composite
def solved(draw: st.DrawFn) -> tuple[Problem, Solution]:
    """A problem, and a solution that any keys stand for."""
    problem = draw(problems())
    device_of, order = problem.core.decode(draw(chromosomes(problem.core.num_keys)))
    return problem, Solution(device_of=device_of, order=order)
