"""Placement by graph partitioning: the obvious cuts are found, and parts are balanced in time."""

from __future__ import annotations

import ctypes
import sys
from itertools import combinations

import numpy as np
import pytest
from hypothesis import assume, given, settings
from instances import devices_by_name, graph_of, machine_of, problem_of
from numpy.typing import NDArray
from reference import structure_of
from strategies import problems

import placewright._core as _core
from placewright.lab.peers.graph_partition import GP_DFS, METIS_DFS, GraphPartition
from placewright.problem import Problem
from placewright.problem.constraints import Constraints
from placewright.search.run.search_run import SearchRun
from placewright.support.errors import MissingExtraError

both = pytest.mark.parametrize("method", [GP_DFS, METIS_DFS], ids=lambda method: method.name)


def cliques(count: int, size: int, **fields: object) -> Problem:
    """Cliques whose ops alternate in captured order: op (k, i) reads all earlier ones of clique k, and the last op of
    each but the last clique is read by the last of the next. Every op takes 10 ns and makes 4 bytes."""
    reads: dict[str, tuple[str, int]] = {}
    for i in range(size):
        for k in range(count):
            own = [f"{k}.{j}" for j in range(i)]
            bridge = [f"{k - 1}.{i}"] if i == size - 1 and k > 0 else []
            reads[f"{k}.{i}"] = (" ".join(own + bridge), 4)
    return problem_of(graph_of(reads), machine_of(count), 10, **fields)


def placed(problem: Problem, method: GraphPartition) -> np.ndarray:
    return method.partitioner(problem, method.imbalance)


@both
@pytest.mark.parametrize("count", [2, 4])
def test_cliques_joined_by_one_edge_each_get_a_device(method: GraphPartition, count: int) -> None:
    problem = cliques(count, 8)
    device_of = devices_by_name(problem, placed(problem, method))
    devices = [{device_of[f"{k}.{i}"] for i in range(8)} for k in range(count)]
    assert sorted(devices, key=min) == [{k} for k in range(count)]


@both
def test_the_bytes_between_two_cliques_are_all_that_moves(method: GraphPartition) -> None:
    result = method.solve(cliques(2, 8), SearchRun())
    assert (result.metrics.bytes_moved, result.metrics.num_transfers) == (4, 1)


@both
def test_parts_are_in_proportion_to_speed(method: GraphPartition) -> None:
    # 120 ops without tensors between them; the second device is three times as fast, so it gets 90 of them.
    graph = graph_of({f"op{i}": ("", 1) for i in range(120)})
    problem = Problem(graph=graph, machine=machine_of(2), time_ns=np.array([[30, 10]] * 120))
    # A part may be off its share of 120 ops by 6, 5%.
    assert 84 <= int(placed(problem, method).sum()) <= 96


def test_a_tensor_counts_once_however_many_read_it() -> None:
    # "hub" (100 bytes) has three readers of 10 ns, "pair" two edges of 60 bytes to its own readers; both halves hold
    # 40 ns. Apart from one another nothing moves.
    reads = {"hub": ("", 100), "pair": ("", 60), "r1": ("hub", 1), "s1": ("pair", 1), "r2": ("hub", 1),
             "s2": ("pair", 1), "r3": ("hub", 1), "s3": ("s1 s2", 1)}  # fmt: skip
    problem = problem_of(graph_of(reads), machine_of(2), 10)
    assert GP_DFS.solve(problem, SearchRun()).metrics.bytes_moved == 0


@settings(max_examples=60)
@given(problem=problems(max_ops=7, max_devices=2))
def test_no_single_move_that_keeps_the_balance_lessens_the_cut(problem: Problem) -> None:
    assume(problem.machine.num_devices == 2)
    device_of = placed(problem, GP_DFS).tolist()
    group, allowed = (array.tolist() for array in problem.groups)
    least = bytes_between(problem, device_of)
    for first in sorted(set(group)):
        moved = [1 - d if g == first else d for g, d in zip(group, device_of, strict=True)]
        if allowed[first] == 3 and off_balance(problem, moved) <= slack(problem):
            assert bytes_between(problem, moved) >= least


def bytes_between(problem: Problem, device_of: list[int]) -> int:
    return sum(int(problem.lowered.transfer_bytes[t]) for t, _ in structure_of(problem).needed_transfers(device_of))


