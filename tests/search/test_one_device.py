"""The device on which an order runs, and what single-device adds to that choice."""

from __future__ import annotations

import numpy as np
import pytest
from instances import devices_by_name, graph_of, machine_of, problem_of

from placewright.machine import Link
from placewright.methods.table import METHODS
from placewright.problem import Problem
from placewright.problem.constraints import Constraints
from placewright.search.run.budget import Budget
from placewright.search.run.search_run import SearchRun

PAIR = graph_of({"a": ("", 4), "b": ("a", 4)})


def solve(problem: Problem, name: str) -> tuple[dict[str, int], int]:
    """Devices by op name, and evaluations."""
    result = METHODS[name].solve(problem, SearchRun())
    return devices_by_name(problem, result.solution.device_of), result.evaluations


def test_an_order_takes_the_first_device_where_it_fits_or_the_one_least_exceeded() -> None:
    # Both tensors together hold 8 bytes: too much for d0, fine on d1, never tried on the roomier d2; then 5 over on d0,
    # 2 over on d1 and 4 over on d2.
    for limits, evaluations in (((7, 8, 99), 2), ((3, 6, 4), 3)):
        problem = problem_of(PAIR, machine_of(3), memory_limits_bytes=limits)
        assert solve(problem, "input-order") == ({"a": 1, "b": 1}, evaluations)


def test_devices_that_look_alike_are_tried_once() -> None:
    problem = problem_of(PAIR, machine_of(64), memory_limits_bytes=(3,) * 64)
    assert solve(problem, "input-order") == ({"a": 0, "b": 0}, 1)


def test_single_device_finds_the_fastest_device() -> None:
    problem = Problem(graph=PAIR, machine=machine_of(3), time_ns=np.array([[5, 1, 9], [5, 2, 9]]))
    assert solve(problem, "single-device")[0] == {"a": 1, "b": 1}


def test_single_device_finds_the_order_that_needs_least() -> None:
    # Captured, a and b are held at once: 16 bytes and 1 of either reader. Reader after maker: 8 + 1, then 8 + 1 + 1.
    graph = graph_of({"a": ("", 8), "b": ("", 8), "c": ("a", 1), "d": ("b", 1), "e": ("c d", 0)})
    problem = problem_of(graph, machine_of(1), objective="peak-memory")
    assert METHODS["input-order"].solve(problem, SearchRun()).metrics.peak_memory_bytes == 8 + 8 + 1
    assert METHODS["single-device"].solve(problem, SearchRun()).metrics.peak_memory_bytes == 8 + 1 + 1


@pytest.mark.parametrize(("evaluations", "spent"), [(1, 1), (2, 2), (9, 3)])
def test_blocking_transfers_are_tried_early_late_and_batched_within_the_budget(evaluations: int, spent: int) -> None:
    problem = problem_of(
        PAIR, machine_of(2, Link(latency_ns=1), "blocking"), constraints=Constraints(pins=(("a", "d0"), ("b", "d1")))
    )
    # Both devices give the same placement here, so only the first is tried: 8 bytes fit without a limit.
    result = METHODS["input-order"].solve(problem, SearchRun(Budget(evaluations=evaluations)))
    assert result.evaluations == spent


def test_batched_transfers_meet_once_where_late_ones_meet_twice() -> None:
    # a and b feed c and d on the other device. Late: a moves before c, b before d: d1 waits for 2 + 3, runs c until
    # 2 + 3 + 5 while d0 goes on with x, and b must wait for x: 5 + 9 = 14, then d: 19. Batched: both move at 5, c and d
    # run until 15, x until 14.
    graph = graph_of({"a": ("", 1), "b": ("", 1), "c": ("a", 1), "x": ("", 1), "d": ("b", 1)})
    pins = (("a", "d0"), ("b", "d0"), ("x", "d0"), ("c", "d1"), ("d", "d1"))
    problem = problem_of(
        graph, machine_of(2, transfer_model="blocking"), [2, 3, 5, 9, 5], constraints=Constraints(pins=pins)
    )
    late = problem.core.with_transfers(np.array([0, 0, 1, 0, 1], np.int32), np.arange(5, dtype=np.int32), False)
    assert problem.core.simulate(np.array([0, 0, 1, 0, 1], np.int32), late).step_time_ns == 19
    early = problem.core.with_transfers(np.array([0, 0, 1, 0, 1], np.int32), np.arange(5, dtype=np.int32), True)
    # Early: a moves at 2, b at 5: no worse here.
    assert problem.core.simulate(np.array([0, 0, 1, 0, 1], np.int32), early).step_time_ns == 15
    assert METHODS["input-order"].solve(problem, SearchRun()).metrics.step_time_ns == 15
