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

#: How many plans are lowered for one graph at the most. The least by which a plan that is over the limit is followed by
#: a lower one, and the room from which on a higher one is tried, as shares of the limit.
_MOST_TRIED, _STEP, _SPARE = 6, 0.01, 0.03
#: By how much of the limit the plan nearest to it may be over for others to be tried, where none is planned within it.
_FAR = 0.5
#: How much more a way of compiling may take than others for one plan to be tried for the next.
_WORSE = 1.15

Parts = tuple[fx.GraphModule, fx.GraphModule]


class Fitted(NamedTuple):
    """A plan, its parts, and what they hold at the most, by the plan and as Inductor compiles them."""

    plan: Plan
    parts: Parts
    way: Way
    lowered: LoweredStep
    planned_bytes: int
    peak_bytes: int


class Trials:
    """Partitions of one graph that are lowered, one after another, to see what they hold as Inductor compiles them.

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
        #: What further runs keep, of parts and sizes. It outlives the trials, and the graphs that they hold.
        self.further_bytes = partial(
            _further_bytes, num_outputs=saving.num_outputs, static=static, runs=runs, gradient_bytes=gradient_bytes
        )
        self._workspaces: dict[Any, int] = {}
        self._ways = list(WAYS)

    def nearest(self, plan: Plan, parts: Parts) -> Fitted:
        """In the first way that keeps the limit, or else in the best of them."""
        tried = list[Fitted]()
        for way in self._ways:
            tried.append(self.fitted(plan, parts, way))
            if tried[-1].peak_bytes <= self._limit:
                return tried[-1]
        least = min(each.peak_bytes for each in tried)
        self._ways = [each.way for each in tried if each.peak_bytes <= _WORSE * least]
        return min(tried, key=lambda each: each.peak_bytes)

    def fitted(self, plan: Plan, parts: Parts, way: Way) -> Fitted:
        """In one way."""
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
    """Plans near a limit, by what they take when Inductor compiles them, which is not what is planned.

    While none keeps the limit, each is asked for as much less as the nearest is over. Once one does, with room to
    spare, others are asked for between it and those that do not.
    planned: the plan for a limit.
    """
    tried: list[Fitted] = []
    asked, found_none, step = limit, 0, int(_STEP * limit)
    while len(tried) < _MOST_TRIED:
        plan = planned(asked)
        if plan.status == "infeasible":
            found_none = asked
            if not tried:
                # It may take less than is planned, and else says what limit is near.
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
