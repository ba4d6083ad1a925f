"""What must run again under a memory limit: bounds against the best of everything on small problems."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from fewest_reruns import least_time
from hypothesis import given
from hypothesis import strategies as st
from overwriting_graphs import overwriting_graph
from training_steps import ONE_DEVICE, limited, training_step

from placewright.bounds import least_limit, rematerialized_time
from placewright.graph import Graph, Op, Tensor
from placewright.problem import Problem


@st.composite
def small_problems(draw: st.DrawFn) -> Problem:
    """Of one device and few ops, with a limit below what each op running once takes."""
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
    # An op, what it reads, what it makes with bytes, its time, ops it follows, its workspace.
    steps: list[tuple[str, str, dict[str, int], int, str, int]] = [
        ("u", "", {"u": 1, "v": 10}, 50, "", 0),
        ("t", "u", {"t": 1}, 1, "", 0),
        ("s", "t", {"s": 1}, 1, "", 0),
        ("x", "s", {"x": 1}, 1, "", 0),
        ("a", "u t s", {"a": 20}, 100, "", 0),
        ("b", "x", {"b": 20}, 1, "", 0),
        ("large", "v", {}, 1, "a b", 100),
        ("reads_b", "b", {}, 1, "large", 0),
        ("reads_a", "a", {}, 1, "large", 0),
        ("reads_v", "v", {}, 1, "reads_a", 0),
        ("larger", "", {}, 1, "reads_v", 130),
        ("reads_v_again", "v", {}, 1, "larger", 0),
    ]
    tensors = [Tensor(name=name, size_bytes=size) for _, _, made, _, _, _ in steps for name, size in made.items()]
    tensor = {each.name: index for index, each in enumerate(tensors)}
    number = {step[0]: index for index, step in enumerate(steps)}
    ops = tuple(
        Op(
            name=name,
            kind="elementwise",
            inputs=tuple(tensor[each] for each in read.split()),
            outputs=tuple(tensor[each] for each in made),
            controls=tuple(number[each] for each in after.split()),
            workspace_bytes=workspace,
        )
        for name, read, made, _, after, workspace in steps
    )
    times = np.array([[time] for _, _, _, time, _, _ in steps])
    problem = Problem(
        graph=Graph(name="shared", ops=ops, tensors=tuple(tensors)),
        machine=ONE_DEVICE,
        time_ns=times,
        memory_limits_bytes=(130,),
    )
    # Each op once takes 160. Beside `large`, 100 and v, only 20 bytes are left, so a or b is made again; `larger` takes
    # all, so v is made again behind it. In the best order b is dropped and not read before `larger`: then one more run
    # of u, 50, is for v and for t, s, x and b, 1 each.
    assert least_time(problem, any_order=True) == 160 + 50 + 4
    assert rematerialized_time(problem, in_order=False).value == 160 + 50 + 4
