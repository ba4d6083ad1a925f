"""The cost of a plan with some ops on another device: they are moved, and the same order is simulated again."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from placewright.plans.record import Plan
from placewright.plans.retimed import Step, solution_of
from placewright.problem import Problem
from placewright.search.run.result import Solution, measure


@dataclass(frozen=True, slots=True, kw_only=True)
class Alternative:
    """Some ops, with the ops that must share their device, on one device, and everything else unchanged.

    Attributes
    ----------
    device
        Index of the device.
    op_time_ns
        Time there of the ops asked about.
    allowed
        True if constraints allow them there; the fields below are None where they do not.
    step_time_ns, bytes_moved, bytes_over_limit
        Metrics of the whole plan.
    peak_bytes
        Peak of that device.
    """

    device: int
    op_time_ns: int
    allowed: bool
    step_time_ns: int | None = None
    peak_bytes: int | None = None
    bytes_moved: int | None = None
    bytes_over_limit: int | None = None


def group_of(plan: Plan, problem: Problem, asked: NDArray[np.int64]) -> NDArray[np.int64]:
    """List the scheduled ops that must share a device with one of `asked`, these included: by constraints, or as runs
    of one op."""
    groups = problem.groups[0].copy()
    number_of = {problem.graph.ops[op].name: number for number, op in enumerate(problem.lowered.graph_op.tolist())}
    for rerun in plan.reruns:
        groups[groups == groups[number_of[rerun.name]]] = groups[number_of[rerun.op]]
    return np.flatnonzero(np.isin(groups, groups[asked]))


def alternatives(plan: Plan, problem: Problem, asked: NDArray[np.int64]) -> Iterator[Alternative]:
    """Yield the outcome with the scheduled ops `asked` on each device that computes in turn."""
    lowered = problem.lowered
    group = group_of(plan, problem, asked)
    allowed = int(np.bitwise_and.reduce(problem.groups[1][group]))
    device_of, order = solution_of(plan, problem)
    for device in range(plan.machine.num_devices):
        if plan.machine.devices[device].is_host:
            continue
        time_ns = int(problem.time_ns[lowered.graph_op[asked], device].sum())
        if not allowed >> device & 1:
            yield Alternative(device=device, op_time_ns=time_ns, allowed=False)
            continue
        moved = device_of.copy()
        moved[group] = device
        solutions = (Solution(device_of=moved, order=repaired) for repaired in _repaired(problem, moved, order))
        metrics = min((measure(problem, s) for s in solutions), key=lambda found: found.fitness(plan.objective))
        yield Alternative(
            device=device,
            op_time_ns=time_ns,
            allowed=True,
            step_time_ns=metrics.step_time_ns,
            peak_bytes=metrics.peak_bytes[device],
            bytes_moved=metrics.bytes_moved,
            bytes_over_limit=metrics.bytes_over_limit,
        )


def _repaired(problem: Problem, device_of: NDArray[np.int32], order: list[Step]) -> Iterator[NDArray[np.int32]]:
    """Yield two repaired orders with the transfers that this placement needs. Both keep the order's own transfers where
    they are still needed; the first puts missing ones right after the producer, the second right before the first
    reader."""
    lowered = problem.lowered
    wanted: list[list[Step]] = [[] for _ in device_of]
    for op, tensor in zip(lowered.reader.tolist(), lowered.inputs.tolist(), strict=True):
        if device_of[lowered.producer[tensor]] != device_of[op]:
            wanted[op].append((tensor, int(device_of[op])))
    in_time = _in_time(order, wanted)
    ops_and_kept = [step for step in order if step[1] < 0 or step in in_time]
    missing = dict.fromkeys(step for steps in wanted for step in steps if step not in in_time)
    behind: list[list[Step]] = [[] for _ in device_of]
    for step in missing:
        behind[lowered.producer[step[0]]].append(step)
    early = [each for step in ops_and_kept for each in (step, *(behind[step[0]] if step[1] < 0 else ()))]
    yield np.array(early, np.int32)
    late: list[Step] = []
    for step in ops_and_kept:
        if step[1] < 0:
            first = [transfer for transfer in dict.fromkeys(wanted[step[0]]) if transfer in missing]
            late += first
            for transfer in first:
                del missing[transfer]
        late.append(step)
    yield np.array(late, np.int32)


def _in_time(order: list[Step], wanted: list[list[Step]]) -> set[Step]:
    """Find the transfers of the order that come before all ops that want them, and that some op wants."""
    before, too_late = set[Step](), set[Step]()
    for step in order:
        if step[1] >= 0:
            before.add(step)
        else:
            too_late.update(transfer for transfer in wanted[step[0]] if transfer not in before)
    return (before - too_late) & {step for steps in wanted for step in steps}
