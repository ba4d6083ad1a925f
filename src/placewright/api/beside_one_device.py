"""A plan with measured times, compared with what one of its devices does while the others are idle."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from placewright.api.functions import plan as make_plan
from placewright.api.questions import Plan
from placewright.graph import Graph
from placewright.machine import Machine
from placewright.plans.one_device import timed_alone
from placewright.plans.record import OneDevice
from placewright.search.constructive.one_device import INPUT_ORDER
from placewright.support.quantities import format_time_ns

_LOGGER = logging.getLogger(__name__)
#: The options that a plan of one device shares with one of several devices; the others are about the search.
_SHARED = ("objective", "memory_limit", "pins", "forbids", "colocate", "control", "keep")


@dataclass(frozen=True, kw_only=True)
class OpTimes:
    """Files of op times for one program.

    alone: of a device while all others are idle. shared: of each while all compute; the same file for one device.
    """

    alone: Path
    shared: Path


def plan_beside_one_device(graph: Graph, machine: Machine, times: OpTimes, options: Mapping[str, Any]) -> Plan:
    """Plan for a machine, and compare with the best single device as timed alone.

    Return the single device's plan, on the same machine, where the other would be slower and no solver was asked for: a
    plan that is known to lose never runs. options: as `placewright.plan` takes them.
    """
    plan = make_plan(graph, machine, measured=times.shared, **options)
    if machine.num_devices == 1 or plan.status == "infeasible":
        return plan
    shared = {key: options[key] for key in _SHARED if key in options}
    single = make_plan(graph, machine, measured=times.alone, solver="single-device", **shared)
    used = {op.device for op in single.ops}
    slower = plan.objective == "step-time" and plan.step_time_ns > single.step_time_ns
    if slower and len(used) == 1 and single.status != "infeasible" and options.get("solver", "auto") == "auto":
        if len({op.device for op in plan.ops}) > 1:
            name = machine.devices[used.pop()].name
            _LOGGER.warning(
                "on several devices a step would take %s, on %s alone %s: all ops run there",
                *(format_time_ns(plan.step_time_ns), name, format_time_ns(single.step_time_ns)),
            )
        return single
    return Plan.of(replace(plan, one_device=timed_alone(plan, single.one_device)))


def beside_first_device(plan: Plan, alone: Plan) -> Plan:
    """The plan, compared with a plan of its first device, with whatever times that has."""
    metrics, others = alone.metrics, (0,) * (plan.machine.num_devices - 1)
    if not others:
        return plan
    padded = replace(metrics, peak_bytes=metrics.peak_bytes + others, busy_ns=metrics.busy_ns + others)
    one = OneDevice(device=0, order=INPUT_ORDER.name, num_elsewhere=0, metrics=padded)
    return Plan.of(replace(plan, one_device=timed_alone(plan, one)))
