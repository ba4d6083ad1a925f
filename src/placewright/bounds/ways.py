"""The time of reruns when the inputs of ops that run again must be there, too."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

import placewright._core as _core
from placewright.bounds.gaps import NUM_GAPS, Gaps
from placewright.bounds.needed import Needed
from placewright.problem.pieces import Ints

#: The most steps along supergradients at the moments that have a price, and the most arcs that these may look at.
_STEPS, _BUDGET = 100, 40_000_000


def proven_with_ways(needed: Needed, gaps: Gaps, prices: NDArray[np.float64]) -> int:
    """The time of reruns that is proven at the moments that have a price when ways are counted.

    A way is a piece that is read to make another one again and is not needed by itself. It is either held at the
    moment, or made again as well, before that other piece is read. prices: of a byte, float64 [moments].
    """
    memory, rows = needed.memory, np.flatnonzero(prices)
    starts = np.flatnonzero(needed.is_needed & needed.can_be_made & (prices != 0))
    num_needed = len(starts)
    nodes, source, target = _ways(needed, starts)
    place, row = np.divmod(nodes, needed.num_moments)
    may_go = needed.can_be_made[place, row]
    end = gaps.ends_before(_made_before(gaps, starts, len(nodes), source, target), place)
    end[:num_needed] = gaps.end[place[:num_needed], row[:num_needed]]
    made, run = gaps.makings(place[may_go], row[may_go], end[may_go])
    made, run = _joined(np.flatnonzero(may_go)[made], run)
    names, run = np.unique(run, return_inverse=True)
    moment = np.searchsorted(rows, row)
    sizes = memory.bytes[needed.pieces[place]]
    held = np.zeros(len(rows), np.int64)
    np.add.at(held, moment[:num_needed], sizes[:num_needed])
    value = _core.remaking_bound(
        room=held - needed.excess[rows],
        moment=moment.astype(np.int32),
        bytes=sizes,
        is_way=(np.arange(len(nodes)) >= num_needed).astype(np.uint8),
        may_go=may_go.astype(np.uint8),
        way_from=source.astype(np.int32),
        way_to=target.astype(np.int32),
        made=made.astype(np.int32),
        run=run.astype(np.int32),
        time_ns=memory.time_ns[names // NUM_GAPS],
        prices=prices[rows],
        steps=_STEPS,
        budget=_BUDGET,
    )
    return max(0, int(value))


def _ways(needed: Needed, starts: Ints) -> tuple[Ints, Ints, Ints]:
    """The start nodes and those read on the way to them, numbered by piece and moment, and pairs of nodes: one that is
    made again and one that is read for it."""
    memory, count = needed.memory, needed.num_moments
    by_reader = np.argsort(memory.reader, kind="stable")
    read = memory.read[by_reader]
    begin = np.searchsorted(memory.reader[by_reader], np.arange(memory.num_ops + 1))
    is_way = (~needed.is_needed & ~needed.is_touched).ravel()
    nodes = frontier = starts
    sources, targets = [starts[:0]], [starts[:0]]
    while len(frontier):
        maker = memory.maker[needed.pieces[frontier // count]]
        counts = begin[maker + 1] - begin[maker]
        of = np.repeat(np.arange(len(frontier)), counts)
        to = needed.place[read[begin[maker][of] + np.arange(len(of)) - (np.cumsum(counts) - counts)[of]]]
        target = to * count + frontier[of] % count
        counted = (to >= 0) & is_way[target]
        sources.append(frontier[of][counted])
        targets.append(target[counted])
        new = np.setdiff1d(targets[-1], nodes)
        nodes = np.append(nodes, new)
        frontier = new[needed.can_be_made.ravel()[new]]
    in_turn = np.argsort(nodes)
    source, target = (in_turn[np.searchsorted(nodes[in_turn], np.concatenate(pairs))] for pairs in (sources, targets))
    return nodes, source, target


def _made_before(gaps: Gaps, starts: Ints, num_nodes: int, source: Ints, target: Ints) -> Ints:
    """Per node, the op before whose first run it must be made again, if at all: for a needed piece its first reader
    after the moment, for a way the op of the nodes that it is read for. The number of ops if there is none. If there
    are several, the latest when only the graph's order counts, else the number of ops."""
    memory = gaps.needed.memory
    none = memory.num_ops
    place, row = np.divmod(starts, gaps.needed.num_moments)
    reader = gaps.chain[gaps.of_maker[place], gaps.end[place, row] - 1]
    first = np.append(np.where(reader < 0, none, reader), np.full(num_nodes - len(starts), none))
    last = np.where(np.arange(num_nodes) < len(starts), first, -1)
    while True:
        before = first.copy(), last.copy()
        np.minimum.at(first, target, first[source])
        np.maximum.at(last, target, last[source])
        # Either may settle after the other: the two readers of a shared way may lie at different depths.
        if (first == before[0]).all() and (last == before[1]).all():
            return last if memory.in_order else np.where(first == last, last, none)


def _joined(made: Ints, run: Ints) -> tuple[Ints, Ints]:
    """Each node with one run: if a node could be made again in several gaps of an op, these become one."""
    in_turn = np.lexsort((run, made))
    made, run = made[in_turn], run[in_turn]
    same = made[1:] == made[:-1]
    crossed = np.unique(run[1:][same])  # a gap that is joined to the one before it
    numbers = np.unique(run)
    first = numbers[~np.isin(numbers, crossed)]
    return made[np.append(True, ~same)], first[np.searchsorted(first, run[np.append(True, ~same)], side="right") - 1]
