"""CPOP, critical path on a processor (Topcuoglu, Hariri and Wu 2002, section 4.3)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import placewright._core as _core
from placewright.problem import Problem
from placewright.search.constructive.baseline import Baseline, Candidate
from placewright.search.constructive.inputs_aside import scopes


@dataclass(frozen=True, kw_only=True)
class Cpop(Baseline):
    """Of the ready ops the one of highest upward plus downward rank next; those of the critical path all on the device
    that runs it fastest, the others inserted where they finish first.

    Times, simulation and constraints as in `heft`. A group with an op on the critical path stands whole on its device;
    an op that may not go there is placed like the others.
    """

    name: str = "cpop"

    def candidates(self, problem: Problem) -> Iterator[Candidate]:
        for scope in scopes(problem.core):
            sequence, fixed = _core.critical_path_first(scope.core)
            placed = _core.insertion_schedule(scope.core, sequence, links_queue=False, fixed=fixed)
            device_of, order = scope.with_inputs(*placed[:2])
            yield Candidate(name=f"cpop{scope.suffix}", device_of=device_of, order=order)
