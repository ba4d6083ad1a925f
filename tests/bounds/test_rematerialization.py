"""Bounds on what must run again under a memory limit, compared with the best of all solutions of small problems."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from fewest_reruns import least_time
from hypothesis import given
from hypothesis import strategies as st
from instances import sketch
from overwriting_graphs import overwriting_graph
from training_steps import ONE_DEVICE, limited, training_step

from placewright.bounds import least_limit, rematerialized_time
from placewright.problem import Problem


@st.composite
def small_problems(draw: st.DrawFn) -> Problem:
    """Problems of one device and few ops, with a limit below what each op running once takes."""
    seed = draw(st.integers(0, 2**32))
    if draw(st.booleans()):
        graph = overwriting_graph(seed, draw(st.integers(3, 7)))
    else:
        graph = training_step(seed, draw(st.integers(1, 3)))
    return limited(graph, draw(st.sampled_from([0.9, 0.7, 0.5, 0.3, 0.1, 0.0])))


@pytest.mark.parametrize("any_order", [False, True])
@given(small_problems())
def test_no_plan_that_keeps_the_limit_is_below_the_bound(any_order: bool, problem: Problem) -> None:
    best = least_time(problem, any_order)
    assert best is None or rematerialized_time(problem, in_order=not any_order).value <= best


@given(small_problems())
def test_without_a_limit_or_a_time_or_a_chance_nothing_is_proven_but_the_work(problem: Problem) -> None:
    once = int(problem.time_ns[problem.lowered.graph_op].sum())
    assert rematerialized_time(replace(problem, memory_limits_bytes=(None,))).value == once
    assert rematerialized_time(replace(problem, memory_limits_bytes=(1,))).value == once
    assert rematerialized_time(replace(problem, time_ns=np.zeros_like(problem.time_ns))).value == 0


@given(small_problems(), st.integers(1, 5))
def test_no_limit_below_the_least_is_kept(problem: Problem, less: int) -> None:
    least, _ = least_limit(problem)
    assert least_time(replace(problem, memory_limits_bytes=(least - less,)), any_order=True) is None


def test_one_run_may_serve_two_tensors_whose_readers_are_found_at_different_depths() -> None:
    graph = sketch(
        *("u -> u=1 v=10 | time_ns=50", "t u -> t=1", "s t -> s=1", "x s -> x=1", "a u t s -> a=20 | time_ns=100"),
        *("b x -> b=20", "large v < a b | workspace_bytes=100", "reads_b b < large", "reads_a a < large"),
        *("reads_v v < reads_a", "larger < reads_v | workspace_bytes=130", "reads_v_again v < larger"),
        kind="elementwise",
        time_ns=1,
    )
    problem = Problem(
        graph=graph,
        machine=ONE_DEVICE,
        time_ns=np.array([[op.time_ns] for op in graph.ops]),
        memory_limits_bytes=(130,),
    )
    # Each op once takes 160. Beside `large`, 100 and v, only 20 bytes are left, so a or b is made again; `larger` takes
    # all, so v is made again behind it. In the best order b is dropped and not read before `larger`: then one more run
    # of u, 50, is for v and for t, s, x and b, 1 each.
    assert least_time(problem, any_order=True) == 160 + 50 + 4
    assert rematerialized_time(problem, in_order=False).value == 160 + 50 + 4
