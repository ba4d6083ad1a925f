"""Windows of schedules against brute force and by hand, and the method around them."""

from __future__ import annotations

from dataclasses import replace
from itertools import islice

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from instances import graph_of, machine_of, problem_of
from reference import every_solution, rule_broken_by, simulate
from strategies import problems

import placewright._core as _core
from placewright.importers import load_graph
from placewright.lab.peers.cp_sat import CpWindows
from placewright.lab.peers.cp_sat.structure import structure_of
from placewright.lab.peers.cp_sat.windows import _Sliding
from placewright.machine import Link
from placewright.machines import load_machine
from placewright.problem import Problem, make_problem
from placewright.problem.constraints import Constraints
from placewright.search.run.budget import Budget
from placewright.search.run.result import Solution

pytest.importorskip("ortools")

from placewright.lab.peers.cp_sat.running import Found, solve_window
from placewright.lab.peers.cp_sat.timed import Timed
from placewright.lab.peers.cp_sat.window import Window
from placewright.search.run.search_run import SearchRun

BY_BRUTE_FORCE = 500


@st.composite
def overlapped(draw: st.DrawFn, max_ops: int) -> Problem:
    """Problems that windows are for, without limits and host threads."""
    problem = draw(problems(max_ops=max_ops))
    return replace(
        problem,
        objective="step-time",
        machine=replace(problem.machine, transfer_model="overlapped", launch="graphs"),
        memory_limits_bytes=(None,) * problem.machine.num_devices,
    )


def timed(problem: Problem, solution: Solution | None = None) -> Timed:
    """Time a solution; by default all ops on the first device they may use, in captured order."""
    if solution is None:
        device_of = _core.all_on(problem.core, 0)
        ops = np.arange(problem.core.num_ops, dtype=np.int32)
        solution = Solution(device_of=device_of, order=problem.core.with_transfers(device_of, ops, True))
    return Timed(structure_of(problem), solution)


def solved(window: Window) -> Found:
    return solve_window(window, effort=20, seconds=None, seed=0)


@settings(max_examples=40)
@given(problem=overlapped(max_ops=4))
def test_a_window_of_all_ops_finds_what_brute_force_finds(problem: Problem) -> None:
    assume(problem.control != "order")
    solutions = list(islice(every_solution(problem), BY_BRUTE_FORCE + 1))
    assume(len(solutions) <= BY_BRUTE_FORCE)
    optimum = min(simulate(problem, *solution).step_time_ns for solution in solutions)
    start = timed(problem)
    found = solved(Window(start, 0, len(start.ops)))
    assert found.is_optimal
    assert found.solution is not None
    assert timed(problem, found.solution).step_time_ns == optimum


@settings(max_examples=60)
@given(problem=overlapped(max_ops=10), seed=st.integers(0, 100), data=st.data())
def test_the_solution_as_it_is_solves_every_window_and_what_solves_it_is_valid(
    problem: Problem, seed: int, data: st.DataObject
) -> None:
    keys = np.random.default_rng(seed).integers(0, 2**32, problem.core.num_keys, np.uint32)
    device_of, order = problem.core.decode(keys, "paper")
    start = timed(problem, Solution(device_of=device_of, order=order))
    first = data.draw(st.integers(0, len(start.ops) - 1))
    window = Window(start, first, data.draw(st.integers(1, len(start.ops) - first)))
    found = solved(window)
    assert found.is_optimal
    assert found.solution is not None
    steps = [(index, d) for index, d in found.solution.order.tolist()]
    assert rule_broken_by(problem, found.solution.device_of.tolist(), steps) is None
    moved = [op for op in range(problem.core.num_ops) if found.solution.device_of[op] != device_of[op]]
    assert set(moved) <= set(window.inside)


@settings(max_examples=60)
@given(problem=overlapped(max_ops=10), seed=st.integers(0, 100))
def test_no_step_starts_so_late_that_its_tail_ends_after_the_step(problem: Problem, seed: int) -> None:
    keys = np.random.default_rng(seed).integers(0, 2**32, problem.core.num_keys, np.uint32)
    device_of, order = problem.core.decode(keys, "paper")
    start = timed(problem, Solution(device_of=device_of, order=order))
    ends = [start.start[step] + start.tail[step] for step in start.place]
    # One of the critical steps starts at 0.
    assert max(ends) == start.step_time_ns
    assert max(start.tail[step] for step in start.place if start.start[step] == 0) == start.step_time_ns


def two_branches() -> tuple[Problem, Solution]:
    # a (2) makes what b (4) and c (4) read, d (1) reads both. All on d0: 0-2, 2-6, 6-10, 10-11. A transfer takes 1.
    graph = graph_of({"a": ("", 1), "b": ("a", 1), "c": ("a", 1), "d": ("b c", 1)})
    problem = problem_of(graph, machine_of(2, Link(bandwidth_bytes_per_s=1e9)), [2, 4, 4, 1])
    return problem, timed(problem).solution


def test_a_window_of_one_branch_moves_it_and_keeps_the_rest() -> None:
    # c moves to d1: a's output arrives at 3, c runs 3-7, its output arrives at 8, d runs 8-9.
    problem, solution = two_branches()
    found = solved(Window(timed(problem, solution), 2, 1))
    assert found.solution is not None
    assert found.solution.device_of.tolist() == [0, 0, 1, 0]
    assert timed(problem, found.solution).step_time_ns == 9


