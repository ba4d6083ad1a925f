"""Optimal reruns of ops under a memory limit: a CP-SAT model after Moccasin (Bartan et al. 2023).

`fit.py` imports this.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from placewright.bounds import rematerialized_time
from placewright.lab.peers.cp_sat.require import require_ortools
from placewright.lab.peers.cp_sat.structure import Expression, Value
from placewright.problem import Problem
from placewright.problem.pieces import Pieces

if TYPE_CHECKING:
    from ortools.sat.python.cp_model import CpModel

#: Runs as the core's search gives them: the op of each; as bits, which of the pieces it makes are kept (all of a first
#: run's); and where the op is -1, a tensor: it has left if the bits are 0, and begins to return if they are 1.
Runs = tuple[NDArray[np.int32], NDArray[np.uint64], NDArray[np.int32]]
ALL_KEPT = 2**64 - 1


@dataclass(frozen=True, kw_only=True)
class ExactRuns:
    """Runs within the limit, None if none were found, and a lower bound on their time.

    bound_ns: for first runs in the graph's order and no op more often than asked for; None if the limit is too small
    for any.
    """

    runs: Runs | None
    time_ns: int | None
    bound_ns: int | None

    @property
    def is_proven(self) -> bool:
        return self.time_ns == self.bound_ns


def exact_rematerialization(problem: Problem, start: Runs | None, seconds: float, runs_per_op: int = 2) -> ExactRuns:
    """The fastest runs within the memory limit of one device, by CP-SAT.

    start: runs to begin with, as the search gives them, without moves; an op that runs more often in them may do so
    here, too. Raises MissingExtraError without OR-tools.
    """
    require_ortools("exact rematerialization")
    from ortools.sat.python.cp_model import CpModel

    model = RerunModel(CpModel(), Pieces(problem), start, runs_per_op)
    if start is not None:
        model.hint(start)
    return model.solve(max(rematerialized_time(problem, in_order).value for in_order in (False, True)), seconds)


@dataclass(frozen=True, eq=False)
class Run:
    """A run of an op. place: on the axis of all runs. is_there: 1 for a first run, whose number is 0."""

    op: int
    number: int
    place: Expression
    is_there: Expression


class RerunModel:
    """A CP-SAT model of reruns. As many places as there may be later runs follow every op but the last, so that these
    may come in any number and order before the next first run. The memory of runs at one place adds up.

    A copy of a piece exists from the run that makes it to the last that reads it. Every run reads one copy of each
    piece it needs.
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
        #: By piece, one per run of its maker: the first place where the copy no longer exists.
        self.ends: dict[int, list[Expression]] = {}
        #: By piece: op and number of a reading run, the copy, and 1 if the run reads that copy.
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
        """The last op before whose first run `op` may run again."""
        return min(int(self.pieces.again_before[op]), self.pieces.num_ops - 1)

    def _runs(self, op: int) -> Iterator[Run]:
        before = Run(op, 0, self._first_place(op), 1)
        yield before
        last = self._last_before(op)
        for number in range(1, self.counts[op]):
            place = self.model.new_int_var(before.place + 1 if number == 1 else 0, self._first_place(last) - 1, "")
            run = Run(op, number, place, self.model.new_bool_var(""))
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

    def solve(self, at_least: int, seconds: float) -> ExactRuns:
        """The best runs found in so many seconds. at_least: a lower bound on the time, in ns."""
        from ortools.sat.python.cp_model import FEASIBLE, INFEASIBLE, OPTIMAL

        from placewright.lab.peers.cp_sat.running import Limits, complete_hint, solver_within

        time_ns = self.step_time()
        self.model.add(time_ns >= at_least)
        self.model.minimize(time_ns)
        is_hinted = len(self.model.proto.solution_hint.vars) > 0
        if is_hinted:
            complete_hint(self.model, seconds, lambda: False)
        solver = solver_within(Limits(seconds=seconds, effort=0, workers=1, seed=0), is_hinted)
        status = solver.solve(self.model)
        if status not in (OPTIMAL, FEASIBLE):
            return ExactRuns(runs=None, time_ns=None, bound_ns=None if status == INFEASIBLE else at_least)
        return ExactRuns(
            runs=self.runs_of(solver.value),
            time_ns=round(solver.objective_value),
            bound_ns=max(at_least, math.ceil(solver.best_objective_bound - 1e-6)),
        )

    def step_time(self) -> Expression:
        times = self.pieces.time_ns.tolist()
        return sum(run.is_there * time for runs, time in zip(self.runs, times, strict=True) for run in runs)

    def hint(self, start: Runs) -> None:
        ops, kept, _ = (array.tolist() for array in start)
        place_of: list[list[int]] = [[] for _ in self.runs]
        gives: list[list[int]] = [[] for _ in self.runs]
        stage = slot = 0
        for op, bits in zip(ops, kept, strict=True):
            is_first = not place_of[op]
            place_of[op].append(self._first_place(op) if is_first else stage * self.stride + slot)
            gives[op].append(ALL_KEPT if is_first else bits)
            stage, slot = (stage + 1, 0) if is_first else (stage, slot + 1)
        for runs, places in zip(self.runs, place_of, strict=True):
            for number, run in enumerate(runs[1:], 1):
                self.model.add_hint(run.is_there, number < len(places))
                if number < len(places):
                    self.model.add_hint(run.place, places[number])
        for piece, choices in self.choices.items():
            maker, bit = int(self.pieces.maker[piece]), self._bit(piece)
            for reader, number, copy, is_read in choices:
                does = False
                if number < len(place_of[reader]):
                    at = place_of[reader][number]
                    copies = [c for c, p in enumerate(place_of[maker]) if p < at and gives[maker][c] >> bit & 1]
                    does = copies[-1] == copy
                if copy or (len(self.ends[piece]) > 1 and self.pieces.may_go[piece]):
                    self.model.add_hint(is_read, does)

    def _bit(self, piece: int) -> int:
        lowered = self.pieces.problem.lowered
        begin = lowered.output_begin[self.pieces.maker[piece]]
        return int((lowered.storage[begin:piece] == np.arange(begin, piece)).sum())

    def runs_of(self, value: Value) -> Runs:
        """The runs of a solution. A later copy of a piece is kept only if it is read longer than all earlier copies;
        else these are read instead."""
        places = {
            (op, number): value(run.place)
            for op, runs in enumerate(self.runs)
            for number, run in enumerate(runs)
            if value(run.is_there)
        }
        kept = {at: 0 if at[1] else ALL_KEPT for at in places}
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
