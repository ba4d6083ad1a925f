"""Device maps (module path -> device), as accelerate's `dispatch_model` and transformers read them.

A plan places ops; a module goes to the device that spends the most time on its own ops, if accelerate's hooks can put
it there (`module_ties.py`). No entry is an ancestor of another: hooks of the outer entry would also act on what the
inner one moves. Parameters and buffers of the network itself, and of modules that are taken apart, are entries by their
names.
"""

from __future__ import annotations

import json

from placewright.export.map_choice import choose_devices
from placewright.export.module_ties import module_ties
from placewright.export.placement_cost import planned_devices, unconstrained_problem
from placewright.graph import Graph
from placewright.plans.provenance import recorded_times
from placewright.plans.record import Plan

Place = int | str


def to_bytes(plan: Plan, graph: Graph) -> bytes:
    """Write the map as JSON; see `device_map`."""
    return (json.dumps(device_map(plan, graph), indent=2, ensure_ascii=False) + "\n").encode(
        "utf-8", "backslashreplace"
    )


def device_map(plan: Plan, graph: Graph) -> dict[str, Place]:
    """Map module paths to places, sorted by path with numbers in it by value. A place is "cpu", or a number that counts
    the accelerators; a map with a single place has the one entry "".

    graph: the plan's, which says which modules read each other's results and what they hold. Raises InputError when
    none of its ops has a module.
    """
    problem = unconstrained_problem(plan, graph, recorded_times(plan))
    devices = choose_devices(problem, graph, plan, module_ties(graph), planned_devices(problem, plan, graph)).devices
    places = _places(plan)
    return {path: places[devices[path]] for path in sorted(devices, key=natural)}


def natural(path: str) -> list[tuple[int, int, str]]:
    """Return a sort key that puts "" first, and "layers.2" before "layers.10"."""
    parts = path.split(".") if path else []
    return [
        (0, int(part), "") if part.isascii() and part.isdigit() and len(part) < 10 else (1, 0, part) for part in parts
    ]


def _places(plan: Plan) -> list[Place]:
    """List accelerate's name for each device: "cpu", or the number of the accelerator."""
    places: list[Place] = []
    for device in plan.machine.devices:
        places.append("cpu" if device.is_cpu else sum(place != "cpu" for place in places))
    return places
