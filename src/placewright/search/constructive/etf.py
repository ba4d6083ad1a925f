"""Earliest task first: the ready op that can start first, where it can (Hwang, Chow, Anger and Lee 1989)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import placewright._core as _core
from placewright.problem import Problem
from placewright.search.constructive.baseline import Baseline, Candidate
from placewright.search.constructive.inputs_aside import scopes


@dataclass(frozen=True, kw_only=True)
class EarliestTaskFirst(Baseline):
    """Of all ready ops and devices the pair with the earliest start, ties by bottom level. Only the ready ops of
    highest bottom level are compared, 256 pairs of op and device at a time, a departure from the paper; memory limits
    are heeded as in `list`."""

    name: str = "etf"

    def candidates(self, problem: Problem) -> Iterator[Candidate]:
        for scope in scopes(problem.core):
            device_of, ops = scope.with_inputs(*_core.earliest_task_first(scope.core))
            yield Candidate(name="etf" + scope.suffix, device_of=device_of, order=ops)
