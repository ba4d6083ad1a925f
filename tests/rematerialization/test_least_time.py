"""The least time under a memory limit: bounds, CP-SAT and the search against everything that could run again."""

from __future__ import annotations

import random
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from fewest_reruns import least_time
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from training_steps import ONE_DEVICE, limited, training_step

import placewright
import placewright._core as _core
from placewright.graph import Graph, Op, Tensor
from placewright.problem import Problem
from placewright.problem.running_again import again_before
from placewright.rematerialization.solve import records_of, rematerialize, with_reruns
from placewright.search.constructive.one_device import INPUT_ORDER
from placewright.search.run.budget import Budget
from placewright.search.run.search_run import SearchRun

sys.path.append(str(Path(__file__).parents[2] / "benchmarks"))
from exact_reruns import Runs, exact_rematerialization


@st.composite
def small_problems(draw: st.DrawFn) -> Problem:
    """Problems of one device and up to eight ops, with a limit below what each op running once takes."""
    problem = limited(
        training_step(draw(st.integers(0, 2**32)), draw(st.integers(1, 3))), draw(st.sampled_from([0.7, 0.5, 0.3, 0.0]))
    )
    assume(problem.core.num_ops <= 8)
    return problem


def found(problem: Problem) -> Runs | None:
    ops = np.arange(problem.core.num_ops, dtype=np.int32)
    search = _core.RematerializationSearch(problem=problem.core, order=ops, again_before=again_before(problem), seed=0)
    search.advance(20)
    return search.best() if search.best_bytes_over_limit == 0 else None


@settings(max_examples=30)
@given(problem=small_problems(), warm=st.booleans())
def test_cp_sat_finds_and_proves_the_optimum(problem: Problem, warm: bool) -> None:
    pytest.importorskip("ortools")
    exact = exact_rematerialization(problem, found(problem) if warm else None, 60, runs_per_op=4)
    assert exact.is_proven
    assert exact.time_ns == least_time(problem, any_order=False)


@settings(max_examples=30)
@given(problem=small_problems())
def test_the_runs_of_cp_sat_take_the_time_and_memory_they_say(problem: Problem) -> None:
    pytest.importorskip("ortools")
    exact = exact_rematerialization(problem, None, 60, runs_per_op=3)
    assume(exact.runs is not None)
    assert exact.runs is not None
    again = with_reruns(problem, *records_of(problem, exact.runs))
    order = INPUT_ORDER.order(again)
    steps = np.stack([order, np.full(len(order), -1, np.int32)], axis=1).astype(np.int32)
    simulated = again.core.simulate(np.zeros(len(order), np.int32), steps)
    assert simulated.bytes_over_limit == 0
    assert int(again.time_ns[again.lowered.graph_op].sum()) == exact.time_ns


@given(small_problems(), st.integers(0, 2**32))
def test_the_search_is_never_below_the_optimum(problem: Problem, seed: int) -> None:
    result = rematerialize(problem, SearchRun(Budget(evaluations=20), seed=seed)).result
    best = least_time(problem, any_order=False)
    if best is None:
        assert result.metrics.bytes_over_limit > 0
    elif result.metrics.bytes_over_limit == 0:
        assert result.metrics.step_time_ns >= best


def test_cp_sat_says_that_nothing_fits() -> None:
    pytest.importorskip("ortools")
    problem = limited(training_step(0, 2), 0.5)
    exact = exact_rematerialization(replace(problem, memory_limits_bytes=(1,)), None, 60)
    assert exact.runs is None
    assert exact.bound_ns is None


def layers_with_late_gradients(seed: int) -> Graph:
    """Three layers, forward and backward; a weight's gradient, which stays, reads that of its layer and its input."""
    source = random.Random(seed)
    sizes = {name: source.randint(4, 40) for name in ("a0", "a1", "a2", "a3", "g3", "g2", "g1", "w2", "w1", "w0")}
    reads = {"a0": "", "a1": "a0", "a2": "a1", "a3": "a2", "g3": "a3", "g2": "g3 a2", "w2": "g3 a2", "g1": "g2 a1"}
    reads |= {"w1": "g2 a1", "w0": "g1 a0"}
    names = list(reads)
    tensors = tuple(Tensor(name=f"{n}:0", size_bytes=sizes[n], is_output=n.startswith("w")) for n in names)
    ops = tuple(
        Op(name=n, kind="elementwise", inputs=tuple(map(names.index, reads[n].split())), outputs=(i,), time_ns=1)
        for i, n in enumerate(names)
    )
    return Graph(name=f"late{seed}", ops=ops, tensors=tensors)


def test_each_limit_that_some_order_keeps_is_found() -> None:
    others = 0
    for seed in range(12):
        problem = limited(layers_with_late_gradients(seed), 0.25)
        (limit,) = problem.memory_limits_bytes
        exact = least_time(problem, any_order=True)
        others += exact is not None and least_time(problem, any_order=False) is None
        found = placewright.plan(problem.graph, ONE_DEVICE, memory_limit=limit)
        assert (found.metrics.peak_memory_bytes <= (limit or 0)) == (exact is not None), seed
    assert others >= 2
