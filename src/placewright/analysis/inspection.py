"""Facts about a graph on a machine, before anything is planned."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import prod
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from placewright.analysis.basis import basis_words
from placewright.bounds import critical_path, lower_bound
from placewright.costs import count_sources, estimate_costs
from placewright.costs.estimate import TimeSources
from placewright.graph import Graph, Tensor
from placewright.machine import Device, Machine
from placewright.machines import list_presets
from placewright.problem import Problem
from placewright.search.run.result import Solution, measure


@dataclass(frozen=True, slots=True, kw_only=True)
class KindSummary:
    """All ops of one kind.

    Attributes
    ----------
    kind
        One of `placewright.graph.OP_KINDS`.
    num_ops
        How many there are.
    flops, bytes_moved
        Their sums.
    time_ns
        Sum of their times on the device whose times are shown.
    """

    kind: str
    num_ops: int
    flops: int
    bytes_moved: int
    time_ns: int


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryFit:
    """A verdict on whether one device can hold the whole step.

    Attributes
    ----------
    name
        The kind of device or the preset; the device's own name where devices of this kind are unequal.
    available_bytes
        Its memory; None for no limit.
    verdict
        "fits" (in the input order), "maybe" (between the lower bound and what the input order needs) or "no".
    missing_bytes
        At least this much is missing for certain; 0 unless the verdict is "no".
    in_machine
        True if it is a device of the machine, not only a known one.
    work_ns
        Sum of op times there; None unless it is a device of the machine.
    """

    name: str
    available_bytes: int | None
    verdict: str
    missing_bytes: int
    in_machine: bool
    work_ns: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class GraphInput:
    """A tensor that the graph is fed.

    Attributes
    ----------
    name
        Name of the tensor.
    shape, dtype
        None where the graph does not say.
    """

    name: str
    shape: tuple[int, ...] | None
    dtype: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Inspection:
    """A summary of a graph and of its demands on a machine.

    The longer of work and launches, divided by the longer of critical path and launches, is the largest speedup that
    the machine could gain with more devices like the one whose times are shown.

    Attributes
    ----------
    name, fingerprint
        Those of the graph.
    machine
        Name of the machine.
    device_kind
        Kind of the device whose times are shown, named as in `fits`. It is the one on which all ops together take
        least, among the machine's devices on which the step may fit, or among all where it fits on none.
    description
        The graph's origin, from its metadata.
    inputs
        The tensors it is fed, in the order of its ops.
    num_ops
        All ops.
    num_scheduled_ops
        Ops that are not views.
    num_tensors
        All tensors.
    num_parameters
        Elements of the parameters whose shapes are known.
    parameter_bytes, constant_bytes, activation_bytes, output_bytes
        Sums over tensors that own their memory.
    gradient_bytes
        Activations that the optimizer reads.
    optimizer_bytes
        What the optimizer keeps besides the parameters.
    flops, bytes_moved
        Sums over ops.
    kinds
        Sums over the ops of each kind; sorted by time, longest first.
    work_ns
        Sum of op times on the device whose times are shown.
    launch_ns
        What one host thread that launches for all devices takes to launch all ops; 0 where there is no such thread.
    critical_path_ns
        Longest chain, each op on its fastest device and transfers free.
    input_order_peak_bytes
        Peak on one device in the captured order.
    one_device_bound_bytes, machine_bound_bytes
        Peak that no plan can go below, on one device and on the machine's fullest device.
    fits
        Every distinct device of the machine, then known devices by memory.
    largest_tensors
        Names and bytes, largest first.
    without_formula
        Names of ops whose FLOPs are unknown.
    warnings
        Those of the importer and the cost model.
    time_sources
        Where the times that are shown come from.
    basis
        The same in words.
    """

    name: str
    fingerprint: str
    machine: str
    device_kind: str
    description: str
    inputs: tuple[GraphInput, ...]
    num_ops: int
    num_scheduled_ops: int
    num_tensors: int
    num_parameters: int
    parameter_bytes: int
    gradient_bytes: int
    optimizer_bytes: int
    constant_bytes: int
    activation_bytes: int
    output_bytes: int
    flops: int
    bytes_moved: int
    kinds: tuple[KindSummary, ...]
    work_ns: int
    launch_ns: int
    critical_path_ns: int
    input_order_peak_bytes: int
    one_device_bound_bytes: int
    machine_bound_bytes: int
    fits: tuple[MemoryFit, ...]
    largest_tensors: tuple[tuple[str, int], ...]
    without_formula: tuple[str, ...]
    warnings: tuple[str, ...]
    time_sources: TimeSources
    basis: str


Numbers = NDArray[np.int64]
#: Keys of the metadata that importers fill and people ask for.
_DESCRIPTIVE = ("framework", "format", "producer", "mode", "optimizer")
#: How many tensors an inspection names.
_NUM_LARGEST = 5


def inspect_graph(graph: Graph, machine: Machine, *, measured: Path | None = None) -> Inspection:
    """Raises InputError when an op has no time on the machine."""
    costs = estimate_costs(graph, machine, measured)
    problem = Problem(graph=graph, machine=machine, time_ns=costs.time_ns)
    peak, bound = _on_one_device(problem)
    timed = _timed_device(problem, peak, bound)
    sources = count_sources(costs.origin[problem.lowered.graph_op, timed])
    parameters, states = _parameters(graph)
    return Inspection(
        name=graph.name,
        fingerprint=graph.fingerprint,
        machine=machine.name,
        device_kind=_labels(problem)[timed],
        description=describe_metadata(graph.metadata),
        inputs=graph_inputs(graph),
        num_ops=len(graph.ops),
        num_scheduled_ops=len(problem.lowered.graph_op),
        num_tensors=len(graph.tensors),
        num_parameters=sum(prod(tensor.shape) for tensor in parameters if tensor.shape is not None),
        parameter_bytes=sum(tensor.held_bytes for tensor in parameters),
        gradient_bytes=_gradient_bytes(graph),
        optimizer_bytes=sum(tensor.held_bytes for tensor in states),
        constant_bytes=_held_bytes(graph, "constant"),
        activation_bytes=_held_bytes(graph, "activation"),
        output_bytes=sum(tensor.held_bytes for tensor in graph.tensors if tensor.is_output),
        flops=int(costs.flops.sum()),
        bytes_moved=int(costs.bytes_moved.sum()),
        kinds=_kinds(graph, costs.flops, costs.bytes_moved, costs.time_ns[:, timed]),
        work_ns=int(costs.time_ns[:, timed].sum()),
        launch_ns=_launch_ns(problem, timed),
        critical_path_ns=critical_path(problem).value,
        input_order_peak_bytes=peak,
        one_device_bound_bytes=bound,
        machine_bound_bytes=lower_bound(replace(problem, objective="peak-memory")).value,
        fits=_fits(problem, peak, bound),
        largest_tensors=_largest(graph),
        without_formula=costs.without_formula,
        warnings=tuple(str(warning) for warning in graph.metadata.get("warnings", ())),
        time_sources=sources,
        basis=basis_words(sources, machine),
    )


def _timed_device(problem: Problem, peak: int, bound: int) -> int:
    """The device whose times are shown: the one with the least work, if possible among those that may hold the step."""
    work = problem.time_ns.sum(axis=0).tolist()
    too_small = [_verdict(device.memory_bytes, peak, bound) == "no" for device in problem.machine.devices]
    return min(range(len(work)), key=lambda device: (too_small[device], work[device], device))


def _parameters(graph: Graph) -> tuple[list[Tensor], list[Tensor]]:
    """The model's parameters, and those that only the optimizer reads: its own."""
    readers: defaultdict[int, set[bool]] = defaultdict(set)
    for op in graph.ops:
        for tensor in op.inputs:
            readers[graph.base_of[tensor]].add(op.kind == "optimizer")
    model: list[Tensor] = []
    optimizer: list[Tensor] = []
    for index, each in enumerate(graph.tensors):
        if each.role == "parameter" and each.alias_of is None:
            (optimizer if readers[index] == {True} else model).append(each)
    return model, optimizer


