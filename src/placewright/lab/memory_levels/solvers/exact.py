"""The program over the configurations of ops, solved by HiGHS (Huangfu & Hall 2018) through SciPy."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from placewright.lab.memory_levels.bounds import ALONE, PROGRAM, alone_bound
from placewright.lab.memory_levels.problem import Levels, MemoryProblem
from placewright.lab.memory_levels.program import Program, configuration_program
from placewright.lab.memory_levels.run import BestMap, MapResult
from placewright.search.run.search_run import SearchRun
from placewright.support.errors import InputError, MissingExtraError

#: HiGHS accepts a constraint as satisfied, and a bound as met, within about this tolerance, relative to the numbers.
TOLERANCE = 1e-6
_PS_PER_US = 1e6
_DEFAULT_SECONDS = 60.0


@dataclass(frozen=True, kw_only=True)
class Exact:
    """The fastest map, proven, where HiGHS closes the program within the time; else the best map it found, with its
    bound.

    A limit of evaluations does not bound it; without a time limit it gets a minute, as HiGHS does not react to Ctrl-C.
    It needs scipy, and a chip without prefetching.
    """

    name: str = "exact"

    def solve(self, problem: MemoryProblem, run: SearchRun) -> MapResult:
        if problem.chip.has_prefetch:
            raise InputError(
                f"solver '{self.name}' needs a chip without prefetching; '{problem.chip.name}' fetches weights early"
            )
        best = BestMap(problem, run, self.name)
        best.offer(problem.all_slowest())
        seconds = _DEFAULT_SECONDS if run.seconds_left is None else run.seconds_left
        found = solve_program(configuration_program(problem), problem, seconds)
        if found.levels is not None:
            best.offer(found.levels)
        bound, reason = alone_bound(problem), ALONE
        if found.bound_ps > bound:
            bound, reason = found.bound_ps, PROGRAM
        is_optimal = is_proven(best.latency_ps, bound)
        bound = min(bound, best.latency_ps)
        return best.result("optimal" if is_optimal else "time", bound_ps=bound, bound_reason=reason)


def is_proven(latency_ps: int, bound_ps: int) -> bool:
    """True if no map is faster, to the solver's tolerance of a millionth."""
    return latency_ps <= bound_ps * (1 + TOLERANCE)


@dataclass(frozen=True, kw_only=True, eq=False)
class ProgramSolution:
    """The solution of a program. levels: the best map, None for none; bound_ps: a lower bound on the latency of every
    map."""

    levels: Levels | None
    bound_ps: int


def solve_program(
    program: Program,
    problem: MemoryProblem,
    seconds: float | None,
    *,
    relaxed: bool = False,
) -> ProgramSolution:
    """Solve a program within a time. relaxed: without its integrality; the map is then the nearest."""
    optimize, sparse = _scipy()
    size = len(program.lower), len(program.cost)
    matrix = sparse.csr_array((program.values, (program.rows, program.columns)), shape=size)
    upper = np.full(size[1], np.inf)
    upper[: program.num_binary] = 1
    whole = np.zeros(size[1])
    whole[: program.num_binary] = 0 if relaxed else 1
    options: dict[str, Any] = {"mip_rel_gap": 0.0}
    if seconds is not None:
        options["time_limit"] = max(0.01, seconds)
    found = optimize.milp(
        program.cost,
        integrality=whole,
        constraints=optimize.LinearConstraint(matrix, program.lower, program.upper),
        bounds=optimize.Bounds(0, upper),
        options=options,
    )
    proven = found.fun if relaxed and found.status == 0 else found.mip_dual_bound
    levels = None
    if found.x is not None:
        shares = found.x[: program.num_binary].reshape(problem.num_tensors, problem.num_levels)
        levels = shares.argmax(axis=1).astype(np.uint8)
    is_bound = proven is not None and np.isfinite(proven)
    bound = int(proven * _PS_PER_US * (1 - TOLERANCE / 10)) if is_bound else 0
    return ProgramSolution(levels=levels, bound_ps=max(0, bound))


def _scipy() -> tuple[Any, Any]:
    try:
        from scipy import optimize, sparse
    except ImportError as error:
        raise MissingExtraError("scipy", "levels", "the exact solver of memory maps") from error
    return optimize, sparse


def has_scipy() -> bool:
    """True if programs can be solved here."""
    try:
        _scipy()
    except MissingExtraError:
        return False
    return True
