"""Whole orders that keep devices below a target."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from instances import graph_of, machine_of, problem_of
from reference import decode, rule_broken_by
from strategies import chromosomes, problems

import placewright._core as _core
from placewright.problem import Problem


def waiting_tensors() -> Problem:
    """Device 0 runs a, b, big; device 1 runs x, y, which read a and b and come last."""
    graph = graph_of({"a": ("", 3), "b": ("", 4), "big": ("", 6), "y": ("b", 1), "x": ("a", 1)})
    return problem_of(graph, machine_of(2, transfer_model="blocking"), objective="peak-memory")


def planned(problem: Problem, target: tuple[int, int]) -> tuple[str, tuple[int, ...]]:
    """Steps by name, transfers as >name, and the peak of each device."""
    device_of, ops = np.array([0, 0, 0, 1, 1], np.int32), np.arange(5, dtype=np.int32)
    order = _core.with_evictions(problem.core, device_of, ops, np.array(target, np.int64))
    names = [op.name for op in problem.graph.ops]
    steps = [names[index] if destination < 0 else f">{names[index]}" for index, destination in order.tolist()]
    return " ".join(steps), tuple(problem.core.simulate(device_of, order).peak_bytes.tolist())


@pytest.mark.parametrize(
    ("target", "steps", "peaks"),
    [
        # 3 + 4 + 6 bytes fit: everything stays until it is read. Device 1: b and y 5, y is freed at once, a and x 4.
        ((13, 13), "a b big >b y >a x", (13, 5)),
        # One must leave before big: b, the larger.
        ((12, 13), "a b >b big y >a x", (9, 5)),
        # Without b the 3 + 6 bytes are still too many. Device 1: a, b and y.
        ((8, 13), "a b >b >a big y x", (7, 8)),
        # Device 1 has room for a, but not for b.
        ((12, 3), "a b >a big >b y x", (10, 8)),
        # And here for neither.
        ((12, 2), "a b big >b y >a x", (13, 5)),
    ],
)
def test_the_largest_leaves_first_and_only_when_it_must_and_there_is_room(
    target: tuple[int, int], steps: str, peaks: tuple[int, int]
) -> None:
    assert planned(waiting_tensors(), target) == (steps, peaks)


def test_what_an_op_here_still_reads_stays() -> None:
    # a must go to device 1 and is read by `late` on device 0 too: sending it early frees nothing there.
    graph = graph_of({"a": ("", 3), "big": ("", 6), "late": ("a", 1), "x": ("a", 1)})
    problem = problem_of(graph, machine_of(2, transfer_model="blocking"))
    device_of = np.array([0, 0, 0, 1], np.int32)
    order = _core.with_evictions(problem.core, device_of, np.arange(4, dtype=np.int32), np.array([4, 4], np.int64))
    assert order.tolist() == [[0, -1], [1, -1], [2, -1], [0, 1], [3, -1]]


@settings(deadline=None)
@given(st.data())
def test_the_order_is_valid_for_any_problem_and_target(data: st.DataObject) -> None:
    problem = data.draw(problems())
    device_of, order = decode(problem, data.draw(chromosomes(problem.core.num_keys)))
    ops = [index for index, destination in order if destination < 0]
    target = data.draw(st.lists(st.integers(0, 60), min_size=len(problem.machine.devices), max_size=64))
    target = target[: len(problem.machine.devices)]
    evicted = _core.with_evictions(
        problem.core, np.array(device_of, np.int32), np.array(ops, np.int32), np.array(target, np.int64)
    )
    steps = [(index, destination) for index, destination in evicted.tolist()]
    assert rule_broken_by(problem, device_of, steps) is None
    assert [index for index, destination in steps if destination < 0] == ops


def test_a_target_for_another_number_of_devices_is_refused() -> None:
    problem = waiting_tensors()
    with pytest.raises(ValueError, match="target needs bytes per device"):
        _core.with_evictions(problem.core, np.zeros(5, np.int32), np.arange(5, dtype=np.int32), np.array([1]))
