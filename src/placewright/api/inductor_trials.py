"""Partitions of one graph that are lowered, until one keeps a memory limit as Inductor compiles it.

Imported only where torch is known to be present.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

from torch import fx

from placewright.api.questions import Plan
from placewright.execution.pytorch.graph_steps import with_steps
from placewright.execution.pytorch.inductor_ways import WAYS, Way
from placewright.execution.pytorch.lowered_memory import LoweredStep
from placewright.execution.pytorch.open_sizes import Sizes
from placewright.execution.pytorch.saved import SavingGraph, kept, num_bytes

#: The most plans that are lowered for one graph. As shares of the limit: the least step down after a plan over the
#: limit, and the spare room from which on a plan for more memory is tried.
_MOST_TRIED, _STEP, _SPARE = 6, 0.01, 0.03
#: Where no plan is within the limit: the largest excess of the nearest, as a share of the limit, to try others.
_FAR = 0.5
#: A way of compiling is tried for the next plan if it took at most this many times the least of all ways.
_WORSE = 1.15

Parts = tuple[fx.GraphModule, fx.GraphModule]


class Fitted(NamedTuple):
    """A plan, its parts, and the most that they hold, as planned and as Inductor compiles them."""

    plan: Plan
    parts: Parts
    way: Way
    lowered: LoweredStep
    planned_bytes: int
    peak_bytes: int


class Trials:
    """Partitions of one graph that are lowered one after another, to see what they hold as Inductor compiles them.

    static: places of arguments that stay where they are. steps, runs, gradient_bytes: as `MemoryPartitioner` has them.
    """

    def __init__(
        self,
        saving: SavingGraph,
        static: Sequence[int],
        limit: int,
        steps: Mapping[int, int],
        runs: int,
        gradient_bytes: int,
    ) -> None:
        self._saving = saving
        self._limit = limit
        self._steps = steps
        #: The bytes that further runs keep, by parts and sizes. It outlives the trials and their graphs.
        self.further_bytes = partial(
            _further_bytes, num_outputs=saving.num_outputs, static=static, runs=runs, gradient_bytes=gradient_bytes
        )
        self._workspaces: dict[Any, int] = {}
        self._ways = list(WAYS)

    def nearest(self, plan: Plan, parts: Parts) -> Fitted:
        """The parts in the first way that keeps the limit, or else in the best way."""
        tried = list[Fitted]()
        for way in self._ways:
            tried.append(self.fitted(plan, parts, way))
            if tried[-1].peak_bytes <= self._limit:
                return tried[-1]
        least = min(each.peak_bytes for each in tried)
        self._ways = [each.way for each in tried if each.peak_bytes <= _WORSE * least]
        return min(tried, key=lambda each: each.peak_bytes)

    def fitted(self, plan: Plan, parts: Parts, way: Way) -> Fitted:
        """The parts compiled in one way."""
        parts, sizes = with_steps(*parts, self._steps), self._saving.sizes
        with way.chosen():
            lowered = LoweredStep(*parts, self._saving.num_outputs, sizes, self._workspaces)
            more = self.further_bytes(parts, sizes)
        planned_bytes = plan.peak_bytes[0] + more
        return Fitted(plan, parts, way, lowered, planned_bytes, lowered.peak_bytes(sizes) + more)


def _further_bytes(
    parts: Parts, sizes: Sizes, *, num_outputs: int, static: Sequence[int], runs: int, gradient_bytes: int
) -> int:
    each = num_bytes(kept(parts[0], num_outputs, static), sizes)
    return (runs - 1) * max(each, gradient_bytes)


def tried_near(limit: int, planned: Callable[[int], Plan], lowered: Callable[[Plan], Fitted]) -> list[Fitted]:
    """Plans near a limit, by the memory they take when Inductor compiles them, which differs from the planned memory.

    While none keeps the limit, the next is planned for as much less as the nearest exceeds it. Once one keeps it with
    room to spare, further ones are planned for limits between it and those that do not.
    planned: the plan for a limit.
    """
    tried: list[Fitted] = []
    asked, found_none, step = limit, 0, int(_STEP * limit)
    while len(tried) < _MOST_TRIED:
        plan = planned(asked)
        if plan.status == "infeasible":
            found_none = asked
            if not tried:
                # It may take less than planned; otherwise it shows which limit is near.
                tried.append(lowered(plan))
        elif any((plan.reruns, plan.moves) == (each.plan.reruns, each.plan.moves) for each in tried):
            break
        else:
            tried.append(lowered(plan))
        within = [each for each in tried if each.peak_bytes <= limit]
        beyond = [each.planned_bytes for each in tried if each.peak_bytes > limit]
        if within:
            lower = max(each.planned_bytes for each in within)
            spare = limit - max(each.peak_bytes for each in within)
            upper = min(beyond, default=lower + 2 * spare)
            if spare < _SPARE * limit:
                break
            asked = (lower + upper) // 2
        elif beyond:
            upper = min(beyond)
            over = min(each.peak_bytes for each in tried) - limit
            if found_none and over > _FAR * limit:
                break
            asked = max(upper - max(over, step), (found_none + upper) // 2)
        else:
            break
        if upper - asked < step:
            break
    return tried
