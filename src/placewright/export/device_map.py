"""Module path -> device, as accelerate's `dispatch_model` and transformers read it.

A plan places ops; a module goes where most of the time of its own ops is spent, if accelerate's hooks can put it there
(`module_ties.py`). No entry stands above another one: hooks of the outer entry would stay on what the inner one moves.
Parameters and buffers of the network itself, and of modules that are taken apart, are entries by their names.

Of a memory map accelerate keeps weights of "cpu" and "disk" there, and brings those of a module to the GPU when the
module runs. It moves no activations and knows no cache, so these stay on the GPU, wherever the map has them.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Mapping

from placewright.export.map_choice import choose_devices
from placewright.export.module_ties import module_ties
from placewright.export.placement_cost import planned_devices, unconstrained_problem
from placewright.graph import Graph
from placewright.memory_levels.record import MemoryMap
from placewright.plans.provenance import recorded_times
from placewright.plans.record import Plan
from placewright.support.errors import InputError, shown

Place = int | str


def to_bytes(plan: Plan, graph: Graph) -> bytes:
    """The map as JSON; see `device_map`."""
    return (json.dumps(device_map(plan, graph), indent=2, ensure_ascii=False) + "\n").encode(
        "utf-8", "backslashreplace"
    )


def device_map(plan: Plan, graph: Graph) -> dict[str, Place]:
    """Module path -> place, sorted by path, numbers in it by value. A place is "cpu", or a number that counts the
    accelerators; a map of one place has the one entry "".

    graph: the plan's, which tells what modules compute of each other's results and what they hold. Raises InputError
    when no op of it knows its module.
    """
    problem = unconstrained_problem(plan, graph, recorded_times(plan))
    devices = choose_devices(problem, graph, plan, module_ties(graph), planned_devices(problem, plan, graph)).devices
    places = _places(plan)
    return {path: places[devices[path]] for path in sorted(devices, key=natural)}


def natural(path: str) -> list[tuple[int, int, str]]:
    """A sort key: "" first, "layers.2" before "layers.10"."""
    parts = path.split(".") if path else []
    return [
        (0, int(part), "") if part.isascii() and part.isdigit() and len(part) < 10 else (1, 0, part) for part in parts
    ]


def _places(plan: Plan) -> list[Place]:
    """What accelerate calls each device: "cpu", or the number of the accelerator."""
    places: list[Place] = []
    for device in plan.machine.devices:
        places.append("cpu" if device.is_cpu else sum(place != "cpu" for place in places))
    return places


#: What accelerate calls a level that is not the fastest, by the level's name.
_LEVEL_PLACES: Mapping[str, Place] = {"host": "cpu", "cpu": "cpu", "disk": "disk"}
#: Weights that no module of the model has.
_CACHE = "cache"


def map_to_bytes(found: MemoryMap) -> bytes:
    """The map as JSON; see `level_device_map`."""
    return (json.dumps(level_device_map(found), indent=2, ensure_ascii=False) + "\n").encode("utf-8")


def level_device_map(found: MemoryMap) -> dict[str, Place]:
    """Module path -> 0, "cpu" or "disk". A module whose weights the map divides goes where most of their bytes are; one
    whose modules all go to one place is one entry.

    Raises InputError where the chip has levels that accelerate does not know, or no weight tells its module.
    """
    places = _level_places(found)
    held: defaultdict[str, Counter[int]] = defaultdict(Counter)
    for tensor in found.tensors:
        module, _, name = tensor.name.rpartition(".")
        if tensor.is_weight and module and name != _CACHE:
            held[module][tensor.level] += tensor.size_bytes
    if not held:
        raise InputError(f"the map of '{shown(found.graph_name)}' has no weights that tell their module")
    # Of levels with as many bytes the faster.
    levels = {module: max(sizes, key=lambda level: (sizes[level], -level)) for module, sizes in held.items()}
    whole = _whole(levels)
    return {path: places[whole[path]] for path in sorted(whole, key=natural)}


def _level_places(found: MemoryMap) -> list[Place]:
    first, *others = found.chip.level_names
    if unknown := [name for name in others if name not in _LEVEL_PLACES]:
        raise InputError(
            f"accelerate has no place for the level {shown(unknown[0])} of chip '{shown(found.chip.name)}': a device "
            f"map needs a chip whose levels after the first are called {', '.join(_LEVEL_PLACES)}; "
            "the target csv has all levels"
        )
    return ["cpu" if first == "cpu" else 0, *(_LEVEL_PLACES[name] for name in others)]


def _whole(levels: Mapping[str, int]) -> dict[str, int]:
    """Entries for the highest modules that need no taking apart. No entry stands above another one, since accelerate
    would load the weights of the inner one with those of the outer."""
    below: defaultdict[str, set[int]] = defaultdict(set)
    for module, level in levels.items():
        for path in _up(module):
            below[path].add(level)
    entries = {}
    for module in levels:
        # From the top; a module with weights of its own is an entry even where the modules in it go elsewhere.
        path = next(path for path in reversed(_up(module)) if len(below[path]) == 1 or path in levels)
        entries[path] = levels.get(path, levels[module])
    return entries


def _up(module: str) -> list[str]:
    """The module, and those it is in, from the inside."""
    paths = [module]
    while "." in paths[-1]:
        paths.append(paths[-1].rpartition(".")[0])
    return paths
