"""Solving of a problem within memory limits: by a method, and if that is not enough, with ops that run again."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial

import numpy as np

from placewright.machines.host import HostMemory
from placewright.problem import Problem
from placewright.rematerialization.proofs import no_runs_fit, some_may_move, some_may_run_again
from placewright.rematerialization.several_devices import rematerialize_on_several
from placewright.rematerialization.solve import Rematerialized, least_memory, ops_of, rematerialize, rerun_evaluations
from placewright.search.constructive.one_device import INPUT_ORDER
from placewright.search.run.budget import Budget
from placewright.search.run.result import Result, fitness_in
from placewright.search.run.search_run import SearchRun
from placewright.support.errors import InputError

#: With these multiples of the memory, and without limits, placements and orders are found that may fit with reruns.
_ROOMIER: tuple[float | None, ...] = (1.4, 2.0, None)


@dataclass(frozen=True, kw_only=True)
class RerunOptions:
    """The permitted reruns and moves. keep: as `kept` takes it, which says what it raises.

    host: memory to which tensors may be moved; None where none may. max_slowdown: the price of less memory, as a share.
    usual: returns the method's default number of evaluations; twice as many double those of the search for reruns. None
    where no number was asked for. is_possible: True if anything may run again or be moved.
    """

    keep: Sequence[str]
    host: HostMemory | None
    max_slowdown: float | None
    usual: Callable[[], int] | None
    is_possible: bool

    @classmethod
    def of(
        cls,
        problem: Problem,
        keep: Sequence[str],
        host: HostMemory | None,
        max_slowdown: float | None,
        usual: Callable[[], int] | None = None,
    ) -> RerunOptions:
        """Make the options for a problem. Raises InputError for a price where none is possible."""
        if max_slowdown is not None and problem.objective != "peak-memory":
            raise InputError("max_slowdown is the price of less memory; say objective='peak-memory' with it")
        host = host if some_may_move(problem, keep, host) else None
        is_possible = some_may_run_again(problem, keep) or host is not None
        if max_slowdown is not None and (problem.machine.num_devices > 1 or not is_possible):
            raise InputError(
                "max_slowdown is for ops that run again, which they do on one device where not all are kept"
            )
        return cls(keep=keep, host=host, max_slowdown=max_slowdown, usual=usual, is_possible=is_possible)


def solve_within_limits(
    problem: Problem,
    solve: Callable[[Problem, SearchRun], Result],
    begin: Callable[..., SearchRun],
    budget: Budget,
    options: RerunOptions,
) -> tuple[Result, Rematerialized | None]:
    """Return the method's result, and a better one with ops that run again or tensors that are moved, or None.

    solve: the method. begin: `SearchRun` with everything but a budget. budget: of the method; its time is also that of
    the search for reruns.
    """
    result = solve(problem, begin(budget))
    if not options.is_possible:
        return result, None
    several, over = problem.machine.num_devices > 1, result.metrics.bytes_over_limit > 0
    hopeless = over and no_runs_fit(problem, options.host)
    evaluations = _evaluations_on_several(problem) if several else rerun_evaluations(problem)
    if options.usual is not None:
        evaluations = int(evaluations * max(1.0, budget.evaluations / options.usual()))
    # If it is proven that nothing fits, one evaluation suffices for a plan that comes near.
    again = partial(begin, Budget(evaluations=1 if hopeless else evaluations, seconds=budget.seconds))
    # A method that has only the captured order to offer keeps it.
    is_captured = result.found_by == INPUT_ORDER.name and not result.baselines
    orders = [] if is_captured else [ops_of(result.solution.order)]
    if options.max_slowdown is not None:
        found = least_memory(problem, again(), options.max_slowdown, options.keep, options.host, orders)
        # If nothing is found, this carries the bound for reruns, which no other proof knows.
        searched = replace(result, stopped_because="evaluations")
        return result, found or Rematerialized(problem=problem, result=searched, reruns=())
    if not several:
        return result, rematerialize(problem, again(), options.keep, options.host, orders) if over else None
    part = replace(budget, seconds=None if budget.seconds is None else budget.seconds / len(_ROOMIER))

    @cache
    def with_room(factor: float | None) -> Result:
        return solve(_with_room(problem, factor), begin(part, on_progress=None))

    if not over and not _limits_cost_time(problem, result, partial(with_room, None)):
        return result, None
    factors = () if no_runs_fit(problem, options.host) else _ROOMIER
    solutions = [result.solution, *(with_room(factor).solution for factor in factors)]
    found = rematerialize_on_several(problem, again(), solutions, options.keep, options.host)
    fitness = fitness_in(problem)
    return result, found if over or fitness(found.result) < fitness(result) else None


def _limits_cost_time(problem: Problem, result: Result, without_limits: Callable[[], Result]) -> bool:
    """True if a plan that the limits rule out takes a shorter step than a result within them: reruns may cost less than
    the limits do. Such a plan is one of the baselines; a method without baselines is run without limits, if these can
    rule out anything."""
    if problem.objective != "step-time":
        return False
    if not result.baselines and _limits_may_bind(problem):
        return without_limits().metrics.step_time_ns < result.metrics.step_time_ns
    return any(
        each.metrics.bytes_over_limit and each.metrics.step_time_ns < result.metrics.step_time_ns
        for each in result.baselines
    )


def _limits_may_bind(problem: Problem) -> bool:
    """True if the total of all that a step ever holds exceeds some limit."""
    lowered = problem.lowered
    tensors = np.maximum(lowered.allocated_bytes, lowered.copy_bytes).sum()
    most = int(tensors + lowered.resident_bytes.sum() + lowered.workspace_bytes.max())
    return any(limit is not None and limit < most for limit in problem.memory_limits_bytes)


def _with_room(problem: Problem, factor: float | None) -> Problem:
    """Return the problem with so many times the memory, or without limits for None. Reruns may provide that memory, so
    its solutions are worth trying."""
    limits = (None if limit is None or factor is None else int(factor * limit) for limit in problem.memory_limits_bytes)
    return replace(problem, memory_limits_bytes=tuple(limits))


def _evaluations_on_several(problem: Problem) -> int:
    """Return about as many evaluations as two seconds for each device suffice for."""
    return 2 * problem.machine.num_devices * rerun_evaluations(problem)
