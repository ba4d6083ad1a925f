"""Lower bounds on one device when ops may run again: on the step time under a memory limit, and on the limit itself.

They hold for every order of first runs. A later run is one that `again_before` allows, and what an op writes to in
place is not made again (docs/algorithms.md, "Bounds with reruns").
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

import placewright._core as _core
from placewright.bounds.bound import Bound
from placewright.machines.host import HostMemory
from placewright.problem import Problem
from placewright.problem.pieces import Bools, Ints, Pieces
from placewright.problem.running_again import may_move
from placewright.problem.streaming import streamable, with_weights_made

Floats = NDArray[np.float64]

#: At how many ops, one per stretch of the graph's order, it is asked what must be dropped.
_MOMENTS = 256
#: How many readers of what an op makes are told apart, one after the other.
_MAX_CHAIN = 12
#: Passes of coordinate ascent over the moments without ways; with ways, at the moments that have a price then, steps
#: along supergradients and arcs that these may look at.
_PASSES, _STEPS, _BUDGET = 3, 100, 40_000_000
#: How many columns of ancestors and descendants are held at a time.
_COLUMNS = 1024
#: Of an interval around a least point, each to an eighth: further than the digits of a number go.
_NARROWINGS = 20


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
    again = _Program(memory, moments).proven() if len(moments) else 0
    return Bound(total + again, "tensors that must be dropped and made again")


def moved_time(problem: Problem, host: HostMemory) -> Bound:
    """The step time below which no plan that keeps the limit gets where tensors may be moved to the host, too.

    problem: of one device. What is over the limit at an op k if all is held is gone then: moved there before and back
    after it, or made again after it. So the step takes no less than what comes before k, or moving there, and what
    comes after k and is made again, or moving back; and all ops. A weight that is gone then comes at least once, before
    or after k. The cheapest parts that are made again are a knapsack, of which fractions count; how much is moved is
    chosen for the best (docs/algorithms.md).
    """
    total = int(problem.time_ns[problem.lowered.graph_op, 0].sum())
    weights = streamable(problem.graph)
    problem = with_weights_made(problem, weights)
    memory = _Memory(problem, in_order=False)
    moments = memory.moments()
    moments = moments[moments >= len(weights)]
    is_weight = memory.maker < len(weights)
    moves = may_move(problem).astype(np.bool_) | is_weight
    best = total
    for begin in range(0, len(moments), _COLUMNS):
        some = moments[begin : begin + _COLUMNS]
        seeds = np.zeros((memory.num_ops, len(some)), np.bool_)
        seeds[some, np.arange(len(some))] = True
        after, before = memory.after(seeds), memory.before(seeds)
        before[: len(weights)] = True
        reader, of = memory.readers(np.arange(len(memory.bytes)))
        read_later, touched = np.zeros((2, len(memory.bytes), len(some)), np.bool_)
        np.logical_or.at(read_later, of, after[reader])
        np.logical_or.at(touched, of, seeds[reader])
        needed = (read_later | memory.stays[:, None]) & before[memory.maker] & ~touched
        until = memory.again_before[memory.maker]
        too_late = (before | seeds)[np.minimum(until, memory.num_ops - 1)] & (until < memory.num_ops)[:, None]
        can_be_made = memory.may_go[:, None] & ~too_late & needed
        excess = memory.own_bytes[some] + memory.bytes @ needed - (memory.limit or 0)
        for column, over in enumerate(excess.tolist()):
            if over > 0:
                again = np.flatnonzero(can_be_made[:, column])
                movable = moves & needed[:, column]
                found = _least_with_moves(
                    memory,
                    host,
                    over,
                    np.flatnonzero(movable & ~is_weight),
                    np.flatnonzero(movable & is_weight),
                    again,
                    total,
                    int(memory.time_ns @ before[:, column]),
                    int(memory.time_ns @ after[:, column]),
                )
                best = max(best, found)
    return Bound(best, "tensors that must be moved or made again")


def _least_with_moves(
    memory: _Memory,
    host: HostMemory,
    over: int,
    movable: Ints,
    weights: Ints,
    again: Ints,
    total: int,
    before: int,
    after: int,
) -> int:
    """The least time with so many bytes over the limit at an op. movable, weights: pieces that can be moved, and those
    of weights that can be at the host. again: pieces that can be made again. before, after: time of what comes before
    and after it in every order."""
    makers, of = np.unique(memory.maker[again], return_inverse=True)
    sizes = np.bincount(of, weights=memory.bytes[again], minlength=len(makers))
    costs = memory.time_ns[makers].astype(np.float64)
    in_turn = np.argsort(costs / np.maximum(sizes, 1), kind="stable")
    # By bytes that are made again, what that takes at least.
    made = np.append(0.0, np.cumsum(sizes[in_turn]))
    takes = np.append(0.0, np.cumsum(costs[in_turn]))
    there, back = (link.inverse_bandwidth / 2**32 for (link,) in (host.there, host.back))

    of_moved, of_all = _carried(memory, movable), _carried(memory, np.append(movable, weights))
    at_host = float(memory.bytes[weights].sum())

    def least(away: Floats) -> Floats:
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
    points = np.unique(np.clip(np.append(over - made, (low, high, at_host)), low, high))
    # A convex function of what is away: least between the neighbours of its least point.
    place = int(least(points).argmin())
    low, high = points[max(0, place - 1)], points[min(len(points) - 1, place + 1)]
    for _ in range(_NARROWINGS):
        points = np.linspace(low, high, 17)
        place = int(least(points).argmin())
        low, high = points[max(0, place - 1)], points[min(16, place + 1)]
    return int(least(np.array([(low + high) / 2]))[0] * (1 - 1e-9)) - 1


def _carried(memory: _Memory, pieces: Ints) -> tuple[Floats, Floats]:
    """By bytes of pieces that are freed on the device, the bytes that links carry for it at least."""
    sizes, carried = memory.bytes[pieces], memory.problem.lowered.transfer_bytes[pieces]
    in_turn = np.argsort(carried / np.maximum(sizes, 1), kind="stable")
    return np.append(0.0, np.cumsum(sizes[in_turn])), np.append(0.0, np.cumsum(carried[in_turn]))


_LEAST_LIMITS: WeakKeyDictionary[Problem, dict[bool, tuple[int, str]]] = WeakKeyDictionary()


def least_limit(problem: Problem, host: HostMemory | None = None) -> tuple[int, str]:
    """The least limit on one device that is not proven to be too small whatever runs again, and the op that needs it.

    While an op runs, residents, its inputs, outputs and workspace are held, and whatever cannot be made again and was
    made by an ancestor and is read by a descendant, or stays to the end. At the end all that stays is held. host: what
    can be moved there need not be held, nor weights that can be there.
    """
    known = _LEAST_LIMITS.setdefault(problem, {})
    if (moves := host is not None) not in known:
        known[moves] = _least_limit(problem, moves=moves)
    return known[moves]


def _least_limit(problem: Problem, *, moves: bool) -> tuple[int, str]:
    weights = streamable(problem.graph) if moves else ()
    problem = with_weights_made(problem, weights)
    memory = _Memory(problem, in_order=False)
    is_weight = memory.maker < len(weights)
    needed = memory.own_bytes + memory.bound_bytes(may_move(problem).astype(np.bool_) | is_weight if moves else None)
    needed[: len(weights)] = 0
    at_end = int(memory.resident_bytes + memory.bytes[memory.stays & ~is_weight].sum())
    op = int(needed.argmax())
    if at_end > needed[op]:
        return at_end, memory.name(len(needed) - 1)
    return int(needed[op]), memory.name(op)


class _Memory(Pieces):
    """What comes before and after what in every order, or in the graph's."""

    def __init__(self, problem: Problem, in_order: bool) -> None:
        super().__init__(problem)
        self.in_order = in_order
        #: Of each piece the op up to which it is held in the graph's order.
        self.last = self.maker.copy()
        np.maximum.at(self.last, self.read, self.reader)
        self.last[self.stays] = self.num_ops - 1

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

    def bound_bytes(self, can_go: Bools | None = None) -> Ints:
        """Per op what is held beside its own while it runs whatever is dropped. can_go: pieces that can be moved."""
        found = np.zeros(self.num_ops, np.int64)
        until = self.again_before[self.maker]
        is_bound = (self.bytes > 0) & (~self.may_go | (self.last > until))
        pieces = np.flatnonzero(is_bound if can_go is None else is_bound & ~can_go)
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
        level = np.zeros(self.num_ops + 1, np.int64)
        np.add.at(level, self.maker, self.bytes)
        np.add.at(level, self.last + 1, -self.bytes)
        excess = np.cumsum(level[:-1]) + self.resident_bytes + self.problem.lowered.workspace_bytes - self.limit
        over = np.flatnonzero(excess > 0)
        stretches = np.array_split(over, min(len(over), _MOMENTS)) if len(over) else []
        return np.array([own[excess[own].argmax()] for own in stretches], np.int64)


