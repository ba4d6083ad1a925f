"""Insertion-based list scheduling that knows that tensors queue at the links, and looks ahead."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

import placewright._core as _core
from placewright.problem import Problem
from placewright.search.constructive.baseline import Baseline, Candidate
from placewright.search.constructive.heft import OUTLOOKS
from placewright.search.constructive.inputs_aside import scopes


@dataclass(frozen=True, kw_only=True)
class Insertion(Baseline):
    """Ops by rank, each inserted where it finishes first, its tensors inserted into the idle time of the links; or
    where it finishes first with what its longest path takes at least afterwards.

    Five ranks: the upward ranks of `heft`, and the mean of the optimistic costs by which devices are compared too
    (PEFT, Arabnejad and Barbosa 2014). Links that carry one tensor after another are those of Sinnen and Sousa
    (Communication Contention in Task Scheduling, 2005). Blocking transfers are planned as if devices computed
    meanwhile. Constraints hold; memory limits are unknown to the method.
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
