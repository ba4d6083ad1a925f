"""The pieces needed while an op first runs: an ancestor made them, and a descendant reads them or they stay."""

from __future__ import annotations

import numpy as np

from placewright.bounds.precedence import OrderedPieces
from placewright.problem.pieces import Ints


class Needed:
    """The pieces needed at some ops, called moments, whatever the order.

    pieces: those with memory that something reads, or that stay. place: of each piece among these, -1 for others.
    after, before, up_to: bool [ops, moments], true if an op comes after a moment, before it, or before it or is its op.
    is_touched, is_needed, can_be_made: bool [pieces, moments], true if the moment's op makes or reads a piece, if other
    ops need it there, and if it can be made again later. excess: bytes over the limit if all that is needed is held,
    int64 [moments].
    """

    def __init__(self, memory: OrderedPieces, moments: Ints) -> None:
        assert memory.limit is not None
        self.memory = memory
        self.num_moments = len(moments)
        seeds = memory.columns(moments)
        self.after, self.before = memory.after(seeds), memory.before(seeds)
        self.up_to = self.before | seeds
        self.pieces = np.flatnonzero((memory.bytes > 0) & ((np.diff(memory.read_begin) > 0) | memory.stays))
        self.place = np.full(len(memory.bytes), -1)
        self.place[self.pieces] = np.arange(len(self.pieces))
        maker, until = memory.maker[self.pieces], memory.again_before[memory.maker[self.pieces]]
        reader, of = memory.readers(self.pieces)
        self.is_touched, read_later = np.zeros((2, len(self.pieces), len(moments)), np.bool_)
        np.logical_or.at(self.is_touched, of, seeds[reader])
        np.logical_or.at(read_later, of, self.after[reader])
        self.is_touched |= seeds[maker]
        self.is_needed = (read_later | memory.stays[self.pieces][:, None]) & self.before[maker] & ~self.is_touched
        is_over = self.up_to[np.minimum(until, memory.num_ops - 1)] & (until < memory.num_ops)[:, None]
        self.can_be_made = memory.may_go[self.pieces][:, None] & ~is_over
        needed_bytes = memory.bytes[self.pieces] @ self.is_needed
        self.excess: Ints = np.maximum(0, memory.own_bytes[moments] + needed_bytes - memory.limit)
