"""The search that follows the baselines, and when it ends."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import assume, given, settings
from instances import graph_of, machine_of, problem_of
from reference import best_objective
from strategies import problems

from placewright.bounds import lower_bound
from placewright.plans.assemble import assemble_plan
from placewright.problem import Problem
from placewright.search.auto import Auto
from placewright.search.metaheuristics.exact_schedule import is_provable
from placewright.search.run.budget import UNLIMITED, Budget
from placewright.search.run.result import Result
from placewright.search.run.search_run import SearchRun
from placewright.verification.checker import check_plan

#: Transfers cost nothing and block.
FREE = machine_of(2, transfer_model="blocking")
LARGE = Budget(evaluations=1_000_000)
PARTS = dict.fromkeys("abcdefg", ("", 4))


def solve(problem: Problem, budget: Budget = LARGE) -> Result:
    return Auto().solve(problem, SearchRun(budget))


def two_loads() -> Problem:
    """Return seven ops without inputs, so no schedule has a transfer. Longest first, list schedules give 7 + 4 + 4 = 15
    and 6 + 5 + 3 + 3 = 17, but 7 + 5 + 4 = 6 + 4 + 3 + 3 = 16, half of the work."""
    return problem_of(graph_of(PARTS), FREE, (7, 6, 5, 4, 4, 3, 3))


def two_loads_and_a_reader() -> Problem:
    """Add to `two_loads` an op h that reads a in no time, so there may be a transfer."""
    return problem_of(graph_of({**PARTS, "h": ("a", 4)}), FREE, (7, 6, 5, 4, 4, 3, 3, 0))


def test_schedules_are_annealed_where_there_is_nothing_to_transfer() -> None:
    result = solve(two_loads())
    assert min(baseline.metrics.step_time_ns for baseline in result.baselines) == 17
    assert (result.metrics.step_time_ns, result.found_by) == (16, "schedule-annealing")


def test_supersteps_are_annealed_where_free_transfers_make_barriers() -> None:
    result = solve(two_loads_and_a_reader())
    assert min(baseline.metrics.step_time_ns for baseline in result.baselines) == 17
    assert (result.metrics.step_time_ns, result.found_by) == (16, "superstep-annealing")


def test_control_dependencies_alone_are_scheduled_to_the_bound() -> None:
    # g waits for all but h, 39 ns of work, which two devices end at 20 or later; then g takes 4 and h 8.
    controls = {"b": "a", "e": "c d", "f": "d", "g": "b e f", "h": "d f g"}
    graph = graph_of(dict.fromkeys("abcdefgh", ("", 4)), controls)
    problem = problem_of(graph, FREE, (8, 8, 9, 4, 6, 4, 4, 8), control="signal")
    result = solve(problem)
    assert result.metrics.step_time_ns == lower_bound(problem).value == 32


def test_a_search_that_meets_the_bound_ends_long_before_its_budget() -> None:
    for problem in (two_loads(), two_loads_and_a_reader()):
        result = solve(problem)
        assert result.metrics.step_time_ns == lower_bound(problem).value
        assert result.stopped_because == "optimal"
        assert result.evaluations < LARGE.evaluations / 100


def test_a_proof_ends_the_search_of_few_ops_where_no_bound_does() -> None:
    # 3 + 3 and 4, where half of the work is 5.
    problem = problem_of(graph_of(dict.fromkeys("abc", ("", 4))), machine_of(2), (3, 3, 4))
    result = solve(problem)
    assert lower_bound(problem).value == 5
    assert (result.metrics.step_time_ns, result.proven_bound, result.stopped_because) == (6, 6, "optimal")
    assert result.evaluations < LARGE.evaluations / 10
    plan = assemble_plan(problem, result, solver="auto", seconds=0.0)
    assert (plan.status, plan.lower_bound, plan.bound_reason) == ("optimal", 6, "proven by the solver")
    assert not check_plan(plan, problem.graph, problem.time_ns)


@settings(max_examples=40, deadline=None)
@given(problems(max_ops=4, max_devices=2))
def test_what_is_called_optimal_is_the_best_of_all_solutions(problem: Problem) -> None:
    machine = replace(problem.machine, transfer_model="overlapped")
    problem = replace(problem, machine=machine, objective="step-time", control="signal")
    assume(is_provable(problem))
    result = solve(problem, Budget(evaluations=20_000))
    assume(result.metrics.bytes_over_limit == 0 and result.stopped_because == "optimal")
    assert result.metrics.step_time_ns == best_objective(problem)


def test_a_time_limit_alone_leaves_room_for_a_search() -> None:
    # As many evaluations as a budget can have, less those of the baselines, rounded to a float are too many.
    result = solve(two_loads(), Budget(evaluations=UNLIMITED, seconds=5.0))
    assert (result.metrics.step_time_ns, result.found_by) == (16, "schedule-annealing")


def test_baselines_that_meet_the_bound_leave_nothing_to_search() -> None:
    # Two ops of 5 on two devices.
    result = solve(problem_of(graph_of({"a": ("", 4), "b": ("", 4)}), FREE, (5, 5)))
    assert result.stopped_because == "optimal"
    assert result.evaluations == sum(baseline.evaluations for baseline in result.baselines)
