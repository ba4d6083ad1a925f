"""What must run again under a memory limit: bounds against the best of everything on small problems."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from fewest_reruns import least_time
from hypothesis import given
from hypothesis import strategies as st
from training_steps import limited, training_step

from placewright.bounds.rematerialization import least_limit, rematerialized_time
from placewright.problem import Problem


@st.composite
def small_problems(draw: st.DrawFn) -> Problem:
    """Of one device and few ops, with a limit below what each op running once takes."""
    graph = training_step(draw(st.integers(0, 2**32)), draw(st.integers(1, 3)))
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