class _Program:
    """The linear program: at every moment the bytes of drops are no less than those over the limit.

    row, piece: of nodes, which are pieces that may go at moments at which they are needed later. made, run: pairs of a
    node and a run that would make it again, by its maker and the gap it lies in. excess: bytes to drop, by moment.
    """

    def __init__(self, memory: _Memory, moments: Ints) -> None:
        assert memory.limit is not None
        self.memory = memory
        seeds = np.zeros((memory.num_ops, len(moments)), np.bool_)
        seeds[moments, np.arange(len(moments))] = True
        self.after, before = memory.after(seeds), memory.before(seeds)
        self.up_to = before | seeds
        self.pieces = np.flatnonzero((memory.bytes > 0) & ((np.diff(memory.read_begin) > 0) | memory.stays))
        self.place = np.full(len(memory.bytes), -1)
        self.place[self.pieces] = np.arange(len(self.pieces))
        maker, until = memory.maker[self.pieces], memory.again_before[memory.maker[self.pieces]]
        reader, of = memory.readers(self.pieces)
        shape = len(self.pieces), len(moments)
        self.touched, read_later = np.zeros(shape, np.bool_), np.zeros(shape, np.bool_)
        np.logical_or.at(self.touched, of, seeds[reader])
        np.logical_or.at(read_later, of, self.after[reader])
        self.touched |= seeds[maker]
        self.is_needed = (read_later | memory.stays[self.pieces][:, None]) & before[maker] & ~self.touched
        is_over = self.up_to[np.minimum(until, memory.num_ops - 1)] & (until < memory.num_ops)[:, None]
        self.can_be_made = memory.may_go[self.pieces][:, None] & ~is_over
        needed_bytes = memory.bytes[self.pieces] @ self.is_needed
        self.excess: Ints = np.maximum(0, memory.own_bytes[moments] + needed_bytes - memory.limit)
        self._find_gaps()
        place, self.row = np.nonzero(self.is_needed & self.can_be_made & (self.excess > 0))
        self.piece = self.pieces[place]
        self.bytes = memory.bytes[self.piece]
        self.made, self.run = self._makings(place, self.row, self.gap_end[place, self.row].astype(np.int64))

    def _find_gaps(self) -> None:
        """Of the readers of all that an op makes some come one after the other. What is gone at a moment is made again
        after the latest of them that came before it, and before the first behind it that reads it: in one of the gaps
        between. Who makes it again in different gaps does so in different runs."""
        makers, self.of_maker = np.unique(self.memory.maker[self.pieces], return_inverse=True)
        self.chain = _chains(self.memory, self.pieces, self.of_maker, len(makers), self.after, self.up_to)
        self.position = np.zeros((len(makers), self.touched.shape[1]), np.int8)
        length = (self.chain >= 0).sum(axis=1)[self.of_maker]
        self.gap_end = np.repeat((length + 1)[:, None], self.touched.shape[1], axis=1).astype(np.int8)
        reads = np.unique(self.memory.reader * len(self.memory.bytes) + self.memory.read)
        for number in range(_MAX_CHAIN, 0, -1):
            link = self.chain[:, number - 1]
            self.position[link >= 0] += self.up_to[link[link >= 0]]
            own = link[self.of_maker]
            is_read = np.isin(own * len(self.memory.bytes) + self.pieces, reads) & (own >= 0)
            self.gap_end[is_read] = np.where(self.after[own[is_read]], number, self.gap_end[is_read])

    def _makings(self, place: Ints, row: Ints, gap_end: Ints) -> tuple[Ints, Ints]:
        """Nodes and runs that would make them again, by number of the maker and gap."""
        first, maker = self.position[self.of_maker[place], row], self.memory.maker[self.pieces[place]]
        inside = [np.flatnonzero((first <= gap) & (gap < gap_end)) for gap in range(_MAX_CHAIN + 1)]
        runs = [maker[nodes] * (_MAX_CHAIN + 1) + gap for gap, nodes in enumerate(inside)]
        return np.concatenate(inside), np.concatenate(runs)

    def proven(self) -> int:
        fits = np.bincount(self.row, weights=self.bytes, minlength=len(self.excess)) >= self.excess
        if not fits.all() or not (self.excess > 0).any():
            return 0  # no plan keeps the limit, or nothing need be dropped in every order
        prices = _best_prices(self._drops())
        return self._with_ways(np.flatnonzero(prices), prices) if prices.any() else 0

    def _drops(self) -> _Drops:
        names, drop = np.unique(self.run, return_inverse=True)
        keys = self.row[self.made] * len(names) + drop
        pairs, where = np.unique(keys, return_inverse=True)
        sizes = np.bincount(where, weights=self.bytes[self.made])
        return _Drops(
            excess=self.excess,
            begin=np.searchsorted(pairs // max(1, len(names)), np.arange(len(self.excess) + 1)),
            drop=pairs % max(1, len(names)),
            bytes=np.asarray(sizes, np.float64),
            time_ns=self.memory.time_ns[names // (_MAX_CHAIN + 1)],
        )

    def _with_ways(self, rows: Ints, prices: Floats) -> int:
        """What is proven at some of the moments when ways are counted: what is read to make a piece again and is not
        needed by itself is either held at the moment, or made again as well, before that piece is read."""
        memory, count = self.memory, self.touched.shape[1]
        is_in = np.isin(self.row, rows)
        num_needed = int(is_in.sum())
        nodes, source, target = self._ways(self.place[self.piece[is_in]] * count + self.row[is_in])
        place, row = nodes // count, nodes % count
        may_go = self.can_be_made[place, row]
        before = self._made_before(nodes[:num_needed], len(nodes), source, target)
        gap_end = self._gap_ends(before, place)
        gap_end[:num_needed] = self.gap_end[place[:num_needed], row[:num_needed]]
        made, run = self._makings(place[may_go], row[may_go], gap_end[may_go])
        made = np.flatnonzero(may_go)[made]
        made, run = _joined(made, run)
        names, run = np.unique(run, return_inverse=True)
        moment = np.searchsorted(rows, row)
        sizes = memory.bytes[self.pieces[place]]
        held = np.zeros(len(rows), np.int64)
        np.add.at(held, moment[:num_needed], sizes[:num_needed])
        value = _core.remaking_bound(
            room=held - self.excess[rows],
            moment=moment.astype(np.int32),
            bytes=sizes,
            is_way=(np.arange(len(nodes)) >= num_needed).astype(np.uint8),
            may_go=may_go.astype(np.uint8),
            way_from=source.astype(np.int32),
            way_to=target.astype(np.int32),
            made=made.astype(np.int32),
            run=run.astype(np.int32),
            time_ns=memory.time_ns[names // (_MAX_CHAIN + 1)],
            prices=prices[rows],
            steps=_STEPS,
            budget=_BUDGET,
        )
        return max(0, int(value))

    def _ways(self, needed: Ints) -> tuple[Ints, Ints, Ints]:
        """The nodes with those that are read on the way to them, by piece and moment, and pairs: one that is made again
        and one that is read for it."""
        memory, count = self.memory, self.touched.shape[1]
        by_reader = np.argsort(memory.reader, kind="stable")
        read = memory.read[by_reader]
        begin = np.searchsorted(memory.reader[by_reader], np.arange(memory.num_ops + 1))
        nodes = frontier = needed
        sources, targets = [needed[:0]], [needed[:0]]
        while len(frontier):
            maker = memory.maker[self.pieces[frontier // count]]
            counts = begin[maker + 1] - begin[maker]
            of = np.repeat(np.arange(len(frontier)), counts)
            to = self.place[read[begin[maker][of] + np.arange(len(of)) - (np.cumsum(counts) - counts)[of]]]
            at = frontier[of] % count
            is_way = (to >= 0) & ~self.is_needed[to, at] & ~self.touched[to, at]
            sources.append(frontier[of][is_way])
            targets.append((to * count + at)[is_way])
            new = np.setdiff1d(targets[-1], nodes)
            nodes = np.append(nodes, new)
            frontier = new[self.can_be_made[new // count, new % count]]
        in_turn = np.argsort(nodes)
        source, target = (
            in_turn[np.searchsorted(nodes[in_turn], np.concatenate(pairs))] for pairs in (sources, targets)
        )
        return nodes, source, target

    def _made_before(self, needed: Ints, num_nodes: int, source: Ints, target: Ints) -> Ints:
        """Per node the op before whose first run it is made again if it is: of a needed one its first reader behind the
        moment, of a way what those have whose way it is. The number of ops where there is none, or not one."""
        none = self.memory.num_ops
        place, row = np.divmod(needed, self.touched.shape[1])
        links = np.hstack([self.chain, np.full((len(self.chain), 1), -1)])
        reader = links[self.of_maker[place], self.gap_end[place, row] - 1]
        first = np.append(np.where(reader < 0, none, reader), np.full(num_nodes - len(needed), none))
        last = np.where(np.arange(num_nodes) < len(needed), first, -1)
        while True:
            before = first.copy(), last.copy()
            np.minimum.at(first, target, first[source])
            np.maximum.at(last, target, last[source])
            # Either may settle after the other: the two readers of a shared way may lie at different depths.
            if (first == before[0]).all() and (last == before[1]).all():
                return last if self.memory.in_order else np.where(first == last, last, none)

    def _gap_ends(self, before: Ints, place: Ints) -> Ints:
        """Per node behind the last gap in which it can be made again so that it is before the op given."""
        chain = self.chain[self.of_maker[place]]
        ends: Ints = (chain >= 0).sum(axis=1) + 1
        ops = np.unique(before[before < self.memory.num_ops])
        for begin in range(0, len(ops), _COLUMNS):
            some = ops[begin : begin + _COLUMNS]
            seeds = np.zeros((self.memory.num_ops, len(some)), np.bool_)
            seeds[some, np.arange(len(some))] = True
            follows = self.memory.after(seeds) | seeds
            own = np.flatnonzero((before >= some[0]) & (before <= some[-1]))
            column = np.searchsorted(some, before[own])
            for number in range(_MAX_CHAIN, 0, -1):
                link = chain[own, number - 1]
                ends[own] = np.where((link >= 0) & follows[link, column], number, ends[own])
        return ends


def _joined(made: Ints, run: Ints) -> tuple[Ints, Ints]:
    """Each node with one run: gaps of an op in any of which some node could be made again become one."""
    in_turn = np.lexsort((run, made))
    made, run = made[in_turn], run[in_turn]
    same = made[1:] == made[:-1]
    crossed = np.unique(run[1:][same])  # a gap that is joined to the one before it
    numbers = np.unique(run)
    first = numbers[~np.isin(numbers, crossed)]
    return made[np.append(True, ~same)], first[np.searchsorted(first, run[np.append(True, ~same)], side="right") - 1]


@dataclass(frozen=True, kw_only=True, eq=False)
class _Drops:
    """The program without ways. Rows are moments, by `begin`; excess: bytes to drop at each. drop, bytes: per entry of
    a row the drop and what of it is held at the moment. time_ns: of each drop."""

    excess: Ints
    begin: Ints
    drop: Ints
    bytes: Floats
    time_ns: Ints


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
    """Coordinate ascent, moment by moment."""
    prices, paid = np.zeros(len(drops.excess)), np.zeros(len(drops.time_ns))
    for _ in range(_PASSES):
        for row in np.argsort(-drops.excess, kind="stable").tolist():
            own = slice(drops.begin[row], drops.begin[row + 1])
            drop, size = drops.drop[own], drops.bytes[own]
            paid[drop] -= size * prices[row]
            prices[row] = _price(int(drops.excess[row]), size, drops.time_ns[drop] - paid[drop])
            paid[drop] += size * prices[row]
    return prices


def _price(excess: int, sizes: Floats, left_ns: Floats) -> float:
    """Of a byte at one moment, all other prices as they are: what the last byte that must go costs."""
    if excess <= 0:
        return 0.0
    ratio = np.maximum(0, left_ns) / sizes
    in_turn = np.argsort(ratio, kind="stable")
    place = int(np.searchsorted(np.cumsum(sizes[in_turn]), excess))
    return float(ratio[in_turn[place]])