def test_tails_are_the_longest_way_to_the_end() -> None:
    # With c on d1: d 1; c's transfer 1 + 1; c 4 + 2; b 4 + 1; a's transfer 1 + 6; a 2 + 7.
    problem, solution = two_branches()
    device_of = np.array([0, 0, 1, 0], np.int32)
    order = problem.core.with_transfers(device_of, np.arange(4, dtype=np.int32), True)
    tail = timed(problem, replace(solution, device_of=device_of, order=order)).tail
    assert tail == {(3, -1): 1, (2, 0): 2, (2, -1): 6, (1, -1): 5, (0, 1): 7, (0, -1): 9}


def test_what_is_read_of_one_tensor_delays_no_other_on_the_link() -> None:
    # x and y are made on d1 and read on d0, 1 ns a transfer: p 0-1; x 0-1, y 1-2; their transfers 1-2, 2-3; r reads x
    # 2-7, s reads y 7-8. s 1; r 5 + 1; y's transfer 1 + 1; x's 1 + 6; y 1 + 2; x 1 + 7; p 1 + 6.
    graph = graph_of({"p": ("", 1), "x": ("", 1), "y": ("", 1), "r": ("x", 1), "s": ("y", 1)})
    problem = problem_of(graph, machine_of(2, Link(bandwidth_bytes_per_s=1e9)), [1, 1, 1, 5, 1])
    device_of = np.array([0, 1, 1, 0, 0], np.int32)
    order = problem.core.with_transfers(device_of, np.arange(5, dtype=np.int32), True)
    found = timed(problem, Solution(device_of=device_of, order=order))
    assert found.step_time_ns == 8
    assert [found.tail[op, -1] for op in range(5)] == [7, 8, 3, 6, 1]
    assert (found.tail[1, 0], found.tail[2, 0]) == (7, 2)


def assert_a_window_of_all_makes_it_a_ns_shorter(problem: Problem, step_time_ns: int) -> None:
    start = timed(problem)
    assert start.step_time_ns == step_time_ns
    found = solved(Window(start, 0, 3))
    assert found.solution is not None
    assert timed(problem, found.solution).step_time_ns == step_time_ns - 1


def test_an_op_that_takes_no_time_comes_before_one_that_starts_with_it() -> None:
    # z takes no time and shares a's device: z 0-0, a 0-1 there, b reads z elsewhere 0-1.
    problem = problem_of(
        graph_of({"a": ("", 1), "z": ("", 1), "b": ("z", 1)}),
        machine_of(2),
        [1, 0, 1],
        constraints=Constraints(colocations=(("a", "z"),)),
    )
    assert_a_window_of_all_makes_it_a_ns_shorter(problem, 2)


def test_a_transfer_that_takes_no_time_comes_before_one_that_starts_with_it() -> None:
    # a on d1 0-1, c and d on d0. The token of the control dependency is sent at 1, then a's output until 5: c 1-2, d
    # 5-6. The other way round c would run 5-6 and d 6-7.
    problem = problem_of(
        graph_of({"a": ("", 4), "c": ("", 1), "d": ("a c", 1)}, {"c": "a"}),
        machine_of(2, Link(bandwidth_bytes_per_s=1e9)),
        control="transfer",
        constraints=Constraints(pins=(("a", "d1"), ("c", "d0"), ("d", "d0"))),
    )
    assert_a_window_of_all_makes_it_a_ns_shorter(problem, 7)


def test_windows_overlap_by_half_reach_the_end_and_begin_anew() -> None:
    # 70 ops in windows of 30: from 0, 15, 30, and from 45 the last 25; then from somewhere before 15.
    windows = _Sliding(70, seed=0).windows
    assert list(islice(windows, 4)) == [(0, 30), (15, 30), (30, 30), (45, 25)]
    assert next(windows)[0] < 15


def layers() -> Problem:
    """12 layers of 4 ops; each op reads two of the layer before."""
    rng, ops = np.random.default_rng(0), dict[str, tuple[str, int]]()
    for index in range(48):
        layer = index // 4
        before = {f"op{4 * (layer - 1) + int(other)}" for other in rng.integers(0, 4, 2)} if layer else set()
        ops[f"op{index}"] = (" ".join(sorted(before)), int(rng.integers(1, 30)))
    machine = machine_of(2, Link(bandwidth_bytes_per_s=1e9, latency_ns=2))
    return problem_of(graph_of(ops), machine, rng.integers(10, 60, 48).tolist())


def test_windows_improve_a_plan_and_effort_makes_it_reproducible() -> None:
    problem = layers()
    method = CpWindows(warm_share=0.01, effort=0.05, total_effort=0.5)
    first, second = (method.solve(problem, SearchRun(Budget(evaluations=90), seed=5)) for _ in range(2))
    assert first.found_by == "cp-windows"
    assert first.metrics.step_time_ns < min(b.metrics.step_time_ns for b in first.baselines)
    assert first.trace[-1].best == first.metrics.step_time_ns
    assert np.array_equal(first.solution.device_of, second.solution.device_of)
    assert np.array_equal(first.solution.order, second.solution.order)
    assert first.evaluations == second.evaluations


def test_a_time_limit_ends_it() -> None:
    # A real network, whose bound no plan meets.
    problem = make_problem(load_graph("example:inception-v3"), load_machine("2xp100@graphs"))
    result = CpWindows(warm_share=0.1).solve(problem, SearchRun(Budget(evaluations=10**9, seconds=0.5)))
    assert result.stopped_because == "time"