def times_of(problem: Problem) -> NDArray[np.float64]:
    """Return times summed over devices, float [num scheduled ops]."""
    return np.asarray(problem.time_ns[problem.lowered.graph_op].sum(axis=1), np.float64)


def slack(problem: Problem) -> float:
    """Return the slack that the class states: 5% of all time, or that of the longest group that shares a device."""
    time = times_of(problem)
    return float(max(0.05 * time.sum(), np.bincount(problem.groups[0], time).max()))


def off_balance(problem: Problem, device_of: list[int]) -> float:
    """Return how far the first device is from its share of the time."""
    time, own = times_of(problem), problem.time_ns[problem.lowered.graph_op].sum(axis=0).astype(float)
    speed = np.ones(2) if (own == 0).any() else 1 / own
    return float(abs(time[np.array(device_of) == 0].sum() - time.sum() * speed[0] / speed.sum()))


@both
def test_pins_and_groups_are_respected_and_the_rest_follows(method: GraphPartition) -> None:
    problem = cliques(2, 6, constraints=Constraints(pins=(("0.0", "d1"),), colocations=(("0.5", "0.1"),)))
    device_of = devices_by_name(problem, placed(problem, method))
    assert device_of["0.0"] == 1
    assert device_of["0.5"] == device_of["0.1"]


def test_a_pinned_op_draws_its_clique_along() -> None:
    problem = cliques(2, 6, constraints=Constraints(pins=(("0.0", "d1"),)))
    device_of = devices_by_name(problem, placed(problem, GP_DFS))
    assert {device_of[f"0.{i}"] for i in range(6)} == {1}
    assert {device_of[f"1.{i}"] for i in range(6)} == {0}


@both
def test_ops_without_time_are_placed(method: GraphPartition) -> None:
    problem = problem_of(graph_of({"a": ("", 0), "b": ("a", 0), "c": ("b", 3)}), machine_of(2), 0)
    assert set(placed(problem, method).tolist()) <= {0, 1}


def test_a_thousand_random_ops_are_split_better_than_in_captured_order() -> None:
    draw = np.random.default_rng(0)
    reads = {f"op{i}": (" ".join({f"op{draw.integers(max(0, i - 50), i)}" for _ in range(2)}) if i else "", 5)
             for i in range(1000)}  # fmt: skip
    problem = problem_of(graph_of(reads), machine_of(4), 10)
    before, after = (_core.partition(problem.core, 0.05, passes) for passes in (0, 20))
    assert bytes_between(problem, after.tolist()) < bytes_between(problem, before.tolist())
    # Each half of a half misses 500 by 50 at most, and then 250 by 27.
    assert all(200 <= count <= 300 for count in np.bincount(after, minlength=4))


def test_the_least_cut_of_a_ladder_is_found_among_all_balanced_ones() -> None:
    # Two rails of three ops, rungs between them: few enough to try all balanced placements.
    reads = {"a": ("", 5), "b": ("", 5), "c": ("a b", 5), "d": ("b", 5), "e": ("c", 5), "f": ("d e", 5)}
    problem = problem_of(graph_of(reads), machine_of(2), 10)
    halves = [[int(op in chosen) for op in range(6)] for chosen in combinations(range(6), 3)]
    least = min(bytes_between(problem, device_of) for device_of in halves)
    assert bytes_between(problem, placed(problem, GP_DFS).tolist()) <= least


def test_metis_prints_nothing_of_its_own(capfd: pytest.CaptureFixture[str]) -> None:
    # Two ops between which bytes pass, to be cut into two parts: METIS complains of a graph with 0 vertices.
    for count in (2, 3, 5):
        chain = graph_of({f"op{i}": (f"op{i - 1}" if i else "", 4) for i in range(count)})
        for num_devices in (2, 3, 4, 8):
            placed(problem_of(chain, machine_of(num_devices), 10), METIS_DFS)
    ctypes.CDLL(None).fflush(None)
    print("what follows is printed")
    assert capfd.readouterr().out == "what follows is printed\n"


def test_metis_asks_for_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pymetis", None)
    with pytest.raises(MissingExtraError, match=r"placewright\[metis\]"):
        METIS_DFS.solve(cliques(2, 3), SearchRun())
