"""Plans that keep a memory limit as a GPU's allocator counts it, which leaves ends of blocks unused.

Imported only where torch is known to be present.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from placewright.api.functions import plan as make_plan
from placewright.api.local_devices import Devices
from placewright.api.questions import Plan
from placewright.execution.pytorch.profile import unchanged
from placewright.graph import Graph
from placewright.machines.limits import host_and_limits

#: The most attempts to plan again for a GPU whose allocator takes more than the plan, and the largest excess, as a
#: share of the limit, for which this is tried.
_MOST_ATTEMPTS, _MOST_UNPLANNED = 3, 0.1


def within_allocated(
    graph: Graph,
    plan: Plan,
    times: Path,
    devices: Devices,
    options: Mapping[str, Any],
    peak_bytes: Callable[[Plan], int],
) -> Plan:
    """A plan that keeps the limit when it runs, or the given one where none is found or the excess is too large.

    times: of ops. options: as `placewright.plan` takes them, with a memory limit. peak_bytes: of a step that is run.
    """
    if devices.is_recorded or devices.places[0].driver is None or plan.reruns or plan.moves:
        return plan
    _, limited = host_and_limits(options["memory_limit"], devices.machine)
    limit = next(iter((limited or {}).values()))
    unplanned = 0
    for _ in range(_MOST_ATTEMPTS):
        with unchanged((), devices.places):
            over = peak_bytes(plan) - limit
        if not 0 < over <= _MOST_UNPLANNED * limit:
            break
        unplanned += over
        again = make_plan(graph, devices.machine, measured=times, **{**options, "memory_limit": limit - unplanned})
        if again.status == "infeasible":
            break
        plan = again
    return plan
