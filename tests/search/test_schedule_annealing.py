"""Annealing of whole schedules."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from instances import graph_of, machine_of, problem_of
from strategies import problems

import placewright._core as _core
from placewright.importers import load_graph
from placewright.machine import Link
from placewright.machines import load_machine
from placewright.problem import Problem, make_problem
from placewright.problem.constraints import Constraints
from placewright.search.constructive.list_scheduling import EarliestTaskFirst, ListScheduling
from placewright.search.constructive.one_device import SingleDevice
from placewright.search.metaheuristics.schedule_annealing import ScheduleAnnealing
from placewright.search.run.budget import Budget
from placewright.search.run.result import Solution
from placewright.search.run.search_run import SearchRun
from placewright.support.errors import InputError


def step_time(problem: Problem, evaluations: int = 2000, seed: int = 0) -> int:
    return (
        ScheduleAnnealing().solve(problem, SearchRun(Budget(evaluations=evaluations), seed=seed)).metrics.step_time_ns
    )


def test_a_chain_stays_on_one_device_where_sending_costs_more_than_it_gains() -> None:
    # Four ops of 1 ns each, 10 bytes between them at 1 byte per ns: any split adds at least 10.
    graph = graph_of({"a": ("", 10), "b": ("a", 10), "c": ("b", 10), "d": ("c", 10)})
    machine = machine_of(2, Link(bandwidth_bytes_per_s=10**9))
    assert step_time(problem_of(graph, machine)) == 4


def test_two_chains_part_and_meet_again() -> None:
    # a feeds two chains of three and the sum reads both; each op takes 1 ns, each byte between devices 1 ns. On one
    # device 8. Apart: a until 1, sent by 2, the far chain done at 5; the near one at 4, sent by 5; the sum there at 6.
    chains = {f"{c}{i}": (f"{c}{i - 1}" if i else "a", 1) for i in range(3) for c in "xy"}
    graph = graph_of({"a": ("", 1), **chains, "sum": ("x2 y2", 1)})
    machine = machine_of(2, Link(bandwidth_bytes_per_s=10**9))
    assert step_time(problem_of(graph, machine)) == 6


@given(problem=problems())
@settings(max_examples=60)
def test_it_is_never_worse_than_what_it_starts_from(problem: Problem) -> None:
    starts = [method.solve(problem, SearchRun()) for method in (SingleDevice(), ListScheduling())]
    fitness = [start.metrics.fitness(problem.objective) for start in starts]
    found = ScheduleAnnealing().solve(
        problem, SearchRun(Budget(evaluations=300), initial_solutions=[start.solution for start in starts])
    )
    assert found.metrics.fitness(problem.objective)[:2] <= min(fitness)[:2]


@given(problem=problems(), seed=st.integers(0, 100))
@settings(max_examples=60)
def test_who_ignores_limits_goes_where_one_without_limits_goes(problem: Problem, seed: int) -> None:
    problem = replace(problem, objective="step-time")
    without = replace(problem, memory_limits_bytes=(None,) * problem.machine.num_devices)
    found = []
    for core, ignores_limits in ((problem.core, True), (without.core, False)):
        ops = np.arange(core.num_ops, dtype=np.int32)
        search = _core.ScheduleAnnealing(
            problem=core,
            seed=seed,
            starts=[(_core.all_on(core, 0), ops)],
            first_temperature=2.0,
            last_temperature=0.02,
            ignores_limits=ignores_limits,
        )
        search.advance(300)
        found.append((search.best_objective, search.best_bytes_over_limit, search.best()[1].tolist()))
    assert found[0] == found[1]


@pytest.mark.parametrize(
    ("weights", "best"),
    [
        ((1, 0, 0, 0), 1),  # b goes to the other device
        ((0, 1, 0, 0), 2),  # nothing leaves its device
        ((0, 0, 1, 0), 2),
        ((0, 0, 0, 1), 2),  # there is no op on the other device to exchange with
    ],
)
def test_only_moves_with_a_weight_are_made(weights: tuple[int, int, int, int], best: int) -> None:
    # Two ops of 1 ns that need nothing of each other, both on the first device.
    problem = problem_of(graph_of({"a": ("", 0), "b": ("", 0)}), machine_of(2))
    start = SingleDevice().solve(problem, SearchRun())
    assert start.metrics.step_time_ns == 2
    run = SearchRun(Budget(evaluations=200), initial_solutions=[start.solution])
    assert ScheduleAnnealing(move_weights=weights).solve(problem, run).metrics.step_time_ns == best


def test_a_real_training_step_gains_over_its_starts() -> None:
    problem = make_problem(load_graph("example:inception-v3-train"), load_machine("2xv100/nvlink"))
    start = EarliestTaskFirst().solve(problem, SearchRun())
    found = ScheduleAnnealing().solve(
        problem, SearchRun(Budget(evaluations=20_000), initial_solutions=[start.solution])
    )
    assert found.evaluations == 20_000
    assert found.metrics.step_time_ns < 0.97 * start.metrics.step_time_ns


@pytest.mark.parametrize("evaluations", [1, 50, 60, 500])
@pytest.mark.parametrize("memory_limit", [None, 300_000_000, 100_000])
def test_what_the_coarse_problem_takes_counts(evaluations: int, memory_limit: int | None) -> None:
    problem = make_problem(load_graph("example:inception-v3"), load_machine("2xp100"), memory_limit=memory_limit)
    start: Solution = ListScheduling().solve(problem, SearchRun()).solution
    found = ScheduleAnnealing().solve(
        problem, SearchRun(Budget(evaluations=evaluations), seed=1, initial_solutions=[start])
    )
    assert found.evaluations == evaluations


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        ({"ops_per_cluster": (4, 1)}, "clusters of 1 ops"),
        ({"coarse_share": 0.5}, "a share of 0.5"),
        ({"fine_temperature": 0.001}, "temperatures must"),
        ({"move_weights": (0, 0, 0, 0)}, "weights of moves must"),
        ({"move_weights": (1, -1, 1, 1)}, "weights of moves must"),
    ],
)
def test_settings_that_cannot_be_are_refused(wrong: dict[str, Any], sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        ScheduleAnnealing(**wrong)


@pytest.mark.parametrize("weights", [(0, 0, 0, 0), (2**32 - 1, 1, 0, 0)])
def test_the_core_refuses_weights_of_moves_that_it_cannot_draw_by(weights: tuple[int, int, int, int]) -> None:
    core = problem_of(graph_of({"a": ("", 1)}), machine_of(2)).core
    start = (np.zeros(1, np.int32), np.zeros(1, np.int32))
    with pytest.raises(ValueError, match="weights of moves"):
        _core.ScheduleAnnealing(
            problem=core, seed=0, starts=[start], first_temperature=1, last_temperature=1, move_weights=weights
        )


def test_a_start_that_parts_a_group_is_refused() -> None:
    together = Constraints(colocations=(("a", "b"),))
    core = problem_of(graph_of({"a": ("", 1), "b": ("a", 1)}), machine_of(2), constraints=together).core
    apart = (np.array([0, 1], np.int32), np.array([0, 1], np.int32))
    with pytest.raises(ValueError, match="one group need one device"):
        _core.ScheduleAnnealing(problem=core, seed=0, starts=[apart], first_temperature=1, last_temperature=1)
