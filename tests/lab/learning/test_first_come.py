"""Placements scheduled first come, first served: compared with a slow reference; failures, noise and threads."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from instances import graph_of, machine_of, names_in_order, problem_of
from lab.learning.reference_first_come import first_come
from strategies import problems

import placewright._core as _core
from placewright.lab.learning.environments.first_come import FAILING_SIGNAL, FirstComeEnvironment, Noise
from placewright.lab.learning.environments.placement import allowed_devices
from placewright.machine import Link
from placewright.problem import Problem
from placewright.search.run.result import measure


@settings(max_examples=80)
@given(problem=problems(), data=st.data())
def test_order_and_costs_are_those_of_the_slow_reference(problem: Problem, data: st.DataObject) -> None:
    assume(all(host < 0 for host in problem.machine.hosts))
    device = st.integers(0, problem.machine.num_devices - 1)
    drawn = data.draw(st.lists(device, min_size=problem.core.num_ops, max_size=problem.core.num_ops))
    device_of = allowed_devices(problem, np.array(drawn, np.int32))
    order, expected = first_come(problem, device_of.tolist())
    environment = FirstComeEnvironment(problem)
    assert environment.solution(device_of).order.tolist() == [list(step) for step in order]
    trials = environment.measure(device_of[None])
    found = (expected.step_time_ns, expected.peak_memory_bytes)
    assert (trials.objective[0], trials.other[0]) == (found if problem.objective == "step-time" else found[::-1])
    assert trials.bytes_over_limit[0] == expected.bytes_over_limit


@settings(max_examples=30)
@given(problem=problems())
def test_with_launches_too_what_is_measured_is_what_the_solution_costs(problem: Problem) -> None:
    environment = FirstComeEnvironment(problem)
    device_of = allowed_devices(problem, (np.arange(problem.core.num_ops) % problem.machine.num_devices).astype("i4"))
    trials, metrics = environment.measure(device_of[None]), measure(problem, environment.solution(device_of))
    assert trials.fitness(0) == metrics.fitness(problem.objective)


def test_the_op_that_has_been_ready_longest_starts_first_whatever_hangs_on_it() -> None:
    # a runs 0-5; b is ready at 5 and runs 5-10, c is ready at 8 over the link from d1, e at 10 behind b: so c, then e.
    # By the longest way to the end e would go first at 10, since f waits for it.
    graph = graph_of({"a": ("", 0), "x": ("", 0), "b": ("a", 0), "e": ("b", 0), "c": ("x", 0), "f": ("e", 0)})
    problem = problem_of(graph, machine_of(2, Link(latency_ns=3)), 5)
    device_of = np.array([0, 1, 0, 0, 0, 0], np.int32)
    ops = [step for step, destination in FirstComeEnvironment(problem).solution(device_of).order if destination < 0]
    assert names_in_order(problem, ops) == "a x b c e f"
    longest_first = _core.dispatch_order(problem.core, device_of)
    assert names_in_order(problem, longest_first) == "a x b e c f"


def fork() -> Problem:
    """Three ops of 10 ns, two of which read the first; 4 bytes each, and 1 ns between two devices."""
    graph = graph_of({"a": ("", 4), "b": ("a", 4), "c": ("a", 4)})
    return problem_of(graph, machine_of(2, Link(latency_ns=1)), 10, memory_limits_bytes=(None, 6))


def test_a_placement_over_a_memory_limit_gets_the_failing_signal_and_is_never_best() -> None:
    # On d1 a and a reader hold 8 bytes of 6. Else: 30 ns on d0; 21 with c on d1, which holds 4 bytes of a and 4 of c.
    environment = FirstComeEnvironment(fork())
    environment.reference = 30.0
    trials = environment.measure(np.array([[1, 1, 1], [0, 0, 0], [0, 0, 1]], np.int32))
    assert trials.objective.tolist() == [30, 30, 21]
    assert trials.runs.tolist() == [False, True, False]
    assert trials.cost.tolist() == [FAILING_SIGNAL, 1.0, FAILING_SIGNAL]
    assert trials.best() == 1


@pytest.mark.parametrize("threads", [1, 2, 5])
def test_threads_change_nothing(threads: int) -> None:
    rows = np.random.default_rng(0).integers(0, 2, (7, 3)).astype(np.int32)
    one = FirstComeEnvironment(fork()).measure(rows)
    found = FirstComeEnvironment(fork(), threads=threads).measure(rows)
    assert np.array_equal(one.objective, found.objective)
    assert np.array_equal(one.other, found.other)


def test_noise_scatters_what_is_measured_but_not_what_is_kept() -> None:
    rows = np.zeros((400, 3), np.int32)

    def noisy(seed: int) -> FirstComeEnvironment:
        return FirstComeEnvironment(fork(), noise=Noise(deviation=0.1, failures=0.25), seed=seed)

    trials = noisy(3).measure(rows)
    assert set(trials.objective.tolist()) == {30}
    # 100 of 400 placements fail, give or take 9; the logarithm of the others scatters by a tenth.
    assert abs(int((~trials.runs).sum()) - 100) < 40
    assert abs(float(np.log(trials.ratio[trials.runs]).std()) - 0.1) < 0.03
    assert np.array_equal(trials.ratio, noisy(3).measure(rows).ratio)
    assert not np.array_equal(trials.ratio, noisy(4).measure(rows).ratio)


def test_a_placement_of_another_size_or_on_no_device_is_refused() -> None:
    with pytest.raises(ValueError, match="one device per op"):
        FirstComeEnvironment(fork()).measure(np.zeros((1, 2), np.int32))
    with pytest.raises(ValueError, match="a device that does not exist"):
        FirstComeEnvironment(fork()).measure(np.full((1, 3), 2, np.int32))
