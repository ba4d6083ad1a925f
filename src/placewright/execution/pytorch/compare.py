"""A comparison of a plan with its runs: times of steps, devices and ops, and memory, planned and measured.

Imported only where torch is known to be present.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

import numpy as np
import torch
from torch import nn

from placewright.execution.comparison import (
    OpFallback,
    OpRun,
    RunComparison,
    device_times,
    start_correlation,
    times_in_turn,
)
from placewright.execution.pytorch.memory import allocated_peak
from placewright.execution.pytorch.places import Driver, Place, drivers_of, finish_current
from placewright.execution.pytorch.profile import as_passes, unchanged
from placewright.execution.pytorch.step import TorchStep
from placewright.graph import Graph
from placewright.plans.record import Plan
from placewright.support.torch_threads import torch_threads


@dataclass(frozen=True, kw_only=True)
class _Peaks:
    """Peak memory in bytes of each way to run a step; None for a way that was not run, or has no one peak."""

    planned: int | None
    one_device: int
    eager: int
    torch_compile: int | None


def compare_run(
    planned: TorchStep,
    alone: TorchStep,
    parameters: Sequence[Any],
    tensors: Sequence[Any],
    eager: Callable[[], Any],
    cores: Sequence[frozenset[int]],
    steps: int,
    compiled: Callable[[], Any] | None = None,
) -> RunComparison:
    """Runs both plans and the module itself, in turn.

    planned, alone: the plan, and that of one device. eager: one call of the module. cores: of each device. compiled:
    one call of what `torch.compile` makes of the module, where that is to be measured as well. Afterwards parameters,
    tensors and the generator of random numbers are as they were, but not what `eager` and `compiled` change.
    """
    with unchanged(planned.overwritten(parameters, tensors), places=planned.places):
        taken = times_in_turn(
            _ways(planned, alone, parameters, tensors, eager, cores, compiled),
            steps,
            # By then the threads that PyTorch left spinning for the next op are asleep, and caches hold what this way
            # uses.
            uncounted=1,
        )
        timed = planned.timed(parameters, tensors, max(1, steps // 4))
        peaks = _peaks(planned, alone, parameters, tensors, eager, compiled)
    return _compared(planned, alone.plan, taken, timed, peaks)


def _compared(
    planned: TorchStep,
    single: Plan,
    taken: Sequence[Sequence[int]],
    timed: Sequence[Sequence[int]],
    peaks: _Peaks,
) -> RunComparison:
    """The measured values next to the planned ones. single: the plan of one device. taken: times of steps in ns, for
    each way to run one. timed: times of ops, as `TorchStep.timed` returns them."""
    plan = planned.plan
    measured, one_device, eager_one_device, eager_all, *of_compiled = (int(median(times)) for times in taken)
    ops = ops_of_run(plan, planned.program.graph, timed)
    return RunComparison(
        name=plan.graph_name,
        steps=len(taken[0]),
        planned_ns=plan.step_time_ns,
        measured_ns=measured,
        one_device_planned_ns=single.step_time_ns,
        one_device_measured_ns=one_device,
        eager_one_device_ns=eager_one_device,
        eager_ns=eager_all,
        torch_compile_ns=of_compiled[0] if of_compiled else None,
        measured_range_ns=(min(taken[0]), max(taken[0])),
        one_device_range_ns=(min(taken[1]), max(taken[1])),
        eager_range_ns=(min(taken[3]), max(taken[3])),
        devices=device_times(plan, ops),
        planned_speedup=single.step_time_ns / max(1, plan.step_time_ns),
        measured_speedup=one_device / measured,
        planned_peak_bytes=None if peaks.planned is None else plan.metrics.peak_memory_bytes,
        measured_peak_bytes=peaks.planned,
        one_device_planned_peak_bytes=single.metrics.peak_memory_bytes,
        one_device_measured_peak_bytes=peaks.one_device,
        eager_peak_bytes=peaks.eager,
        torch_compile_peak_bytes=peaks.torch_compile,
        start_correlation=start_correlation(ops),
        ops=ops,
        fallbacks=tuple(OpFallback(op=op, reason=reason) for op, reason in planned.fallbacks.items()),
    )


def _ways(
    planned: TorchStep,
    alone: TorchStep,
    parameters: Sequence[Any],
    tensors: Sequence[Any],
    eager: Callable[[], Any],
    cores: Sequence[frozenset[int]],
    compiled: Callable[[], Any] | None,
) -> list[Callable[[], Any]]:
    """A step as planned, on one device, as PyTorch runs it on the cores of one device and of all, and compiled."""
    all_cores = len(frozenset().union(*cores))
    ways: list[Callable[[], Any]] = [
        lambda: _finished(planned.places, lambda: planned.run(parameters, tensors)),
        lambda: _finished(planned.places, lambda: alone.run(parameters, tensors)),
        lambda: _finished(planned.places, lambda: _with_threads(len(cores[0]), eager)),
        lambda: _finished(planned.places, lambda: _with_threads(all_cores, eager)),
    ]
    if compiled is not None:
        ways.append(lambda: _with_threads(all_cores, compiled))
    return ways


def _peaks(
    planned: TorchStep,
    alone: TorchStep,
    parameters: Sequence[Any],
    tensors: Sequence[Any],
    eager: Callable[[], Any],
    compiled: Callable[[], Any] | None,
) -> _Peaks:
    held = alone.resident_bytes(parameters) + sum(tensor.nbytes for tensor in tensors)
    drivers = drivers_of(planned.places)
    home = next((driver for driver in drivers if parameters and driver.holds(parameters[0])), None)
    return _Peaks(
        planned=planned.peak_bytes(parameters, tensors) if planned.plan.machine.num_devices == 1 else None,
        one_device=alone.peak_bytes(parameters, tensors),
        eager=held + (allocated_peak(eager) if home is None else _peak_on(home, planned.places, eager)),
        torch_compile=None if compiled is None else held + allocated_peak(compiled),
    )


def training_step(model: nn.Module, args: Sequence[Any], kwargs: Any, loss: Callable[[Any], Any]) -> Callable[[], None]:
    """A step of a module that is the caller's to change, forward and backward, whose gradients do not add up."""
    model.train()

    def step() -> None:
        loss(model(*args, **kwargs)).backward()
        for parameter in model.parameters():
            parameter.grad = None

    return step


