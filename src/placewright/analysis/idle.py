"""The causes of each device's idle time in a plan."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from placewright.analysis.critical_path import Step
from placewright.plans.record import WAITS_FOR_LAUNCH, Plan, Transfer


@dataclass(frozen=True, slots=True, kw_only=True)
class IdleExplanation:
    """The idle time of a device by cause; all times together add up to the step time.

    Attributes
    ----------
    device
        Index of the device.
    busy_ns
        Time in which it computes.
    transfer_ns
        Time in which the tensor that it needs next is on a link (blocking machines: it takes part in a transfer).
    others_ns
        Time in which another device still computes the tensor that it needs next.
    launch_ns
        Time in which the step that it runs or needs next has not been launched.
    end_ns
        Time after its last step.
    waits_on
        Nanoseconds of `transfer_ns` and `others_ns` by the device it waits for.
    """

    device: int
    busy_ns: int
    transfer_ns: int
    others_ns: int
    launch_ns: int
    end_ns: int
    waits_on: tuple[tuple[int, int], ...]


def explain_idle(plan: Plan) -> tuple[IdleExplanation, ...]:
    """Divide each device's idle time by cause."""
    steps: dict[int, Step] = {op.position: op for op in plan.ops}
    steps |= {transfer.position: transfer for transfer in plan.transfers}
    occupied: list[list[Step]] = [[] for _ in plan.machine.devices]
    for op in plan.ops:
        occupied[op.device].append(op)
    if plan.machine.transfer_model == "overlapped":
        return tuple(_idle_when_overlapped(plan, device, own, steps) for device, own in enumerate(occupied))
    for transfer in plan.transfers:
        for device in {transfer.source, transfer.destination}:
            occupied[device].append(transfer)
    return tuple(_idle_when_blocking(plan, device, own) for device, own in enumerate(occupied))


def _idle_when_blocking(plan: Plan, device: int, own: Sequence[Step]) -> IdleExplanation:
    """Divide the idle time of a device on which ops and transfers run one after the other; between them it waits for
    the other end."""
    finish = in_transfers = waiting = launching = 0
    waits_on: Counter[int] = Counter()
    for step in sorted(own, key=lambda step: step.position):
        gap = step.start_ns - finish
        if step.waits_for == WAITS_FOR_LAUNCH:
            launching += gap
            gap = 0
        waiting += gap
        if isinstance(step, Transfer):
            length = step.finish_ns - step.start_ns
            in_transfers += length
            waits_on[step.destination if step.source == device else step.source] += gap + length
        finish = step.finish_ns
    return _idle(plan, device, in_transfers, waiting, launching, finish, waits_on)


def _idle_when_overlapped(plan: Plan, device: int, own: Sequence[Step], steps: Mapping[int, Step]) -> IdleExplanation:
    """Divide the idle time before each op that starts late: the time of the transfers it waits for, back to back, and
    before these the others' computing, or the launches where the first transfer, or the op itself, waited for its own.
    own: the ops of the device in order. steps: all steps by position."""
    finish = in_transfers = waiting = launching = 0
    waits_on: Counter[int] = Counter()
    for op in own:
        gap = op.start_ns - finish
        awaited = steps.get(op.waits_for)
        if gap and awaited is not None:
            waits_on[awaited.source if isinstance(awaited, Transfer) else awaited.device] += gap
        moving, before = 0, op.waits_for
        while isinstance(awaited, Transfer) and awaited.finish_ns > finish:
            moving += awaited.finish_ns - max(finish, awaited.start_ns)
            before = awaited.waits_for
            awaited = steps.get(before)
        in_transfers += min(moving, gap)
        if before == WAITS_FOR_LAUNCH:
            launching += max(0, gap - moving)
        else:
            waiting += max(0, gap - moving)
        finish = op.finish_ns
    return _idle(plan, device, in_transfers, waiting, launching, finish, waits_on)


def _idle(
    plan: Plan, device: int, in_transfers: int, waiting: int, launching: int, finish: int, waits_on: Counter[int]
) -> IdleExplanation:
    return IdleExplanation(
        device=device,
        busy_ns=plan.metrics.busy_ns[device],
        transfer_ns=in_transfers,
        others_ns=waiting,
        launch_ns=launching,
        end_ns=plan.metrics.step_time_ns - finish,
        waits_on=tuple(waits_on.most_common()),
    )
