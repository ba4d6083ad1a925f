"""Lower bounds on one device when ops may run again: on the step time under a memory limit, and on the limit itself.

They hold for every order of first runs. A later run is one that `again_before` allows, and what an op writes to in
place is not made again (docs/algorithms.md, "Bounds with reruns").
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from placewright.bounds.bound import Bound
from placewright.problem import Problem
from placewright.problem.pieces import Bools, Ints, Pieces

Floats = NDArray[np.float64]

#: At how many ops, one per stretch of the graph's order, it is asked what must be dropped.
_MOMENTS = 256
#: How many readers of what an op makes are told apart, one after the other.
_MAX_CHAIN = 12
#: Passes of coordinate ascent over the moments, and steps along subgradients.
_PASSES, _STEPS = 3, 60
#: Prices are whole multiples of a 2**-30th of the least.
_PRICE_BITS = 30
#: How many columns of ancestors and descendants are held at a time.
_COLUMNS = 1024


def rematerialized_time(problem: Problem, in_order: bool = False) -> Bound:
    """The step time below which no plan that keeps the limit gets: each op once, and what must run again.

    problem: of one device. in_order: only for plans whose first runs are in the graph's order, which proves more.

    While an op k runs first, what an ancestor of it made and a descendant of it reads is held, or its maker runs again
    later. So for every k the bytes dropped are at least those over the limit if all were held. A drop between two
    readers that come one after the other is a run of its own. Fractions of drops at least cost are a linear program;
    prices z of a byte at each k prove sum(excess * z) - sum over drops of max(0, bytes * z - time), whatever z.
    """
    total = int(problem.time_ns[problem.lowered.graph_op, 0].sum())
    memory = _Memory(problem, in_order)
    moments = memory.moments()
    again = _covered(memory, moments) if len(moments) else 0
    return Bound(total + again, "tensors that must be dropped and made again")


def least_limit(problem: Problem) -> tuple[int, str]:
    """The least limit on one device that is not proven to be too small whatever runs again, and the op that needs it.

    While an op runs, residents, its inputs, outputs and workspace are held, and whatever cannot be made again and was
    made by an ancestor and is read by a descendant, or stays to the end. At the end all that stays is held.
    """
    memory = _Memory(problem, in_order=False)
    needed = memory.own_bytes + memory.bound_bytes()
    at_end = int(memory.resident_bytes + memory.bytes[memory.stays].sum())
    op = int(needed.argmax())
    if at_end > needed[op]:
        return at_end, memory.name(len(needed) - 1)
    return int(needed[op]), memory.name(op)


class _Memory(Pieces):
    """What comes before and after what in every order, or in the graph's."""

    def __init__(self, problem: Problem, in_order: bool) -> None:
        super().__init__(problem)
        self.in_order = in_order

    def name(self, op: int) -> str:
        return self.problem.graph.ops[int(self.problem.lowered.graph_op[op])].name

    @cached_property
    def _waits_for(self) -> list[list[int]]:
        """Per op those that come before it in every order."""
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

    def after(self, seeds: Bools) -> Bools:
        """Per op and column whether it comes after an op of that column's seeds in every order, itself not counted."""
        return self._spread(seeds, range(self.num_ops), self._waits_for)

    def before(self, seeds: Bools) -> Bools:
        return self._spread(seeds, range(self.num_ops - 1, -1, -1), self._waited_for_by)

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

    def bound_bytes(self) -> Ints:
        """Per op what is held beside its own while it runs whatever is dropped."""
        found = np.zeros(self.num_ops, np.int64)
        until = self.again_before[self.maker]
        pieces = np.flatnonzero((self.bytes > 0) & (~self.may_go | (until < self.num_ops)))
        for begin in range(0, len(pieces), _COLUMNS):
            some = pieces[begin : begin + _COLUMNS]
            column = np.arange(len(some))
            made, last = np.zeros((2, self.num_ops, len(some)), np.bool_)
            made[self.maker[some], column] = True
            read, of = self.readers(some)
            last[read, of] = True
            held = self.after(made) & (self.before(last) | self.stays[some])
            held[read, of] = False
            if (limited := self.may_go[some]).any():
                over = np.zeros_like(made)
                over[until[some][limited], column[limited]] = True
                held &= ~limited | self.after(over) | over
            found += held @ self.bytes[some]
        return found

    def moments(self) -> Ints:
        """Ops where the graph's order is over the limit, the fullest of every stretch of it."""
        if self.limit is None:
            return np.zeros(0, np.int64)
        last = self.maker.copy()
        np.maximum.at(last, self.read, self.reader)
        last[self.stays] = self.num_ops - 1
        level = np.zeros(self.num_ops + 1, np.int64)
        np.add.at(level, self.maker, self.bytes)
        np.add.at(level, last + 1, -self.bytes)
        excess = np.cumsum(level[:-1]) + self.resident_bytes + self.problem.lowered.workspace_bytes - self.limit
        over = np.flatnonzero(excess > 0)
        stretches = np.array_split(over, min(len(over), _MOMENTS)) if len(over) else []
        return np.array([own[excess[own].argmax()] for own in stretches], np.int64)


