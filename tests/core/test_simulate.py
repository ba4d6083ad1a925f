"""The core's simulation and its check of orders, against the reference."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from reference import decode, least_peak_on_one_device, rule_broken_by, simulate
from reference_data import FOLDER, needs_reference_data
from strategies import chromosomes, problems

from placewright.graph import Graph, Op, Tensor
from placewright.machine import Device, Link, Machine
from placewright.problem import Problem

KNOWN_ANSWERS = FOLDER / "olla/known_answers.json"


@st.composite
def solutions(draw: st.DrawFn) -> tuple[Problem, list[int], list[tuple[int, int]]]:
    """Draw a problem, and the placement and order that some keys decode to."""
    problem = draw(problems())
    keys = draw(chromosomes(problem.core.num_keys))
    return problem, *decode(problem, keys)


def arrays(device_of: list[int], order: list[tuple[int, int]]) -> tuple[np.ndarray, np.ndarray]:
    return np.array(device_of, np.int32), np.array(order, np.int32).reshape(-1, 2)


@given(solutions())
def test_times_and_memory_equal_the_reference(solution: tuple[Problem, list[int], list[tuple[int, int]]]) -> None:
    problem, device_of, order = solution
    expected = simulate(problem, device_of, order)
    found = problem.core.simulate(*arrays(device_of, order))
    assert list(found.start_ns) == expected.start_ns
    assert list(found.finish_ns) == expected.finish_ns
    assert list(found.peak_bytes) == expected.peak_bytes
    assert found.step_time_ns == expected.step_time_ns
    assert found.peak_memory_bytes == expected.peak_memory_bytes
    assert found.bytes_over_limit == expected.bytes_over_limit


@given(solutions(), st.data())
def test_an_order_is_refused_exactly_when_the_reference_finds_a_broken_rule(
    solution: tuple[Problem, list[int], list[tuple[int, int]]], data: st.DataObject
) -> None:
    problem, device_of, order = solution
    device_of, order = list(device_of), list(order)
    position = st.integers(0, len(order) - 1)
    change = data.draw(st.sampled_from(["none", "swap", "drop", "repeat", "move"]))
    if change == "swap":
        first, second = data.draw(position), data.draw(position)
        order[first], order[second] = order[second], order[first]
    elif change == "drop":
        del order[data.draw(position)]
    elif change == "repeat":
        order.append(order[data.draw(position)])
    elif change == "move":
        device_of[data.draw(st.integers(0, len(device_of) - 1))] = data.draw(
            st.integers(-1, problem.machine.num_devices)
        )
    if rule_broken_by(problem, device_of, order) is None:
        problem.core.check_order(*arrays(device_of, order))
    else:
        with pytest.raises(ValueError, match=r"\w"):
            problem.core.check_order(*arrays(device_of, order))


@pytest.mark.parametrize("step", [(99, -1), (-1, -1), (99, 0), (0, 99), (2**31 - 1, 2**31 - 1)])
def test_a_step_that_names_nothing_is_refused(step: tuple[int, int]) -> None:
    problem = one_device_problem(Graph(name="one", ops=(Op(name="a", kind="other"),), tensors=()))
    with pytest.raises(ValueError, match=r"\w"):
        problem.core.simulate(*arrays([0], [step]))


def one_device_problem(graph: Graph) -> Problem:
    machine = Machine(name="one", devices=(Device(name="d0", kind="any"),), links=((Link(),),))
    time_ns = np.ones((len(graph.ops), 1), np.int64)
    return Problem(graph=graph, machine=machine, time_ns=time_ns, objective="peak-memory")


def known_answers() -> dict[str, Any]:
    """Graph by name, where the least peak over tensors alone was proved."""
    if not KNOWN_ANSWERS.exists():
        return {}
    graphs = json.loads(KNOWN_ANSWERS.read_text())
    return {name: graph for name, graph in graphs.items() if graph["bruteforce_min_peak_edges_only"] is not None}


def graph_of(name: str, record: dict[str, Any]) -> Graph:
    """Return nodes as ops, edges as tensors; the second source of an edge adds in place to what the first made."""
    tensors: list[Tensor] = []
    inputs: dict[str, list[int]] = {node: [] for node in record["nodes"]}
    outputs: dict[str, list[int]] = {node: [] for node in record["nodes"]}
    for edge in record["edges"]:
        for number, source in enumerate(edge["src"]):
            tensors.append(
                Tensor(name=f"t{len(tensors)}", size_bytes=edge["size"], alias_of=len(tensors) - 1 if number else None)
            )
            outputs[source].append(len(tensors) - 1)
        for destination in edge["dst"]:
            inputs[destination].append(len(tensors) - 1)
    ops = tuple(
        Op(name=node, kind="other", inputs=tuple(inputs[node]), outputs=tuple(outputs[node]))
        for node in _sorted_nodes(record)
    )
    return Graph(name=name, ops=ops, tensors=tuple(tensors))


def _sorted_nodes(record: dict[str, Any]) -> list[str]:
    """Nodes, each after those it reads from and, within an edge of two sources, in the order of the sources."""
    after = [(source, d) for edge in record["edges"] for source in edge["src"] for d in edge["dst"]]
    after += [(edge["src"][0], source) for edge in record["edges"] for source in edge["src"][1:]]
    left, order = list(record["nodes"]), []
    while left:
        node = next(n for n in left if not any(before in left and n == to for before, to in after))
        left.remove(node)
        order.append(node)
    return order


@needs_reference_data
def test_there_are_nine_known_answers() -> None:
    assert len(known_answers()) == 9


@needs_reference_data
@pytest.mark.parametrize("name", known_answers())
def test_the_best_order_on_one_device_has_the_known_peak(name: str) -> None:
    record = known_answers()[name]
    problem = one_device_problem(graph_of(name, record))
    peak, order = least_peak_on_one_device(problem)
    assert peak == record["bruteforce_min_peak_edges_only"]
    if record["expected_optimal_peak"] is not None:
        assert peak == record["expected_optimal_peak"]
    found = problem.core.simulate(*arrays([0] * len(problem.lowered.graph_op), order))
    assert found.peak_memory_bytes == peak


def test_a_device_without_ops_holds_nothing_and_one_with_a_parameter_only_holds_it_throughout() -> None:
    tensors = (Tensor(name="w", size_bytes=7, role="parameter"),)
    graph = Graph(name="one", ops=(Op(name="a", kind="other", inputs=(0,)),), tensors=tensors)
    devices = tuple(Device(name=f"d{i}", kind="any") for i in range(3))
    machine = Machine(name="three", devices=devices, links=((Link(),) * 3,) * 3)
    limits = (5, 1, None)
    problem = Problem(graph=graph, machine=machine, time_ns=np.ones((1, 3), np.int64), memory_limits_bytes=limits)
    found = problem.core.simulate(*arrays([0], [(0, -1)]))
    assert list(found.peak_bytes) == [7, 0, 0]
    assert found.bytes_over_limit == 7 - 5
