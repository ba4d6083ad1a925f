"""cluster-list and cluster-partition: clusters, the smaller problem they make, and ops dispatched on given devices."""

from __future__ import annotations

from collections import defaultdict

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from instances import graph_of, machine_of, names_in_order, problem_of
from strategies import problems

import placewright._core as _core
from placewright.machine import Link
from placewright.problem import Problem
from placewright.problem.constraints import Constraints
from placewright.search.constructive.cluster_list import CLUSTER_PARTITION, ClusterList
from placewright.search.run.search_run import SearchRun


def clusters(problem: Problem, cap_ns: int) -> dict[str, int]:
    cluster_of = _core.chain_clusters(problem.core, cap_ns)
    return {op.name: cluster for op, cluster in zip(problem.graph.ops, cluster_of.tolist(), strict=True)}


def test_a_chain_is_cut_by_the_cap_and_its_heaviest_edges_are_kept_inside() -> None:
    # Edges of 1, 9 and 1 bytes between ops of 5 ns: with 10 ns to a cluster b and c go together, and nothing else fits.
    problem = problem_of(graph_of({"a": ("", 1), "b": ("a", 9), "c": ("b", 1), "d": ("c", 1)}), machine_of(2), 5)
    assert clusters(problem, 10) == {"a": 0, "b": 1, "c": 1, "d": 2}
    assert clusters(problem, 20) == {"a": 0, "b": 0, "c": 0, "d": 0}
    assert clusters(problem, 9) == {"a": 0, "b": 1, "c": 2, "d": 3}


def test_an_op_of_two_successors_is_not_merged_with_one_of_two_predecessors() -> None:
    # The heaviest edge, a to c, is no one's only one, and b would lie between the two. b's edges are: it goes with its
    # only successor c first, and then a has but one.
    problem = problem_of(graph_of({"a": ("", 9), "b": ("a", 1), "c": ("a b", 1)}), machine_of(2), 5)
    assert clusters(problem, 10) == {"a": 0, "b": 1, "c": 1}
    assert clusters(problem, 15) == {"a": 0, "b": 0, "c": 0}


def test_what_shares_a_device_counts_for_the_cap() -> None:
    # a and d share a device: 10 ns. With a cap of 14 neither b nor c (5 ns each) may join them, but b and c each other;
    # with 15 one of them may, and of equal edges the first is a to b.
    graph = graph_of({"a": ("", 1), "b": ("a", 1), "c": ("b", 1), "d": ("c", 1)})
    problem = problem_of(graph, machine_of(2), 5, constraints=Constraints(colocations=(("a", "d"),)))
    assert clusters(problem, 14) == {"a": 0, "b": 1, "c": 1, "d": 2}
    assert clusters(problem, 15) == {"a": 0, "b": 0, "c": 1, "d": 2}


