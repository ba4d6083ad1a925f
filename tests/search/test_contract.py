"""Requirements that every method meets on every problem."""

from __future__ import annotations

import json
from dataclasses import fields, replace
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from instances import devices_by_name, graph_of, machine_of, problem_of
from lab.learning.networks import SMALL, random_policy
from reference import rule_broken_by, simulate
from strategies import problems, tight_problems

from placewright.graph import Graph, Op, Tensor
from placewright.lab.learning.gdp.settings import NetworkSettings
from placewright.lab.methods import GUIDED, PLACERS
from placewright.machine import Link, TransferModel
from placewright.methods.table import METHODS
from placewright.plans.assemble import assemble_plan
from placewright.problem import Problem
from placewright.problem.constraints import Constraints
from placewright.problem.objective import Objective
from placewright.search.constructive.baselines import BASELINES
from placewright.search.run.budget import Budget, Progress
from placewright.search.run.method import Method
from placewright.search.run.result import Result
from placewright.search.run.search_run import SearchRun
from placewright.verification.checker import check_plan

BUDGET = Budget(evaluations=150)
BASELINE_NAMES = [method.name for method in BASELINES]

#: Learned placers with networks in a size that learns nothing, but as the large ones would.
TINY_NETWORK = NetworkSettings(width=4, rounds=1, layers=1, heads=1, segment=8, memory=8)
TINY: dict[str, Any] = {"hidden": 4, "samples": 3, "rounds": 2, "network": TINY_NETWORK}
TINY_PLACERS: dict[str, Method] = {
    name: replace(method, **{field.name: TINY[field.name] for field in fields(method) if field.name in TINY})
    for name, method in PLACERS.items()
    if name != "post"
}

every_method = pytest.mark.parametrize("name", METHODS)


def solve(problem: Problem, name: str, budget: Budget = BUDGET, **rest: Any) -> Result:
    method = TINY_PLACERS.get(name, METHODS[name])
    if name in TINY_PLACERS:
        budget = replace(budget, evaluations=min(budget.evaluations, 25))
    if name in GUIDED:
        configuration = replace(SMALL, objective=problem.objective, num_devices=problem.machine.num_devices)
        guided = replace(GUIDED[name], policy=random_policy(replace(configuration, network=GUIDED[name].network)))
        return guided.solve(problem, SearchRun(replace(budget, evaluations=400 + budget.evaluations), seed=7, **rest))
    return method.solve(problem, SearchRun(budget, seed=7, **rest))


def assert_valid(problem: Problem, result: Result) -> None:
    """Check that the solution breaks no rule and costs what the reference says."""
    device_of = result.solution.device_of.tolist()
    order = [(index, destination) for index, destination in result.solution.order.tolist()]
    assert rule_broken_by(problem, device_of, order) is None
    expected = simulate(problem, device_of, order)
    assert result.metrics.step_time_ns == expected.step_time_ns
    assert result.metrics.peak_memory_bytes == expected.peak_memory_bytes
    assert list(result.metrics.peak_bytes) == expected.peak_bytes
    assert result.metrics.bytes_over_limit == expected.bytes_over_limit


@every_method
@settings(max_examples=40)
@given(problem=problems())
def test_the_solution_is_valid_and_costs_what_the_reference_says(name: str, problem: Problem) -> None:
    result = solve(problem, name)
    assert_valid(problem, result)
    assert result.method == name
    assert result.seed == 7
    assert result.stopped_because in ("evaluations", "complete", "optimal", "infeasible")


@every_method
@settings(max_examples=15)
@given(problem=tight_problems())
def test_the_checker_finds_nothing_wrong_with_its_plan_within_or_over_tight_limits(name: str, problem: Problem) -> None:
    plan = assemble_plan(problem, solve(problem, name), solver=name, seconds=1.0)
    assert check_plan(plan, problem.graph, problem.time_ns) == []


@every_method
@pytest.mark.parametrize("objective", ["step-time", "peak-memory"])
@pytest.mark.parametrize("num_devices", [1, 2])
def test_a_plan_over_its_limits_is_never_called_optimal(name: str, objective: Objective, num_devices: int) -> None:
    # b reads a's 4 bytes and makes 4: on one device at least 8 are held, on two 4 on each while b runs and at best as
    # many where the copy is; no device may hold more than 3. On one device all there is to try is soon tried.
    graph = graph_of({"a": ("", 4), "b": ("a", 4)})
    machine = machine_of(num_devices, transfer_model="blocking")
    problem = problem_of(graph, machine, objective=objective, memory_limits_bytes=(3,) * num_devices)
    result = solve(problem, name)
    assert result.metrics.bytes_over_limit > 0
    assert result.stopped_because != "optimal"
    assert assemble_plan(problem, result, solver=name, seconds=1.0).status == "infeasible"


