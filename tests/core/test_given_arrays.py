"""Arrays given to the core are checked once, when they come in, and copied: nobody can change them afterwards."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from fuzz.core_arrays import arrays_of, run
from instances import graph_of, machine_of, problem_of

import placewright._core as _core
from placewright.machine import Link


def arrays() -> dict[str, Any]:
    """a -> b, a -> c on two devices; c must also follow b. Each op makes 4 bytes. One host launches, in 2 ns."""
    graph = graph_of({"a": ("", 4), "b": ("a", 4), "c": ("a", 4)}, controls={"c": "b"})
    machine = machine_of(2, Link(latency_ns=1))
    machine = replace(machine, devices=tuple(replace(device, launch_overhead_ns=2) for device in machine.devices))
    return arrays_of(problem_of(graph, machine, [3, 5, 7]))


FILLED = [name for name, value in arrays().items() if isinstance(value, np.ndarray) and value.size]


def test_broken_arrays_are_answered_or_refused_and_never_crash_the_core() -> None:
    seen = run(number=0, examples=15)
    assert seen["Problem with launches"] > 0
    for name in ("Problem", "simulate", "decode", "best_transfers", "Brkga", "PeakSearch", "coarse_problem"):
        assert seen[name] > 0, name
        assert seen[f"{name} refused"] > 0, name


def changed(name: str, place: Any, value: int) -> dict[str, Any]:
    given = arrays()
    given[name][place] = value
    return given


@pytest.mark.parametrize(
    ("name", "place", "value", "sentence"),
    [
        ("inputs", 0, 3, "inputs is not a valid list of rows"),
        ("inputs", 0, -1, "inputs is not a valid list of rows"),
        ("inputs", 0, 2, "an op reads a tensor made after it"),
        ("input_begin", 1, 9, "inputs is not a valid list of rows"),
        ("input_begin", -1, 1, "inputs is not a valid list of rows"),
        ("controls", 0, 0, "a control dependency points backwards"),
        ("output_begin", 1, 0, "an op reads a tensor made after it"),
        ("output_begin", -1, 2, "output_begin does not cover the tensors"),
        ("storage", 1, 3, "storage names no tensor"),
        ("storage", 0, 2, "storage names a tensor that is made later"),
        ("storage", 1, 0, "storage lies on another device"),
        ("live_out", 0, 2, "live_out holds something else than 0 and 1"),
        ("group", 1, 2, "group does not name first ops"),
        ("group", 1, -1, "group does not name first ops"),
        ("allowed", 1, 0, "allowed names no device, or one too many"),
        ("allowed", 1, 7, "allowed names no device, or one too many"),
        ("op_time_ns", (1, 0), -1, "op_time_ns holds a negative number"),
        ("op_time_ns", (1, 0), 2**62, "the times of ops, transfers and launches add up to 2^62 ns or more"),
        ("latency_ns", (0, 1), 2**61, "the times of ops, transfers and launches add up to 2^62 ns or more"),
        ("launch_ns", 1, 2**60, "the times of ops, transfers and launches add up to 2^62 ns or more"),
        ("launch_ns", 0, -1, "launch_ns holds a negative number"),
        ("host_of", 0, 2, "host_of names no host thread"),
        ("host_of", 1, -2, "host_of names no host thread"),
        ("transfer_bytes", 0, -(2**63), "transfer_bytes holds a negative number"),
        ("allocated_bytes", 0, 2**61, "the sizes add up to 2^62 bytes or more"),
        ("memory_limit", 0, -1, "memory_limit holds a negative number"),
        ("memory_limit", 0, 2**63 - 1, "memory_limit is above 2^62"),
    ],
)
def test_a_number_that_contradicts_the_others_is_refused(name: str, place: Any, value: int, sentence: str) -> None:
    given = changed(name, place, value)
    with pytest.raises(ValueError, match=sentence.replace("^", r"\^")):
        _core.Problem(**given)


@pytest.mark.parametrize("name", FILLED)
def test_an_array_that_is_too_long_or_turned_or_of_another_type_is_refused(name: str) -> None:
    given = arrays()
    array = given[name]
    for wrong in (np.concatenate([array, array[-1:]]), array.astype(np.float64), array[None], array[:-1]):
        with pytest.raises((ValueError, TypeError)):
            _core.Problem(**{**given, name: wrong})
    assert _core.Problem(**given).num_ops == 3


def test_a_table_with_rows_and_columns_exchanged_is_refused() -> None:
    given = arrays()
    given["op_time_ns"] = np.ascontiguousarray(given["op_time_ns"].T)
    with pytest.raises(ValueError, match="a table needs one column per device"):
        _core.Problem(**given)


def test_an_op_that_reads_a_tensor_twice_is_refused() -> None:
    given = arrays()
    given["inputs"] = np.array([0, 0, 0], np.int32)  # b reads a's twice, c once
    given["input_begin"] = np.array([0, 0, 2, 3], np.int32)
    with pytest.raises(ValueError, match="inputs names one thing twice in a row"):
        _core.Problem(**given)


def test_changing_the_arrays_afterwards_changes_nothing() -> None:
    given = arrays()
    problem = _core.Problem(**given)
    device_of, ops = np.zeros(3, np.int32), np.arange(3, dtype=np.int32)
    search = _core.PeakSearch(
        problem=problem, seed=0, evaluations=9, first_temperature=0.1, last_temperature=0.1, starts=[(device_of, ops)]
    )
    for array in (*given.values(), device_of, ops):
        if isinstance(array, np.ndarray):
            array.fill(99)
    # All on one device, one after another, the first launched in 2 ns: 2 + 3 + 5 + 7 ns.
    order = np.array([(0, -1), (1, -1), (2, -1)], np.int32)
    assert problem.simulate(np.zeros(3, np.int32), order).step_time_ns == 17
    search.advance(9)
    assert sorted(step for step, destination in search.best()[1].tolist() if destination < 0) == [0, 1, 2]


@pytest.mark.parametrize("work", [[-1, 0, 0], [2**61, 2**61, 0], [1, 1]])
def test_work_that_is_negative_too_much_or_too_short_bounds_nothing(work: list[int]) -> None:
    problem = _core.Problem(**arrays())
    with pytest.raises(ValueError, match="work"):
        _core.time_bounds(problem, np.array(work, np.int64), 1, 1, 1000)


@pytest.mark.parametrize("cluster_of", [[0, 0, 0], [0, 1], [0, 1, 2]])
def test_clusters_that_are_not_those_of_the_coarse_problem_map_nothing(cluster_of: list[int]) -> None:
    problem = _core.Problem(**arrays())
    coarse = _core.coarse_problem(problem, np.array([0, 0, 1], np.int32))
    clusters, ops = np.array(cluster_of, np.int32), np.arange(3, dtype=np.int32)
    with pytest.raises(ValueError, match="cluster_of"):
        _core.project(problem, coarse, clusters, np.zeros(3, np.int32), ops)
    with pytest.raises(ValueError, match="cluster_of"):
        _core.expand(problem, coarse, clusters, np.zeros(2, np.int32), ops[:2])
