"""Which graphs leave anything to plan."""

from __future__ import annotations

from dataclasses import replace

from instances import graph_of

from placewright.graph import Graph
from placewright.lab.datasets.headroom import has_room


def timed(graph: Graph, *times_ns: int) -> Graph:
    return replace(graph, ops=tuple(replace(op, time_ns=t) for op, t in zip(graph.ops, times_ns, strict=True)))


def test_a_single_op_leaves_no_room() -> None:
    graph = timed(graph_of({"a": ("", 8)}), 5)
    assert not has_room(graph, "step-time")
    # its output is all there is, and one of the devices holds it
    assert not has_room(graph, "peak-memory")


def test_a_chain_leaves_no_room_in_step_time() -> None:
    # critical path 5 + 3 + 2 = all work
    assert not has_room(timed(graph_of({"a": ("", 8), "b": ("a", 8), "c": ("b", 8)}), 5, 3, 2), "step-time")


def test_a_chain_with_free_ops_beside_it_is_still_a_chain() -> None:
    assert not has_room(timed(graph_of({"x": ("", 8), "a": ("", 8), "b": ("a x", 8)}), 0, 5, 3), "step-time")


def test_two_branches_leave_room_in_step_time() -> None:
    # critical path 1 + 4 = 5, work 7 over two devices 4, one device 7
    graph = timed(graph_of({"a": ("", 8), "b": ("a", 8), "c": ("a", 8)}), 1, 4, 2)
    assert has_room(graph, "step-time")


def test_two_results_that_stay_leave_room_in_memory() -> None:
    graph = timed(graph_of({"a": ("", 8), "b": ("", 8)}), 1, 1)
    kept = replace(graph, tensors=tuple(replace(tensor, is_output=True) for tensor in graph.tensors))
    # one device holds 16 bytes at the end, two devices 8 each
    assert has_room(kept, "peak-memory")
    # without keeping them one device holds 8 at a time
    assert not has_room(graph, "peak-memory")
