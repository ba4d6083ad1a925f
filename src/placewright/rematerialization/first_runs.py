"""Search for orders of first runs that exceed a memory limit by less, if no order at hand keeps it."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator

import numpy as np
from numpy.typing import NDArray

import placewright._core as _core
from placewright.problem import Problem
from placewright.search.run.budget import UNLIMITED
from placewright.search.run.search_run import SearchRun

#: Returns a search for runs whose first runs are in the given order; it has done nothing yet.
SearchIn = Callable[[NDArray[np.int32]], _core.RematerializationSearch]

#: From so many ops on, a trial counts all its evaluations; with fewer, a run takes under a second and it counts a part.
_FULL_COST = 200
#: Mean of the random tolerance for a worse order, as a share of the bytes over the limit.
_WORSE = 0.3


def nearer_order(
    problem: Problem, order: NDArray[np.int32], run: SearchRun, search_in: SearchIn, starts: int, method: str
) -> NDArray[np.int32]:
    """Return an order in which some runs keep the limit, or the nearest to it that the search finds.

    Local search: an op moves elsewhere in the order, and with it the ops in between that it waits for, or that wait for
    it. An order is as good as the best of the starts of a search in it, and one that is a little worse is accepted,
    too. order: where to begin. starts: their number, in evaluations. method: the name in progress reports.
    """
    source = random.Random(run.seed)
    before, after = _neighbours(problem)
    tried = current = best = order.tolist()
    least = over_now = UNLIMITED
    cost = max(1, starts * min(_FULL_COST, len(best)) // _FULL_COST)
    while True:
        search = search_in(np.array(tried, np.int32))
        search.advance(starts)
        over = search.best_bytes_over_limit
        run.report(method, search.best_objective, over, evaluations=cost)
        if over <= over_now * (1 + source.expovariate(1 / _WORSE)):
            current, over_now = tried, over
        if over < least:
            best, least = tried, over
        if least == 0 or run.reason_to_stop() is not None:
            return np.array(best, np.int32)
        tried = _with_one_elsewhere(current, source, before, after)


def _with_one_elsewhere(
    order: list[int], source: random.Random, before: list[set[int]], after: list[set[int]]
) -> list[int]:
    begin, end = sorted(source.sample(range(len(order)), 2)) if len(order) > 1 else (0, 0)
    between = order[begin : end + 1]
    if source.random() < 0.5:
        goes, stays = _parted(reversed(between), before)
        return [*order[:begin], *reversed(goes), *reversed(stays), *order[end + 1 :]]
    goes, stays = _parted(iter(between), after)
    return [*order[:begin], *stays, *goes, *order[end + 1 :]]


def _parted(ops: Iterator[int], linked: list[set[int]]) -> tuple[list[int], list[int]]:
    """Split the ops into the first with all that are linked to it, and the others."""
    goes, stays = [next(ops)], list[int]()
    wanted = set(linked[goes[0]])
    for op in ops:
        if op in wanted:
            goes.append(op)
            wanted |= linked[op]
        else:
            stays.append(op)
    return goes, stays


def _neighbours(problem: Problem) -> tuple[list[set[int]], list[set[int]]]:
    """List per scheduled op the ops that it waits for, and those that wait for it."""
    lowered, count = problem.lowered, problem.core.num_ops
    before, after = [set[int]() for _ in range(count)], [set[int]() for _ in range(count)]
    edges = [*zip(lowered.producer[lowered.inputs].tolist(), lowered.reader.tolist(), strict=True)]
    waited_for = np.repeat(np.arange(count), np.diff(lowered.control_begin)).tolist()
    for source, target in [*edges, *zip(waited_for, lowered.controls.tolist(), strict=True)]:
        before[target].add(source)
        after[source].add(target)
    return before, after
