"""Memory maps for other tools: a row per tensor for spreadsheets and compilers, a device map for accelerate.

Accelerate keeps weights of "cpu" and "disk" there, and brings those of a module to the GPU when the module runs. It
moves no activations and knows no cache, so these stay on the GPU, wherever the map has them.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Mapping

from placewright.export.device_map import Place, natural
from placewright.lab.memory_levels.record import MemoryMap
from placewright.support.errors import InputError, shown
from placewright.support.spreadsheet import csv_bytes

COLUMNS = (
    "level",
    "tensor",
    "role",
    "module",
    "size_bytes",
    "first_position",
    "last_position",
    "first_op",
    "last_op",
    "compiler_level",
)


def csv_of(found: MemoryMap) -> bytes:
    """CSV with the columns of COLUMNS, in the order of the map's tensors. Positions count the ops in the order in
    which they run, from 0; a weight is held from the first to the last of all."""
    levels, ops = found.chip.level_names, found.ops
    rows = [
        (
            levels[tensor.level],
            tensor.name,
            "weight" if tensor.is_weight else "activation",
            ops[tensor.op].module,
            tensor.size_bytes,
            tensor.first,
            tensor.last,
            ops[tensor.first].name,
            ops[tensor.last].name,
            levels[tensor.compiler_level],
        )
        for tensor in found.tensors
    ]
    return csv_bytes(COLUMNS, rows)


#: What accelerate calls a level that is not the fastest, by the level's name.
_LEVEL_PLACES: Mapping[str, Place] = {"host": "cpu", "cpu": "cpu", "disk": "disk"}
#: Weights that no module of the model has.
_CACHE = "cache"


def device_map_of(found: MemoryMap) -> bytes:
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
