"""Pieces of memory of a problem with one device: their makers and readers, and which pieces can be made again."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from placewright.problem.problem import Problem
from placewright.problem.running_again import again_before

Bools = NDArray[np.bool_]
Ints = NDArray[np.int64]


class Pieces:
    """Pieces of memory, each by the tensor that owns it, as the search for reruns sees them
    (cpp/core/rematerialize/ordered_ops.hpp).

    maker, bytes, stays: per piece; stays: True if held to the end of the step. may_go: True if it can be made again as
    long as its maker may run. read, reader: pairs of a piece and an op that reads it or writes to it, by piece; those
    of a piece are [read_begin[piece], read_begin[piece + 1]). own_bytes: memory held while an op first runs, residents
    included. beside: memory that a rerun needs in addition for results that the first run wrote in place.
    """

    def __init__(self, problem: Problem) -> None:
        assert problem.machine.num_devices == 1
        lowered = problem.lowered
        self.problem = problem
        self.num_ops = len(lowered.graph_op)
        self.limit = problem.memory_limits_bytes[0]
        self.time_ns: Ints = problem.time_ns[lowered.graph_op, 0].astype(np.int64)
        self.again_before = again_before(problem)
        self.maker = lowered.producer.astype(np.int64)
        own = lowered.storage == np.arange(len(lowered.storage))
        self.bytes: Ints = np.where(own, lowered.allocated_bytes, 0)
        self.stays: Bools = own & (lowered.live_out == 1)
        self.may_go: Bools = own & (self.bytes > 0) & ~self.stays & (self.again_before[self.maker] >= 0)
        self.beside = np.zeros(self.num_ops, np.int64)
        np.add.at(self.beside, self.maker, np.where(own & (self.bytes == 0), lowered.copy_bytes, 0))
        self.may_go[lowered.storage[self.maker[lowered.storage] != self.maker]] = False
        touched = lowered.storage[np.append(lowered.inputs, np.arange(len(own)))].astype(np.int64)
        pairs = np.unique(touched * self.num_ops + np.append(lowered.reader, self.maker))
        piece, reader = pairs // self.num_ops, pairs % self.num_ops
        others = self.maker[piece] != reader
        self.read, self.reader = piece[others], reader[others]
        self.read_begin = np.searchsorted(self.read, np.arange(len(own) + 1))
        self.resident_bytes = int(lowered.resident_bytes.sum())
        self.own_bytes: Ints = self.resident_bytes + lowered.workspace_bytes
        np.add.at(self.own_bytes, self.reader, self.bytes[self.read])
        np.add.at(self.own_bytes, self.maker, self.bytes)

    def readers(self, pieces: Ints) -> tuple[Ints, Ints]:
        """Return the readers of all the pieces, and for each the index of the piece that it reads."""
        counts = self.read_begin[pieces + 1] - self.read_begin[pieces]
        of = np.repeat(np.arange(len(pieces)), counts)
        first = np.cumsum(counts) - counts
        return self.reader[self.read_begin[pieces][of] + np.arange(len(of)) - first[of]], of