def _held_bytes(graph: Graph, role: str) -> int:
    return sum(tensor.held_bytes for tensor in graph.tensors if tensor.alias_of is None and tensor.role == role)


def _largest(graph: Graph) -> tuple[tuple[str, int], ...]:
    own = [(tensor.name, tensor.size_bytes) for tensor in graph.tensors if tensor.alias_of is None]
    return tuple(sorted(own, key=lambda each: (-each[1], each[0]))[:_NUM_LARGEST])


def _gradient_bytes(graph: Graph) -> int:
    read = {graph.base_of[tensor] for op in graph.ops if op.kind == "optimizer" for tensor in op.inputs}
    return sum(graph.tensors[tensor].held_bytes for tensor in read if graph.tensors[tensor].role == "activation")


def graph_inputs(graph: Graph) -> tuple[GraphInput, ...]:
    """The tensors that ops of kind "input" put out."""
    fed = [graph.tensors[tensor] for op in graph.ops if op.kind == "input" for tensor in op.outputs]
    return tuple(GraphInput(name=tensor.name, shape=tensor.shape, dtype=tensor.dtype) for tensor in fed)


def describe_metadata(metadata: Mapping[str, object]) -> str:
    """The known facts about a graph's origin: "torch, training, adam"; numbers and texts only."""
    known = [str(metadata[key]) for key in _DESCRIPTIVE if metadata.get(key) and isinstance(metadata[key], str)]
    if isinstance(size := metadata.get("batch_size", metadata.get("batch")), int):
        known.append(f"batch size {size:,}")
    return ", ".join(known)


