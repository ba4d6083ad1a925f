"""A sequence of solvers: compilers and greedy maps first, then, as time allows, annealing and the program over
configurations."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import placewright._core as _core
from placewright.lab.memory_levels.bounds import ALONE, PROGRAM, alone_bound
from placewright.lab.memory_levels.compilers import COMPILERS
from placewright.lab.memory_levels.problem import Levels, MemoryProblem
from placewright.lab.memory_levels.program import Program, configuration_program, count_variables
from placewright.lab.memory_levels.run import BestMap, MapResult, MapSolver
from placewright.lab.memory_levels.solvers.alike import Alike
from placewright.lab.memory_levels.solvers.annealing import LevelAnnealing
from placewright.lab.memory_levels.solvers.compiler import Compiler
from placewright.lab.memory_levels.solvers.exact import has_scipy, is_proven, solve_program
from placewright.lab.memory_levels.solvers.greedy import DensityGreedy, GreedyDp, MarginalGreedy
from placewright.lab.memory_levels.solvers.local_search import LevelLocalSearch
from placewright.lab.memory_levels.solvers.random_maps import RandomMaps
from placewright.search.run.budget import Budget
from placewright.search.run.search_run import SearchRun

#: Most evaluations of each search that sees latencies only; more rarely helps.
_BLACK_BOX_EVALUATIONS = 4000
#: Fewer on networks of more than 5,000 ops, where they take longer than about a second.
_BLACK_BOX_OPS = 20_000_000
#: Relaxing a program of more variables takes more than about a second.
_MAX_VARIABLES = 40_000
#: Share of the time for annealing; the program has most of the rest.
_ANNEALING_SHARE = 0.35
#: Most time for annealing, which never ends by itself, whereas the program may prove the map in a second.
_MOST_ANNEALING_SECONDS = 20.0
#: Least time of a part, even when the run's time is over.
_LEAST_SECONDS = 1e-3


@dataclass(frozen=True, kw_only=True)
class Auto:
    """A solver never worse than the others at the same number of evaluations, up to 4,000; it ends when a map is proven
    optimal.

    Compilers and greedy maps run first, whatever the budget; then annealing, and the searches that see latencies only.
    Where SciPy is installed and the chip does not prefetch, the relaxed program gives a bound and one more start; under
    a time limit, the integer program has the rest of the time to prove the map.
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
        self.program: Program | None = None
        # A descent looks at a few ops per move, also on a chip that prefetches.
        self.descent_evaluations = 500_000_000 // (500 + problem.num_ops)

    def result(self) -> MapResult:
        for step in (self._first, self._anneal, self._black_box, self._relax, self._close):
            step()
            if self._is_over():
                break
        bound = self.bound
        assert self.best.levels is not None  # the compilers' maps were offered
        # With prefetching, room in the fastest level is worth something.
        if not self.problem.chip.has_prefetch:
            self.best.levels = _core.drawn_near(self.problem.core, self.best.levels)
            self.best.latency_ps = self.problem.evaluate_one(self.best.levels)[0]
        is_optimal = is_proven(self.best.latency_ps, bound.latency_ps)
        return self.best.result(
            "optimal" if is_optimal else self.run.reason_to_stop() or "complete",
            bound_ps=min(bound.latency_ps, self.best.latency_ps),
            bound_reason=bound.reason,
            baselines=bound.baselines,
        )

    def _is_over(self) -> bool:
        time_is_over = self.run.seconds_left is not None and self.run.seconds_left <= 0
        return is_proven(self.best.latency_ps, self.bound.latency_ps) or time_is_over or self.run.is_interrupted()

    def _first(self) -> None:
        """Run the solvers that take milliseconds; all of them, so that the compilers' latencies are known."""
        solvers: list[MapSolver] = [Compiler(name=name) for name in COMPILERS]
        solvers += [DensityGreedy(), Alike(), MarginalGreedy(), MarginalGreedy(name="marginal-density", per_byte=True)]
        for solver in solvers:
            self._try(solver, Budget(evaluations=self.descent_evaluations))
        # Improved move by move, each compiler's map ends in a different local optimum.
        assert self.best.levels is not None
        for start in (*(compiler(self.problem) for compiler in COMPILERS.values()), self.best.levels):
            self._descend(start, "descent")

    def _anneal(self) -> None:
        left, seconds = self.run.seconds_left, None
        if left is not None:
            part = min(left * _ANNEALING_SHARE, _MOST_ANNEALING_SECONDS) if self._has_program() else left * 0.9
            seconds = max(_LEAST_SECONDS, part)
        self._try(LevelAnnealing(), replace(self.run.budget, seconds=seconds))

    def _black_box(self) -> None:
        affordable = max(1, _BLACK_BOX_OPS // self.problem.num_ops)
        evaluations = min(self.run.budget.evaluations, _BLACK_BOX_EVALUATIONS, affordable)
        for solver in (LevelLocalSearch(), GreedyDp(), RandomMaps()):
            if not self._is_over():
                left = self.run.seconds_left
                seconds = None if left is None else max(_LEAST_SECONDS, left)
                self._try(solver, Budget(evaluations=evaluations, seconds=seconds))

    def _try(self, solver: MapSolver, budget: Budget) -> None:
        """Run another solver with a budget of its own, whatever is left of the run's."""
        own = SearchRun(budget, seed=self.run.seed, threads=self.run.threads, interrupted=self.run.is_interrupted)
        found = solver.solve(self.problem, own)
        self.bound.baselines[solver.name] = found.latency_ps
        self.best.take(found.levels, found.latency_ps, solver.name, evaluations=own.evaluations)

    def _descend(self, levels: Levels, found_by: str) -> None:
        """Offer a map after all moves of one tensor that save something."""
        better, spent = _core.steepest_descent(self.problem.core, levels, False, self.descent_evaluations)
        self.best.offer(better, found_by, evaluations=spent + 1)

    def _relax(self) -> None:
        """Solve the relaxed program for a bound, and for a map near its solution."""
        if not self._has_program():
            return
        program = self.program = configuration_program(self.problem)
        found = solve_program(program, self.problem, self.run.seconds_left, relaxed=True)
        self._raise_bound(found.bound_ps)
        if found.levels is not None:
            self._descend(found.levels, "relaxation")

    def _has_program(self) -> bool:
        if self.problem.chip.has_prefetch or not has_scipy():
            return False
        return count_variables(self.problem) <= _MAX_VARIABLES

    def _close(self) -> None:
        """Solve the integer program; not without a time limit, as it can take long."""
        if self.program is None or self.run.seconds_left is None:
            return
        found = solve_program(self.program, self.problem, self.run.seconds_left)
        self._raise_bound(found.bound_ps)
        if found.levels is not None:
            self._descend(found.levels, "exact")

    def _raise_bound(self, bound_ps: int) -> None:
        if bound_ps > self.bound.latency_ps:
            self.bound.latency_ps, self.bound.reason = bound_ps, PROGRAM
