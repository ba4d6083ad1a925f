"""The checker's second half: what a plan claims besides its schedule (bound, status, baselines, why the search stopped)
and what its configuration demands, derived anew."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import asdict, replace
from fnmatch import fnmatchcase
from typing import Any, TypeGuard

import numpy as np
from numpy.typing import NDArray

from placewright.bounds import Bound, lower_bound, memory_floor_bytes, nothing_fits
from placewright.costs import count_sources
from placewright.costs.estimate import TimeSources
from placewright.graph import HOST_TARGET, LEAVE_TARGET, Graph, Op
from placewright.machines.host import parted
from placewright.plans.one_device import TIMED_ALONE, alone, captured_alone
from placewright.plans.record import Plan
from placewright.problem import Problem
from placewright.problem.constraints import OpNames, are_groups
from placewright.problem.objective import Metrics
from placewright.rematerialization.proofs import (
    bound_of_reruns,
    floor_of_reruns,
    kept_pattern,
    no_runs_fit,
    some_may_run_again,
)
from placewright.rematerialization.solve import NAME as REMATERIALIZATION
from placewright.rematerialization.solve import in_order
from placewright.search.constructive.one_device import INPUT_ORDER, ORDERS
from placewright.search.run.result import measure
from placewright.support.errors import InputError
from placewright.support.quantities import parse_bytes

#: Orders of a single device whose results are not recomputed here.
_FOUND_BY_SEARCH = (REMATERIALIZATION, TIMED_ALONE)
#: Bounds that hold only for plans that keep the limits.
_WITHIN_LIMITS = (
    "proven by the solver",
    "tensors that must be dropped and made again",
    "tensors that must be moved or made again",
)


def about_evidence(plan: Plan, metrics: Metrics, problem: Problem) -> list[str]:
    """Check bounds, baselines, status and the reason to stop against the metrics and the problem, both made anew."""
    return [
        *_about_bound(plan, metrics, problem),
        *_about_floor(plan, problem),
        *_about_slowdown(plan, metrics, problem),
        *_about_one_device(plan, problem),
        *_about_baselines(plan, metrics),
        *_about_status(plan, metrics, problem),
    ]


def unchecked(plan: Plan) -> list[str]:
    """List the claims of a plan that no check here repeats."""
    found = []
    if plan.bound_reason == "proven by the solver":
        unit = "ns" if plan.objective == "step-time" else "bytes"
        found.append(f"the lower bound of {plan.lower_bound:,} {unit}, which a search proved")
    if (one := plan.one_device) is not None and one.order in _FOUND_BY_SEARCH:
        name = plan.machine.devices[one.device].name
        found.append(f"what '{name}' alone reaches ({one.order}), which a search found or a step took")
    if plan.baselines:
        found.append("what baselines reach")
    return found


def _about_bound(plan: Plan, metrics: Metrics, problem: Problem) -> Iterator[str]:
    bound, value = _bound_that_holds(plan, metrics, problem), metrics.objective_value(plan.objective)
    if (plan.lower_bound, plan.bound_reason) != (bound.value, bound.reason):
        found = f"{plan.lower_bound} ({plan.bound_reason})"
        yield f"the lower bound is {found}, expected {bound.value} ({bound.reason})"
    if plan.lower_bound > value:
        yield f"the lower bound {plan.lower_bound} is above the plan's own {plan.objective} of {value}"


def _about_floor(plan: Plan, problem: Problem) -> Iterator[str]:
    """Check the least memory of any plan: if an op is named, it must equal the most that is proven; otherwise it must
    not exceed that."""
    found, op = plan.memory_floor_bytes, plan.memory_floor_op
    with_reruns, needs_it = floor_of_reruns(problem, parted(plan.machine)[1])
    if op and (found, op) != (with_reruns, needs_it):
        yield f"the least memory of any plan is {found} for op '{op}', expected {with_reruns} for op '{needs_it}'"
    proven = with_reruns if _some_may_run_again(plan, problem) else max(memory_floor_bytes(problem), with_reruns)
    if not op and found > proven:
        yield f"the least memory of any plan is {found}, and only {proven} is proven"


def _about_slowdown(plan: Plan, metrics: Metrics, problem: Problem) -> Iterator[str]:
    """Check the step time of a plan with reruns or moves against `max_slowdown`, relative to each op running once in
    the graph's order."""
    share = plan.configuration.get("max_slowdown")
    if share is None or not (plan.reruns or plan.moves):
        return
    if isinstance(share, bool) or not isinstance(share, int | float):
        yield f"the configuration's max_slowdown {share!r} is no share"
        return
    once = measure(problem, in_order(problem)).step_time_ns
    if metrics.step_time_ns > once * (1 + share):
        yield f"the step takes {metrics.step_time_ns} ns, above {once} ns by more than the max_slowdown of {share}"


