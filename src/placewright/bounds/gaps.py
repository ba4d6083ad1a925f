"""The readers of an op's results between which it can run again."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from placewright.bounds.needed import Needed
from placewright.bounds.precedence import COLUMNS
from placewright.problem.pieces import Ints

#: The most successive readers of an op's results that are distinguished.
_MAX_CHAIN = 12
#: The number of a run is that of its op, times this, plus that of its gap.
NUM_GAPS = _MAX_CHAIN + 1


class Gaps:
    """The gaps between successive readers of an op's results, in which the op can run again.

    Some readers of an op's results come one after the other. A piece that is dropped at a moment is made again in one
    of the gaps between them: after the latest of them that came before the moment, and before the first one after it
    that reads the piece. Pieces that are made again in different gaps take different runs.

    chain: those readers, -1 after the last. int64 [makers, NUM_GAPS]. first: the gap of a moment, int8 [makers,
    moments]. end: one past the last gap in which a piece can be made again, int8 [pieces, moments].
    """

    def __init__(self, needed: Needed) -> None:
        self.needed, memory = needed, needed.memory
        makers, self.of_maker = np.unique(memory.maker[needed.pieces], return_inverse=True)
        self.chain = self._chains(len(makers))
        self.first = np.zeros((len(makers), needed.num_moments), np.int8)
        length = (self.chain >= 0).sum(axis=1)[self.of_maker]
        self.end = np.repeat((length + 1)[:, None], needed.num_moments, axis=1).astype(np.int8)
        reads = memory.reader * len(memory.bytes) + memory.read
        for number in range(_MAX_CHAIN, 0, -1):
            link = self.chain[:, number - 1]
            self.first[link >= 0] += needed.up_to[link[link >= 0]]
            own = link[self.of_maker]
            is_read = np.isin(own * len(memory.bytes) + needed.pieces, reads) & (own >= 0)
            self.end[is_read] = np.where(needed.after[own[is_read]], number, self.end[is_read])

    def _chains(self, num_makers: int) -> Ints:
        """Per maker, readers of its results that come one after the other in every order, with a moment between."""
        needed, num_ops = self.needed, self.needed.memory.num_ops
        reader, of = needed.memory.readers(needed.pieces)
        of, reader = np.divmod(np.unique(self.of_maker[of] * num_ops + reader), num_ops)
        begin = np.searchsorted(of, np.arange(num_makers + 1))
        chain = np.full((num_makers, NUM_GAPS), -1, np.int64)
        length = np.zeros(num_makers, np.int64)
        for rank in range(int(np.diff(begin).max(initial=0))):
            own = np.flatnonzero((np.diff(begin) > rank) & (length < _MAX_CHAIN))
            if not len(own):
                break
            next_reader = reader[begin[own] + rank]
            last = chain[own, np.maximum(0, length[own] - 1)]
            follows = (length[own] == 0) | (needed.up_to[last] & needed.after[next_reader]).any(axis=1)
            own, next_reader = own[follows], next_reader[follows]
            chain[own, length[own]] = next_reader
            length[own] += 1
        return chain

    def makings(self, place: Ints, row: Ints, end: NDArray[np.integer]) -> tuple[Ints, Ints]:
        """Pairs of a node, by its place in the arguments, and a run that would make it again.

        A node is a piece at a moment: place, row. end: one past the last gap in which it can be made again.
        """
        first, maker = self.first[self.of_maker[place], row], self.needed.memory.maker[self.needed.pieces[place]]
        inside = [np.flatnonzero((first <= gap) & (gap < end)) for gap in range(NUM_GAPS)]
        runs = [maker[nodes] * NUM_GAPS + gap for gap, nodes in enumerate(inside)]
        return np.concatenate(inside), np.concatenate(runs)

    def ends_before(self, before: Ints, place: Ints) -> Ints:
        """Per piece, one past the last gap in which it can be made again before the given op."""
        memory, chain = self.needed.memory, self.chain[self.of_maker[place]]
        ends: Ints = (chain >= 0).sum(axis=1) + 1
        ops = np.unique(before[before < memory.num_ops])
        for begin in range(0, len(ops), COLUMNS):
            some = ops[begin : begin + COLUMNS]
            seeds = memory.columns(some)
            follows = memory.after(seeds) | seeds
            own = np.flatnonzero((before >= some[0]) & (before <= some[-1]))
            column = np.searchsorted(some, before[own])
            for number in range(_MAX_CHAIN, 0, -1):
                link = chain[own, number - 1]
                ends[own] = np.where((link >= 0) & follows[link, column], number, ends[own])
        return ends