def inference(model: nn.Module, args: Sequence[Any], kwargs: Any) -> Callable[[], None]:
    """A call of a module that is the caller's to change."""
    model.eval()

    def step() -> None:
        with torch.no_grad():
            model(*args, **kwargs)

    return step


def _finished(places: Sequence[Place], call: Callable[[], Any]) -> None:
    """A call, and what it has launched."""
    call()
    finish_current(places)


def _peak_on(driver: Driver, places: Sequence[Place], call: Callable[[], Any]) -> int:
    """The most bytes in use at once of what a call allocates on an accelerator."""
    held = driver.count_peak()
    _finished(places, call)
    return driver.peak_bytes() - held


def _with_threads(count: int, call: Callable[[], Any]) -> None:
    with torch_threads(count):
        call()


def ops_of_run(plan: Plan, graph: Graph, timed: Sequence[Sequence[int]]) -> tuple[OpRun, ...]:
    """The ops of a plan with their times in its runs. timed: as `TorchStep.timed` returns it."""
    passes = as_passes(timed)
    ran = np.all(passes >= 0, axis=(0, 2))
    passes -= passes[:, ran, 0].min(axis=1)[:, None, None]
    middle = np.median(passes, axis=0)
    number = {op.name: index for index, op in enumerate(graph.ops)}
    return tuple(
        OpRun.of(op, *(round(float(moment)) for moment in middle[number[op.name]]))
        for op in plan.ops
        if ran[number[op.name]]
    )