@every_method
@settings(max_examples=15)
@given(problem=problems())
def test_the_same_problem_and_seed_give_the_same_solution(name: str, problem: Problem) -> None:
    first, second = solve(problem, name), solve(problem, name)
    assert np.array_equal(first.solution.device_of, second.solution.device_of)
    assert np.array_equal(first.solution.order, second.solution.order)
    assert first.evaluations == second.evaluations


@every_method
@pytest.mark.parametrize("transfer_model", ["blocking", "overlapped"])
@pytest.mark.parametrize("num_devices", [1, 2, 3, 63, 64])
def test_any_number_of_devices_is_served(name: str, transfer_model: TransferModel, num_devices: int) -> None:
    graph = graph_of({"a": ("", 4), "b": ("a", 3), "c": ("a", 5), "d": ("b c", 1), "e": ("", 2)})
    machine = machine_of(num_devices, Link(bandwidth_bytes_per_s=1e9, latency_ns=1), transfer_model)
    problem = problem_of(graph, machine, 10)
    assert_valid(problem, solve(problem, name))


# All but the one that balances devices by definition.
@pytest.mark.parametrize("name", sorted({"auto", *BASELINE_NAMES} - {"cluster-partition"}))
def test_a_chain_of_ops_without_parallelism_is_never_split_over_slow_links(name: str) -> None:
    # Five ops of 10 ns one after another: 50 ns on one device; a transfer would add 1000 ns.
    graph = graph_of({"a": ("", 4), "b": ("a", 4), "c": ("b", 4), "d": ("c", 4), "e": ("d", 4)})
    problem = problem_of(graph, machine_of(2, Link(latency_ns=1000)), 10)
    assert solve(problem, name).metrics.step_time_ns == 50


@every_method
def test_its_configuration_comes_back_from_a_plan_file_as_it_was(name: str) -> None:
    graph = graph_of({"a": ("", 4), "b": ("a", 3), "c": ("a", 5), "d": ("b c", 1)})
    configuration = dict(solve(problem_of(graph, machine_of(2, Link(latency_ns=1)), 10), name).configuration)
    assert json.loads(json.dumps(configuration)) == configuration


@every_method
def test_one_op_without_tensors_is_planned(name: str) -> None:
    graph = Graph(name="one", ops=(Op(name="a", kind="other"),), tensors=())
    problem = problem_of(graph, machine_of(2), 9)
    result = solve(problem, name)
    assert_valid(problem, result)
    assert result.metrics.step_time_ns == 9
    assert result.metrics.num_transfers == 0


@every_method
@pytest.mark.parametrize("transfer_model", ["blocking", "overlapped"])
def test_pins_colocations_and_forbidden_devices_are_respected(name: str, transfer_model: TransferModel) -> None:
    graph = graph_of({"a": ("", 4), "b": ("a", 4), "c": ("a", 4), "d": ("b c", 4), "e": ("d", 4)})
    constraints = Constraints(pins=(("c", "d2"),), forbids=(("e", "d0"), ("e", "d1")), colocations=(("b", "d"),))
    machine = machine_of(3, Link(latency_ns=1), transfer_model)
    problem = problem_of(graph, machine, 10, constraints=constraints)
    result = solve(problem, name)
    assert_valid(problem, result)
    device_of = devices_by_name(problem, result.solution.device_of)
    assert device_of["c"] == 2
    assert device_of["e"] == 2
    assert device_of["b"] == device_of["d"]


@every_method
def test_a_limit_that_cannot_be_met_still_gives_the_least_bad_solution_found(name: str) -> None:
    # Producer and consumer together hold 8 bytes on one device; with 2 devices neither side gets below 4 > 3.
    graph = graph_of({"a": ("", 4), "b": ("a", 4)})
    problem = problem_of(graph, machine_of(2), memory_limits_bytes=(3, 3))
    result = solve(problem, name)
    assert_valid(problem, result)
    assert result.metrics.bytes_over_limit > 0


@settings(max_examples=15)
@given(problem=problems())
def test_auto_is_never_worse_than_a_baseline(problem: Problem) -> None:
    best = solve(problem, "auto").metrics.fitness(problem.objective)
    for name in BASELINE_NAMES:
        assert best <= METHODS[name].solve(problem, SearchRun(seed=7)).metrics.fitness(problem.objective)