@dataclass(frozen=True, kw_only=True, eq=False)
class _Drops:
    """The linear program. Rows are moments, by `begin`; excess: bytes to drop at each. drop, bytes: per entry of a row
    the drop and what of it is held at the moment. time_ns: of each drop."""

    excess: Ints
    begin: Ints
    drop: Ints
    bytes: Ints
    time_ns: Ints

    @cached_property
    def row(self) -> Ints:
        return np.repeat(np.arange(len(self.excess)), np.diff(self.begin))

    def paid(self, prices: Floats) -> Floats:
        paid = np.bincount(self.drop, weights=self.bytes * prices[self.row], minlength=len(self.time_ns))
        return np.asarray(paid, np.float64)

    def proven(self, prices: Floats) -> int:
        """What the prices prove, exactly, rounded up."""
        if not prices.any():
            return 0
        shift = max(0, _PRICE_BITS - int(np.floor(np.log2(prices[prices > 0].min()))))
        whole = [int(price * 2.0**shift) for price in prices.tolist()]
        paid = [0] * len(self.time_ns)
        for row, price in enumerate(whole):
            if price:
                own = slice(self.begin[row], self.begin[row + 1])
                for drop, size in zip(self.drop[own].tolist(), self.bytes[own].tolist(), strict=True):
                    paid[drop] += size * price
        value = sum(excess * price for excess, price in zip(self.excess.tolist(), whole, strict=True))
        value -= sum(max(0, own - (time << shift)) for own, time in zip(paid, self.time_ns.tolist(), strict=True))
        return max(0, -(-int(value) >> shift))


def _covered(memory: _Memory, moments: Ints) -> int:
    """The least time of later runs."""
    drops = _drops(memory, moments)
    fits = np.bincount(drops.row, weights=drops.bytes, minlength=len(moments)) >= drops.excess
    if not fits.all() or not (drops.excess > 0).any():
        return 0  # no plan keeps the limit, or nothing need be dropped in every order
    return drops.proven(_best_prices(drops))


