"""Insertion-based list schedulers: HEFT and CPOP (Topcuoglu, Hariri and Wu 2002, sections 4.2 and 4.3), and one that
models queues of tensors at the links, and looks ahead."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

import placewright._core as _core
from placewright.problem import Problem
from placewright.search.constructive.baseline import Baseline, Candidate
from placewright.search.constructive.inputs_aside import scopes

#: The rank's assumptions about times not known before placement; the paper's first.
OUTLOOKS = {
    "mean": _core.Outlook.mean,
    "best case": _core.Outlook.best,
    "worst case": _core.Outlook.worst,
    "mean of all pairs": _core.Outlook.pairs,
}


@dataclass(frozen=True, kw_only=True)
class Heft(Baseline):
    """Inserts ops by upward rank, each where it finishes first; the best of four ranks.

    The upward rank is the bottom level over mean times: of the op over all devices, of its tensors over all links, with
    mean time per byte where the paper takes the mean rate. Zhao and Sakellariou (An Experimental Investigation into the
    Rank Function of HEFT, 2003) found other ranks better as often: here also the best case (fastest device, no
    transfers), the worst (slowest device, slowest link), and the mean over all pairs of devices, where a pair of a
    device with itself needs no link. Schedules are planned without queues at the links; transfers are then added to the
    placement and the order by start time, and simulated under the problem's rules. Constraints hold; the method does
    not know memory limits.
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


@dataclass(frozen=True, kw_only=True)
class Insertion(Baseline):
    """Inserts ops by rank, each where it finishes first, and its tensors into the idle time of the links; or, looking
    ahead, where its finish plus the least time of its longest path afterwards is earliest.

    Five ranks: the upward ranks of `heft`, and the mean of the optimistic costs by which devices are compared too
    (PEFT, Arabnejad and Barbosa 2014). Links that carry one tensor after another are those of Sinnen and Sousa
    (Communication Contention in Task Scheduling, 2005). Blocking transfers are planned as if devices computed
    meanwhile. Constraints hold; the method does not know memory limits.
    """

    name: str = "insertion"

    def candidates(self, problem: Problem) -> Iterator[Candidate]:
        tried = set[bytes]()
        for scope in scopes(problem.core):
            costs = _core.optimistic_costs(scope.core)
            for rank, sequence in _sequences(scope.core, costs):
                for suffix, outlook in (("", None), (", looking ahead", costs)):
                    placed = _core.insertion_schedule(scope.core, sequence, links_queue=True, outlook=outlook)
                    device_of, order = scope.with_inputs(*placed[:2])
                    if (key := device_of.tobytes() + order.tobytes()) not in tried:
                        tried.add(key)
                        yield Candidate(name=f"{rank}{suffix}{scope.suffix}", device_of=device_of, order=order)


def _sequences(core: _core.Problem, costs: NDArray[np.int64]) -> Iterator[tuple[str, NDArray[np.int32]]]:
    for name, outlook in OUTLOOKS.items():
        yield name, _core.bottom_level_order(core, outlook)
    yield "optimistic cost", _core.optimistic_order(core, costs)


INSERTION = Insertion()


@dataclass(frozen=True, kw_only=True)
class Cpop(Baseline):
    """Schedules next the ready op with the highest sum of upward and downward rank. Ops of the critical path are all on
    the device that runs it fastest; the others are inserted where they finish first.

    Times, simulation and constraints as in `heft`. A group with an op on the critical path is wholly on its device; an
    op that may not go there is placed like the others.
    """

    name: str = "cpop"

    def candidates(self, problem: Problem) -> Iterator[Candidate]:
        for scope in scopes(problem.core):
            sequence, fixed = _core.critical_path_first(scope.core)
            placed = _core.insertion_schedule(scope.core, sequence, links_queue=False, fixed=fixed)
            device_of, order = scope.with_inputs(*placed[:2])
            yield Candidate(name=f"cpop{scope.suffix}", device_of=device_of, order=order)