def _about_one_device(plan: Plan, problem: Problem) -> Iterator[str]:
    """Check the result of the best single device: its order is run anew, and no device may be better in the captured
    order."""
    one, count = plan.one_device, problem.machine.num_devices
    if one is None or one.order in _FOUND_BY_SEARCH:
        return
    name, methods = plan.machine.devices[one.device].name, {method.name: method for method in ORDERS}
    if one.order not in methods or one.device >= count:
        yield f"the plan is compared with '{name}' alone in the order '{one.order}', which is none of one device"
        return
    reached = _on_devices(one.metrics, count)
    # With ops elsewhere the metrics include transfers, which other methods schedule differently.
    if one.order == INPUT_ORDER.name or not one.num_elsewhere:
        expected = alone(problem, one.device, methods[one.order])
        if (one.num_elsewhere, reached) != (expected.num_elsewhere, expected.metrics):
            found = f"{expected.metrics.step_time_ns} ns, not {reached.step_time_ns} ns"
            yield f"'{name}' alone takes {found} as the plan says, or other memory"
    for other in captured_alone(problem):
        if other.metrics.fitness(plan.objective) < reached.fitness(plan.objective):
            better = plan.machine.devices[other.device].name
            yield f"the plan is compared with '{name}' alone, and '{better}' alone is better"


def _on_devices(metrics: Metrics, count: int) -> Metrics:
    """Return the metrics without the host's memory."""
    return replace(metrics, peak_bytes=metrics.peak_bytes[:count], busy_ns=metrics.busy_ns[:count])


def _bound_that_holds(plan: Plan, metrics: Metrics, problem: Problem) -> Bound:
    """Return the problem's own bound, or a higher one that the solver proved, which cannot be proven again here."""
    tried = _reruns_were_tried(plan, metrics, problem)
    _, host = parted(plan.machine)
    fits = metrics.bytes_over_limit == 0
    own = bound_of_reruns(problem, fits=fits, host=host) if tried else lower_bound(problem)
    claimed = Bound(plan.lower_bound, plan.bound_reason)
    return claimed if claimed.reason == "proven by the solver" and claimed.value > own.value else own


def _reruns_were_tried(plan: Plan, metrics: Metrics, problem: Problem) -> bool:
    """True if the plan is compared with plans with reruns: if it has some, if they were asked for at a price, or if it
    does not fit although some were allowed. The value of `keep` is checked elsewhere."""
    if plan.machine.devices[-1].is_host or plan.configuration.get("max_slowdown") is not None:
        return True
    if plan.reruns or metrics.bytes_over_limit == 0:
        return bool(plan.reruns)
    return _some_may_run_again(plan, problem)


def _some_may_run_again(plan: Plan, problem: Problem) -> bool:
    """True if the configuration lets an op run again, or a tensor be moved."""
    keep = plan.configuration.get("keep")
    if plan.reruns or plan.machine.devices[-1].is_host:
        return True
    if not _are_patterns(keep):
        return False
    try:
        return some_may_run_again(problem, keep)
    except InputError:
        return False


def _are_patterns(value: Any) -> TypeGuard[list[str]]:
    return isinstance(value, list) and all(isinstance(pattern, str) for pattern in value)


def _about_baselines(plan: Plan, metrics: Metrics) -> Iterator[str]:
    own = metrics.fitness(plan.objective)
    for baseline in plan.baselines:
        if baseline.metrics is None:
            continue
        reached = baseline.metrics.fitness(plan.objective)
        if reached < own:
            yield f"baseline '{baseline.name}' is better than the plan: {reached} against {own}"
        # Some bounds hold only for plans that keep the limits; a baseline that breaks them may well be below.
        bounded = plan.bound_reason not in _WITHIN_LIMITS or baseline.metrics.bytes_over_limit == 0
        if bounded and baseline.metrics.objective_value(plan.objective) < plan.lower_bound:
            yield f"baseline '{baseline.name}' is below the lower bound {plan.lower_bound}"
        before = plan.input_order_memory
        if baseline.name == "input-order" and before and max(before.bytes_in_use) != baseline.metrics.peak_memory_bytes:
            peaks = f"{max(before.bytes_in_use)} bytes, that baseline at {baseline.metrics.peak_memory_bytes}"
            yield f"the memory of the input order peaks at {peaks}"