@pytest.mark.parametrize("name", BASELINE_NAMES)
@settings(max_examples=15)
@given(problem=problems())
def test_one_evaluation_is_enough_for_a_baseline_to_answer(name: str, problem: Problem) -> None:
    result = METHODS[name].solve(problem, SearchRun(Budget(evaluations=1)))
    assert_valid(problem, result)
    assert result.evaluations == 1


@pytest.mark.parametrize("name", BASELINE_NAMES)
def test_an_interrupted_baseline_returns_what_it_has(name: str) -> None:
    graph = graph_of({"a": ("", 4), "b": ("a", 4), "c": ("a", 4)})
    # No device can hold the 8 bytes of a producer and its reader, so every method would go on to its next candidate.
    problem = Problem(graph=graph, machine=machine_of(2), time_ns=np.array([[1, 2]] * 3), memory_limits_bytes=(3, 3))
    result = METHODS[name].solve(problem, SearchRun(interrupted=lambda: True))
    assert_valid(problem, result)
    assert result.stopped_because == "interrupted"


@every_method
def test_progress_names_the_method_and_ends_at_what_the_result_says(name: str) -> None:
    graph = graph_of({"a": ("", 4), "b": ("a", 4), "c": ("a", 4)})
    seen: list[Progress] = []
    result = solve(problem_of(graph, machine_of(2)), name, on_progress=seen.append)
    assert seen[-1].best == result.metrics.step_time_ns
    assert seen[-1].evaluations == result.evaluations
    assert all(earlier.evaluations <= later.evaluations for earlier, later in pairwise(seen))
    assert [point.best for point in result.trace] == sorted({point.best for point in result.trace}, reverse=True)


def middling_problem(num_devices: int = 2) -> Problem:
    """Twenty-four ops of 1 to 9 ns that read up to two of the four before them, over links of 2 ns."""
    random = np.random.default_rng(0)
    ops = tuple(
        Op(
            name=f"op{index}",
            kind="other",
            inputs=tuple({int(random.integers(max(0, index - 4), index)) for _ in range(2)} if index else ()),
            outputs=(index,),
        )
        for index in range(24)
    )
    tensors = tuple(Tensor(name=f"t{index}", size_bytes=int(random.integers(1, 9))) for index in range(24))
    graph = Graph(name="middling", ops=ops, tensors=tensors)
    machine = machine_of(num_devices, Link(bandwidth_bytes_per_s=4e9, latency_ns=2))
    return problem_of(graph, machine, random.integers(1, 10, 24))


#: Evaluations that the features of a policy take before its search begins.
FEATURES = 400


@every_method
@pytest.mark.parametrize("evaluations", [1, 2, 17, 150])
def test_no_more_evaluations_are_spent_than_the_budget_has(name: str, evaluations: int) -> None:
    result = solve(middling_problem(), name, budget=Budget(evaluations=evaluations))
    # A method that is never worse than a baseline runs each of them first, whatever the budget.
    by_baselines = sum(baseline.evaluations for baseline in result.baselines)
    assert result.evaluations <= max(by_baselines, evaluations + (FEATURES if name in GUIDED else 0))


@every_method
def test_an_interrupted_method_returns_what_it_has(name: str) -> None:
    problem = middling_problem()
    result = solve(problem, name, interrupted=lambda: True)
    assert_valid(problem, result)
    assert result.stopped_because in ("interrupted", "complete", "optimal")
    # Baselines and searches look before each batch: none goes on to its whole budget.
    assert result.stopped_because != "interrupted" or result.evaluations <= FEATURES + BUDGET.evaluations


@every_method
def test_the_number_of_threads_changes_nothing_at_a_budget_of_evaluations(name: str) -> None:
    one, three = (solve(middling_problem(), name, threads=threads) for threads in (1, 3))
    assert np.array_equal(one.solution.device_of, three.solution.device_of)
    assert np.array_equal(one.solution.order, three.solution.order)
    assert one.evaluations == three.evaluations


@every_method
def test_the_problem_is_left_as_it_was(name: str) -> None:
    problem, other = middling_problem(), middling_problem()
    solve(problem, name)
    assert problem.graph == other.graph
    assert problem.machine == other.machine
    assert np.array_equal(problem.time_ns, other.time_ns)
    for field in fields(other.lowered):
        after, before = (getattr(each.lowered, field.name) for each in (problem, other))
        np.testing.assert_array_equal(after, before, err_msg=field.name)
    # What the core holds: another method finds there what it finds on a problem that nothing ran on.
    assert np.array_equal(solve(problem, "brkga").solution.order, solve(other, "brkga").solution.order)
