"""Coarse problems from Python: what is found for one is a solution of the problem it was made from."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from instances import graph_of, machine_of, problem_of
from strategies import problems

import placewright._core as _core
from placewright.problem import Problem
from placewright.problem.constraints import Constraints


def placed(core: _core.Problem) -> tuple[np.ndarray, np.ndarray]:
    return _core.list_schedule(core, _core.bottom_level_order(core), False)


@settings(max_examples=80)
@given(problem=problems(max_ops=10), max_clusters=st.integers(1, 10))
def test_what_is_found_for_the_coarse_problem_is_a_solution(problem: Problem, max_clusters: int) -> None:
    coarse, cluster_of = _core.coarsen(problem.core, max_clusters)
    device_of, ops = _core.expand(problem.core, coarse, cluster_of, *placed(coarse))
    problem.core.check_order(device_of, problem.core.with_transfers(device_of, ops, early=False))


def two_chains(**fields: object) -> Problem:
    """Captured in turns: a0 b0 a1 b1 ... a3 b3, each 10 ns; nothing passes between the chains."""
    reads = {f"{chain}{i}": (f"{chain}{i - 1}" if i else "", 4) for i in range(4) for chain in "ab"}
    return problem_of(graph_of(reads), machine_of(2), 10, **fields)


def test_two_chains_become_two_ops() -> None:
    coarse, cluster_of = _core.coarsen(two_chains().core, 2)
    assert (coarse.num_ops, coarse.num_tensors) == (2, 0)
    assert cluster_of.tolist() == [0, 1] * 4
    # Each of them takes 40 ns, on a device of its own.
    device_of, ops = placed(coarse)
    assert coarse.simulate(device_of, coarse.with_transfers(device_of, ops, early=False)).step_time_ns == 40


def test_ops_that_may_not_share_a_device_stay_apart() -> None:
    pins = Constraints(pins=(("a0", "d0"), ("a3", "d1")))
    coarse, cluster_of = _core.coarsen(two_chains(constraints=pins).core, 1)
    assert cluster_of[0] != cluster_of[6]
    assert coarse.num_ops > 1


def test_arrays_that_do_not_fit_are_refused() -> None:
    core = two_chains().core
    coarse, cluster_of = _core.coarsen(core, 2)
    device_of, ops = placed(coarse)
    with pytest.raises(ValueError, match="max_clusters"):
        _core.coarsen(core, 0)
    with pytest.raises(ValueError, match="cluster"):
        _core.coarse_problem(core, np.full(8, 9, np.int32))
    with pytest.raises(ValueError, match="one entry per op"):
        _core.expand(core, coarse, cluster_of[:3], device_of, ops)
    with pytest.raises(ValueError, match="does not have"):
        _core.expand(core, coarse, cluster_of + 2, device_of, ops)
