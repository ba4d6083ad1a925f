"""Assembly of the plan from a method's result: simulates the solution once more and collects the evidence."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from placewright.bounds import Bound, lower_bound, memory_floor_bytes
from placewright.costs import count_sources
from placewright.costs.estimate import TimeSources
from placewright.machines.host import HostMemory
from placewright.plans import schedule
from placewright.plans.buffers import buffers_and_curves
from placewright.plans.one_device import best_one_device
from placewright.plans.record import BaselineOutcome, MemoryCurve, OneDevice, Plan
from placewright.problem import Problem
from placewright.problem.objective import Metrics, Status, status_of
from placewright.rematerialization.proofs import bound_of_reruns, floor_of_reruns, no_runs_fit, quick_floor
from placewright.rematerialization.reruns import Move, Rerun
from placewright.rematerialization.solve import Rematerialized, with_reruns
from placewright.search.constructive.one_device import INPUT_ORDER
from placewright.search.run.result import Result, measure
from placewright.version import VERSION

_LOGGER = logging.getLogger(__name__)
#: How many ops with a guessed time a warning names.
_NUM_NAMED = 3


def assemble_plan(
    problem: Problem,
    result: Result,
    *,
    solver: str,
    seconds: float,
    options: Mapping[str, Any] | None = None,
    again: Rematerialized | None = None,
    host: HostMemory | None = None,
    within: OneDevice | None = None,
    may_run_again: bool = False,
) -> Plan:
    """The plan of a result, with its bound, baselines and status. options: of the run, JSON values only; they become
    the plan's configuration, with the constraints, which the bound rests on, and the configuration of the method.
    again: the result with reruns and moves, used where it is better. host: where tensors may be moved to.
    may_run_again: true if ops may run again or tensors may be moved."""
    if again is None:
        floor = quick_floor(problem, host) if may_run_again else memory_floor_bytes(problem)
        shown = _Shown(problem=problem, result=result, bound=_bound(problem, result), floor_bytes=floor)
    else:
        shown = _of_several_runs(problem, result, again, host)
    best = best_one_device(problem, result, within)
    return _recorded(problem, shown, solver=solver, seconds=seconds, options=options or {}, one_device=best)


def _recorded(
    problem: Problem, shown: _Shown, *, solver: str, seconds: float, options: Mapping[str, Any], one_device: OneDevice
) -> Plan:
    """The plan, from the shown result simulated once more. problem: as posed, without reruns and the host's memory."""
    whole, result, bound = shown.problem, shown.result, shown.bound
    timed = schedule.simulate(whole, result.solution)
    buffers, curves = buffers_and_curves(timed)
    return Plan(
        graph_name=whole.graph.name,
        graph_fingerprint=whole.graph.fingerprint,
        num_graph_ops=len(whole.graph.ops),
        machine=whole.machine,
        objective=whole.objective,
        control=whole.control,
        memory_limits_bytes=whole.memory_limits_bytes,
        ops=schedule.scheduled_ops(timed),
        transfers=schedule.transfers(timed),
        buffers=buffers,
        memory_curves=curves,
        metrics=result.metrics,
        baselines=_baselines(whole, result),
        lower_bound=bound.value,
        bound_reason=bound.reason,
        memory_floor_bytes=shown.floor_bytes,
        status=_status(whole, result, bound),
        solver=solver,
        found_by=result.found_by,
        seed=result.seed,
        evaluations=result.evaluations,
        seconds=seconds,
        stopped_because=result.stopped_because,
        configuration={**problem.constraints.record(), **options, "method": dict(result.configuration)},
        warnings=_warnings(whole),
        version=VERSION,
        time_sources=_time_sources(whole, result),
        one_device=replace(one_device, metrics=_on(whole, one_device.metrics)),
        input_order_memory=_input_order_memory(problem, result),
        reruns=shown.reruns,
        memory_floor_op=shown.floor_op,
        moves=shown.moves,
    )


@dataclass(frozen=True, kw_only=True)
class _Shown:
    """The result that a plan shows, and what is proven of it.

    problem: with the reruns and moves of the result. floor_bytes: what no plan can go below, at floor_op.
    """

    problem: Problem
    result: Result
    bound: Bound
    floor_bytes: int
    floor_op: str = ""
    reruns: tuple[Rerun, ...] = ()
    moves: tuple[Move, ...] = ()


