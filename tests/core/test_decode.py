"""The core's decoder (REGAL, A.5) against the reference."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from instances import sketch
from reference import best_objective, decode, rule_broken_by, simulate
from strategies import chromosomes, problems

from placewright.graph import Graph
from placewright.machine import Device, Link, Machine
from placewright.problem import Problem


@st.composite
def coded(draw: st.DrawFn, max_ops: int = 8, max_devices: int = 5) -> tuple[Problem, np.ndarray]:
    problem = draw(problems(max_ops, max_devices))
    return problem, draw(chromosomes(problem.core.num_keys))


@given(coded())
def test_placement_and_order_equal_the_reference(case: tuple[Problem, np.ndarray]) -> None:
    problem, keys = case
    device_of, order = problem.core.decode(keys)
    expected_devices, expected_order = decode(problem, keys)
    assert device_of.tolist() == expected_devices
    assert [tuple(step) for step in order.tolist()] == expected_order


@given(coded())
def test_what_any_keys_mean_is_a_valid_order(case: tuple[Problem, np.ndarray]) -> None:
    problem, keys = case
    device_of, order = problem.core.decode(keys)
    assert rule_broken_by(problem, device_of.tolist(), [tuple(step) for step in order.tolist()]) is None


def two_devices(graph: Graph, **fields: object) -> Problem:
    devices = (Device(name="d1", kind="any"), Device(name="d2", kind="any"))
    machine = Machine(name="two", devices=devices, links=((Link(),) * 2,) * 2, transfer_model="blocking")
    return Problem(graph=graph, machine=machine, time_ns=np.ones((len(graph.ops), 2), np.int64), **fields)  # type: ignore[arg-type]


def figure_9() -> Problem:
    """After REGAL's figure 9: op 1 makes A, B and C; op 2 reads A and C, op 3 reads B."""
    return two_devices(sketch("1 -> A=1 B=1 C=1", "2 A C", "3 B", name="figure 9"))


def test_the_example_of_the_paper_decodes_as_the_paper_says() -> None:
    problem = figure_9()
    # Ops 1 and 3 like device 1 best, op 2 device 2; priorities 1 > 2 > 3; to device 2, C goes before A.
    affinities = [9, 1, 2, 8, 7, 3]
    priorities = [9, 5, 2]
    transfers = [0, 6, 0, 0, 0, 7]  # (A, d1), (A, d2), (B, d1), (B, d2), (C, d1), (C, d2)
    device_of, order = problem.core.decode(np.array(affinities + priorities + transfers, np.uint32))
    assert device_of.tolist() == [0, 1, 0]
    assert order.tolist() == [[0, -1], [2, 1], [0, 1], [1, -1], [2, -1]]


def test_equal_keys_mean_device_0_and_the_input_order() -> None:
    problem = figure_9()
    device_of, order = problem.core.decode(np.zeros(problem.core.num_keys, np.uint32))
    assert device_of.tolist() == [0, 0, 0]
    assert order.tolist() == [[0, -1], [1, -1], [2, -1]]


def test_equal_keys_put_ops_before_transfers() -> None:
    problem = figure_9()
    keys = np.zeros(problem.core.num_keys, np.uint32)
    keys[2 * 1 + 1] = 1  # op 2 on device 2
    _, order = problem.core.decode(keys)
    # After op 1: op 3 (item 2) before the transfers (items from 3 on), A before C, then op 2.
    assert order.tolist() == [[0, -1], [2, -1], [0, 1], [2, 1], [1, -1]]


@pytest.mark.parametrize("num_keys", [0, 14, 16])
def test_keys_of_another_length_are_refused(num_keys: int) -> None:
    problem = figure_9()
    assert problem.core.num_keys == 3 * 2 + 3 + 3 * 2
    with pytest.raises(ValueError, match="key"):
        problem.core.decode(np.zeros(num_keys, np.uint32))


@given(coded(max_ops=3, max_devices=2))
def test_no_keys_beat_the_best_of_all_solutions(case: tuple[Problem, np.ndarray]) -> None:
    problem, keys = case
    device_of, order = decode(problem, keys)
    outcome = simulate(problem, device_of, order)
    value = outcome.step_time_ns if problem.objective == "step-time" else outcome.peak_memory_bytes
    assert value >= best_objective(problem)
