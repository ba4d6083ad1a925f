"""HEFT, heterogeneous earliest finish time (Topcuoglu, Hariri and Wu 2002, section 4.2)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import placewright._core as _core
from placewright.problem import Problem
from placewright.search.constructive.baseline import Baseline, Candidate
from placewright.search.constructive.inputs_aside import scopes

#: What the rank takes for times not known before placement; the paper's first.
OUTLOOKS = {
    "mean": _core.Outlook.mean,
    "best case": _core.Outlook.best,
    "worst case": _core.Outlook.worst,
    "mean of all pairs": _core.Outlook.pairs,
}


@dataclass(frozen=True, kw_only=True)
class Heft(Baseline):
    """Ops by upward rank, each inserted where it finishes first; the best of four ranks.

    The upward rank is the bottom level over mean times: of the op over all devices, of its tensors over all links, with
    mean time per byte where the paper takes the mean rate. Zhao and Sakellariou (An Experimental Investigation into the
    Rank Function of HEFT, 2003) found other ranks better as often: here also the best case (fastest device, nothing
    moves), the worst (slowest device, slowest link), and the mean over all pairs of devices, of which one with itself
    needs no link. Planned without queues at the links; placement and order by
    start time are then given transfers and simulated as the problem says. Constraints hold; memory limits are unknown
    to the method.
    """

    name: str = "heft"

    def candidates(self, problem: Problem) -> Iterator[Candidate]:
        for scope in scopes(problem.core):
            tried: list[bytes] = []
            for name, outlook in OUTLOOKS.items():
                sequence = _core.bottom_level_order(scope.core, outlook)
                if sequence.tobytes() not in tried:
                    tried.append(sequence.tobytes())
                    placed = _core.insertion_schedule(scope.core, sequence, links_queue=False)
                    device_of, order = scope.with_inputs(*placed[:2])
                    yield Candidate(name=name + scope.suffix, device_of=device_of, order=order)