def _of_several_runs(problem: Problem, result: Result, again: Rematerialized, host: HostMemory | None) -> _Shown:
    """The result, or the one with reruns and moves where that is better."""
    floor, floor_op = floor_of_reruns(problem, host)
    whole, reruns, moves = problem, tuple[Rerun, ...](), tuple[Move, ...]()
    if again.result.metrics.fitness(problem.objective) < result.metrics.fitness(problem.objective):
        whole, reruns, moves = again.problem, again.reruns, again.moves
        result = replace(again.result, baselines=result.baselines)
    elif host is not None:
        whole = with_reruns(problem, host=host)
        result = replace(result, metrics=measure(whole, result.solution))
    proven = no_runs_fit(problem, host)
    result = replace(result, stopped_because="infeasible" if proven else again.result.stopped_because)
    bound = bound_of_reruns(problem, fits=result.metrics.bytes_over_limit == 0, host=host)
    runs_once = not (reruns or moves or result.metrics.bytes_over_limit or whole.machine.devices[-1].is_host)
    if runs_once and (problem.objective == "step-time" or problem.machine.num_devices > 1):
        bound = lower_bound(problem)  # another placement fits, in which each op runs once
    return _Shown(
        problem=whole,
        result=result,
        bound=bound,
        floor_bytes=floor,
        floor_op=floor_op,
        reruns=reruns,
        moves=moves,
    )


def _baselines(problem: Problem, result: Result) -> tuple[BaselineOutcome, ...]:
    return tuple(
        BaselineOutcome(name=baseline.method, metrics=_on(problem, baseline.metrics), seconds=baseline.seconds)
        for baseline in result.baselines
    )


def _status(problem: Problem, result: Result, bound: Bound) -> Status:
    return status_of(result.metrics.objective_value(problem.objective), result.metrics.bytes_over_limit, bound.value)


def _on(problem: Problem, metrics: Metrics) -> Metrics:
    """Metrics measured without the host's memory, with zeros for devices that the machine has in addition."""
    without = (0,) * (problem.machine.num_devices - len(metrics.peak_bytes))
    return replace(metrics, peak_bytes=metrics.peak_bytes + without, busy_ns=metrics.busy_ns + without)


def _bound(problem: Problem, result: Result) -> Bound:
    """The problem's own bound, or a better one of the method, which holds for plans that keep the limits only."""
    own, proven = lower_bound(problem), result.proven_bound
    if proven is None or proven <= own.value or result.metrics.bytes_over_limit > 0:
        return own
    return Bound(proven, "proven by the solver")


def _time_sources(problem: Problem, result: Result) -> TimeSources | None:
    """Counts of the sources of op times, for every scheduled op on the device it runs on; None where unknown."""
    if problem.time_origin is None:
        return None
    return count_sources(problem.time_origin[problem.lowered.graph_op, result.solution.device_of])


def _input_order_memory(problem: Problem, result: Result) -> MemoryCurve | None:
    """The memory over time that a plan for peak memory is compared with; None for other objectives."""
    captured = next((b for b in result.baselines if b.method == INPUT_ORDER.name), None)
    if captured is None or problem.objective != "peak-memory":
        return None
    _, curves = buffers_and_curves(schedule.simulate(problem, captured.solution))
    return max(curves, key=lambda curve: max(curve.bytes_in_use))


def _warnings(problem: Problem) -> tuple[str, ...]:
    """The importer's warnings, and one that names ops with a guessed time."""
    warnings = [str(warning) for warning in problem.graph.metadata.get("warnings", ())]
    guessed = problem.without_formula
    if guessed:
        more = f" and {len(guessed) - _NUM_NAMED:,} more" if len(guessed) > _NUM_NAMED else ""
        names = ", ".join(guessed[:_NUM_NAMED]) + more
        warnings.append(f"no formula for the time of {len(guessed):,} ops, only bytes and launch count: {names}")
        _LOGGER.warning(warnings[-1])
    return tuple(warnings)
