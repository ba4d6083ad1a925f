"""Module path -> device, as accelerate and transformers read it: the longest listed prefix of a parameter's name wins.

A plan places ops; a module goes where most of the time of its own ops is spent. The map is the smallest one that gives
every module with ops of its own that device: Draves, King, Venkatachary and Zill, "Constructing optimal IP routing
tables" (1999), on dotted paths. Its first entry, "", covers every parameter that no other entry names.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from placewright.plans.record import Plan
from placewright.support.errors import InputError

Place = int | str


@dataclass
class _Module:
    """A node of the tree of module paths. own: its own device, None without ops of its own.

    wanted: devices that, inherited from above, let the subtree do with the fewest entries.
    """

    path: str
    own: int | None = None
    children: dict[str, _Module] = field(default_factory=dict)
    wanted: frozenset[int] = frozenset()


def to_bytes(plan: Plan) -> bytes:
    """The map as JSON; see `device_map`."""
    return (json.dumps(device_map(plan), indent=2, ensure_ascii=False) + "\n").encode("utf-8", "backslashreplace")


def device_map(plan: Plan) -> dict[str, Place]:
    """Module path -> place, sorted by path, numbers in it by value. A place is "cpu", or a number that counts the
    accelerators.

    Raises InputError when no op of the plan knows its module.
    """
    devices = map_of(((op.module, op.device, op.finish_ns - op.start_ns) for op in plan.ops), plan.graph_name)
    places = _places(plan)
    return {path: places[devices[path]] for path in sorted(devices, key=_natural)}


def _natural(path: str) -> list[tuple[int, int, str]]:
    """A sort key: "" first, "layers.2" before "layers.10"."""
    parts = path.split(".") if path else []
    return [
        (0, int(part), "") if part.isascii() and part.isdigit() and len(part) < 10 else (1, 0, part) for part in parts
    ]


def map_of(ops: Iterable[tuple[str, int, int]], graph_name: str) -> dict[str, int]:
    """Module path -> device index, of the module, device and time of every op. Raises InputError when no op knows its
    module."""
    spent: defaultdict[str, defaultdict[int, int]] = defaultdict(lambda: defaultdict(int))
    for module, device, time_ns in ops:
        if module:
            # An op that takes no time still says where its module is.
            spent[module][device] += max(1, time_ns)
    if not spent:
        raise InputError(
            f"the plan of '{graph_name}' has no module paths to make a device map of; plan a PyTorch model instead"
        )
    root = _tree({module: max(times, key=lambda d: (times[d], -d)) for module, times in spent.items()})
    _collect_wanted(root)
    devices = {root.path: min(root.wanted)}
    _list_exceptions(root, devices[root.path], devices)
    return devices


def device_of_module(devices: Mapping[str, int], module: str) -> int:
    """Where a map as `map_of` makes it puts a module: the longest listed prefix of its path wins."""
    while module not in devices:
        module = module.rpartition(".")[0]
    return devices[module]


def _tree(device_of: dict[str, int]) -> _Module:
    root = _Module("")
    for path, device in device_of.items():
        node = root
        for name in path.split("."):
            below = f"{node.path}.{name}" if node.path else name
            node = node.children.setdefault(name, _Module(below))
        node.own = device
    return root


def _collect_wanted(node: _Module) -> None:
    """Bottom-up: a module with ops of its own wants its device; another wants what most of its children want."""
    votes: defaultdict[int, int] = defaultdict(int)
    for child in node.children.values():
        _collect_wanted(child)
        for device in child.wanted:
            votes[device] += 1
    if node.own is not None:
        node.wanted = frozenset({node.own})
    else:
        most = max(votes.values())
        node.wanted = frozenset(device for device, count in votes.items() if count == most)


def _list_exceptions(node: _Module, inherited: int, devices: dict[str, int]) -> None:
    """Top-down: a module is listed when it cannot do with what it inherits."""
    for child in node.children.values():
        device = inherited
        if inherited not in child.wanted:
            device = devices[child.path] = min(child.wanted)
        _list_exceptions(child, device, devices)


def _places(plan: Plan) -> list[Place]:
    """What accelerate calls each device: "cpu", or the number of the accelerator."""
    places: list[Place] = []
    for device in plan.machine.devices:
        places.append("cpu" if device.is_cpu else sum(place != "cpu" for place in places))
    return places
