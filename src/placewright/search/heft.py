"""HEFT, heterogeneous earliest finish time (Topcuoglu, Hariri and Wu 2002, section 4.2)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from placewright import _core
from placewright.problem import Problem
from placewright.search.baseline import Baseline, Candidate
from placewright.search.insertion import InsertionSchedule


@dataclass(frozen=True, kw_only=True)
class Heft(Baseline):
    """Ops by upward rank, each inserted where it finishes first.

    The upward rank is the bottom level over mean times: of the op over all devices, of its tensors over all links, with
    mean time per byte where the paper takes the mean rate. Planned without queues at the links; placement and order by
    start time are then given transfers and simulated as the problem says. Constraints hold; memory limits are unknown
    to the method.
    """

    name: str = "heft"

    def candidates(self, problem: Problem) -> Iterator[Candidate]:
        yield heft_schedule(problem).candidate(self.name)


def heft_schedule(problem: Problem) -> InsertionSchedule:
    """The paper's own schedule, before tensors queue at the links."""
    schedule = InsertionSchedule(problem)
    for op in _core.bottom_level_order(problem.core).tolist():
        schedule.place(op)
    return schedule
