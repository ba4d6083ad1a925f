"""The best result of a single device, with which a plan is compared, whichever device the user names first."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

import placewright._core as _core
from placewright.machines.host import usual_host
from placewright.machines.topology import only
from placewright.plans.record import OneDevice, Plan
from placewright.problem import Problem
from placewright.problem.constraints import Constraints
from placewright.problem.objective import Metrics
from placewright.rematerialization import solve
from placewright.rematerialization.proofs import no_runs_fit, some_may_move, some_may_run_again
from placewright.rematerialization.reruns import made_names
from placewright.search.constructive.baseline import Candidate, evaluate
from placewright.search.constructive.one_device import INPUT_ORDER, ORDERS, OneDeviceOrder, distinct_devices
from placewright.search.run.budget import Budget, Interrupted
from placewright.search.run.result import Result, measure
from placewright.search.run.search_run import SearchRun

#: An order of ops with transfers early, late or batched; there are none unless pins keep ops elsewhere.
#: One order of ops is tried with transfers early, late and batched; only pins that keep ops elsewhere cause transfers.
_EVALUATIONS = 3
#: The captured order with ops timed while the other devices were idle, so that times differ from those of the plan.
TIMED_ALONE = "input-order, timed alone"


def best_one_device(problem: Problem, result: Result, within: OneDevice | None = None) -> OneDevice:
    """Return the captured order on the device where it is best, or `within` where that is better. If neither fits:
    another simple order that fits one device, if a baseline found one; else the captured order on the device that it
    exceeds least."""

    def fitness(one: OneDevice) -> tuple[int, int, int]:
        return one.metrics.fitness(problem.objective)

    found = min([*captured_alone(problem), *([] if within is None else [within])], key=fitness)
    if found.metrics.bytes_over_limit == 0:
        return found
    others = [one for one in _of_baselines(result) if one.metrics.bytes_over_limit == 0]
    return min(others, key=fitness, default=found)


def within_one_device(
    problem: Problem, seed: int, seconds: float | None, keep: Sequence[str], interrupted: Interrupted | None = None
) -> OneDevice | None:
    """Find the best that one of several devices does within its memory when ops run again there, or their results are
    moved to the host. Only devices that do not hold the captured order, and might still beat those that do, are
    searched. None where nothing is found, where ops are bound to devices, and where the objective is not the step time.

    seconds: the longest search per device. keep: as `kept` takes it.
    """
    bound = problem.constraints.pins or problem.constraints.forbids
    if problem.machine.num_devices == 1 or problem.objective != "step-time" or bound:
        return None
    captured = list(captured_alone(problem))
    fitting = [one.metrics.step_time_ns for one in captured if one.metrics.bytes_over_limit == 0]
    best: OneDevice | None = None
    for one in sorted(captured, key=lambda one: one.metrics.step_time_ns):
        # Reruns only add time to a captured order that is already slower than one that fits.
        if one.metrics.bytes_over_limit == 0 or one.metrics.step_time_ns >= min(fitting, default=2**62):
            continue
        if (metrics := _rematerialized(problem, one.device, seed, seconds, keep, interrupted)) is None:
            continue
        fitting.append(metrics.step_time_ns)
        if metrics.step_time_ns == min(fitting):
            best = OneDevice(device=one.device, order=solve.NAME, num_elsewhere=0, metrics=metrics)
    return best


def timed_alone(plan: Plan, one: OneDevice | None) -> OneDevice | None:
    """Return the comparison for a plan whose times were measured while all devices computed. one: the result with times
    measured on one device alone, None where these are not known. If it does not fit, or ops run elsewhere meanwhile,
    the plan's own comparison is returned."""
    if one is None or one.metrics.bytes_over_limit or one.num_elsewhere:
        return plan.one_device
    return replace(one, order=TIMED_ALONE) if one.order == INPUT_ORDER.name else one


def _rematerialized(
    problem: Problem,
    device: int,
    seed: int,
    seconds: float | None,
    keep: Sequence[str],
    interrupted: Interrupted | None,
) -> Metrics | None:
    """Search one device alone, and return metrics of the whole machine; None where nothing fits."""
    alone = replace(
        problem,
        machine=only(problem.machine, device),
        time_ns=np.ascontiguousarray(problem.time_ns[:, device : device + 1]),
        time_origin=None,
        memory_limits_bytes=problem.memory_limits_bytes[device : device + 1],
        constraints=Constraints(),
    )
    host = usual_host(alone.machine)
    host = host if some_may_move(alone, keep, host) else None
    if made_names(alone.graph, moves=host is not None):
        return None  # reruns could not be named
    if no_runs_fit(alone, host) or not (host is not None or some_may_run_again(alone, keep)):
        return None
    budget = Budget(evaluations=solve.rerun_evaluations(alone), seconds=seconds)
    run = SearchRun(budget, seed=seed, interrupted=interrupted)
    orders = [solve.order_of_least_memory(alone)]
    metrics = solve.rematerialize(alone, run, keep, host, orders).result.metrics
    if metrics.bytes_over_limit:
        return None

    def there(value: int) -> tuple[int, ...]:
        return tuple(value if each == device else 0 for each in range(problem.machine.num_devices))

    return replace(metrics, peak_bytes=there(metrics.peak_bytes[0]), busy_ns=there(metrics.busy_ns[0]))


def alone(problem: Problem, device: int, method: OneDeviceOrder) -> OneDevice:
    """Evaluate one device with the order of a method."""
    device_of = _core.all_on(problem.core, device)
    candidate = Candidate(name=method.name, device_of=device_of, order=method.order(problem))
    metrics = measure(problem, evaluate(problem, candidate, _EVALUATIONS).solution)
    return OneDevice(device=device, order=method.name, num_elsewhere=int((device_of != device).sum()), metrics=metrics)


def captured_alone(problem: Problem) -> Iterator[OneDevice]:
    """Yield the captured order on each device that is not like an earlier one."""
    return (alone(problem, device, INPUT_ORDER) for device in distinct_devices(problem))


def _of_baselines(result: Result) -> Iterator[OneDevice]:
    names = {method.name for method in ORDERS}
    for baseline in result.baselines:
        order = baseline.found_by.rpartition(": ")[2]
        if order in names:
            ops_on = np.bincount(baseline.solution.device_of)
            device = int(ops_on.argmax())
            yield OneDevice(
                device=device,
                order=order,
                num_elsewhere=int(ops_on.sum() - ops_on[device]),
                metrics=baseline.metrics,
            )
