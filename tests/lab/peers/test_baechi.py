"""m-TOPO, m-ETF and m-SCT: placement under memory limits."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from instances import devices_by_name, graph_of, machine_of, problem_of, sketch
from strategies import problems

from placewright.lab.peers.favourite_child import favourite_children
from placewright.lab.peers.held_memory import HeldMemory
from placewright.lab.peers.m_etf import MemoryEtf
from placewright.lab.peers.m_sct import MemorySct
from placewright.machine import Link
from placewright.methods.table import METHODS
from placewright.problem import Problem
from placewright.problem.constraints import Constraints
from placewright.search.constructive.cluster_list import op_bytes
from placewright.search.run.result import Result
from placewright.search.run.search_run import SearchRun


def solve(problem: Problem, name: str) -> Result:
    return METHODS[name].solve(problem, SearchRun())


def placement(problem: Problem, name: str) -> dict[str, int]:
    return devices_by_name(problem, solve(problem, name).solution.device_of)


CHAIN = graph_of({"a": ("", 10), "b": ("a", 10), "c": ("b", 20), "d": ("c", 5), "e": ("d", 5)})


def test_m_topo_fills_devices_up_to_an_even_share_plus_the_largest_op() -> None:
    # 50 bytes on two devices: 25 each, plus 20: a, b and c make 40, d 45, and e would make 50.
    assert placement(problem_of(CHAIN, machine_of(2)), "m-topo") == {"a": 0, "b": 0, "c": 0, "d": 0, "e": 1}


def test_m_topo_does_not_look_at_the_limits() -> None:
    tight = problem_of(CHAIN, machine_of(2), memory_limits_bytes=(9, 99))
    assert placement(tight, "m-topo") == placement(problem_of(CHAIN, machine_of(2)), "m-topo")


def test_m_topo_moves_a_group_at_its_first_op() -> None:
    # a and e share a device, 15 bytes, the largest: the cap is 25 + 20 = 45. a + e 15, b 25, c 45; d goes to d1.
    problem = problem_of(CHAIN, machine_of(2), constraints=Constraints(colocations=(("a", "e"),)))
    assert placement(problem, "m-topo") == {"a": 0, "b": 0, "c": 0, "d": 1, "e": 0}


def test_m_topo_puts_an_op_that_may_not_stand_there_on_the_least_filled_other_device() -> None:
    # The device being filled is d0; b may use d1 and d2, both empty, c then has d2 as the emptier one.
    problem = problem_of(CHAIN, machine_of(3), constraints=Constraints(forbids=(("b", "d0"), ("c", "d0"))))
    found = placement(problem, "m-topo")
    assert (found["a"], found["b"], found["c"]) == (0, 1, 2)


def test_an_op_counts_its_outputs_its_workspace_and_the_parameters_it_is_first_to_read() -> None:
    graph = sketch("w=100", "a w -> x=7 | workspace_bytes=20", "b w x -> y=5 z=3:y")
    problem = problem_of(graph, machine_of(1))
    # a: 100 + 7 + 20; b: 5, for z shares the memory of y.
    assert op_bytes(problem).tolist() == [127, 5]


def test_m_etf_starts_what_can_start_first() -> None:
    # c waits for nothing and starts at 0 in parallel to a; b follows a on its device, as moving takes 3.
    graph = graph_of({"a": ("", 1), "b": ("a", 1), "c": ("", 1)})
    problem = problem_of(graph, machine_of(2, Link(latency_ns=3)), [9, 9, 2])
    assert placement(problem, "m-etf") == {"a": 0, "b": 0, "c": 1}


def test_m_etf_passes_over_a_full_device() -> None:
    # b needs a's 8 bytes besides its own 8; it could start at 5 on d0, which holds only 15, and goes to d1.
    graph = graph_of({"a": ("", 8), "b": ("a", 8)})
    problem = problem_of(graph, machine_of(2, Link(latency_ns=3)), 5, memory_limits_bytes=(15, 16))
    result = solve(problem, "m-etf")
    assert devices_by_name(problem, result.solution.device_of) == {"a": 0, "b": 1}
    assert result.metrics.bytes_over_limit == 0


def test_m_etf_returns_to_a_device_whose_memory_was_freed() -> None:
    # The device holds 10. a's 8 bytes leave no room for c until b has read them, at 5; then c runs before e,
    # which is later in the captured order. With enough room c also runs before b.
    graph = graph_of({"a": ("", 8), "c": ("", 8), "b": ("a", 2), "e": ("b", 1)})
    problem = problem_of(graph, machine_of(1), 5, memory_limits_bytes=(10,))
    assert solve(problem, "m-etf").solution.order[:, 0].tolist() == [0, 2, 1, 3]
    roomy = problem_of(graph, machine_of(1), 5)
    assert solve(roomy, "m-etf").solution.order[:, 0].tolist() == [0, 1, 2, 3]


def test_m_etf_reserves_the_parameters_of_a_whole_group() -> None:
    # a alone would fit d0 (4 of 10 bytes), but c must share its device and reads 9 bytes of parameters.
    problem = problem_of(
        sketch("wa=4", "wc=9", "a wa", "b", "c wc"),
        machine_of(2),
        memory_limits_bytes=(10, 13),
        constraints=Constraints(colocations=(("a", "c"),)),
    )
    assert placement(problem, "m-etf") == {"a": 1, "b": 0, "c": 1}


def test_m_etf_exceeds_a_limit_by_least_where_nothing_fits() -> None:
    # a takes 8 bytes: 5 over on d0, 2 over on d1, 4 over on d2.
    problem = problem_of(graph_of({"a": ("", 8)}), machine_of(3), memory_limits_bytes=(3, 6, 4))
    assert placement(problem, "m-etf") == {"a": 1}


@settings(max_examples=80)
@given(problem=problems(max_ops=10))
def test_memory_is_given_back_once_all_is_placed(problem: Problem) -> None:
    # What is left in use at the end: residents wherever they are read, and graph outputs at home.
    memory, lowered = HeldMemory(problem), problem.lowered
    before = list(memory.free)
    device_of = solve(problem, "m-etf").solution.device_of
    for op, device in enumerate(device_of.tolist()):
        assert memory.needed(op, device) >= 0
        memory.place(op, device)
    used = np.array(before) - np.array(memory.free)
    expected = np.zeros(problem.machine.num_devices, np.int64)
    np.add.at(expected, device_of[lowered.producer], lowered.allocated_bytes * lowered.live_out)
    reader = np.repeat(np.arange(len(device_of)), np.diff(lowered.resident_begin))
    held = {(int(device_of[op]), int(r)) for op, r in zip(reader, lowered.residents, strict=True)}
    for device, resident in held:
        expected[device] += lowered.resident_bytes[resident]
    assert used.tolist() == expected.tolist()


@pytest.mark.parametrize("name", ["m-topo", "m-etf", "m-sct"])
def test_work_is_spread_without_limits(name: str) -> None:
    graph = graph_of({f"op{index}": ("", 10) for index in range(8)})
    assert set(placement(problem_of(graph, machine_of(2)), name).values()) == {0, 1}


BAECHI = {"m-etf": MemoryEtf(), "m-sct": MemorySct()}


def fork() -> Problem:
    """Return a problem where b and c read a, and d reads c: 10, 10, 20 and 50 ns; a transfer takes 30 ns."""
    graph = graph_of({"a": ("", 4), "b": ("a", 4), "c": ("a", 4), "d": ("c", 4)})
    return problem_of(graph, machine_of(2, Link(latency_ns=30)), [10, 10, 20, 50])


def test_the_favourite_child_is_the_one_whose_transfer_delays_the_end() -> None:
    # Only one of b and c may be spared the transfer. c has 70 ns to go and b 10, so it is c; d reads from c alone.
    problem = fork()
    names = [problem.graph.ops[index].name for index in problem.lowered.graph_op]
    child = favourite_children(problem, 60)
    assert {names[op]: names[each] for op, each in enumerate(child.tolist()) if each >= 0} == {"a": "c", "c": "d"}


def test_m_sct_lets_the_favourite_child_go_first_where_m_etf_goes_by_captured_order() -> None:
    # a ends at 10 on d0. m-ETF: b there until 20, c until 40, d until 90. m-SCT: c until 30 and d until 80, while a's
    # tensor comes to d1 at 40, where b runs until 50.
    problem = fork()
    order = {name: next(method.candidates(problem)).order.tolist() for name, method in BAECHI.items()}
    assert order == {"m-etf": [0, 1, 2, 3], "m-sct": [0, 2, 3, 1]}
    assert [solve(problem, name).metrics.step_time_ns for name in ("m-etf", "m-sct")] == [90, 80]


@settings(max_examples=60)
@given(problem=problems(max_ops=10))
def test_an_op_has_one_favourite_child_and_is_that_of_one(problem: Problem) -> None:
    child = favourite_children(problem, 60)
    lowered = problem.lowered
    read = set(zip(lowered.producer[lowered.inputs].tolist(), lowered.reader.tolist(), strict=True))
    pairs = [(op, each) for op, each in enumerate(child.tolist()) if each >= 0]
    assert set(pairs) <= read
    assert len({each for _, each in pairs}) == len(pairs)
