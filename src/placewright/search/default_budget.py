"""The default number of evaluations of `auto`: as many as make a plan in about a second. It is computed from the
problem, never timed, so that the plan is the same on every machine."""

from __future__ import annotations

import numpy as np

import placewright._core as _core
from placewright.problem import Problem
from placewright.search.portfolio import planned_seconds

#: The most evaluations for step time; and the same for large graphs whose moves are cheap, as ops per second.
_MAX, _OPS_A_SECOND = 1_000_000, 250_000_000
#: The time of an evaluation of a move, and of each unit of work that it causes, in ns, as measured by
#: `python benchmarks/default_budget.py`, the start of the search included.
_NS_PER_EVALUATION, _NS_PER_WORK = 480, 80
#: Time for the whole plan; time per op for reading, lowering and writing; and the least time for a search.
_SECONDS, _SECONDS_PER_OP, _LEAST_SECONDS = 0.9, 15e-6, 0.25
#: Moves on problems with fewer ops cost almost nothing.
_WORTH_PROBING = 200


def default_evaluations(problem: Problem) -> int:
    """Return the number of evaluations that take about a second together with the baselines, those of a second search
    included; a budget of evaluations is what makes a plan reproducible."""
    is_annealed = problem.objective == "step-time" and not has_free_barriers(problem)
    return first_evaluations(problem) + (most_evaluations(problem) if is_annealed else 0)


def most_evaluations(problem: Problem) -> int:
    """Return the most evaluations of one search of the default, where moves cost almost nothing."""
    return max(100, min(_MAX, _OPS_A_SECOND // problem.core.num_ops))


def first_evaluations(problem: Problem) -> int:
    """Return the evaluations of the baselines and of the first search. The time of its moves is estimated, so it may
    end early."""
    num_ops = problem.core.num_ops
    if problem.objective == "peak-memory":
        # On one device the cost of a move is that of its changes, and a set of finished ops costs less.
        ops_a_second = 400_000_000 if problem.core.num_devices == 1 else 20_000_000
        return max(2_000, min(400_000, ops_a_second // num_ops))
    if has_free_barriers(problem):
        return 10_000_000
    most = most_evaluations(problem)
    if num_ops < _WORTH_PROBING:
        return most
    seconds = max(_LEAST_SECONDS, _SECONDS - _other_seconds(problem))
    return max(100, min(most, int(seconds * 1e9 / _ns_of(1, work_per_evaluation(problem)))))


def second_evaluations(problem: Problem, evaluations: int, work: float) -> int:
    """Return the evaluations for the rest of the default's second, after a first search of so many evaluations and so
    much work."""
    seconds = _SECONDS - _other_seconds(problem) - _ns_of(evaluations, work) / 1e9
    return max(0, min(most_evaluations(problem), int(evaluations * seconds * 1e9 / _ns_of(evaluations, work))))


def _ns_of(evaluations: int, work: float) -> float:
    return _NS_PER_EVALUATION * evaluations + _NS_PER_WORK * work


def _other_seconds(problem: Problem) -> float:
    """Return the seconds for everything but the searches."""
    return planned_seconds(problem.core.num_ops) + _SECONDS_PER_OP * problem.core.num_ops


def has_free_barriers(problem: Problem) -> bool:
    """True if transfers block and cost nothing, and there is something to transfer; control dependencies alone cause no
    barriers."""
    return _core.has_free_barriers(problem.core) and len(problem.lowered.inputs) > 0


def work_per_evaluation(problem: Problem) -> float:
    """Return the mean over some moves of `schedule-annealing`, on the coarse problems and on the ops, as its budget is
    divided. They begin, as it does, from a plan that leaves little to gain at once: the better of an
    earliest-task-first schedule and of all ops on one device."""
    core, shares = problem.core, {4: 0.2, 2: 0.2, 1: 0.6}
    moves = max(10, min(160, 500_000 // core.num_ops))
    everywhere = int(np.bitwise_and.reduce(problem.groups[1]))
    total = 0.0
    for ops_per_cluster, share in shares.items():
        coarse = core if ops_per_cluster == 1 else _core.coarsen(core, core.num_ops // ops_per_cluster)[0]
        starts = [_core.earliest_task_first(coarse)]
        if everywhere:
            one = np.full(coarse.num_ops, (everywhere & -everywhere).bit_length() - 1, np.int32)
            starts.append((one, _core.dispatch_order(coarse, one)))
        search = _core.ScheduleAnnealing(
            problem=coarse, seed=0, starts=starts, first_temperature=1.0, last_temperature=0.02
        )
        begun = 2 * len(starts)  # tensors sent late and early
        search.advance(begun + moves, at_most=begun)
        before = search.work
        search.advance(begun + moves)
        total += share * (search.work - before) / moves
    return total
