"""Module path -> device, as accelerate's `dispatch_model` and transformers read it.

A plan places ops; a module goes where most of the time of its own ops is spent, if accelerate's hooks can put it there
(`module_ties.py`). No entry stands above another one: hooks of the outer entry would stay on what the inner one moves.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from placewright.export.module_ties import ModuleTies, module_ties
from placewright.graph import Graph
from placewright.plans.record import Plan
from placewright.support.errors import InputError

Place = int | str


@dataclass
class _Module:
    """A node of the tree of module paths. own: its own device, None without ops of its own. spent: time of the ops in
    it and below it, by device."""

    path: str
    own: int | None = None
    children: dict[str, _Module] = field(default_factory=dict)
    spent: defaultdict[int, int] = field(default_factory=lambda: defaultdict(int))


def to_bytes(plan: Plan, graph: Graph | None = None) -> bytes:
    """The map as JSON; see `device_map`."""
    return (json.dumps(device_map(plan, graph), indent=2, ensure_ascii=False) + "\n").encode(
        "utf-8", "backslashreplace"
    )


def device_map(plan: Plan, graph: Graph | None = None) -> dict[str, Place]:
    """Module path -> place, sorted by path, numbers in it by value. A place is "cpu", or a number that counts the
    accelerators; a map of one place has the one entry "".

    graph: the plan's, which tells what modules compute of each other's results; without it every module with ops of its
    own stays whole. Raises InputError when no op of the plan knows its module.
    """
    ops = [(op.module, op.device, op.finish_ns - op.start_ns) for op in plan.ops]
    if graph is None:
        devices = map_of(ops, plan, None)
    else:
        devices = map_of([*ops, *_idle_holders(graph, plan.device_of)], plan, module_ties(graph))
        if "" not in devices:
            devices.update(dict.fromkeys(_own_parameters(graph), _main(devices.values(), plan)))
    places = _places(plan)
    return {path: places[devices[path]] for path in sorted(devices, key=natural)}


def natural(path: str) -> list[tuple[int, int, str]]:
    """A sort key: "" first, "layers.2" before "layers.10"."""
    parts = path.split(".") if path else []
    return [
        (0, int(part), "") if part.isascii() and part.isdigit() and len(part) < 10 else (1, 0, part) for part in parts
    ]


def map_of(ops: Iterable[tuple[str, int, int]], plan: Plan, ties: ModuleTies | None) -> dict[str, int]:
    """Module path -> device index, of the module, device and time of every op on the plan's machine.

    ties: of the plan's graph. Raises InputError when no op knows its module.
    """
    spent: defaultdict[str, defaultdict[int, int]] = defaultdict(lambda: defaultdict(int))
    for module, device, time_ns in ops:
        if module:
            # An op that takes no time still says where its module is.
            spent[module][device] += max(1, time_ns)
    if not spent:
        raise InputError(
            f"the plan of '{plan.graph_name}' has no module paths to make a device map of; plan a PyTorch model instead"
        )
    entries = dict(_divided(_tree(spent), ties))
    devices = {}
    for group in _sharing(entries, ties):
        devices.update(dict.fromkeys(group, _most(_added(entries[path] for path in group))))
    if ties is not None:
        kept = {_entry_of(entries, path) for path in ties.with_inputs}
        main = _main(devices.values(), plan)
        for group in _sharing(entries, ties):
            if not kept.isdisjoint(group):
                devices.update(dict.fromkeys(group, main))
    return devices if len(set(devices.values())) > 1 else {"": next(iter(devices.values()))}


def _main(devices: Iterable[int], plan: Plan) -> int:
    """Where accelerate runs what no entry names, and moves the inputs to: the first GPU, or where a map names a CPU as
    well, by `main_device`, the CPU."""
    return min(devices, key=lambda device: (not plan.machine.devices[device].is_cpu, device))


def _own_parameters(graph: Graph) -> Iterator[str]:
    """Parameters and buffers of the network itself, in no layer."""
    for tensor in graph.tensors:
        if tensor.role == "parameter" and "." not in tensor.name:
            yield tensor.name


def _idle_holders(graph: Graph, device_of: Mapping[str, int]) -> Iterator[tuple[str, int, int]]:
    """Modules that hold a parameter which another module's op reads: they go where that op is."""
    computing = {op.module for op in graph.ops}
    for tensor, readers in zip(graph.tensors, graph.consumers_of, strict=True):
        module = tensor.name.rpartition(".")[0]
        if tensor.role == "parameter" and module not in computing:
            for reader in (graph.ops[index] for index in readers[:1]):
                if reader.name in device_of and reader.phase in ("", "forward"):
                    yield module, device_of[reader.name], 0


def device_of_module(devices: Mapping[str, int], module: str) -> int | None:
    """Where a map as `map_of` makes it puts a module: the entry on its path; None for one that is taken apart."""
    path = _entry_of(devices, module)
    return None if path is None else devices[path]


def _entry_of(entries: Collection[str], module: str) -> str | None:
    while module and module not in entries:
        module = module.rpartition(".")[0]
    return module if module in entries else None


def _tree(spent: Mapping[str, Mapping[int, int]]) -> _Module:
    root = _Module("")
    for path, times in spent.items():
        nodes = [root]
        for name in path.split("."):
            below = f"{nodes[-1].path}.{name}" if nodes[-1].path else name
            nodes.append(nodes[-1].children.setdefault(name, _Module(below)))
        nodes[-1].own = _most(times)
        for node in nodes:
            for device, time_ns in times.items():
                node.spent[device] += time_ns
    return root


def _most(times: Mapping[int, int]) -> int:
    return max(times, key=lambda device: (times[device], -device))


def _divided(node: _Module, ties: ModuleTies | None) -> Iterator[tuple[str, Mapping[int, int]]]:
    """Entries for what is below a module, with their time by device: a child that may not or need not be taken apart is
    one."""
    for child in node.children.values():
        wanted = _own_devices(child)
        if len(wanted) == 1:
            yield child.path, dict.fromkeys(wanted, sum(child.spent.values()))
        elif child.own is not None if ties is None else child.path in ties.whole:
            yield child.path, child.spent
        else:
            yield from _divided(child, ties)


def _own_devices(node: _Module) -> set[int]:
    found = set() if node.own is None else {node.own}
    return found.union(*(_own_devices(child) for child in node.children.values()))


def _sharing(entries: Collection[str], ties: ModuleTies | None) -> Iterable[Collection[str]]:
    """Entries in groups that share a device."""
    group_of = {path: {path} for path in entries}
    for tied in ties.together if ties is not None else ():
        found = [group_of[path] for path in {_entry_of(entries, module) for module in tied} if path is not None]
        joined = set().union(*found)
        group_of.update(dict.fromkeys(joined, joined))
    return {id(group): sorted(group) for group in group_of.values()}.values()


def _added(times: Iterable[Mapping[int, int]]) -> Mapping[int, int]:
    total: defaultdict[int, int] = defaultdict(int)
    for one in times:
        for device, time_ns in one.items():
            total[device] += time_ns
    return total


def _places(plan: Plan) -> list[Place]:
    """What accelerate calls each device: "cpu", or the number of the accelerator."""
    places: list[Place] = []
    for device in plan.machine.devices:
        places.append("cpu" if device.is_cpu else sum(place != "cpu" for place in places))
    return places
