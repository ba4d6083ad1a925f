"""Planning of several devices within memory limits that no placement at hand keeps: ops run again on their device, or
their results are moved to the host and back."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from placewright.machines.host import HostMemory
from placewright.problem import Problem
from placewright.rematerialization.device_problem import DeviceProblem
from placewright.rematerialization.placed_problem import DeviceRewrites, PlacedProblem, PlacedSchedule
from placewright.rematerialization.proofs import kept
from placewright.rematerialization.reruns import check_names
from placewright.rematerialization.solve import NAME, Rematerialized, ops_of
from placewright.search.constructive.contiguous_split import ContiguousSplit
from placewright.search.run.result import Solution
from placewright.search.run.search_run import SearchRun

Int32 = NDArray[np.int32]
#: The most searches per device, each with a lower limit than the one before.
_ROUNDS = 5
#: The share of the budget at which each stage ends: all placements, the best of them, placements near it, and the best
#: of all once more.
_ALL, _BEST, _NEAR, _LAST = 0.25, 0.5, 0.75, 1.0
#: The number of blocks of ops that are moved to another device, and the largest block as a share of all ops.
_TRIALS, _LARGEST_BLOCK = 32, 0.25


def rematerialize_on_several(
    problem: Problem,
    run: SearchRun,
    solutions: Sequence[Solution],
    keep: Sequence[str] = (),
    host: HostMemory | None = None,
) -> Rematerialized:
    """Search for the best runs and moves over several placements and orders of first runs; if none keeps the limits,
    return those nearest to it.

    problem: of several devices. solutions: placements to try, besides those of `ContiguousSplit`, which cuts a network
    into layers. keep: as `kept` takes it, which says what it raises. host: memory to which tensors may be moved.
    """
    kept(problem, keep)
    check_names(problem.graph, moves=host is not None)
    placed = _placed(problem, run, solutions, keep, host)
    found: list[PlacedSchedule] = []

    def best() -> PlacedSchedule:
        return min(found, key=PlacedSchedule.fitness)

    for number, each in enumerate(placed, start=1):
        if found and run.reason_to_stop() is not None:
            break
        if not found or not each.is_slower_than(best()):
            found.append(_within_limits(each, run, _ALL * number / len(placed)))
    if run.reason_to_stop() is None:
        found.append(_within_limits(best().start, run, _BEST))
    found += list(_near(found, run))
    if run.reason_to_stop() is None:
        found.append(_within_limits(best().start, run, _LAST))
    return _as_result(problem, run, best())


def _placed(
    problem: Problem, run: SearchRun, solutions: Sequence[Solution], keep: Sequence[str], host: HostMemory | None
) -> list[PlacedProblem]:
    """List the placements to try, each once, without those that cannot fit if some can. The fastest without reruns
    comes first: a rerun takes time, so the slower ones may be left out."""
    pairs = [(each.device_of, ops_of(each.order)) for each in solutions]
    pairs += ((each.device_of, ops_of(each.order)) for each in ContiguousSplit().candidates(problem))
    placed: list[PlacedProblem] = []
    for device_of, ops in {(device_of.tobytes(), ops.tobytes()): (device_of, ops) for device_of, ops in pairs}.values():
        if placed and run.reason_to_stop() is not None:
            break
        each = PlacedProblem(problem, device_of, ops, keep, host)
        # The host processes the moves of all devices in one order, in which no device should wait for another.
        placed.append(each if host is None else PlacedProblem(problem, device_of, each.by_time(), keep, host))
    placed = [each for each in placed if each.may_fit()] or placed[:1]
    return sorted(placed, key=lambda each: each.once.metrics.step_time_ns)


def _as_result(problem: Problem, run: SearchRun, whole: PlacedSchedule) -> Rematerialized:
    reason = run.reason_to_stop() or "evaluations"
    if not whole.reruns and not whole.moves:
        once = run.result(problem, NAME, whole.start.original(whole.solution), stopped_because=reason)
        return Rematerialized(problem=problem, result=once, reruns=())
    result = run.result(whole.problem, NAME, whole.solution, stopped_because=reason)
    return Rematerialized(problem=whole.problem, result=result, reruns=whole.reruns, moves=whole.moves)


def _near(found: Sequence[PlacedSchedule], run: SearchRun) -> Iterator[PlacedSchedule]:
    """Yield better schedules, whose placements have a block of ops on another device. One half of the trials begins
    with the most promising schedule, which may exceed the limits, the other half with the best."""
    source, best = np.random.default_rng(run.seed), min(found, key=PlacedSchedule.promise)
    for trial in range(_TRIALS):
        if trial == _TRIALS // 2:
            best = min(best, *found, key=PlacedSchedule.fitness)
        if run.reason_to_stop() is not None:
            break
        start = best.start.placed(_with_block_elsewhere(best, source))
        if start is None or start.is_slower_than(best):
            continue
        spent = _spent(run)
        whole = _within_limits(start, run, spent + max(0.0, _NEAR - spent) / (_TRIALS - trial))
        if whole.fitness() <= best.fitness():
            best = whole
            yield best


def _with_block_elsewhere(whole: PlacedSchedule, source: np.random.Generator) -> Int32:
    """Return the placement with a run of ops, in the order of the graph, moved to one device: one within its limit, if
    there is one. Ops that pins or groups keep off it stay."""
    start = whole.start
    (group, allowed), num_ops = start.problem.groups, len(start.device_of)
    over = {device for device, _ in whole.over()}
    devices = range(start.problem.machine.num_devices)
    to = int(source.choice([device for device in devices if device not in over] or devices))
    first, length = int(source.integers(num_ops)), source.uniform(0.0, np.log(max(1.0, _LARGEST_BLOCK * num_ops)))
    block = np.arange(first, min(num_ops, first + int(np.exp(length))))
    may_go = allowed[block] >> np.uint64(to) & np.uint64(1) == 1
    return np.where(np.isin(group, group[block[may_go]]), to, start.device_of).astype(np.int32)


def _within_limits(start: PlacedProblem, run: SearchRun, share: float) -> PlacedSchedule:
    """Return the best schedule of a start: each device over its limit is searched alone, and again with its limit
    lowered by the excess of the whole, until there is none. share: the share of the run's budget at which to end."""
    problem = start.problem
    found = [DeviceRewrites()] * problem.machine.num_devices
    limits, rooms = list(problem.memory_limits_bytes), _rooms(start)
    best = whole = start.once
    for number in range(_ROUNDS):
        over, can_fit = dict(whole.over()), True
        if (at_host := over.pop(len(found), 0)) > 0:
            # Each device gets less by the same share.
            of = whole.metrics.peak_bytes[-1]
            rooms = [room and room * max(0, of - 2 * at_host) // (of - at_host) for room in rooms]
            over = {device: over.get(device, 0) for device, each in enumerate(found) if device in over or each.moves}
        for left, (device, excess) in zip(range(len(over), 0, -1), over.items(), strict=True):
            limit = limits[device] or 0
            limits[device] = limit = max(0, limit - excess) if number else limit
            spent = _spent(run)
            part = run.part_until(spent + max(0.0, share - spent) / (left + 1))
            host = start.host and replace(start.host.beside(device), memory_bytes=rooms[device])
            found[device], fits = DeviceProblem(whole, device).search(part, limit, host)
            can_fit = can_fit and fits
        if not over:
            break
        whole = PlacedSchedule(start, found)
        best = min(best, whole, key=PlacedSchedule.fitness)
        if not can_fit or run.reason_to_stop() is not None:
            break
    return best


def _rooms(start: PlacedProblem) -> list[int | None]:
    """Divide the host's memory among the devices in proportion to the bytes by which they exceed their limits."""
    devices, over = range(start.problem.machine.num_devices), dict(start.once.over())
    if start.host is None or (limit := start.host.memory_bytes) is None:
        return [None for _ in devices]
    return [limit * over.get(device, 0) // max(1, sum(over.values())) for device in devices]


def _spent(run: SearchRun) -> float:
    """Return the share of a run's budget that is spent, of evaluations or of time, whichever is larger."""
    of_time = 0.0 if run.budget.seconds is None else run.seconds / run.budget.seconds
    return max(run.evaluations / run.budget.evaluations, of_time)
