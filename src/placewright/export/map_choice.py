"""Choice of the device for each entry of a device map: where most of its time is spent, and for entries that share a
parameter or layer, where the map is best."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

import placewright._core as _core
from placewright.export.module_ties import ModuleTies, is_forward
from placewright.export.module_tree import ModuleTree, Spent, entry_of, most
from placewright.graph import Graph
from placewright.plans.record import Plan
from placewright.problem import Problem
from placewright.support.errors import InputError


@dataclass(frozen=True, kw_only=True)
class DeviceChoice:
    """The devices of a map.

    devices: entry -> index of its device; the one entry "" where all are on one. of_op: device of every scheduled op.
    joined: entries that share a parameter or a layer and would otherwise be on several devices, and their device.
    unread_bytes: per device, the size of parameters and buffers that no op reads.
    """

    devices: Mapping[str, int]
    of_op: NDArray[np.int32]
    joined: Sequence[tuple[tuple[str, ...], int]]
    unread_bytes: tuple[int, ...]


@dataclass
class _Group:
    """Entries that share a device.

    wanted: the device that each part would prefer by itself, the one with the most time in the whole group first; empty
    where no op of it runs. device: None until one is chosen.
    """

    paths: tuple[str, ...]
    wanted: tuple[int, ...]
    with_inputs: bool
    device: int | None = field(init=False)

    def __post_init__(self) -> None:
        self.device = self.wanted[0] if self.wanted else None


def choose_devices(
    problem: Problem, graph: Graph, plan: Plan, ties: ModuleTies, placed: NDArray[np.int32]
) -> DeviceChoice:
    """Choose the map for a placement. placed: the device of every scheduled op.

    For entries that share a parameter and prefer several devices, the device is chosen one group after the other so
    that the map is best: first by the bytes over the limits, then by the objective. Raises InputError when no op has a
    module.
    """
    tree = ModuleTree(_spent(problem, graph, plan, placed), ties)
    groups = _groups(tree, ties)

    def mapped() -> tuple[dict[str, int], NDArray[np.int32]]:
        devices = _completed(groups, plan, ties)
        return devices, _of_ops(problem, graph, devices, _main(devices.values(), plan))

    for group in groups:
        if len(group.wanted) > 1 and not group.with_inputs:
            placements = []
            for device in group.wanted:
                group.device = device
                placements.append(mapped()[1])
            step_ns, peak, over = _core.measure_placements(problem.core, np.array(placements, np.int32), 1)
            values = (step_ns, peak) if problem.objective == "step-time" else (peak, step_ns)
            # Of equal ones the first, where most of the time is.
            group.device = group.wanted[int(np.lexsort((*reversed(values), over))[0])]
    devices, of_op = mapped()
    unread = [0] * plan.machine.num_devices
    for name, size in ties.unread.items():
        unread[devices[str(entry_of(devices, name))]] += size
    joined = [(group.paths, devices[group.paths[0]]) for group in groups if len(group.wanted) > 1]
    merged = tree.merged(devices)
    return DeviceChoice(
        devices=merged if len(set(devices.values())) > 1 else {"": next(iter(devices.values()))},
        of_op=of_op,
        joined=joined,
        unread_bytes=tuple(unread),
    )


def _spent(problem: Problem, graph: Graph, plan: Plan, placed: NDArray[np.int32]) -> dict[str, Spent]:
    """Sum up the time of each module's own ops by device. A module that holds a parameter and computes nothing is
    counted where the parameter is read, with no time."""
    lowered = problem.lowered
    times = problem.time_ns[lowered.graph_op, placed].tolist()
    spent: defaultdict[str, defaultdict[int, int]] = defaultdict(lambda: defaultdict(int))
    for index, device, time_ns in zip(lowered.graph_op.tolist(), placed.tolist(), times, strict=True):
        if module := graph.ops[index].module:
            # An op that takes no time still shows where its module is.
            spent[module][device] += max(1, time_ns)
    if not spent:
        raise InputError(
            f"the plan of '{plan.graph_name}' has no module paths to make a device map of; plan a PyTorch model instead"
        )
    computing = set(spent)
    for reader, resident in zip(lowered.resident_reader.tolist(), lowered.residents.tolist(), strict=True):
        tensor = graph.tensors[lowered.graph_resident[resident]]
        holder = tensor.name.rpartition(".")[0]
        is_idle = tensor.role == "parameter" and holder and holder not in computing
        if is_idle and is_forward(graph.ops[lowered.graph_op[reader]]):
            spent[holder][int(placed[reader])] += 1
    return dict(spent)


def _groups(tree: ModuleTree, ties: ModuleTies) -> list[_Group]:
    parts = tree.groups()
    preferred = {path: most(spent) for part in parts if (spent := _added(tree, part)) for path in part}
    kept = {entry_of(tree.entries, path) for path in ties.with_inputs}
    groups = []
    for paths in tree.shared(parts):
        spent = _added(tree, paths)
        wanted = {preferred[path] for path in paths if path in preferred}
        groups.append(
            _Group(
                paths=tuple(sorted(paths)),
                wanted=tuple(sorted(wanted, key=lambda device: (-spent.get(device, 0), device))),
                with_inputs=not kept.isdisjoint(paths),
            )
        )
    return groups


def _added(tree: ModuleTree, paths: Iterable[str]) -> Spent:
    total: defaultdict[int, int] = defaultdict(int)
    for path in paths:
        for device, time_ns in tree.entries[path].items():
            total[device] += time_ns
    return total


def _completed(groups: Sequence[_Group], plan: Plan, ties: ModuleTies) -> dict[str, int]:
    """Return the device of every entry. Entries whose results the network's own code combines with its inputs go to the
    device of the inputs; entries that no op reads go where the plan leaves the most memory."""
    devices = {path: group.device for group in groups if group.device is not None for path in group.paths}
    main = _main(devices.values(), plan)
    for group in groups:
        if group.with_inputs:
            devices.update(dict.fromkeys(group.paths, main))
    used = sorted(set(devices.values()), key=lambda device: (device != main, device))
    room = {
        device: math.inf
        if (limit := plan.memory_limits_bytes[device]) is None
        else limit - plan.metrics.peak_bytes[device]
        for device in used
    }
    idle = [group.paths for group in groups if group.paths[0] not in devices]
    sizes = {path: 0 for paths in idle for path in paths}
    for name, size in ties.unread.items():
        if (path := entry_of(sizes, name)) is not None:
            sizes[path] += size
    for paths in sorted(idle, key=lambda paths: -sum(sizes[path] for path in paths)):
        device = max(used, key=room.__getitem__)
        devices.update(dict.fromkeys(paths, device))
        room[device] -= sum(sizes[path] for path in paths)
    return devices


def _main(devices: Iterable[int], plan: Plan) -> int:
    """Find the device where accelerate runs ops that no entry covers, and to which it moves the inputs: the CPU if the
    map names it, by `main_device`, otherwise the first GPU."""
    return min(devices, key=lambda device: (not plan.machine.devices[device].is_cpu, device))


def _of_ops(problem: Problem, graph: Graph, devices: Mapping[str, int], main: int) -> NDArray[np.int32]:
    """Find per scheduled op the device of its module; for an op of a module that is taken apart, the device of its
    first operand. Inputs of the network, and ops without operands, are on the main device. Ops that must share a device
    go with the first."""
    found: list[int] = []
    for op in graph.ops:
        path = entry_of(devices, op.module)
        if path is None:
            operands = (_operand(graph, tensor, devices, found) for tensor in op.inputs)
            found.append(next((operand for operand in operands if operand is not None), main))
        else:
            found.append(devices[path])
    group, _ = problem.groups
    return np.array(found, np.int32)[problem.lowered.graph_op][group]


def _operand(graph: Graph, tensor: int, devices: Mapping[str, int], found: Sequence[int]) -> int | None:
    """Find the device of an op's operand; None for a constant."""
    maker = graph.producer_of[tensor]
    if maker >= 0:
        return found[maker]
    path = entry_of(devices, graph.tensors[tensor].name)
    return None if path is None else devices[path]
