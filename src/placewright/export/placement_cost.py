"""The cost of a placement that an executed export makes of a plan: the graph planned anew under it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from placewright.analysis.outcome import again_words, device_words
from placewright.costs import estimate_costs
from placewright.graph import Graph
from placewright.methods.table import default_evaluations, make_method
from placewright.plans.record import Plan
from placewright.problem import Problem
from placewright.problem.constraints import Constraints, recorded_constraints
from placewright.problem.objective import Metrics
from placewright.search.constructive.contiguous_split import ContiguousSplit
from placewright.search.run.budget import Budget
from placewright.search.run.search_run import SearchRun
from placewright.support.errors import InputError
from placewright.support.quantities import format_bytes, format_time_ns

#: As a share of the default evaluations of a plan: the placement is given, and only the order is sought.
_SHARE_OF_EVALUATIONS = 0.125


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacementCost:
    """The cost of a placement. anew: metrics planned anew. one_at_a_time_ns: step time in captured order without
    parallelism."""

    anew: Metrics
    one_at_a_time_ns: int


def unconstrained_problem(plan: Plan, graph: Graph, measured: Path | None) -> Problem:
    """Build the plan's problem without constraints, with ops renamed so that no pattern matches them.

    Raises InputError for a plan that moves tensors to the host, which no placement of whole modules expresses.
    """
    if plan.moves:
        raise InputError("the plan moves tensors to the host's memory; neither device maps nor pipelines do")
    costs = estimate_costs(graph, plan.machine, measured)
    ops = tuple(replace(op, name=f"op {index}", module="") for index, op in enumerate(graph.ops))
    return Problem(
        graph=replace(graph, ops=ops),
        machine=plan.machine,
        time_ns=costs.time_ns,
        objective=plan.objective,
        control=plan.control,
        memory_limits_bytes=plan.memory_limits_bytes,
    )


def planned_devices(problem: Problem, plan: Plan, graph: Graph) -> NDArray[np.int32]:
    """Return the device of every scheduled op in the plan."""
    return np.array([plan.device_of[graph.ops[index].name] for index in problem.lowered.graph_op], np.int32)


def split_by_layers(problem: Problem, plan: Plan, graph: Graph) -> NDArray[np.int32]:
    """Return the placement of `contiguous-split`, whose layers mostly stay whole, under the plan's constraints."""
    constrained = replace(problem, graph=graph, constraints=recorded_constraints(plan.configuration))
    return ContiguousSplit().solve(constrained, SearchRun()).solution.device_of


def found_anew(problem: Problem, plan: Plan, graph: Graph) -> NDArray[np.int32]:
    """Return the placement of `auto` at its default budget, under the plan's constraints."""
    constrained = replace(problem, graph=graph, constraints=recorded_constraints(plan.configuration))
    budget = Budget(evaluations=default_evaluations("auto", constrained))
    return make_method("auto").solve(constrained, SearchRun(budget, seed=plan.seed)).solution.device_of


def placement_cost(problem: Problem, device_of: NDArray[np.int32], seed: int) -> PlacementCost:
    """Plan the problem anew with every scheduled op on its device in `device_of`."""
    devices = problem.machine.devices
    names = [problem.graph.ops[index].name for index in problem.lowered.graph_op]
    pins = tuple((name, devices[device].name) for name, device in zip(names, device_of.tolist(), strict=True))
    pinned = replace(problem, constraints=Constraints(pins=pins))
    evaluations = max(1, int(default_evaluations("auto", pinned) * _SHARE_OF_EVALUATIONS))
    result = make_method("auto").solve(pinned, SearchRun(Budget(evaluations=evaluations), seed=seed))
    return PlacementCost(anew=result.metrics, one_at_a_time_ns=one_at_a_time_ns(problem, device_of))


def one_at_a_time_ns(problem: Problem, device_of: NDArray[np.int32]) -> int:
    """Time the captured order without parallelism: an input from another device is sent right before its op, each
    tensor once to a device. A host thread launches ahead of the step that runs."""
    lowered, machine = problem.lowered, problem.machine
    times = problem.time_ns[lowered.graph_op, device_of].tolist()
    places, homes = device_of.tolist(), device_of[lowered.producer].tolist()
    begin, inputs, sizes = (column.tolist() for column in (lowered.input_begin, lowered.inputs, lowered.transfer_bytes))
    launched = [0] * machine.num_devices
    present: set[tuple[int, int]] = set()
    now = 0

    def run(launcher: int, time_ns: int) -> None:
        nonlocal now
        if launcher >= 0 and machine.hosts[launcher] >= 0 and time_ns:
            host = machine.hosts[launcher]
            launched[host] += machine.devices[launcher].launch_overhead_ns
            now = max(now, launched[host])
        now += time_ns

    for op, (place, time_ns) in enumerate(zip(places, times, strict=True)):
        for tensor in inputs[begin[op] : begin[op + 1]]:
            home = homes[tensor]
            if home != place and (tensor, place) not in present:
                present.add((tensor, place))
                run(machine.launcher(home, place), machine.links[home][place].transfer_time_ns(sizes[tensor]))
        run(place, time_ns)
    return now


def over_words(metrics: Metrics) -> str:
    """State the bytes over the limits, for the end of a sentence."""
    return f", {format_bytes(metrics.bytes_over_limit)} over the limits" if metrics.bytes_over_limit else ""


def one_device_words(plan: Plan) -> str:
    """State the time of one device, for the end of a sentence."""
    one = plan.one_device
    if one is None:
        return ""
    taken = "does not hold it" if one.metrics.bytes_over_limit else format_time_ns(one.metrics.step_time_ns)
    return f"; {device_words(plan, one.device)} alone{again_words(one)} {taken}"
