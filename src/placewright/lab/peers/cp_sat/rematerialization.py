"""Which ops run again, and what is moved to the host, under a memory limit, to the optimum: a model after Moccasin
(Bartan et al. 2023), with times and links where there is a host."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations, pairwise
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from placewright.bounds import moved_time, rematerialized_time
from placewright.lab.peers.cp_sat.require import require_ortools
from placewright.lab.peers.cp_sat.structure import Expression, Value
from placewright.machines.host import HostMemory
from placewright.problem import Problem
from placewright.problem.pieces import Pieces
from placewright.problem.running_again import may_move
from placewright.problem.streaming import streamable, with_weights_made

if TYPE_CHECKING:
    from ortools.sat.python.cp_model import CpModel

#: As the core's search gives them: the op of each run, which of the pieces it makes are kept, as bits, all of a first
#: run; and where the op is -1, the tensor that has left, with 0 kept, or begins to come back, with 1.
Runs = tuple[NDArray[np.int32], NDArray[np.uint64], NDArray[np.int32]]
_ALL = 2**64 - 1


@dataclass(frozen=True, kw_only=True)
class ExactRuns:
    """Runs and moves within the limit, None where none were found, and the time that none goes below.

    runs: with a host, of the problem whose weights are made by ops in front (`with_weights_made`). bound_ns: of runs
    whose first ones are in the graph's order, no op and no tensor more often than asked for; None where the limit is
    too small for them.
    """

    runs: Runs | None
    time_ns: int | None
    bound_ns: int | None

    @property
    def is_proven(self) -> bool:
        return self.time_ns == self.bound_ns


def exact_rematerialization(
    problem: Problem,
    start: Runs | None,
    seconds: float,
    *,
    host: HostMemory | None = None,
    runs_per_op: int = 2,
    workers: int = 1,
    seed: int = 0,
) -> ExactRuns:
    """The fastest runs within the memory limit of one device, by CP-SAT.

    start: runs to begin with, as the search gives them; an op that runs more often in them may do so here, too, and a
    tensor come back more often. host: where tensors may be moved to, each coming back less often than an op may run.
    Raises MissingExtraError without OR-tools.
    """
    require_ortools("exact rematerialization")
    from ortools.sat.python.cp_model import FEASIBLE, INFEASIBLE, OPTIMAL, CpModel, CpSolver

    from placewright.lab.peers.cp_sat.running import NOT_INTERLEAVED

    if host is None:
        model = _Model(CpModel(), Pieces(problem), start, runs_per_op)
        at_least = max(rematerialized_time(problem, in_order).value for in_order in (False, True))
    else:
        weights = streamable(problem.graph)
        made = Pieces(with_weights_made(problem, weights))
        model = _ModelWithMoves(CpModel(), made, start, runs_per_op, host, len(weights))
        at_least = moved_time(problem, host).value
    model.minimize(at_least)
    if start is not None:
        model.hint(start)
        model.complete_hint(seconds / 2)
    solver = CpSolver()
    solver.parameters.max_time_in_seconds = seconds
    solver.parameters.num_workers = workers
    if workers == 1 and start is not None:
        # As for other models: neighbourhood searches need a solution, and a lone worker has to share itself.
        solver.parameters.interleave_search = True
        solver.parameters.ignore_subsolvers.extend(NOT_INTERLEAVED)
    solver.parameters.random_seed = seed % 2**31
    solver.parameters.catch_sigint_signal = False
    status = solver.solve(model.model)
    if status not in (OPTIMAL, FEASIBLE):
        bound = None if status == INFEASIBLE else model.at_least
        return ExactRuns(runs=None, time_ns=None, bound_ns=bound)
    return ExactRuns(
        runs=model.runs_of(solver.value),
        time_ns=round(solver.objective_value),
        bound_ns=max(model.at_least, math.ceil(solver.best_objective_bound - 1e-6)),
    )


@dataclass(frozen=True, eq=False)
class _Run:
    """place: on the axis of all runs. is_there: 1 of a first run, whose number is 0."""

    op: int
    number: int
    place: Expression
    is_there: Expression


class _Model:
    """Every op but the last is followed by as many places as there may be later runs, so that these may come in any
    number and order before the next first run. What is at one place only adds up.

    A copy of a piece lies from the run that made it to the last that reads it. Every run reads one copy of each piece
    it needs.
    """

    def __init__(self, model: CpModel, pieces: Pieces, start: Runs | None, runs_per_op: int) -> None:
        self.model, self.pieces = model, pieces
        limit = pieces.limit
        assert limit is not None
        ops = np.zeros(0, np.int32) if start is None else start[0]
        often = np.bincount(ops[ops >= 0], minlength=pieces.num_ops)
        useful = np.zeros(pieces.num_ops, np.bool_)
        useful[pieces.maker[pieces.may_go & (np.diff(pieces.read_begin) > 0)]] = True
        self.counts: list[int] = np.where(useful, np.maximum(often, runs_per_op), 1).tolist()
        self.stride: int = 1 + sum(self.counts) - pieces.num_ops
        self.end: int = pieces.num_ops * self.stride
        self.runs = [list(self._runs(op)) for op in range(pieces.num_ops)]
        self.held: list[tuple[Expression, int]] = []
        #: By piece, one per run of its maker: the first place where the copy is no more.
        self.ends: dict[int, list[Expression]] = {}
        #: By piece: the reading run, by op and number, which copy, and whether it does.
        self.choices: dict[int, list[tuple[int, int, int, Expression]]] = defaultdict(list)
        for piece in np.flatnonzero(pieces.bytes).tolist():
            self._add_piece(piece)
        for op, workspace in enumerate(pieces.problem.lowered.workspace_bytes.tolist()):
            for number, run in enumerate(self.runs[op]):
                interval = model.new_optional_fixed_size_interval_var(run.place, 1, run.is_there, "")
                self.held.append((interval, workspace + (int(pieces.beside[op]) if number else 0)))
        sizes = [size for _, size in self.held]
        model.add_cumulative([interval for interval, _ in self.held], sizes, limit - pieces.resident_bytes)

    def _first_place(self, op: int) -> int:
        return (op + 1) * self.stride - 1

    def _last_before(self, op: int) -> int:
        """The last op before whose first run another may run again."""
        return min(int(self.pieces.again_before[op]), self.pieces.num_ops - 1)

    def _runs(self, op: int) -> Iterator[_Run]:
        before = _Run(op, 0, self._first_place(op), 1)
        yield before
        last = self._last_before(op)
        for number in range(1, self.counts[op]):
            place = self.model.new_int_var(before.place + 1 if number == 1 else 0, self._first_place(last) - 1, "")
            run = _Run(op, number, place, self.model.new_bool_var(""))
            if number > 1:
                self.model.add(before.place < place)
                self.model.add_implication(run.is_there, before.is_there)
            yield run
            before = run

    def _add_piece(self, piece: int) -> None:
        maker, size = int(self.pieces.maker[piece]), int(self.pieces.bytes[piece])
        makers = self.runs[maker]
        ends = self.ends[piece] = [self.model.new_int_var(self._first_place(maker) + 1, self.end, "") for _ in makers]
        if self.pieces.stays[piece]:
            self.model.add(ends[0] == self.end)
        for run, end in zip(makers, ends, strict=True):
            length = self.model.new_int_var(1, self.end, "")
            self.held.append((self.model.new_optional_interval_var(run.place, length, end, run.is_there, ""), size))
        given = makers if self.pieces.may_go[piece] else makers[:1]
        for reader in self.pieces.reader[self.pieces.read_begin[piece] : self.pieces.read_begin[piece + 1]].tolist():
            for number, run in enumerate(self.runs[reader]):
                read = [run.is_there if len(given) == 1 else self.model.new_bool_var("") for _ in given]
                self.model.add(sum(read) == run.is_there)
                for copy, (made, is_read) in enumerate(zip(given, read, strict=True)):
                    self.choices[piece].append((reader, number, copy, is_read))
                    self.model.add(ends[copy] > run.place).only_enforce_if(is_read)
                    if copy:
                        self.model.add_implication(is_read, made.is_there)
                        self.model.add(made.place < run.place).only_enforce_if(is_read)

    def minimize(self, at_least: int) -> None:
        later = [
            (run.is_there, int(time))
            for runs, time in zip(self.runs, self.pieces.time_ns, strict=True)
            for run in runs[1:]
        ]
        once = int(self.pieces.time_ns.sum())
        time_ns = once + sum(literal * time for literal, time in later)
        self.at_least = at_least
        if later:
            self.model.add(time_ns >= at_least)
        self.model.minimize(time_ns)

    def hint(self, start: Runs) -> None:
        ops, kept, _ = (array.tolist() for array in start)
        place_of: list[list[int]] = [[] for _ in self.runs]
        gives: list[list[int]] = [[] for _ in self.runs]
        stage = slot = 0
        for op, bits in zip(ops, kept, strict=True):
            is_first = not place_of[op]
            place_of[op].append(self._first_place(op) if is_first else stage * self.stride + slot)
            gives[op].append(_ALL if is_first else bits)
            stage, slot = (stage + 1, 0) if is_first else (stage, slot + 1)
        for runs, places in zip(self.runs, place_of, strict=True):
            for number, run in enumerate(runs[1:], 1):
                self.model.add_hint(run.is_there, number < len(places))
                if number < len(places):
                    self.model.add_hint(run.place, places[number])
        for piece, choices in self.choices.items():
            maker, bit = int(self.pieces.maker[piece]), self._bit(piece)
            last = [place + 1 for place in place_of[maker]]
            for reader, number, copy, is_read in choices:
                does = False
                if number < len(place_of[reader]):
                    at = place_of[reader][number]
                    copies = [c for c, p in enumerate(place_of[maker]) if p < at and gives[maker][c] >> bit & 1]
                    does = copies[-1] == copy
                    if does:
                        last[copy] = max(last[copy], at + 1)
                if copy or (len(self.ends[piece]) > 1 and self.pieces.may_go[piece]):
                    self.model.add_hint(is_read, does)
            for end, at in zip(self.ends[piece], last, strict=False):
                self.model.add_hint(end, self.end if self.pieces.stays[piece] and end is self.ends[piece][0] else at)

    def complete_hint(self, seconds: float) -> None:
        """From places and what is read to all variables, so that the solver begins with a solution."""
        from ortools.sat.python.cp_model import FEASIBLE, OPTIMAL, CpSolver

        solver = CpSolver()
        solver.parameters.max_time_in_seconds = seconds
        solver.parameters.num_workers = 1
        solver.parameters.fix_variables_to_their_hinted_value = True
        solver.parameters.stop_after_first_solution = True
        if solver.solve(self.model) not in (OPTIMAL, FEASIBLE):
            return
        variables = [self.model.get_int_var_from_proto_index(each) for each in range(len(self.model.proto.variables))]
        values = [solver.value(each) for each in variables]
        self.model.clear_hints()  # type: ignore[no-untyped-call]
        for variable, value in zip(variables, values, strict=True):
            self.model.add_hint(variable, value)

    def _bit(self, piece: int) -> int:
        lowered = self.pieces.problem.lowered
        begin = lowered.output_begin[self.pieces.maker[piece]]
        return int((lowered.storage[begin:piece] == np.arange(begin, piece)).sum())

    def runs_of(self, value: Value) -> Runs:
        """Of copies that lie at once those stay that are read longer: what comes later is read instead."""
        places = {
            (op, number): value(run.place)
            for op, runs in enumerate(self.runs)
            for number, run in enumerate(runs)
            if value(run.is_there)
        }
        kept = {at: 0 if at[1] else _ALL for at in places}
        for piece, choices in self.choices.items():
            maker = int(self.pieces.maker[piece])
            last: dict[int, int] = defaultdict(int)
            for reader, number, copy, is_read in choices:
                if value(is_read):
                    last[copy] = max(last[copy], places[reader, number])
            longest = last[0]
            for copy in sorted(last)[1:]:
                if last[copy] > longest:
                    longest = last[copy]
                    kept[maker, copy] |= 1 << self._bit(piece)
        in_turn = sorted(places, key=lambda at: (places[at], at[1] == 0, at))
        return (
            np.array([op for op, _ in in_turn], np.int32),
            np.array([kept[at] for at in in_turn], np.uint64),
            np.full(len(in_turn), -1, np.int32),
        )


@dataclass(frozen=True, eq=False)
class _Moment:
    """Before a run, at its place, what leaves has left or what comes back begins to; at the end where it does not.

    stands: 1 at one of the runs. at_host: when the host works on it.
    """

    place: Expression
    is_there: Expression
    stands: dict[_Run, Expression]
    at_host: Expression


@dataclass(frozen=True, eq=False)
class _Return(_Moment):
    """begin: of its transfer. end: the first place where the copy is no more."""

    begin: Expression
    end: Expression


@dataclass(frozen=True, eq=False)
class _Moved:
    """A piece that may be moved. leave: None for a weight, which lies at the host if it comes back at all."""

    leave: _Moment | None
    returns: list[_Return]
    there_ns: int
    back_ns: int

    @property
    def is_moved(self) -> Expression:
        return self.returns[0].is_there


class _ModelWithMoves(_Model):
    """Runs and returns have times as well, since what comes back over a link does so while ops run.

    A run has a clock, when the runs before it have ended and what leaves before it has left, and a begin, when what it
    reads has come. Leaves and returns stand at the places of runs, in the order of plans: first what leaves, then what
    comes back, each by tensor. A reader gets what the latest run or return before it gave. Memory for what comes back
    is held from where it stands, as the search counts it: over a link with a latency its transfer begins later.
    """

    def __init__(
        self,
        model: CpModel,
        pieces: Pieces,
        start: Runs | None,
        runs_per_op: int,
        host: HostMemory,
        num_weights: int,
    ) -> None:
        lowered = pieces.problem.lowered
        self.host_limit, self.num_weights = host.memory_bytes, num_weights
        (self.there,), (self.back,) = host.there, host.back
        may = may_move(pieces.problem).astype(np.bool_)
        may[: lowered.output_begin[num_weights]] = True
        self.may_move = may & (np.diff(pieces.read_begin) > 0)
        often = np.zeros(len(may), np.int64)
        if start is not None:
            ops, kept, tensors = start
            np.add.at(often, tensors[(ops < 0) & (kept == 1)], 1)
        self.num_returns: list[int] = np.maximum(often, max(1, runs_per_op - 1)).tolist()
        self.moved: dict[int, _Moved] = {}
        #: By piece that may be moved: whether later runs give it.
        self.gives: dict[int, dict[_Run, Expression]] = {}
        self._orders: dict[tuple[_Run, _Run], Expression] = {}
        super().__init__(model, pieces, start, runs_per_op)
        for run in (run for runs in self.runs for run in runs[1:]):
            given = [gives[run] for gives in self.gives.values() if run in gives]
            model.add_bool_or(*given, ~run.is_there)
        self._use_link_there()
        self._use_link_back()
        self._limit_host()

    @cached_property
    def horizon(self) -> int:
        """A time within which all runs and copies come one after the other."""
        times = self.pieces.time_ns.tolist()
        total: int = sum(time * count for time, count in zip(times, self.counts, strict=True))
        for piece in np.flatnonzero(self.may_move).tolist():
            latencies = self.there.latency_ns + self.back.latency_ns
            there, back = self._copies_ns(piece)
            total += there + latencies + self.num_returns[piece] * (back + latencies)
        return total

    def _copies_ns(self, piece: int) -> tuple[int, int]:
        carried = int(self.pieces.problem.lowered.transfer_bytes[piece])
        is_weight = self.pieces.maker[piece] < self.num_weights
        there = 0 if is_weight else self.there.transfer_time_ns(carried)
        return there, self.back.transfer_time_ns(carried)

    def _time(self) -> Expression:
        return self.model.new_int_var(0, self.horizon, "")

    @cached_property
    def times(self) -> dict[_Run, tuple[Expression, Expression]]:
        """The clock of each run, and its begin: in the order of places."""
        model = self.model
        times = {run: (self._time(), self._time()) for runs in self.runs for run in runs}

        def ends(run: _Run) -> Expression:
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

    def _precedes(self, one: _Run, other: _Run) -> Expression:
        """Whether a run has a lower place than another one; places of runs differ here."""
        if (other, one) in self._orders:
            return ~self._orders[other, one]
        if (one, other) not in self._orders:
            self._orders[one, other] = literal = self.model.new_bool_var("")
            self.model.add(one.place < other.place).only_enforce_if(literal)
            self.model.add(one.place > other.place).only_enforce_if(~literal)
        return self._orders[one, other]

    def _stands(self, maker: int, place: Expression, is_there: Expression) -> dict[_Run, Expression]:
        """At which run a moment stands that comes after an op has run."""
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
            if run.op > self.num_weights or run.number:  # before the first op there is nothing to hear of
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
        returns = [self._add_return(maker) for _ in range(self.num_returns[piece])]
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
        run: _Run,
        makers: list[_Run],
        ends: list[Expression],
        returns: list[_Return],
        read: list[Expression],
        gives: dict[_Run, Expression],
    ) -> None:
        """Of a piece that may be moved: what a run reads of those that made it."""
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

    def _read_returns(self, run: _Run, moved: _Moved, read: list[Expression], gives: dict[_Run, Expression]) -> None:
        for number, (back, is_read) in enumerate(zip(moved.returns, read, strict=True)):
            self.model.add_implication(is_read, back.is_there)
            self.model.add(back.place <= run.place).only_enforce_if(is_read)
            self.model.add(back.end > run.place).only_enforce_if(is_read)
            self.model.add(self.times[run][1] >= back.begin + moved.back_ns).only_enforce_if(is_read)
            if number + 1 < len(read):
                self.model.add(moved.returns[number + 1].place > run.place).only_enforce_if(is_read)
            for made, is_given in gives.items():
                self._not_between(made.place, back.place, run, is_read, is_given)

    def _not_between(self, place: Expression, begin: Expression, run: _Run, *when: Expression) -> None:
        """Whether before what a run reads has begun, or after the run."""
        comes_before = self.model.new_bool_var("")
        self.model.add(place < begin).only_enforce_if(*when, comes_before)
        self.model.add(place > run.place).only_enforce_if(*when, ~comes_before)

    def _use_link_there(self) -> None:
        """In the order in which first runs make what moves; a copy begins as soon as it can."""
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
        """In the order of plans, in which the host begins one return after the other."""
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
        """The host hears of the device, and the device of the host, a latency later."""
        if self.there.latency_ns + self.back.latency_ns == 0:
            return
        is_before = self.model.new_bool_var("")
        when = (back.is_there, leave.is_there)
        self.model.add(back.place < leave.place).only_enforce_if(*when, is_before)
        self.model.add(back.at_host <= leave.at_host).only_enforce_if(*when, is_before)
        self.model.add(back.place >= leave.place).only_enforce_if(*when, ~is_before)

    def _limit_host(self) -> None:
        """As the search counts: all that is moved, and the most that is on its way back at once."""
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

    def minimize(self, at_least: int) -> None:
        last = self.runs[-1][0]
        end = self.times[last][1] + int(self.pieces.time_ns[last.op])
        work = [(run.is_there, int(self.pieces.time_ns[run.op])) for runs in self.runs for run in runs[1:]]
        self.at_least = at_least
        self.model.add(end >= at_least)
        self.model.add(end >= int(self.pieces.time_ns.sum()) + sum(literal * time for literal, time in work))
        self.model.minimize(end)

    def hint(self, start: Runs) -> None:
        ops, kept, tensors = (array.tolist() for array in start)
        places: dict[_Run, int] = {}
        gives: dict[_Run, int] = {}
        before: dict[_Run, list[tuple[int, bool]]] = {}
        waiting: list[tuple[int, bool]] = []
        number = [0] * len(self.runs)
        stage = slot = 0
        for op, bits, tensor in zip(ops, kept, tensors, strict=True):
            if op < 0:
                waiting.append((tensor, bits != 0))
                continue
            run = self.runs[op][number[op]]
            number[op] += 1
            places[run] = self._first_place(op) if not run.number else stage * self.stride + slot
            gives[run] = bits if run.number else _ALL
            before[run], waiting = waiting, []
            stage, slot = (stage, slot + 1) if run.number else (stage + 1, 0)
        for runs in self.runs:
            for run in runs[1:]:
                self.model.add_hint(run.is_there, run in places)
                if run in places:
                    self.model.add_hint(run.place, places[run])
        self._hint_moments(before, places)
        self._hint_reads(before, gives, places)

    def _hint_moments(self, before: dict[_Run, list[tuple[int, bool]]], places: dict[_Run, int]) -> None:
        at: dict[_Moment, _Run] = {}
        come = dict.fromkeys(self.moved, 0)
        for run, moments in before.items():
            for tensor, is_back in moments:
                moved = self.moved[tensor]
                moment = moved.returns[come[tensor]] if is_back else moved.leave
                come[tensor] += is_back
                assert moment is not None
                at[moment] = run
        for moved in self.moved.values():
            for moment in (*moved.returns, *([] if moved.leave is None else [moved.leave])):
                run_at = at.get(moment)
                self.model.add_hint(moment.place, self.end if run_at is None else places[run_at])
                for run, literal in moment.stands.items():
                    self.model.add_hint(literal, run is run_at)
                if isinstance(moment, _Return):
                    self.model.add_hint(moment.is_there, run_at is not None)

    def _hint_reads(
        self, before: dict[_Run, list[tuple[int, bool]]], gives: dict[_Run, int], places: dict[_Run, int]
    ) -> None:
        for piece, choices in self.choices.items():
            maker, bit = int(self.pieces.maker[piece]), self._bit(piece)
            num_made = len(self.ends[piece])
            latest: dict[_Run, int] = {}
            copy, come = 0, 0
            for run in before:
                for tensor, is_back in before[run]:
                    if tensor == piece and is_back:
                        copy, come = num_made + come, come + 1
                latest[run] = copy
                if run.op == maker and gives[run] >> bit & 1:
                    copy = run.number
            for reader, number, each, is_read in choices:
                run = self.runs[reader][number]
                if not isinstance(is_read, int) and (number or piece in self.moved):
                    self.model.add_hint(is_read, run in places and latest[run] == each)

    def runs_of(self, value: Value) -> Runs:
        given = {run: 0 if run.number else _ALL for runs in self.runs for run in runs}
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
