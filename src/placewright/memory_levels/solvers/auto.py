"""Compilers and greedy maps first, then what the time allows: the program over configurations, and annealing."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import placewright._core as _core
from placewright.memory_levels.bounds import ALONE, PROGRAM, alone_bound
from placewright.memory_levels.compilers import COMPILERS
from placewright.memory_levels.problem import Levels, MemoryProblem
from placewright.memory_levels.program import Program, configuration_program
from placewright.memory_levels.run import BestMap, MapResult, MapSolver
from placewright.memory_levels.solvers.annealing import LevelAnnealing
from placewright.memory_levels.solvers.compiler import Compiler
from placewright.memory_levels.solvers.exact import ended, has_scipy, is_proven, solve_program
from placewright.memory_levels.solvers.greedy import DensityGreedy, MarginalGreedy
from placewright.memory_levels.solvers.greedy_dp import GreedyDp
from placewright.memory_levels.solvers.local_search import LevelLocalSearch
from placewright.memory_levels.solvers.random_maps import RandomMaps
from placewright.search.run.search_run import SearchRun

#: What the searches that see latencies only may spend, each; more rarely helps.
_BLACK_BOX_EVALUATIONS = 4000
#: Relaxing a program of more variables takes more than about a second.
_MAX_VARIABLES = 40_000
#: Of the time that is left after the relaxation, for whole numbers.
_PROGRAM_SHARE = 0.75


@dataclass(frozen=True, kw_only=True)
class Auto:
    """Never worse than the other solvers at the same number of evaluations, up to 4,000; ends when a map is proven.

    All of them run first, whatever the budget, unless a time limit shortens them. Where SciPy is installed and the chip
    does not prefetch, the relaxed program then gives a bound and a start; under a time limit most of the rest is spent
    on its whole numbers. Annealing has what is left.
    """

    name: str = "auto"

    def solve(self, problem: MemoryProblem, run: SearchRun) -> MapResult:
        return _Course(problem, run, self.name).result()


@dataclass(kw_only=True)
class _Bound:
    latency_ps: int
    reason: str = ALONE
    baselines: dict[str, int] = field(default_factory=dict)


class _Course:
    """One run of `Auto`."""

    def __init__(self, problem: MemoryProblem, run: SearchRun, name: str) -> None:
        self.problem, self.run = problem, run
        self.best = BestMap(problem, run, name)
        self.bound = _Bound(latency_ps=alone_bound(problem))

    def result(self) -> MapResult:
        for step in (self._first, self._black_box, self._program, self._anneal):
            step()
            if self._is_over():
                break
        bound = self.bound
        return self.best.result(
            ended(self.best.latency_ps, bound.latency_ps, self.run),
            bound_ps=min(bound.latency_ps, self.best.latency_ps),
            bound_reason=bound.reason,
            baselines=bound.baselines,
        )

    def _is_over(self) -> bool:
        time_is_over = self.run.seconds_left is not None and self.run.seconds_left <= 0
        return is_proven(self.best.latency_ps, self.bound.latency_ps) or time_is_over or self.run.is_interrupted()

    def _first(self) -> None:
        """What takes milliseconds; all of it runs, so that the compilers' latencies are known."""
        solvers: list[MapSolver] = [Compiler(name=name) for name in COMPILERS]
        solvers += [DensityGreedy(), MarginalGreedy(), MarginalGreedy(name="marginal-density", per_byte=True)]
        for solver in solvers:
            self._try(solver, _unlimited(self.run))
        # Compilers' maps end in other places when each is improved move by move.
        for compiler in COMPILERS.values():
            self._descend(compiler(self.problem), "descent")

    def _black_box(self) -> None:
        solvers: list[MapSolver] = [LevelLocalSearch(), GreedyDp(), RandomMaps()]
        for solver in solvers:
            if self._is_over():
                return
            self._try(solver, self.run.part(evaluations=min(self.run.budget.evaluations, _BLACK_BOX_EVALUATIONS)))

    def _try(self, solver: MapSolver, run: SearchRun) -> None:
        found = solver.solve(self.problem, run)
        self.bound.baselines[solver.name] = found.latency_ps
        self.best.take(found.levels, found.latency_ps, solver.name)

    def _descend(self, levels: Levels, found_by: str) -> None:
        """Offers a map after all moves of one tensor that save something."""
        better, spent = _core.steepest_descent(self.problem.core, levels, False, _BLACK_BOX_EVALUATIONS * 1000)
        self.best.offer(better, found_by, evaluations=spent + 1)

    def _program(self) -> None:
        if self.problem.chip.has_prefetch or not has_scipy():
            return
        program = configuration_program(self.problem)
        if len(program.cost) > _MAX_VARIABLES:
            return
        self._relax(program)
        if self._is_over() or self.run.seconds_left is None:
            return
        found = solve_program(program, self.problem, self.run.seconds_left * _PROGRAM_SHARE)
        self._raise_bound(found.bound_ps)
        if found.levels is not None:
            self._descend(found.levels, "exact")

    def _relax(self, program: Program) -> None:
        found = solve_program(program, self.problem, self.run.seconds_left, relaxed=True)
        self._raise_bound(found.bound_ps)
        if found.levels is not None:
            self._descend(found.levels, "relaxation")

    def _raise_bound(self, bound_ps: int) -> None:
        if bound_ps > self.bound.latency_ps:
            self.bound.latency_ps, self.bound.reason = bound_ps, PROGRAM

    def _anneal(self) -> None:
        starts: Iterator[Levels] = iter([self.best.levels] if self.best.levels is not None else [])
        for start in starts:
            found = LevelAnnealing().solve_from(self.problem, self.run.part(), start)
            self.best.take(found.levels, found.latency_ps, "annealing")


def _unlimited(run: SearchRun) -> SearchRun:
    """A part of the run for what always runs whole."""
    return run.part(evaluations=run.budget.evaluations)