def _drops(memory: _Memory, moments: Ints) -> _Drops:
    assert memory.limit is not None
    seeds = np.zeros((memory.num_ops, len(moments)), np.bool_)
    seeds[moments, np.arange(len(moments))] = True
    after = memory.after(seeds)
    before = memory.before(seeds)
    pieces = np.flatnonzero((memory.bytes > 0) & (np.diff(memory.read_begin) > 0) | memory.stays)
    needed = np.zeros((len(pieces), len(moments)), np.bool_)
    reader, of = memory.readers(pieces)
    read_by = np.flatnonzero(np.append(1, np.diff(of))) if len(of) else of
    needed[of[read_by]] = np.logical_or.reduceat(after[reader], read_by, axis=0) if len(of) else False
    needed |= memory.stays[pieces][:, None]
    needed &= before[memory.maker[pieces]]
    np.logical_and.at(needed, of, ~seeds[reader])
    until = np.minimum(memory.again_before[memory.maker[pieces]], memory.num_ops - 1)
    is_over = (before[until] | seeds[until]) & (memory.again_before[memory.maker[pieces]] < memory.num_ops)[:, None]
    can_go = needed & memory.may_go[pieces][:, None] & ~is_over
    excess = memory.own_bytes[moments] + memory.bytes[pieces] @ needed - memory.limit
    rows, drops, sizes = map(np.concatenate, zip(*_entries(memory, pieces, can_go, after, before | seeds), strict=True))
    in_turn = np.lexsort((drops, rows))
    rows, drops, sizes = rows[in_turn], drops[in_turn], sizes[in_turn]
    first = np.flatnonzero(np.append(True, (np.diff(rows) > 0) | (np.diff(drops) > 0))) if len(rows) else rows
    sizes = np.add.reduceat(sizes, first) if len(rows) else sizes
    names, drop = np.unique(drops[first], return_inverse=True)
    return _Drops(
        excess=np.maximum(0, excess),
        begin=np.searchsorted(rows[first], np.arange(len(moments) + 1)),
        drop=drop,
        bytes=sizes,
        time_ns=memory.time_ns[names // (_MAX_CHAIN + 1)],
    )


def _entries(
    memory: _Memory, pieces: Ints, can_go: Bools, after: Bools, up_to: Bools
) -> Iterator[tuple[Ints, Ints, Ints]]:
    """Moments, drops and bytes: what of a drop is held at a moment.

    Of the readers of all that an op makes some come one after the other. A drop is one between two of them. What is
    gone at a moment is made again after the latest of them that came before it, and before the first behind it that
    reads it: in one of the gaps between, each of which is a drop that would do.
    """
    makers, of_maker = np.unique(memory.maker[pieces], return_inverse=True)
    shape = len(makers), can_go.shape[1]
    position = np.zeros(shape, np.int8)
    chain = _chains(memory, pieces, of_maker, len(makers), after, up_to)
    gap_end = np.full(can_go.shape, _MAX_CHAIN + 1, np.int8)
    reads = np.unique(memory.reader * len(memory.bytes) + memory.read)
    for place in range(_MAX_CHAIN, 0, -1):
        link = chain[:, place - 1]
        has = link >= 0
        position[has] += up_to[link[has]]
        own = link[of_maker]
        is_read = np.isin(own * len(memory.bytes) + pieces, reads) & (own >= 0)
        gap_end[is_read] = np.where(after[own[is_read]], place, gap_end[is_read])
    length = (chain >= 0).sum(axis=1)[of_maker]
    gap_end = np.minimum(gap_end, (length + 1)[:, None])
    for gap in range(_MAX_CHAIN + 1):
        piece, moment = np.nonzero(can_go & (position[of_maker] <= gap) & (gap < gap_end))
        yield moment, makers[of_maker[piece]] * (_MAX_CHAIN + 1) + gap, memory.bytes[pieces[piece]]


def _chains(
    memory: _Memory, pieces: Ints, of_maker: Ints, num_makers: int, after: Bools, up_to: Bools
) -> NDArray[np.int64]:
    """Per maker readers of what it makes that come one after the other in every order with a moment between, -1 behind
    the last."""
    reader, of = memory.readers(pieces)
    pairs = np.unique(of_maker[of] * memory.num_ops + reader)
    of, reader = pairs // memory.num_ops, pairs % memory.num_ops
    begin = np.searchsorted(of, np.arange(num_makers + 1))
    chain = np.full((num_makers, _MAX_CHAIN), -1, np.int64)
    length = np.zeros(num_makers, np.int64)
    for rank in range(int(np.diff(begin).max(initial=0))):
        own = np.flatnonzero((np.diff(begin) > rank) & (length < _MAX_CHAIN))
        if not len(own):
            break
        next_reader = reader[begin[own] + rank]
        last = chain[own, np.maximum(0, length[own] - 1)]
        follows = (length[own] == 0) | (up_to[last] & after[next_reader]).any(axis=1)
        own, next_reader = own[follows], next_reader[follows]
        chain[own, length[own]] = next_reader
        length[own] += 1
    return chain


def _best_prices(drops: _Drops) -> Floats:
    """Coordinate ascent, moment by moment, then steps along subgradients: of all tried what proves most."""
    prices = np.zeros(len(drops.excess))
    paid = np.zeros(len(drops.time_ns))
    for _ in range(_PASSES):
        for row in np.argsort(-drops.excess, kind="stable").tolist():
            own = slice(drops.begin[row], drops.begin[row + 1])
            drop, size = drops.drop[own], drops.bytes[own]
            paid[drop] -= size * prices[row]
            prices[row] = _price(int(drops.excess[row]), size, drops.time_ns[drop] - paid[drop])
            paid[drop] += size * prices[row]
    best, best_value = prices, _value(drops, prices)
    for step in range(_STEPS):
        taken = drops.paid(prices) > drops.time_ns
        covered = np.bincount(drops.row, weights=drops.bytes * taken[drops.drop], minlength=len(drops.excess))
        slope = drops.excess - covered
        slope[(prices == 0) & (slope < 0)] = 0
        norm = float(slope @ slope)
        if norm == 0:
            break
        aim = 0.1 * best_value / (1 + step / 10) + max(0.0, best_value - _value(drops, prices))
        prices = np.maximum(0, prices + aim / norm * slope)
        if (value := _value(drops, prices)) > best_value:
            best, best_value = prices, value
    return best


def _value(drops: _Drops, prices: Floats) -> float:
    return float(drops.excess @ prices - np.maximum(0, drops.paid(prices) - drops.time_ns).sum())


def _price(excess: int, sizes: Ints, left_ns: Floats) -> float:
    """Of a byte at one moment, all other prices as they are: what the last byte that must go costs."""
    if excess <= 0:
        return 0.0
    ratio = np.maximum(0, left_ns) / sizes
    in_turn = np.argsort(ratio)
    place = int(np.searchsorted(np.cumsum(sizes[in_turn]), excess))
    return float(ratio[in_turn[place]])