def _about_status(plan: Plan, metrics: Metrics, problem: Problem) -> Iterator[str]:
    """Check the status against the bound that holds, not the one the plan claims."""
    over, value = metrics.bytes_over_limit, metrics.objective_value(plan.objective)
    bound = _bound_that_holds(plan, metrics, problem).value
    expected = "infeasible" if over > 0 else "optimal" if value == bound else "feasible"
    facts = f"{over} bytes over the limits and a {plan.objective} of {value} against a bound of {bound}"
    if plan.status != expected:
        yield f"the status is {plan.status} with {facts}, expected {expected}"
    if plan.stopped_because == "optimal" and expected != "optimal":
        yield f"the search stopped because the plan is optimal, with {facts}"
    if plan.stopped_because == "infeasible" and (over == 0 or not _is_proven_unfit(plan, metrics, problem)):
        yield "the search stopped because nothing fits, which " + (
            "this plan refutes" if over == 0 else "is not proven"
        )


def _is_proven_unfit(plan: Plan, metrics: Metrics, problem: Problem) -> bool:
    if not _reruns_were_tried(plan, metrics, problem):
        return nothing_fits(problem)
    return no_runs_fit(problem, parted(plan.machine)[1])


def about_time_sources(plan: Plan, graph: Graph, time_origin: NDArray[np.int8] | None) -> list[str]:
    """Check the plan's counts of time sources against int8 [num graph ops, num devices]. A plan need not have them."""
    if plan.time_sources is None or time_origin is None:
        return []
    index_of = {op.name: index for index, op in enumerate(graph.ops)}
    found = count_sources(np.array([time_origin[index_of[op.name], op.device] for op in plan.ops], np.int8))
    if plan.time_sources == found:
        return []
    return [f"the plan says that its times are {_counts(plan.time_sources)}, expected {_counts(found)}"]


def _counts(sources: TimeSources) -> str:
    return ", ".join(f"{count} {name}" for name, count in asdict(sources).items())


def about_configuration(plan: Plan, graph: Graph) -> list[str]:
    """Check limits and placement against the memory limit, pins, forbids, colocations and kept ops that the
    configuration records. Plans need not record them."""
    return [
        *_about_memory_limit(plan),
        *_about_rules(plan, graph),
        *_about_colocations(plan, graph),
        *_about_keep(plan, graph),
    ]


def _about_memory_limit(plan: Plan) -> Iterator[str]:
    """Check the memory limits: a single size, as in earlier plans, is for every device; a table has the names of the
    limited devices."""
    if "memory_limit" not in plan.configuration:
        return
    recorded = plan.configuration["memory_limit"]
    names = [device.name for device in plan.machine.devices]
    given = dict(recorded) if isinstance(recorded, Mapping) else dict.fromkeys(names, recorded)
    for name in given.keys() - set(names):
        yield f"the configuration's memory_limit names device '{name}', which the machine does not have"
    for device, found in zip(plan.machine.devices, plan.memory_limits_bytes, strict=True):
        limit = given.get(device.name)
        try:
            limit = parse_bytes(limit) if isinstance(limit, str) else limit
        except InputError as error:
            yield f"the configuration's memory_limit: {error}"
            return
        if limit is not None and type(limit) is not int:
            yield f"the configuration's memory_limit {limit!r} is no size"
            return
        expected = min((size for size in (device.memory_bytes, limit) if size is not None), default=None)
        if found != expected:
            yield f"the memory limit of device '{device.name}' is {found}, by the configuration {expected}"


def _pairs(rules: Mapping[str, Any]) -> list[tuple[str, Any]]:
    """List pattern and device of each rule; several devices of one pattern are in a list."""
    return [(p, text) for p, found in rules.items() for text in (found if isinstance(found, list) else [found])]


