"""The bounds hold for every solution of small problems, and are what the arithmetic says on tiny ones."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from instances import graph_of, machine_of, problem_of, sketch
from reference import best_objective, every_solution, held_after, least_peak_on_one_device, simulate, structure_of
from strategies import problems

import placewright._core as _core
from placewright.bounds import (
    Bound,
    common_divisor_ns,
    critical_path,
    delayed_path,
    fullest_window,
    largest_op,
    launches,
    launches_and_work,
    live_tensors,
    lower_bound,
    nothing_fits,
    shared_device,
    spread_residents,
    total_work,
)
from placewright.graph import Graph
from placewright.machine import Link, TransferModel
from placewright.problem import Problem
from placewright.problem.constraints import Constraints
from placewright.problem.objective import ControlMode

STEP_TIME = (critical_path, total_work, shared_device, launches, launches_and_work, delayed_path, fullest_window)
PEAK_MEMORY = (largest_op, spread_residents, live_tensors)


def test_the_bound_is_a_multiple_of_what_divides_all_times() -> None:
    # 30 us of work on two devices are 15 each, in ops of 10 us 20. A byte takes 1 us; with a latency of 4 us more a
    # transfer takes 5, which divides 15, too.
    graph, bandwidth = graph_of({"a": ("", 1), "b": ("", 1), "c": ("", 1)}), 10**6
    read = graph_of({"a": ("", 1), "b": ("", 1), "c": ("a b", 1)})
    fast, slow = Link(), Link(bandwidth_bytes_per_s=bandwidth, latency_ns=4_000)
    assert lower_bound(problem_of(graph, machine_of(2, fast), 10_000)).value == 20_000
    assert common_divisor_ns(problem_of(graph, machine_of(2, fast), [10_000, 20_000, 15_000])) == 5_000
    assert common_divisor_ns(problem_of(read, machine_of(2, slow), 10_000)) == 1_000
    assert common_divisor_ns(problem_of(read, machine_of(1, slow), 10_000)) == 10_000
    assert common_divisor_ns(problem_of(read, machine_of(2, replace(slow, latency_ns=3)), 10_000)) == 1


@pytest.mark.parametrize("factor", [1, 7])
@settings(max_examples=60)
@given(problems(max_ops=4, max_devices=2))
def test_no_bound_of_coarse_times_exceeds_any_solution(factor: int, problem: Problem) -> None:
    coarse = replace(problem, time_ns=problem.time_ns * factor, objective="step-time")
    times = {simulate(coarse, *solution).step_time_ns for solution in every_solution(coarse)}
    assert lower_bound(coarse).value <= min(times)
    assert all(time % common_divisor_ns(coarse) == 0 for time in times)


@settings(max_examples=200)
@given(problems(max_ops=4, max_devices=2))
def test_no_bound_exceeds_any_solution(problem: Problem) -> None:
    outcomes = [simulate(problem, *solution) for solution in every_solution(problem)]
    shortest = min(outcome.step_time_ns for outcome in outcomes)
    smallest = min(outcome.peak_memory_bytes for outcome in outcomes)
    for bound in STEP_TIME:
        assert bound(problem).value <= shortest
    for bound in PEAK_MEMORY:
        assert bound(problem).value <= smallest
    best = shortest if problem.objective == "step-time" else smallest
    assert lower_bound(problem).value <= best
    if nothing_fits(problem):
        assert min(outcome.bytes_over_limit for outcome in outcomes) > 0


@settings(max_examples=100)
@given(problems(max_ops=2, max_devices=3))
def test_no_bound_exceeds_the_optimum_on_three_devices(problem: Problem) -> None:
    for objective in ("step-time", "peak-memory"):
        aimed = replace(problem, objective=objective)
        assert lower_bound(aimed).value <= best_objective(aimed)


# a -> b -> d and a -> c: 3 + 4 + 5 = 12, 3 + 2 = 5. c before d: 3 + 2 + 5 = 10, less than 12. b before c: 3 + 4 + 2.
DIAMOND = {"a": ("", 1), "b": ("a", 1), "c": ("a", 1), "d": ("b", 1)}


def test_the_critical_path_is_the_longest_chain_of_reads() -> None:
    problem = problem_of(graph_of(DIAMOND), machine_of(2), [3, 4, 2, 5])
    assert critical_path(problem) == Bound(12, "critical path")


# c after b, then no read joins them: 3 + 4 + 20 = 27 where the order counts, else the longest read chain, 3 + 20 = 23.
# As a transfer it is a read of a control tensor. In "order" c may start with b, on another device.
@pytest.mark.parametrize(("control", "value"), [("signal", 27), ("transfer", 27), ("order", 23)])
def test_a_control_lengthens_the_critical_path_where_it_delays(control: ControlMode, value: int) -> None:
    graph = graph_of(DIAMOND, controls={"c": "b"})
    assert critical_path(problem_of(graph, machine_of(2), [3, 4, 20, 5], control=control)).value == value


def test_the_critical_path_takes_each_op_at_its_fastest() -> None:
    # a: min(3, 9), b: min(8, 1): 4, although they are on different devices and their tensor must move.
    graph = graph_of({"a": ("", 1), "b": ("a", 1)})
    problem = Problem(graph=graph, machine=machine_of(2), time_ns=np.array([[3, 9], [8, 1]]))
    assert critical_path(problem).value == 4


INDEPENDENT = graph_of(dict.fromkeys("abcdef", ("", 1)))


def test_equal_devices_share_the_work_evenly() -> None:
    # 6 ops of 10 over 3 devices: 20. Weights of a third are rounded down, the bound is rounded up: times are integers.
    assert total_work(problem_of(INDEPENDENT, machine_of(3), 10)) == Bound(20, "work divided over all devices")
    # 6 ops of 1 over 4 devices: 1.5, so 2.
    assert total_work(problem_of(INDEPENDENT, machine_of(4), 1)).value == 2


def test_a_device_twice_as_fast_does_twice_the_work() -> None:
    # d0 takes 1000, d1 2000 per op. With weights 2/3 and 1/3 every op counts 2000 / 3 on either: 6 * 2000 / 3 = 4000,
    # which is the optimum: 4 ops on d0, 2 on d1. Equal weights would only prove 6 * 1000 / 2 = 3000.
    time_ns = np.repeat([[1000, 2000]], 6, axis=0)
    problem = Problem(graph=INDEPENDENT, machine=machine_of(2), time_ns=time_ns)
    assert 3900 <= total_work(problem).value <= 4000
    assert lower_bound(problem) == replace(total_work(problem), value=4000)  # all times are whole thousands


def test_a_device_that_is_hopelessly_slow_leaves_the_work_to_the_other() -> None:
    # Split without remainder: x of 6 ops on d0 with 1000 x = 10^6 (6 - x), so x = 6 - 6 / 1001 and the time 5994.
    time_ns = np.repeat([[1000, 1_000_000]], 6, axis=0)
    problem = Problem(graph=INDEPENDENT, machine=machine_of(2), time_ns=time_ns)
    assert 3000 < total_work(problem).value <= 5994


def test_work_that_takes_no_time_is_bounded_by_nothing() -> None:
    assert total_work(problem_of(INDEPENDENT, machine_of(2), 0)).value == 0


def parameters_graph() -> Graph:
    """a makes x (7); b reads x and the parameters v (20) and w (3), works in 5 and makes y (2); c reads y and makes
    the output z (6)."""
    return sketch("a -> x=7", "v=20", "w=3", "b x v w -> y=2 | workspace_bytes=5", "c y -> z=6!", name="parameters")


def memory_problem(*limits: int | None) -> Problem:
    machine = machine_of(max(len(limits), 1))
    return problem_of(parameters_graph(), machine, objective="peak-memory", memory_limits_bytes=limits)


def test_the_largest_op_holds_inputs_outputs_parameters_and_workspace() -> None:
    # b: x 7 + v 20 + w 3 + workspace 5 + y 2 = 37; a holds 7 and c 2 + 6.
    assert largest_op(memory_problem(None)) == Bound(37, "largest op with its inputs, outputs and parameters")
    assert lower_bound(memory_problem(None)) == largest_op(memory_problem(None))


def test_a_view_counts_no_memory_beside_what_it_shows() -> None:
    # b reads x (8) through a view of half of it: on x's device 8 are held, elsewhere 4. The bound counts 0 for the
    # view and 1 for b's own output; a holds 8.
    graph = sketch("a -> x=8", "view~ x -> half=4:x", "b half -> y=1", name="half")
    problem = problem_of(graph, machine_of(2))
    assert largest_op(problem).value == 8


# What is held at the end: v 20 + w 3 + z 6 = 29.
@pytest.mark.parametrize(("num_devices", "share"), [(1, 29), (2, 15), (3, 10), (5, 6)])
def test_parameters_and_outputs_are_at_best_spread_evenly(num_devices: int, share: int) -> None:
    problem = problem_of(parameters_graph(), machine_of(num_devices))
    assert spread_residents(problem) == Bound(share, "parameters and outputs spread over all devices")


def test_many_parameters_bound_more_than_any_op() -> None:
    # Four ops with 10 each on two devices: 20 on one of them, while no op holds more than 10.
    graph = sketch("w0=10", "w1=10", "w2=10", "w3=10", "op0 w0", "op1 w1", "op2 w2", "op3 w3", name="four")
    problem = problem_of(graph, machine_of(2), objective="peak-memory")
    assert lower_bound(problem) == Bound(20, "parameters and outputs spread over all devices")
    # All 40 need 40 of memory over both.
    assert nothing_fits(replace(problem, memory_limits_bytes=(20, 19)))
    assert not nothing_fits(replace(problem, memory_limits_bytes=(20, 20)))


# The largest op takes 37, so one device must have 37; a device without a limit always might do.
@pytest.mark.parametrize(
    ("limits", "proven"),
    [((36, 36), True), ((37, 0), False), ((37,), False), ((36,), True), ((36, None), False), ((None,), False)],
)
def test_nothing_fits_where_no_device_holds_the_largest_op(limits: tuple[int | None, ...], proven: bool) -> None:
    assert nothing_fits(memory_problem(*limits)) == proven


# s -> four ops -> t on two devices. Chain: 10 + 10 + 5 = 25; all work halved: 55 / 2 = 28.
FAN = graph_of({"s": ("", 1), "a": ("s", 1), "b": ("s", 1), "c": ("s", 1), "d": ("s", 1), "t": ("a b c d", 1)})


def test_work_before_a_join_is_shared_between_the_ops_that_lead_to_it() -> None:
    # The four ops run after s and before t: 10 + 40 / 2 + 5 = 35.
    problem = problem_of(FAN, machine_of(2), [10, 10, 10, 10, 10, 5])
    assert (critical_path(problem).value, total_work(problem).value) == (25, 28)
    assert delayed_path(problem) == Bound(35, "critical path with shared work and transfers")
    # One more device: 10 + ceil(40 / 3) + 5 = 29.
    assert delayed_path(problem_of(FAN, machine_of(3), [10, 10, 10, 10, 10, 5])).value == 29


# On two devices with a latency of 4 an op of FAN elsewhere starts 4 after s and ends 4 before t: 40 of work fit into L
# and L - 8, so L is 24, and the step 10 + 24 + 5. Whole ops take 8 + 20 there, or 30 on the device of s. On three
# devices L, L - 8 and L - 8 are 40 for 19: 34 in all. With a latency of 20, one device does all 40.
@pytest.mark.parametrize(("devices", "latency_ns", "value"), [(2, 4, 39), (3, 4, 34), (2, 20, 55), (3, 0, 29)])
def test_work_that_is_spread_between_a_fork_and_a_join_pays_for_its_transfers(
    devices: int, latency_ns: int, value: int
) -> None:
    problem = problem_of(FAN, machine_of(devices, Link(latency_ns=latency_ns)), [10, 10, 10, 10, 10, 5])
    assert delayed_path(problem).value == value


def test_ops_with_small_delays_are_left_out_where_the_others_prove_more() -> None:
    # As FAN, but e reads s at no cost to others' delays: it comes right before t, where a control dependency delays
    # nothing across devices. The four others still need 24 with a latency of 4.
    graph = graph_of(
        {"s": ("", 1), **dict.fromkeys("abcd", ("s", 1)), "e": ("s", 1), "t": ("a b c d", 1)}, controls={"t": "e"}
    )
    problem = problem_of(graph, machine_of(2, Link(latency_ns=4)), [10, 10, 10, 10, 10, 1, 5], control="order")
    assert delayed_path(problem).value == 39


# a and b take 10 each and c reads both: on one device c starts at 20, else when one of them arrives, 10 + latency.
@pytest.mark.parametrize(("latency_ns", "value"), [(0, 15), (3, 18), (100, 25)])
@pytest.mark.parametrize("transfer_model", ["blocking", "overlapped"])
def test_what_a_join_reads_is_made_in_sequence_or_moved(
    latency_ns: int, value: int, transfer_model: TransferModel
) -> None:
    graph = graph_of({"a": ("", 1), "b": ("", 1), "c": ("a b", 1)})
    machine = machine_of(2, Link(latency_ns=latency_ns), transfer_model)
    problem = problem_of(graph, machine, [10, 10, 5])
    assert delayed_path(problem).value == value == best_objective(problem)


def test_ancestors_behind_a_slow_link_come_into_the_sequence_too() -> None:
    # d reads b and c, which read a1 and a2; each takes 10, each dependency 100 elsewhere. Apart, d starts at 120;
    # all four on d's device: 40, and 10 for d itself.
    graph = graph_of({"a1": ("", 1), "a2": ("", 1), "b": ("a1", 1), "c": ("a2", 1), "d": ("b c", 1)})
    assert delayed_path(problem_of(graph, machine_of(3, Link(latency_ns=100)), 10)).value == 50


def test_a_control_dependency_costs_its_latency_or_the_sequence_where_it_is_a_signal() -> None:
    # c waits for a and b. As signals, 3 ns apart: 13 + 5, as above. In mode "order" c could start with both.
    graph = graph_of({"a": ("", 1), "b": ("", 1), "c": ("", 1)}, controls={"c": "a b"})
    machine = machine_of(2, Link(latency_ns=3))
    assert delayed_path(problem_of(graph, machine, [10, 10, 5], control="signal")).value == 18
    assert delayed_path(problem_of(graph, machine, [10, 10, 5], control="order")).value == 10


def test_a_window_holds_the_work_of_ops_that_no_join_joins() -> None:
    # Six ops of 10 read s or t, which take 10: all six come after 10, so 10 + 60 / 3 = 30. Chain: 20. All work: 80 / 3.
    graph = graph_of({"s": ("", 1), "t": ("", 1), **{f"a{i}": ("s" if i < 3 else "t", 1) for i in range(6)}})
    problem = problem_of(graph, machine_of(3), 10)
    assert (delayed_path(problem).value, total_work(problem).value) == (20, 27)
    assert lower_bound(problem) == fullest_window(problem)
    assert fullest_window(problem) == Bound(30, "work between earliest starts and latest finishes")


def test_ops_that_must_share_a_device_run_one_after_the_other() -> None:
    together = Constraints(colocations=(("a", "b", "c"),))
    problem = replace(problem_of(INDEPENDENT, machine_of(4), 10), constraints=together)
    assert lower_bound(problem) == shared_device(problem) == Bound(30, "work of ops that must share a device")


def test_times_of_years_have_a_bound() -> None:
    # Weights in whole units are then 0 for both devices: only the chain counts.
    years = 2**60 + 2**59
    assert lower_bound(problem_of(graph_of({"a": ("", 1)}), machine_of(2), years)).value == years


def test_an_op_takes_its_time_on_a_device_that_it_may_use() -> None:
    graph = graph_of({"a": ("", 1), "b": ("a", 1)})
    free = Problem(graph=graph, machine=machine_of(2), time_ns=np.array([[3, 9], [8, 1]]))
    pinned = replace(free, constraints=Constraints(pins=(("a", "d1"),)))
    assert (critical_path(free).value, critical_path(pinned).value) == (4, 10)
    # All six ops of 10 on one of two devices: 60.
    crowded = replace(problem_of(INDEPENDENT, machine_of(2), 10), constraints=Constraints(pins=(("*", "d1"),)))
    assert 59 <= total_work(crowded).value <= 60


def test_what_must_be_alive_together_is_counted_for_all_devices() -> None:
    # x (7) is read by the last op only, through the whole chain a -> b -> c. When b (5) runs, a's 4 and x are there.
    graph = graph_of({"x": ("", 7), "a": ("x", 4), "b": ("a", 5), "c": ("b", 1), "d": ("c x", 0)})
    assert live_tensors(problem_of(graph, machine_of(1))).value == 16
    assert live_tensors(problem_of(graph, machine_of(3))).value == 6


def test_the_ops_that_may_have_run_are_chosen_to_hold_least() -> None:
    # When c runs, b (which makes 1) may have run or not: with it 8 + 1 + 1, without it 8 + 1.
    graph = graph_of({"a": ("", 8), "b": ("", 1), "c": ("a", 1), "d": ("b c", 0)})
    assert live_tensors(problem_of(graph, machine_of(1))).value == 9
    # b reads s (6) and makes 1. When c runs: a 4 and 3 of its own, and 6 before b or 1 after it: 8. When a runs, s is
    # still there: 6 + 4, before b.
    graph = graph_of({"s": ("", 6), "b": ("s", 1), "a": ("s", 4), "c": ("a", 3), "d": ("b c", 0)})
    assert live_tensors(problem_of(graph, machine_of(1))).value == 10


def test_of_several_ops_the_last_finds_what_the_others_have_made_and_the_first_what_they_will_read() -> None:
    # c and d each read 8 and make 1: alone either finds 8 and its own 1. The last of them finds the other's 1 as well.
    graph = graph_of({"a": ("", 8), "b": ("", 8), "c": ("a", 1), "d": ("b", 1), "e": ("c d", 0)})
    assert live_tensors(problem_of(graph, machine_of(1))).value == 10 == best_objective_on_one_device(graph)
    # Both wait for a (1) and b (1) and each reads one: the first of them finds the other's as well as its own.
    waiting = {"a": ("", 1), "b": ("", 1), "c": ("a", 8), "d": ("b", 8)}
    graph = graph_of(waiting, controls={"c": "b", "d": "a"})
    assert live_tensors(problem_of(graph, machine_of(1))).value == 10 == best_objective_on_one_device(graph)
    # On several devices, too, the first to start finds the other's; the last may start before the other has finished.
    assert live_tensors(problem_of(graph, machine_of(2))).value == 5


def best_objective_on_one_device(graph: Graph) -> int:
    return least_peak_on_one_device(problem_of(graph, machine_of(1)))[0]


@settings(max_examples=100)
@given(problems(max_ops=7, max_devices=1))
def test_the_live_tensors_of_one_device_are_no_less_than_some_op_finds_in_any_case(problem: Problem) -> None:
    bytes_found, _, exact = _core.live_memory_bound(problem.core, 10**6)
    assert exact
    assert max_of_least_held(problem) <= bytes_found <= least_peak_on_one_device(problem)[0]


def max_of_least_held(problem: Problem) -> int:
    """Find by enumeration the most memory that any op needs: for each op the least over all sets of ops that may have
    run when it starts."""
    structure = structure_of(problem)
    before = [
        {structure.producer[t] for t in structure.inputs[op]} | set(structure.predecessors[op])
        for op in range(structure.num_ops)
    ]
    every = range(structure.num_ops)
    closed = [
        done
        for size in range(structure.num_ops)
        for done in map(frozenset, combinations(every, size))
        if all(before[op] <= done for op in done)
    ]
    lowered = problem.lowered

    def own(op: int) -> int:
        return int(lowered.workspace_bytes[op]) + sum(int(lowered.allocated_bytes[t]) for t in structure.outputs[op])

    return int(lowered.resident_bytes.sum()) + max(
        own(op) + min(held_after(problem, done) for done in closed if op not in done and before[op] <= done)
        for op in every
    )


def test_limits_that_all_devices_together_cannot_keep_are_found_out() -> None:
    # 16 bytes are alive when b runs; a, b and c hold no more than 11 at once. So 8 and 7 are too little.
    graph = graph_of({"x": ("", 7), "a": ("x", 4), "b": ("a", 5), "c": ("b", 1), "d": ("c x", 0)})
    problem = problem_of(graph, machine_of(2), memory_limits_bytes=(11, 4))
    assert nothing_fits(problem)
    assert not nothing_fits(replace(problem, memory_limits_bytes=(11, 5)))


def test_an_op_that_is_pinned_to_a_device_too_small_for_it_does_not_fit() -> None:
    problem = memory_problem(37, 36)
    assert not nothing_fits(problem)
    assert nothing_fits(replace(problem, constraints=Constraints(pins=(("b", "d1"),))))
