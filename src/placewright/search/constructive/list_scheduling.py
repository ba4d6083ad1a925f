"""List schedulers: ops in order of a priority, each where it finishes first (HEFT, Topcuoglu et al. 2002); earliest
task first (Hwang, Chow, Anger and Lee 1989); and segment-fill, which batches transfers at barriers."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

import placewright._core as _core
from placewright.problem import Problem
from placewright.search.constructive.baseline import Baseline, Candidate
from placewright.search.constructive.inputs_aside import Scope, scopes


@dataclass(frozen=True, kw_only=True)
class ListScheduling(Baseline):
    """Schedules by two priorities and keeps the better result: bottom level, as HEFT; and the captured order, which
    needs far less memory on training graphs. A device whose memory limit an op would exceed is passed over while
    another is left. For the peak-memory objective, and once more in captured order where there are limits, an op goes
    where the device's peak stays least."""

    name: str = "list"

    def candidates(self, problem: Problem) -> Iterator[Candidate]:
        by_memory = problem.objective == "peak-memory"
        has_limits = any(limit is not None for limit in problem.memory_limits_bytes)
        for scope in scopes(problem.core):
            captured = np.arange(scope.core.num_ops, dtype=np.int32)
            yield _placed("bottom level", scope, _core.bottom_level_order(scope.core), by_memory)
            yield _placed("captured order", scope, captured, by_memory)
            if not by_memory and has_limits:
                yield _placed("captured order, least peak", scope, captured, True)


def _placed(name: str, scope: Scope, priority: NDArray[np.int32], least_peak: bool) -> Candidate:
    device_of, ops = scope.with_inputs(*_core.list_schedule(scope.core, priority, least_peak))
    return Candidate(name=name + scope.suffix, device_of=device_of, order=ops)


@dataclass(frozen=True, kw_only=True)
class EarliestTaskFirst(Baseline):
    """Schedules the pair of ready op and device with the earliest start, ties by bottom level. As a departure from the
    paper, only the ready ops of highest bottom level are compared, 256 pairs of op and device at a time. Memory limits
    are respected as in `list`."""

    name: str = "etf"

    def candidates(self, problem: Problem) -> Iterator[Candidate]:
        for scope in scopes(problem.core):
            device_of, ops = scope.with_inputs(*_core.earliest_task_first(scope.core))
            yield Candidate(name="etf" + scope.suffix, device_of=device_of, order=ops)


@dataclass(frozen=True, kw_only=True)
class SegmentFill(Baseline):
    """Fills segments between barriers and keeps the better of two times for a barrier: when the least loaded device
    starves, and when all do (fewer transfers). Made for blocking transfers. A device whose memory limit an op would
    exceed is passed over while another is left."""

    name: str = "segment-fill"

    def candidates(self, problem: Problem) -> Iterator[Candidate]:
        for scope in scopes(problem.core):
            for name, when_one_starves in (("one starves", True), ("all starve", False)):
                device_of, order = scope.with_inputs(*_core.segment_fill(scope.core, when_one_starves))
                yield Candidate(name=name + scope.suffix, device_of=device_of, order=order)
