"""Which ops run again under a memory limit, to the optimum: a model after Moccasin (Bartan et al. 2023)."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from placewright.bounds.rematerialization import rematerialized_time
from placewright.lab.peers.cp_sat.require import require_ortools
from placewright.lab.peers.cp_sat.structure import Expression, Value
from placewright.problem import Problem
from placewright.problem.pieces import Pieces

if TYPE_CHECKING:
    from ortools.sat.python.cp_model import CpModel

#: Ops in the order of their runs, and which of the pieces each makes are kept, as bits; all of a first run.
Runs = tuple[NDArray[np.int32], NDArray[np.uint64]]
_ALL = 2**64 - 1


@dataclass(frozen=True, kw_only=True)
class ExactRuns:
    """Runs within the limit, None where none were found, and the time that none goes below.

    bound_ns: of runs whose first ones are in the graph's order, no op more often than asked for; None where the limit
    is too small for them.
    """

    runs: Runs | None
    time_ns: int | None
    bound_ns: int | None

    @property
    def is_proven(self) -> bool:
        return self.time_ns == self.bound_ns


def exact_rematerialization(
    problem: Problem, start: Runs | None, seconds: float, *, runs_per_op: int = 2, workers: int = 1, seed: int = 0
) -> ExactRuns:
    """The fastest runs within the memory limit of one device, by CP-SAT.

    start: runs to begin with, as the search gives them; an op that runs more often in them may do so here, too.
    Raises MissingExtraError without OR-tools.
    """
    require_ortools("exact rematerialization")
    from ortools.sat.python.cp_model import FEASIBLE, INFEASIBLE, OPTIMAL, CpModel, CpSolver

    from placewright.lab.peers.cp_sat.running import NOT_INTERLEAVED

    model = _Model(CpModel(), Pieces(problem), start, runs_per_op)
    model.minimize(max(rematerialized_time(problem, in_order).value for in_order in (False, True)))
    if start is not None:
        model.hint(start)
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
    """place: on the axis of all runs. is_there: 1 of a first run."""

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
        often = np.bincount(start[0], minlength=pieces.num_ops) if start else np.zeros(pieces.num_ops, np.int64)
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

    def _runs(self, op: int) -> Iterator[_Run]:
        before = _Run(self._first_place(op), 1)
        yield before
        last = min(int(self.pieces.again_before[op]), self.pieces.num_ops - 1)
        for number in range(1, self.counts[op]):
            place = self.model.new_int_var(before.place + 1 if number == 1 else 0, self._first_place(last) - 1, "")
            run = _Run(place, self.model.new_bool_var(""))
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
        ops, kept = (array.tolist() for array in start)
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
        )