def _about_rules(plan: Plan, graph: Graph) -> Iterator[str]:
    device_of = plan.device_of
    ops = _first_runs(plan, graph)
    names = OpNames(ops)
    for key, pinned in (("pins", True), ("forbids", False)):
        rules = plan.configuration.get(key) or {}
        if not isinstance(rules, Mapping):
            yield f"the configuration's {key} are no table of patterns and devices"
            continue
        for pattern, text in _pairs(rules):
            device = _device_index(plan, text)
            if device is None:
                yield f"the configuration's {key} name device '{text}', which the machine does not have"
                continue
            matched = names.matching(pattern)
            if not matched:
                yield f"the configuration's {key} name '{pattern}', which matches no op"
            for op in (ops[index].name for index in matched):
                if (device_of[op] == device) != pinned:
                    demand = f"{'pins' if pinned else 'forbids'} '{pattern}' to '{text}'"
                    yield f"op '{op}' is on device {device_of[op]}, but the configuration {demand}"


def _about_keep(plan: Plan, graph: Graph) -> Iterator[str]:
    keep = plan.configuration.get("keep") or []
    if not _are_patterns(keep):
        yield "the configuration's keep is no list of patterns"
        return
    ops = _placed_ops(graph)
    names, again = OpNames(ops), {rerun.op for rerun in plan.reruns}
    makers = {graph.tensors[tensor].name: op.name for op in ops for tensor in op.outputs}
    moved = {makers[move.tensor] for move in plan.moves if move.tensor in makers}
    weights = {move.tensor for move in plan.moves if move.leaves_before is None}
    name = [tensor.name for tensor in graph.tensors]
    source = {op.outputs[0]: op.inputs[0] for op in graph.ops if op.target == HOST_TARGET and op.outputs}
    bases = {op.name: {graph.base_of[tensor] for tensor in op.inputs} for op in ops}
    readers = {op: {name[source.get(base, base)] for base in read} for op, read in bases.items()}
    for entry in keep:
        what, pattern = kept_pattern(entry)
        if what == "weight":
            for weight in sorted(name for name in weights if fnmatchcase(name, pattern)):
                yield f"the weight '{weight}' is at the host, but the configuration keeps '{entry}'"
            continue
        matched = [ops[index].name for index in names.matching(pattern)]
        if not matched:
            yield f"the configuration's keep names '{pattern}', which matches no op"
        if what != "move":
            for op in again.intersection(matched):
                yield f"op '{op}' runs again, but the configuration keeps '{entry}'"
        if what != "recompute":
            for op in moved.intersection(matched):
                yield f"what op '{op}' makes is moved, but the configuration keeps '{entry}'"
            for weight in sorted(set[str]().union(*(readers[op] for op in matched)) & weights):
                yield f"the weight '{weight}' is at the host, but the configuration keeps '{entry}'"


def _about_colocations(plan: Plan, graph: Graph) -> Iterator[str]:
    device_of = plan.device_of
    groups = plan.configuration.get("colocate") or []
    if not are_groups(groups):
        yield "the configuration's colocate is no list of lists of patterns"
        return
    ops = _first_runs(plan, graph)
    names = OpNames(ops)
    for patterns in groups:
        found = {pattern: names.matching(pattern) for pattern in patterns}
        members = (ops[index].name for index in sorted(set[int]().union(*found.values())))
        devices = {device_of[op]: op for op in members}
        if len(devices) > 1:
            apart = ", ".join(f"op '{op}' on device {device}" for device, op in sorted(devices.items()))
            yield f"the configuration colocates {', '.join(patterns)}, but the plan has {apart}"
        for pattern, matched in found.items():
            if not matched:
                yield f"the configuration's colocate names '{pattern}', which matches no op"


def _first_runs(plan: Plan, graph: Graph) -> list[Op]:
    """List the ops without reruns, which no pattern names: they are on their op's device."""
    again = {rerun.name for rerun in plan.reruns}
    return [op for op in _placed_ops(graph) if op.name not in again]


def _placed_ops(graph: Graph) -> list[Op]:
    """List the ops that constraints and patterns can name. Those of moves are left out: their place is fixed."""
    return [op for op in graph.ops if op.kind != "view" and op.target not in (HOST_TARGET, LEAVE_TARGET)]


def _device_index(plan: Plan, text: object) -> int | None:
    """Find a device by name, else by number."""
    names = [device.name for device in plan.machine.devices]
    if str(text) in names:
        return names.index(str(text))
    return int(str(text)) if re.fullmatch("[0-9]{1,3}", str(text)) and int(str(text)) < len(names) else None
