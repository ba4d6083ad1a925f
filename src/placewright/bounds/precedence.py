"""Ancestors and descendants of ops on one device, in every order or in the graph's order only."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from placewright.problem import Problem
from placewright.problem.pieces import Bools, Ints, Pieces
from placewright.problem.running_again import may_move
from placewright.problem.streaming import with_weights_made

#: How many columns of ancestors and descendants are held at a time.
COLUMNS = 1024
#: The most ops, one per stretch of the graph's order, at which bounds ask what must be dropped.
_MOMENTS = 256


class OrderedPieces(Pieces):
    """Pieces of memory, and the ancestors and descendants of ops.

    in_order: true to count only the graph's order. weights: parameters that lie at the host; ops in front of all
    others make them (`with_weights_made`).
    """

    def __init__(self, problem: Problem, *, in_order: bool = False, weights: Sequence[int] = ()) -> None:
        super().__init__(with_weights_made(problem, weights))
        self.in_order = in_order
        self.num_weights = len(weights)
        self.is_weight: Bools = self.maker < len(weights)
        #: The op up to which each piece is held in the graph's order.
        self.last = self.maker.copy()
        np.maximum.at(self.last, self.read, self.reader)
        self.last[self.stays] = self.num_ops - 1

    @cached_property
    def may_be_at_host(self) -> Bools:
        """Per piece, true if it is a weight or can be moved to the host."""
        return may_move(self.problem).astype(np.bool_) | self.is_weight

    @cached_property
    def _waits_for(self) -> list[list[int]]:
        """Per op, its direct predecessors in every order."""
        lowered = self.problem.lowered
        before: list[set[int]] = [set() for _ in range(self.num_ops)]
        for op, tensor in zip(lowered.reader.tolist(), lowered.inputs.tolist(), strict=True):
            before[op].add(int(self.maker[tensor]))
        for op in range(self.num_ops):
            for after in lowered.controls[lowered.control_begin[op] : lowered.control_begin[op + 1]].tolist():
                before[after].add(op)
        for op, piece in zip(self.reader.tolist(), self.read.tolist(), strict=True):
            before[op].add(int(self.maker[piece]))
        return [sorted(own) for own in before]

    @cached_property
    def _waited_for_by(self) -> list[list[int]]:
        after: list[list[int]] = [[] for _ in range(self.num_ops)]
        for op, own in enumerate(self._waits_for):
            for before in own:
                after[before].append(op)
        return after

    def columns(self, ops: NDArray[np.integer]) -> Bools:
        """Per op and column, true if it is the op of that column."""
        found = np.zeros((self.num_ops, len(ops)), np.bool_)
        found[ops, np.arange(len(ops))] = True
        return found

    def after(self, seeds: Bools) -> Bools:
        """Per op and column, true if it comes after another op of that column's seeds in every order."""
        return self._spread(seeds, range(self.num_ops), self._waits_for)

    def before(self, seeds: Bools) -> Bools:
        """Per op and column, true if it comes before such an op; ops that make weights always do."""
        found = self._spread(seeds, range(self.num_ops - 1, -1, -1), self._waited_for_by)
        found[: self.num_weights] = True
        return found

    def _spread(self, seeds: Bools, ops: range, beside: list[list[int]]) -> Bools:
        if self.in_order:
            passed: Bools = np.logical_or.accumulate(seeds[ops.start :: ops.step], axis=0)
            found = np.zeros_like(seeds)
            found[1:] = passed[:-1]
            return found[:: ops.step]
        reached = np.packbits(seeds, axis=1)
        strictly = np.zeros_like(reached)
        for op in ops:
            if beside[op]:
                strictly[op] = np.bitwise_or.reduce(reached[beside[op]], axis=0)
                reached[op] |= strictly[op]
        return np.unpackbits(strictly, axis=1, count=seeds.shape[1]).view(np.bool_)

    def moments(self) -> Ints:
        """The ops where the graph's order exceeds the limit: the fullest op of each stretch."""
        if self.limit is None:
            return np.zeros(0, np.int64)
        level = np.zeros(self.num_ops + 1, np.int64)
        np.add.at(level, self.maker, self.bytes)
        np.add.at(level, self.last + 1, -self.bytes)
        excess = np.cumsum(level[:-1]) + self.resident_bytes + self.problem.lowered.workspace_bytes - self.limit
        over = np.flatnonzero(excess > 0)
        stretches = np.array_split(over, min(len(over), _MOMENTS)) if len(over) else []
        found = np.array([own[excess[own].argmax()] for own in stretches], np.int64)
        return found[found >= self.num_weights]
