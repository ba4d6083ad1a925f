"""Segment-fill: list scheduling that batches transfers at barriers and keeps devices busy between them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import placewright._core as _core
from placewright.problem import Problem
from placewright.search.constructive.baseline import Baseline, Candidate
from placewright.search.constructive.inputs_aside import scopes


@dataclass(frozen=True, kw_only=True)
class SegmentFill(Baseline):
    """Two moments for a barrier, the better kept: as soon as the least loaded device starves, and only when all do
    (fewer transfers). Made for blocking transfers. A device whose memory limit an op would exceed is passed over
    while another is left."""

    name: str = "segment-fill"

    def candidates(self, problem: Problem) -> Iterator[Candidate]:
        for scope in scopes(problem.core):
            for name, when_one_starves in (("one starves", True), ("all starve", False)):
                device_of, order = scope.with_inputs(*_core.segment_fill(scope.core, when_one_starves))
                yield Candidate(name=name + scope.suffix, device_of=device_of, order=order)
