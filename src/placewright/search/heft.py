"""HEFT, heterogeneous earliest finish time (Topcuoglu, Hariri and Wu 2002, section 4.2)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from placewright import _core
from placewright.problem import Problem
from placewright.search.baseline import Baseline, Candidate
from placewright.search.insertion import InsertionSchedule

#: What the rank takes for times not known before placement; the paper's first.
OUTLOOKS = {"mean": _core.Outlook.mean, "best case": _core.Outlook.best, "worst case": _core.Outlook.worst}


@dataclass(frozen=True, kw_only=True)
class Heft(Baseline):
    """Ops by upward rank, each inserted where it finishes first; the best of three ranks.

    The upward rank is the bottom level over mean times: of the op over all devices, of its tensors over all links, with
    mean time per byte where the paper takes the mean rate. Zhao and Sakellariou (An Experimental Investigation into the
    Rank Function of HEFT, 2003) found other ranks better as often: here also the best case (fastest device, nothing
    moves) and the worst (slowest device, slowest link). Planned without queues at the links; placement and order by
    start time are then given transfers and simulated as the problem says. Constraints hold; memory limits are unknown
    to the method.
    """

    name: str = "heft"

    def candidates(self, problem: Problem) -> Iterator[Candidate]:
        tried: list[list[int]] = []
        for name, outlook in OUTLOOKS.items():
            sequence: list[int] = _core.bottom_level_order(problem.core, outlook).tolist()
            if sequence not in tried:
                tried.append(sequence)
                yield heft_schedule(problem, sequence).candidate(name)


def heft_schedule(problem: Problem, sequence: Sequence[int] | None = None) -> InsertionSchedule:
    """The paper's own schedule, before tensors queue at the links. sequence: ops by rank, by default the paper's."""
    schedule = InsertionSchedule(problem)
    for op in _core.bottom_level_order(problem.core).tolist() if sequence is None else sequence:
        schedule.place(op)
    return schedule
