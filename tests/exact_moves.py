"""Optimal reruns and moves to the host under a memory limit: a CP-SAT model with times and links."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations, pairwise
from pathlib import Path

import numpy as np
from ortools.sat.python.cp_model import CpModel

from placewright.bounds import moved_time
from placewright.lab.peers.cp_sat.structure import Expression, Value
from placewright.machines.host import HostMemory
from placewright.problem import Problem
from placewright.problem.pieces import Pieces
from placewright.problem.running_again import may_move
from placewright.problem.streaming import streamable, with_weights_made

sys.path.append(str(Path(__file__).parents[1] / "benchmarks"))
from exact_reruns import ALL_KEPT, ExactRuns, RerunModel, Run, Runs


def exact_moves(
    problem: Problem, host: HostMemory, seconds: float, runs_per_op: int = 2, at_most: int | None = None
) -> ExactRuns:
    """The fastest runs and moves; a tensor returns at most max(1, runs_per_op - 1) times. at_most: a step time in ns
    that is known to be possible.

    Their ops are those of the problem in which ops at the front make the weights (`with_weights_made`).
    """
    weights = streamable(problem.graph)
    model = _ModelWithMoves(Pieces(with_weights_made(problem, weights)), runs_per_op, host, len(weights))
    if at_most is not None:
        model.model.add(model.step_time() <= at_most)
    return model.solve(moved_time(problem, host).value, seconds)


@dataclass(frozen=True, eq=False)
class _Moment:
    """A moment before a run, at its place: a leave has ended or a return begins. At the end if there is none.

    stands: by run, 1 for that run. at_host: when the host works on it.
    """

    place: Expression
    is_there: Expression
    stands: dict[Run, Expression]
    at_host: Expression


@dataclass(frozen=True, eq=False)
class _Return(_Moment):
    """A return from the host. begin: of its transfer. end: the first place where the copy no longer exists."""

    begin: Expression
    end: Expression


@dataclass(frozen=True, eq=False)
class _Moved:
    """A piece that may be moved. leave: None for a weight, which is at the host from the start if it returns at all."""

    leave: _Moment | None
    returns: list[_Return]
    there_ns: int
    back_ns: int

    @property
    def is_moved(self) -> Expression:
        return self.returns[0].is_there


class _ModelWithMoves(RerunModel):
    """A rerun model in which runs and returns also have times, since transfers overlap with ops.

    A run has a clock, when all runs and leaves before it have ended, and a begin, when what it reads has arrived.
    Leaves and returns are at the places of runs, in the order of plans: first leaves, then returns, each by tensor. A
    reader gets the result of the latest run or return before it. Memory for a return is held from its place on, as the
    search counts it: over a link with a latency, its transfer begins later.
    """

    def __init__(self, pieces: Pieces, runs_per_op: int, host: HostMemory, num_weights: int) -> None:
        model = CpModel()
        self.host_limit, self.num_weights, self.num_returns = host.memory_bytes, num_weights, max(1, runs_per_op - 1)
        (self.there,), (self.back,) = host.there, host.back
        may = may_move(pieces.problem).astype(np.bool_)
        may[: pieces.problem.lowered.output_begin[num_weights]] = True
        self.may_move = may & (np.diff(pieces.read_begin) > 0)
        self.moved: dict[int, _Moved] = {}
        #: By piece that may be moved and by later run of its maker: 1 if that run gives the piece.
        self.gives: dict[int, dict[Run, Expression]] = {}
        self._orders: dict[tuple[Run, Run], Expression] = {}
        super().__init__(model, pieces, None, runs_per_op)
        for run in (run for runs in self.runs for run in runs[1:]):
            given = [gives[run] for gives in self.gives.values() if run in gives]
            model.add_bool_or(*given, ~run.is_there)
        self._use_link_there()
        self._use_link_back()
        self._limit_host()

    @cached_property
    def horizon(self) -> int:
        """Time in ns that is enough for all runs and copies one after another."""
        times = self.pieces.time_ns.tolist()
        total: int = sum(time * count for time, count in zip(times, self.counts, strict=True))
        for piece in np.flatnonzero(self.may_move).tolist():
            latencies = self.there.latency_ns + self.back.latency_ns
            there, back = self._copies_ns(piece)
            total += there + latencies + self.num_returns * (back + latencies)
        return total

    def _copies_ns(self, piece: int) -> tuple[int, int]:
        carried = int(self.pieces.problem.lowered.transfer_bytes[piece])
        is_weight = self.pieces.maker[piece] < self.num_weights
        there = 0 if is_weight else self.there.transfer_time_ns(carried)
        return there, self.back.transfer_time_ns(carried)

    def _time(self) -> Expression:
        return self.model.new_int_var(0, self.horizon, "")

    @cached_property
    def times(self) -> dict[Run, tuple[Expression, Expression]]:
        """The clock and the begin of each run, constrained to the order of places."""
        model = self.model
        times = {run: (self._time(), self._time()) for runs in self.runs for run in runs}

        def ends(run: Run) -> Expression:
            return times[run][1] + int(self.pieces.time_ns[run.op])

        for clock, begin in times.values():
            model.add(begin >= clock)
        firsts = [runs[0] for runs in self.runs]
        for run, following in pairwise(firsts):
            model.add(ends(run) <= times[following][0])
        later = [run for runs in self.runs for run in runs[1:]]
        for run in later:
            for first in firsts[run.op : self._last_before(run.op) + 1]:
                is_after = self._precedes(first, run)
                model.add(ends(first) <= times[run][0]).only_enforce_if(run.is_there, is_after)
                model.add(ends(run) <= times[first][0]).only_enforce_if(run.is_there, ~is_after)
        for run, other in combinations(later, 2):
            is_before, are_there = self._precedes(run, other), (run.is_there, other.is_there)
            model.add(ends(run) <= times[other][0]).only_enforce_if(*are_there, is_before)
            model.add(ends(other) <= times[run][0]).only_enforce_if(*are_there, ~is_before)
        model.add_no_overlap(
            model.new_optional_fixed_size_interval_var(begin, int(self.pieces.time_ns[run.op]), run.is_there, "")
            for run, (_, begin) in times.items()
        )
        return times

    def _precedes(self, one: Run, other: Run) -> Expression:
        """A literal that is true if `one` has a lower place than `other`; constrains the places to differ."""
        if (other, one) in self._orders:
            return ~self._orders[other, one]
        if (one, other) not in self._orders:
            self._orders[one, other] = literal = self.model.new_bool_var("")
            self.model.add(one.place < other.place).only_enforce_if(literal)
            self.model.add(one.place > other.place).only_enforce_if(~literal)
        return self._orders[one, other]

    def _stands(self, maker: int, place: Expression, is_there: Expression) -> dict[Run, Expression]:
        """Literals of the runs that can come after op `maker`: true for that at `place`, for none if not `is_there`."""
        stands = {
            run: self.model.new_bool_var("")
            for op, runs in enumerate(self.runs)
            for run in runs
            if op >= self.num_weights and (op > maker or (run.number and self._last_before(op) > maker))
        }
        self.model.add(sum(stands.values()) == is_there)
        for run, literal in stands.items():
            self.model.add_implication(literal, run.is_there)
            self.model.add(place == run.place).only_enforce_if(literal)
        self.model.add(place == self.end).only_enforce_if(~is_there)
        return stands

    def _add_return(self, maker: int) -> _Return:
        place = self.model.new_int_var(self._first_place(maker) + 1, self.end, "")
        is_there, at_host, begin = self.model.new_bool_var(""), self._time(), self._time()
        stands = self._stands(maker, place, is_there)
        self.model.add(begin >= at_host)
        for run, literal in stands.items():
            if run.op > self.num_weights or run.number:  # the host hears of nothing before the first op
                heard = self.times[run][0] + self.there.latency_ns
                self.model.add(at_host >= heard).only_enforce_if(literal)
        end = self.model.new_int_var(0, self.end, "")
        return _Return(place, is_there, stands, at_host, begin, end)

    def _add_leave(self, maker: int, is_there: Expression) -> _Moment:
        place = self.model.new_int_var(self._first_place(maker) + 1, self.end, "")
        stands, at_host = self._stands(maker, place, is_there), self._time()
        for run, literal in stands.items():
            heard = at_host + self.back.latency_ns
            self.model.add(self.times[run][0] >= heard).only_enforce_if(literal)
        return _Moment(place, is_there, stands, at_host)

    def _add_piece(self, piece: int) -> None:
        if not self.may_move[piece]:
            super()._add_piece(piece)
            return
        model, maker, size = self.model, int(self.pieces.maker[piece]), int(self.pieces.bytes[piece])
        returns = [self._add_return(maker) for _ in range(self.num_returns)]
        for back, following in pairwise(returns):
            model.add_implication(following.is_there, back.is_there)
            model.add(back.place < following.place).only_enforce_if(following.is_there)
        is_weight = maker < self.num_weights
        leave = None if is_weight else self._add_leave(maker, returns[0].is_there)
        moved = self.moved[piece] = _Moved(leave, returns, *self._copies_ns(piece))
        makers = self.runs[maker] if self.pieces.may_go[piece] else self.runs[maker][:1]
        ends = self.ends[piece] = [model.new_int_var(0, self.end, "") for _ in makers]
        if leave is None:
            model.add(ends[0] == self.end)
        else:
            model.add(leave.place <= returns[0].place)
            model.add(ends[0] >= leave.place).only_enforce_if(leave.is_there)
        held = [(run.place, end, run.is_there) for run, end in zip(makers, ends, strict=True)]
        if is_weight:
            held[0] = (makers[0].place, ends[0], ~moved.is_moved)
        for place, end, is_there in [*held, *((back.place, back.end, back.is_there) for back in returns)]:
            length = model.new_int_var(1, self.end, "")
            self.held.append((model.new_optional_interval_var(place, length, end, is_there, ""), size))
        gives = self.gives[piece] = {run: model.new_bool_var("") for run in makers[1:]}
        for run, literal in gives.items():
            model.add_implication(literal, run.is_there)
            if leave is not None:
                model.add(run.place >= leave.place).only_enforce_if(literal, leave.is_there)
        by_copy: list[list[Expression]] = [[] for _ in (*makers, *returns)]
        for reader in self.pieces.reader[self.pieces.read_begin[piece] : self.pieces.read_begin[piece + 1]].tolist():
            for run in self.runs[reader]:
                read = [model.new_bool_var("") for _ in (*makers, *returns)]
                model.add(sum(read) == run.is_there)
                for copy, is_read in enumerate(read):
                    self.choices[piece].append((reader, run.number, copy, is_read))
                self._read_runs(run, makers, ends, returns, read[: len(makers)], gives)
                self._read_returns(run, moved, read[len(makers) :], gives)
                for each, is_read in zip(by_copy, read, strict=True):
                    each.append(is_read)
                if is_weight:
                    model.add_implication(read[0], ~moved.is_moved)
        for is_given, by in zip((*gives.values(), *(back.is_there for back in returns)), by_copy[1:], strict=True):
            model.add_bool_or(*by, ~is_given)

    def _read_runs(
        self,
        run: Run,
        makers: list[Run],
        ends: list[Expression],
        returns: list[_Return],
        read: list[Expression],
        gives: dict[Run, Expression],
    ) -> None:
        """Constrain from which of its makers' runs `run` can read a movable piece."""
        for made, end, is_read in zip(makers, ends, read, strict=True):
            self.model.add(end > run.place).only_enforce_if(is_read)
            for later, is_given in gives.items():
                if later is not made:
                    self._not_between(later.place, made.place, run, is_read, is_given)
            if not made.number:
                self.model.add(returns[0].place > run.place).only_enforce_if(is_read)
                continue
            self.model.add_implication(is_read, gives[made])
            self.model.add(made.place < run.place).only_enforce_if(is_read)
            for back in returns:
                self._not_between(back.place, made.place + 1, run, is_read)

    def _read_returns(self, run: Run, moved: _Moved, read: list[Expression], gives: dict[Run, Expression]) -> None:
        for number, (back, is_read) in enumerate(zip(moved.returns, read, strict=True)):
            self.model.add_implication(is_read, back.is_there)
            self.model.add(back.place <= run.place).only_enforce_if(is_read)
            self.model.add(back.end > run.place).only_enforce_if(is_read)
            self.model.add(self.times[run][1] >= back.begin + moved.back_ns).only_enforce_if(is_read)
            if number + 1 < len(read):
                self.model.add(moved.returns[number + 1].place > run.place).only_enforce_if(is_read)
            for made, is_given in gives.items():
                self._not_between(made.place, back.place, run, is_read, is_given)

    def _not_between(self, place: Expression, begin: Expression, run: Run, *when: Expression) -> None:
        """Constrain `place` to be before `begin` or after `run` if all of `when` are true."""
        comes_before = self.model.new_bool_var("")
        self.model.add(place < begin).only_enforce_if(*when, comes_before)
        self.model.add(place > run.place).only_enforce_if(*when, ~comes_before)

    def _use_link_there(self) -> None:
        """Send pieces to the host in the order in which first runs make them; a copy begins as soon as it can."""
        free: Expression = 0
        for piece in sorted(self.moved, key=lambda each: (self.pieces.maker[each], each)):
            moved = self.moved[piece]
            if moved.leave is None:
                continue
            before, free = free, self._time()
            maker = self.runs[int(self.pieces.maker[piece])][0]
            made = self.times[maker][1] + int(self.pieces.time_ns[maker.op])
            self.model.add(free >= before)
            for begin in (before, made):
                self.model.add(free >= begin + moved.there_ns).only_enforce_if(moved.is_moved)
            self.model.add(moved.leave.at_host >= free)

    def _use_link_back(self) -> None:
        """Order returns as plans do, in which the host begins one return after the other."""
        model = self.model
        for piece, moved in self.moved.items():
            for back, following in pairwise(moved.returns):
                model.add(back.at_host <= following.at_host)
                model.add(back.begin + moved.back_ns <= following.begin).only_enforce_if(following.is_there)
            for other, after in self.moved.items():
                for back in moved.returns:
                    if piece < other:
                        for later in after.returns:
                            self._order_returns(back, moved.back_ns, later, after.back_ns)
                    if after.leave is not None and piece != other:
                        self._order_with_leave(back, after.leave)

    def _order_returns(self, back: _Return, takes: int, later: _Return, later_takes: int) -> None:
        model, is_before = self.model, self.model.new_bool_var("")
        for literal, one, one_takes, two in ((is_before, back, takes, later), (~is_before, later, later_takes, back)):
            when = (back.is_there, later.is_there, literal)
            if one is back:
                model.add(one.place <= two.place).only_enforce_if(*when)
            else:
                model.add(one.place < two.place).only_enforce_if(*when)
            model.add(one.at_host <= two.at_host).only_enforce_if(*when)
            model.add(one.begin + one_takes <= two.begin).only_enforce_if(*when)

    def _order_with_leave(self, back: _Return, leave: _Moment) -> None:
        """Keep the host's order of a return and a later leave: each side hears of the other a latency later."""
        if self.there.latency_ns + self.back.latency_ns == 0:
            return
        is_before = self.model.new_bool_var("")
        when = (back.is_there, leave.is_there)
        self.model.add(back.place < leave.place).only_enforce_if(*when, is_before)
        self.model.add(back.at_host <= leave.at_host).only_enforce_if(*when, is_before)
        self.model.add(back.place >= leave.place).only_enforce_if(*when, ~is_before)

    def _limit_host(self) -> None:
        """Limit the host's memory as the search counts it: all that is moved, and the most that returns at once."""
        limit = self.host_limit
        if limit is None:
            return
        model, on_way = self.model, []
        sizes = {piece: int(self.pieces.bytes[piece]) for piece in self.moved}
        free = model.new_int_var(0, limit, "")
        model.add(free + sum(moved.is_moved * sizes[piece] for piece, moved in self.moved.items()) == limit)
        for piece, moved in self.moved.items():
            for back in moved.returns:
                end, length = model.new_int_var(0, self.horizon + 1, ""), model.new_int_var(1, self.horizon + 1, "")
                model.add(end >= back.begin + moved.back_ns)
                interval = model.new_optional_interval_var(back.at_host, length, end, back.is_there, "")
                on_way.append((interval, sizes[piece]))
        model.add_cumulative([interval for interval, _ in on_way], [size for _, size in on_way], free)

    def step_time(self) -> Expression:
        last = self.runs[-1][0]
        end = self.times[last][1] + int(self.pieces.time_ns[last.op])
        self.model.add(end >= super().step_time())
        return end

    def runs_of(self, value: Value) -> Runs:
        given = {run: 0 if run.number else ALL_KEPT for runs in self.runs for run in runs}
        for piece, gives in self.gives.items():
            for run, literal in gives.items():
                given[run] |= value(literal) << self._bit(piece)
        sequence = [(value(run.place), 2, -1, run.op, bits) for run, bits in given.items() if value(run.is_there)]
        for piece, moved in self.moved.items():
            if moved.leave is not None and value(moved.is_moved):
                sequence.append((value(moved.leave.place), 0, piece, -1, 0))
            sequence += [(value(back.place), 1, piece, -1, 1) for back in moved.returns if value(back.is_there)]
        sequence.sort()
        *_, pieces, ops, kept = zip(*sequence, strict=True)
        return np.array(ops, np.int32), np.array(kept, np.uint64), np.array(pieces, np.int32)
