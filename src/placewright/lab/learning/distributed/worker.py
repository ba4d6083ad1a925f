"""A worker measures placements for its controller."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

import placewright._core as _core
from placewright.lab.actors import Actor
from placewright.lab.learning.placers.colocation import Units
from placewright.problem import Problem

#: Step time in ns, peak memory and bytes over limits, one number per placement.
Measured: TypeAlias = tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]


class Worker:
    """Schedules and simulates as `FirstComeEnvironment` does."""

    def __init__(self, problem: Problem, units: Units) -> None:
        self._problem, self._units = problem, units

    def measure(self, devices: NDArray[np.integer]) -> Measured:
        """devices: [count, num units]."""
        placements = np.ascontiguousarray(self._units.placements(devices))
        return _core.measure_placements(self._problem.core, placements, 1)


def measured_by(workers: Sequence[Actor], devices: NDArray[np.integer]) -> Measured:
    """As many placements for each of them as can be; back when all are measured."""
    parts = [part for part in np.array_split(devices, len(workers)) if len(part)]
    asked = [worker.ask("measure", part) for worker, part in zip(workers, parts, strict=False)]
    time, peak, over = zip(*workers[0].collected(asked), strict=True)
    return np.concatenate(time), np.concatenate(peak), np.concatenate(over)