@settings(max_examples=100)
@given(problem=problems(max_ops=12), cap_ns=st.integers(0, 60))
def test_clusters_are_numbered_along_dependencies_and_keep_to_the_cap(problem: Problem, cap_ns: int) -> None:
    cluster_of = _core.chain_clusters(problem.core, cap_ns)
    lowered = problem.lowered
    assert sorted(set(cluster_of.tolist())) == list(range(len(set(cluster_of.tolist()))))
    for op in range(len(cluster_of)):
        for tensor in lowered.inputs[lowered.input_begin[op] : lowered.input_begin[op + 1]]:
            assert cluster_of[lowered.producer[tensor]] <= cluster_of[op]
        for after in lowered.controls[lowered.control_begin[op] : lowered.control_begin[op + 1]]:
            assert cluster_of[op] <= cluster_of[after]
    work: dict[int, list[int]] = defaultdict(list)
    for op, cluster in enumerate(cluster_of.tolist()):
        work[cluster].append(int(problem.time_ns[lowered.graph_op[op]].sum()) // problem.machine.num_devices)
    assert all(len(own) == 1 or sum(own) <= cap_ns for own in work.values())


@settings(max_examples=60)
@given(problem=problems(max_ops=12))
def test_single_ops_as_clusters_are_list_scheduled_as_the_ops_are(problem: Problem) -> None:
    # Without memory limits, whose estimate leaves out what only views read: with a cap of 0 each op that takes time is
    # a cluster of its own.
    free = Problem(graph=problem.graph, machine=machine_of(2), time_ns=problem.time_ns[:, :1].repeat(2, 1) + 1)
    cluster_of = _core.chain_clusters(free.core, 0)
    small = _core.coarse_problem(free.core, cluster_of)
    assert cluster_of.tolist() == np.argsort(np.argsort(cluster_of)).tolist()
    assert sorted(_core.bottom_levels(small)[cluster_of]) == sorted(_core.bottom_levels(free.core))


def test_an_op_that_can_start_goes_before_a_more_urgent_one_that_cannot() -> None:
    # On d1: c waits for a's tensor until 10 + 3 and has a tail of 20; b, of level 5, fills the time before.
    graph = graph_of({"a": ("", 1), "b": ("", 1), "c": ("a", 1), "d": ("c", 1)})
    problem = problem_of(graph, machine_of(2, Link(latency_ns=3)), [10, 5, 10, 10])
    order = _core.dispatch_order(problem.core, np.array([0, 1, 1, 1], np.int32))
    assert names_in_order(problem, order) == "a b c d"
    # With b on d0, where a is more urgent, b comes second there.
    order = _core.dispatch_order(problem.core, np.array([0, 0, 1, 1], np.int32))
    assert names_in_order(problem, order) == "a b c d"


def test_of_the_ops_that_can_start_the_one_with_the_longest_way_to_go_starts() -> None:
    # b's tensor must move (100 ns), c's need not: level of b 5 + 100 + 1, of c 5 + 50.
    graph = graph_of({"c": ("", 1), "b": ("", 1), "d": ("c", 1), "e": ("b", 1)})
    problem = problem_of(graph, machine_of(2, Link(latency_ns=100)), [5, 5, 50, 1])
    order = _core.dispatch_order(problem.core, np.array([0, 0, 0, 1], np.int32))
    assert names_in_order(problem, order) == "b c d e"
    order = _core.dispatch_order(problem.core, np.zeros(4, np.int32))
    assert names_in_order(problem, order) == "c d b e"


def test_two_chains_that_a_list_scheduler_would_tear_apart_stay_whole() -> None:
    # Two chains of ten ops of 2 ns whose tensors take 30 ns to move. x comes first and keeps d0 busy for 1 ns more, so
    # every op would start earlier on the other device if its input were there.
    ops = {f"{chain}{step}": (f"{chain}{step - 1}" if step else "", 30) for chain in "ab" for step in range(10)}
    link = Link(bandwidth_bytes_per_s=1e9)
    result = ClusterList().solve(problem_of(graph_of(ops), machine_of(2, link), 2), SearchRun())
    assert result.metrics.step_time_ns == 20
    assert result.metrics.num_transfers == 0


def test_parts_of_clusters_divide_two_pairs_of_chains_between_two_devices() -> None:
    # Four chains of three ops of 5 ns, in pairs that meet at the end (e, f): each pair takes 15 + 15 + 5 ns on one
    # device. Moving anything takes 100 ns.
    ops = {f"{chain}{step}": (f"{chain}{step - 1}" if step else "", 8) for chain in "abcd" for step in range(3)}
    ops |= {"e": ("a2 b2", 8), "f": ("c2 d2", 8)}
    problem = problem_of(graph_of(ops), machine_of(2, Link(latency_ns=100)), 5)
    result = CLUSTER_PARTITION.solve(problem, SearchRun())
    assert result.metrics.step_time_ns == 35
    assert result.metrics.busy_ns == (35, 35)


def test_under_scarce_memory_the_captured_order_is_tried() -> None:
    # Every op makes 8 bytes for its follower at the end of the order: a x, then b y. Dispatching starts a and b, whose
    # ways are longest, before x and y; in captured order only one 8-byte tensor is alive at once besides the result.
    graph = graph_of({"a": ("", 8), "x": ("a", 1), "b": ("", 8), "y": ("b", 1)})
    problem = problem_of(graph, machine_of(1), [1, 1, 1, 1], memory_limits_bytes=(10,))
    assert ClusterList().solve(problem, SearchRun()).metrics.bytes_over_limit == 0
