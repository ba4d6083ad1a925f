"""The best that one device does: what a plan is compared with, whichever device the user names first."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

import placewright._core as _core
from placewright.plans.record import OneDevice
from placewright.problem import Problem
from placewright.search.constructive.baseline import Candidate, evaluate
from placewright.search.constructive.one_device import INPUT_ORDER, ORDERS, distinct_devices
from placewright.search.run.result import Result, measure

#: An order of ops with transfers early, late or batched; there are none unless pins keep ops elsewhere.
_EVALUATIONS = 3


def best_one_device(problem: Problem, result: Result) -> OneDevice:
    """The captured order on the device where it is best. Where it fits none, another simple order that fits one, if a
    baseline found one; else the captured order on the device that it exceeds least."""
    captured = min(_captured(problem), key=lambda one: one.metrics.fitness(problem.objective))
    if captured.metrics.bytes_over_limit == 0:
        return captured
    others = [one for one in _of_baselines(result) if one.metrics.bytes_over_limit == 0]
    return min(others, key=lambda one: one.metrics.fitness(problem.objective), default=captured)


def _captured(problem: Problem) -> Iterator[OneDevice]:
    order = INPUT_ORDER.order(problem)
    for device in distinct_devices(problem):
        device_of = _core.all_on(problem.core, device)
        candidate = Candidate(name=INPUT_ORDER.name, device_of=device_of, order=order)
        metrics = measure(problem, evaluate(problem, candidate, _EVALUATIONS).solution)
        elsewhere = int((device_of != device).sum())
        yield OneDevice(device=device, order=INPUT_ORDER.name, num_elsewhere=elsewhere, metrics=metrics)


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
