"""Runs of CP-SAT on a model, which report solutions and can be ended at any time."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from queue import Empty, SimpleQueue

from ortools.sat.python.cp_model import FEASIBLE, INFEASIBLE, OPTIMAL, CpModel, CpSolver, CpSolverSolutionCallback
from ortools.sat.python.cp_model_helper import CpSolverStatus

from placewright.lab.peers.cp_sat.structure import Formulation
from placewright.lab.peers.cp_sat.window import Window
from placewright.search.run.budget import Interrupted
from placewright.search.run.result import Solution

#: Interval at which the waiting thread checks.
_SECONDS_BETWEEN_LOOKS = 0.02
#: Complete searches that would take a lone worker's time from the neighbourhood searches; default_lp stays for proofs.
NOT_INTERLEAVED = (
    "core",
    "fixed",
    "fj",
    "max_lp",
    "no_lp",
    "pseudo_costs",
    "quick_restart",
    "quick_restart_no_lp",
    "reduced_costs",
)


@dataclass(frozen=True, kw_only=True)
class Limits:
    """The limits of one run: seconds on the clock, or CP-SAT's deterministic time; threads and seed."""

    seconds: float | None
    effort: float
    workers: int
    seed: int


@dataclass(frozen=True, kw_only=True)
class Ended:
    """The end of a run. bound: of the model's objective, None where the model has no solution. exhausted: the search
    was complete."""

    bound: int | None
    exhausted: bool
    interrupted: bool


class _Decoding(CpSolverSolutionCallback):
    """A callback that decodes every solution when its values are available."""

    def __init__(self, formulation: Formulation, found: SimpleQueue[Solution]) -> None:
        super().__init__()
        self._formulation, self._found = formulation, found

    def on_solution_callback(self) -> None:
        self._found.put(self._formulation.decode(self.value))


def solve_model(
    formulation: Formulation, limits: Limits, on_solution: Callable[[Solution], None], interrupted: Interrupted | None
) -> Ended:
    """Run CP-SAT in a thread of its own; this thread takes its solutions and asks whether to end."""
    began = time.perf_counter()
    found = SimpleQueue[Solution]()

    def ended() -> bool:
        _take(found, on_solution, _SECONDS_BETWEEN_LOOKS)
        return interrupted is not None and interrupted()

    is_hinted = len(formulation.model.proto.solution_hint.vars) > 0
    if is_hinted:
        complete_hint(formulation.model, limits.seconds, ended)
    if limits.seconds is not None:
        limits = replace(limits, seconds=max(0.01, limits.seconds - (time.perf_counter() - began)))
    solver = solver_within(limits, is_hinted)
    status, stopped = _solve(solver, formulation.model, ended, _Decoding(formulation, found))
    _take(found, on_solution, 0)
    bound = solver.best_objective_bound
    return Ended(
        # The bound is a double: from 2**53 on rounding it up might exceed the true bound.
        bound=None if status == INFEASIBLE or bound >= 2**53 else math.ceil(bound - 1e-6),
        exhausted=status in (OPTIMAL, INFEASIBLE),
        interrupted=stopped,
    )


def _solve(
    solver: CpSolver, model: CpModel, ended: Callable[[], bool], callback: CpSolverSolutionCallback | None = None
) -> tuple[CpSolverStatus, bool]:
    """Return the status, and True if `ended` said to stop. `ended` is called in a loop and waits a little each time."""
    stopped = False
    with ThreadPoolExecutor(1) as pool:
        status = pool.submit(solver.solve, model, callback)
        try:
            while not status.done():
                stopped = ended() or stopped
                if stopped:
                    solver.stop_search()
        finally:
            while not status.done():
                solver.stop_search()
                time.sleep(_SECONDS_BETWEEN_LOOKS)
    return status.result(), stopped


def complete_hint(model: CpModel, seconds: float | None, ended: Callable[[], bool]) -> None:
    """Extend a hint of the decisions to all variables, in at most half of the seconds. CP-SAT accepts a complete hint
    at once; for an incomplete one it first has to find a solution, which took seconds with 150 ops and more."""
    solver = CpSolver()
    solver.parameters.num_workers = 1
    solver.parameters.fix_variables_to_their_hinted_value = True
    solver.parameters.stop_after_first_solution = True
    solver.parameters.catch_sigint_signal = False
    solver.parameters.max_deterministic_time = 10.0
    if seconds is not None:
        solver.parameters.max_time_in_seconds = seconds / 2
    if _solve(solver, model, ended)[0] in (OPTIMAL, FEASIBLE):
        values = list(solver.response_proto.solution)
        model.clear_hints()  # type: ignore[no-untyped-call]
        for index, value in enumerate(values):
            model.add_hint(model.get_int_var_from_proto_index(index), value)


@dataclass(frozen=True, kw_only=True)
class Found:
    """The result of a window's run. effort: spent, in deterministic time."""

    solution: Solution | None
    is_optimal: bool
    effort: float


def solve_window(window: Window, *, effort: float, seconds: float | None, seed: int) -> Found:
    """Run CP-SAT briefly on one thread. Small models that change little from one to the next gain nothing from probing,
    symmetries and linear relaxations."""
    solver = CpSolver()
    solver.parameters.random_seed = seed % 2**31
    solver.parameters.num_workers = 1
    solver.parameters.max_deterministic_time = effort
    solver.parameters.cp_model_probing_level = 0
    solver.parameters.symmetry_level = 0
    solver.parameters.linearization_level = 0
    solver.parameters.catch_sigint_signal = False
    if seconds is not None:
        solver.parameters.max_time_in_seconds = seconds
    status = solver.solve(window.model)
    return Found(
        solution=window.decode(solver.value) if status in (OPTIMAL, FEASIBLE) else None,
        is_optimal=status == OPTIMAL,
        effort=solver.response_proto.deterministic_time,
    )


def _take(found: SimpleQueue[Solution], on_solution: Callable[[Solution], None], seconds: float) -> None:
    """Pass on the solutions found, waiting up to that many seconds for the first."""
    try:
        on_solution(found.get(timeout=seconds) if seconds else found.get_nowait())
        while True:
            on_solution(found.get_nowait())
    except Empty:
        return


def solver_within(limits: Limits, is_hinted: bool) -> CpSolver:
    solver = CpSolver()
    solver.parameters.random_seed = limits.seed % 2**31
    solver.parameters.num_workers = limits.workers
    if limits.workers == 1 and is_hinted:
        # Alone, one worker would run one complete search; interleaving gives the neighbourhood searches a share. They
        # need an initial solution, which without a hint the complete search finds sooner on its own.
        solver.parameters.interleave_search = True
        solver.parameters.ignore_subsolvers.extend(NOT_INTERLEAVED)
    solver.parameters.catch_sigint_signal = False
    if limits.seconds is None:
        solver.parameters.max_deterministic_time = limits.effort
    else:
        solver.parameters.max_time_in_seconds = limits.seconds
    return solver
