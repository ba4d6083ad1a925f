"""A lower bound on the step time of one device under a memory limit when tensors may be moved to the host, too."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from placewright.bounds.bound import Bound
from placewright.bounds.needed import Needed
from placewright.bounds.precedence import COLUMNS, OrderedPieces
from placewright.machines.host import HostMemory
from placewright.problem import Problem
from placewright.problem.pieces import Ints
from placewright.problem.streaming import streamable

Floats = NDArray[np.float64]

#: Narrowings of an interval around a minimum, each to an eighth: beyond the precision of a float.
_NARROWINGS = 20


def moved_time(problem: Problem, host: HostMemory) -> Bound:
    """A step time that no plan within the limit can beat when tensors may be moved to the host, too.

    problem: of one device. The bytes that would be over the limit at an op k if all were held are absent then: moved
    to the host before k and back after it, or made again after it. So the step takes at least the ops before k or the
    moves there, whichever is longer, plus the ops after k and those that run again, or the moves back; and at least
    all ops and those that run again. A weight that is absent then comes at least once, before or after k. Choosing the
    cheapest pieces to make again is a fractional knapsack; the amount moved is the one with the least time
    (docs/algorithms.md).
    """
    memory = OrderedPieces(problem, weights=streamable(problem.graph))
    best = int(memory.time_ns.sum())
    moments = memory.moments()
    for begin in range(0, len(moments), COLUMNS):
        needed = Needed(memory, moments[begin : begin + COLUMNS])
        for moment in np.flatnonzero(needed.excess).tolist():
            best = max(best, _least_time(needed, moment, host))
    return Bound(best, "tensors that must be moved or made again")


def _least_time(needed: Needed, moment: int, host: HostMemory) -> int:
    """The least time of a step, given what is over the limit at a moment."""
    memory, over, is_needed = needed.memory, int(needed.excess[moment]), needed.is_needed[:, moment]
    total = int(memory.time_ns.sum())
    before, after = (int(memory.time_ns @ ops[:, moment]) for ops in (needed.before, needed.after))
    made, takes = _made_again(memory, needed.pieces[is_needed & needed.can_be_made[:, moment]])
    movable = needed.pieces[is_needed & memory.may_be_at_host[needed.pieces]]
    is_weight = memory.is_weight[movable]
    moved, weights = movable[~is_weight], movable[is_weight]
    of_moved, of_all = _carried(memory, moved), _carried(memory, np.append(moved, weights))
    at_host = float(memory.bytes[weights].sum())
    there, back = (link.inverse_bandwidth / 2**32 for (link,) in (host.there, host.back))

    def least(away: Floats) -> Floats:
        """The least time of a step for each number of bytes that are at the host at the moment."""
        again_ns = np.interp(over - away, made, takes)
        # Weights first: they need not be moved there.
        moved = np.interp(np.maximum(0, away - at_host), *of_moved)
        ways = (
            total + again_ns,
            moved * there + after + again_ns,
            before + moved * back,
            moved * (there + back),
            np.interp(away, *of_all) * back,
        )
        found: Floats = np.maximum.reduce(ways)
        return found

    low, high = max(0.0, over - made[-1]), float(min(of_all[0][-1], over))
    if low > high:
        return total  # no plan keeps the limit
    corners = np.unique(np.clip(np.append(over - made, (low, high, at_host)), low, high))
    return int(_least_value(least, corners) * (1 - 1e-9)) - 1


def _least_value(convex: Callable[[Floats], Floats], points: Floats) -> float:
    """The minimum of a convex function from the first to the last point: it lies between the neighbours of the best."""
    low, high = _around_least(convex, points)
    for _ in range(_NARROWINGS):
        low, high = _around_least(convex, np.linspace(low, high, 17))
    return float(convex(np.array([(low + high) / 2]))[0])


def _around_least(convex: Callable[[Floats], Floats], points: Floats) -> tuple[float, float]:
    place = int(convex(points).argmin())
    return points[max(0, place - 1)], points[min(len(points) - 1, place + 1)]


def _made_again(memory: OrderedPieces, pieces: Ints) -> tuple[Floats, Floats]:
    """The least time to make pieces again, as corners of a curve: bytes made, time."""
    makers, of = np.unique(memory.maker[pieces], return_inverse=True)
    return _cheapest_first(np.bincount(of, weights=memory.bytes[pieces]), memory.time_ns[makers])


def _carried(memory: OrderedPieces, pieces: Ints) -> tuple[Floats, Floats]:
    """The fewest bytes that links carry to free pieces on the device, as corners of a curve: bytes freed, carried."""
    return _cheapest_first(memory.bytes[pieces], memory.problem.lowered.transfer_bytes[pieces])


def _cheapest_first(sizes: Ints | Floats, costs: Ints) -> tuple[Floats, Floats]:
    """Cumulative sizes and costs, in ascending order of cost per size."""
    in_turn = np.argsort(costs / np.maximum(sizes, 1), kind="stable")
    return np.append(0.0, np.cumsum(sizes[in_turn])), np.append(0.0, np.cumsum(costs[in_turn]))