def _launch_ns(problem: Problem, device: int) -> int:
    machine = problem.machine
    if machine.launch != "host-thread" or machine.hosts[device] < 0:
        return 0
    num_launches = int(np.count_nonzero(problem.time_ns[problem.lowered.graph_op, device]))
    return num_launches * machine.devices[device].launch_overhead_ns


def _kinds(graph: Graph, flops: Numbers, bytes_moved: Numbers, time_ns: Numbers) -> tuple[KindSummary, ...]:
    """The summary of each kind, by time, longest first. flops, bytes_moved, time_ns: int64 [num_ops]."""
    members: defaultdict[str, list[int]] = defaultdict(list)
    for index, op in enumerate(graph.ops):
        members[op.kind].append(index)
    kinds = [
        KindSummary(
            kind=kind,
            num_ops=len(ops),
            flops=int(flops[ops].sum()),
            bytes_moved=int(bytes_moved[ops].sum()),
            time_ns=int(time_ns[ops].sum()),
        )
        for kind, ops in members.items()
    ]
    return tuple(sorted(kinds, key=lambda kind: (-kind.time_ns, -kind.num_ops, kind.kind)))


def _on_one_device(problem: Problem) -> tuple[int, int]:
    """Peak memory of the input order on one device without a limit, and the lower bound there."""
    machine = problem.machine
    device = replace(machine.devices[0], memory_bytes=None)
    single = Machine(name=device.kind, devices=(device,), links=((machine.links[0][0],),), launch=machine.launch)
    alone = replace(
        problem,
        machine=single,
        time_ns=problem.time_ns[:, :1],
        objective="peak-memory",
        memory_limits_bytes=(None,),
    )
    num_ops = len(alone.lowered.graph_op)
    order = np.stack([np.arange(num_ops), np.full(num_ops, -1)], axis=1).astype(np.int32)
    solution = Solution(device_of=np.zeros(num_ops, np.int32), order=order)
    return measure(alone, solution).peak_memory_bytes, lower_bound(alone).value


def _labels(problem: Problem) -> list[str]:
    """The label of each device: its kind, or its name where devices of its kind differ in more than their names, or in
    the sum of op times."""
    machine, work = problem.machine, problem.time_ns.sum(axis=0).tolist()
    sorts: defaultdict[str, list[tuple[Device, int]]] = defaultdict(list)
    for device, time_ns in zip(machine.devices, work, strict=True):
        sorts[device.kind].append((replace(device, name=""), time_ns))
    return [
        device.kind if all(each == sorts[device.kind][0] for each in sorts[device.kind]) else device.name
        for device in machine.devices
    ]


def _fits(problem: Problem, peak: int, bound: int) -> tuple[MemoryFit, ...]:
    """One line per sort of device of the machine and per GiB of memory of the presets."""
    labels = _labels(problem)
    own = dict(zip(labels, problem.time_ns.sum(axis=0).tolist(), strict=True))
    sizes = {label: device.memory_bytes for label, device in zip(labels, problem.machine.devices, strict=True)}
    known = sorted((p.device for p in list_presets() if p.device.memory_bytes), key=lambda d: d.memory_bytes or 0)
    held = {round((size or 0) / 2**30) for size in sizes.values()}
    for device in known:
        # Drivers report one or two hundredths more or less for devices that are sold as the same size.
        if device.kind not in sizes and (size := round((device.memory_bytes or 0) / 2**30)) not in held:
            sizes[device.kind] = device.memory_bytes
            held.add(size)
    return tuple(
        MemoryFit(
            name=name,
            available_bytes=available,
            verdict=_verdict(available, peak, bound),
            missing_bytes=0 if available is None else max(0, bound - available),
            in_machine=name in own,
            work_ns=own.get(name),
        )
        for name, available in sizes.items()
    )


def _verdict(available: int | None, peak: int, bound: int) -> str:
    if available is None or available >= peak:
        return "fits"
    return "maybe" if available >= bound else "no"
