"""One-device orders: named cases by hand, and the greedy ones against their definitions in plain loops."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from instances import graph_of, machine_of, names_in_order, problem_of
from reference import Structure, structure_of
from strategies import problems

import placewright._core as _core
from placewright.graph import Graph
from placewright.problem import Problem
from placewright.search.constructive.one_device import BFS, DFS, LPMF, ORDERS, REVERSE_GREEDY, XLA_LIST, OneDeviceOrder


def order_of(method: OneDeviceOrder, graph: Graph) -> str:
    problem = problem_of(graph, machine_of(1))
    return names_in_order(problem, method.order(problem))


class SlowMemory:
    """The memory that one device holds, from the sets of ops that write or read each storage."""

    def __init__(self, problem: Problem) -> None:
        self.structure: Structure = structure_of(problem)
        self.lowered = problem.lowered
        self.ops = range(self.structure.num_ops)
        self.users: dict[int, set[int]] = {}
        for op in self.ops:
            for tensor in [*self.structure.outputs[op], *self.structure.inputs[op]]:
                self.users.setdefault(int(self.lowered.storage[tensor]), set()).add(op)

    def held_after(self, done: set[int]) -> int:
        """Bytes once exactly the ops in `done` have run."""
        return sum(
            int(self.lowered.allocated_bytes[storage])
            for storage, users in self.users.items()
            if self.structure.producer[storage] in done and (self.lowered.live_out[storage] or users - done)
        )

    def need(self, op: int) -> int:
        """Bytes added while the op runs."""
        own = sum(int(self.lowered.allocated_bytes[tensor]) for tensor in self.structure.outputs[op])
        return own + int(self.lowered.workspace_bytes[op])

    def before(self, op: int) -> set[int]:
        return {self.structure.producer[t] for t in self.structure.inputs[op]} | set(self.structure.predecessors[op])

    def num_users(self, op: int) -> int:
        return sum(tensor in self.structure.inputs[o] for tensor in self.structure.outputs[op] for o in self.ops)


def slow_forward(problem: Problem, key: Callable[[SlowMemory, int, int, int, int], tuple[int, ...]]) -> list[int]:
    """Append, step by step, the ready op of least key(memory, op, bytes held, net bytes of the op, peak)."""
    memory = SlowMemory(problem)
    order: list[int] = []
    peak = 0
    while len(order) < len(memory.ops):
        done = set(order)
        held = memory.held_after(done)
        ready = [op for op in memory.ops if op not in done and memory.before(op) <= done]
        net = {op: memory.held_after(done | {op}) - held for op in ready}
        best = min(ready, key=lambda op: (*key(memory, op, held, net[op], peak), op))
        peak = max(peak, held + memory.need(best))
        order.append(best)
    return order


def slow_reverse(problem: Problem) -> list[int]:
    """Build an order from its end: of the ops whose followers are all placed, prepend the one before which least is
    held."""
    memory = SlowMemory(problem)
    left = set(memory.ops)
    order: list[int] = []
    while left:
        free = [op for op in left if not any(op in memory.before(other) for other in left)]
        held = {op: memory.held_after(left - {op}) for op in free}
        best = min(free, key=lambda op: (held[op], -op))
        order.insert(0, best)
        left.remove(best)
    return order


@pytest.mark.parametrize("method", ORDERS, ids=lambda method: method.name)
@settings(max_examples=50)
@given(problem=problems(max_ops=10))
def test_an_order_holds_every_op_after_all_it_depends_on(method: OneDeviceOrder, problem: Problem) -> None:
    memory = SlowMemory(problem)
    order = method.order(problem).tolist()
    assert sorted(order) == list(memory.ops)
    assert all(memory.before(op) <= set(order[:position]) for position, op in enumerate(order))


@settings(max_examples=50)
@given(problem=problems(max_ops=10))
def test_lpmf_keeps_the_peak_then_frees_most(problem: Problem) -> None:
    def key(memory: SlowMemory, op: int, held: int, net: int, peak: int) -> tuple[int, ...]:
        return max(held + memory.need(op), peak), net

    assert LPMF.order(problem).tolist() == slow_forward(problem, key)


@settings(max_examples=50)
@given(problem=problems(max_ops=10))
def test_xla_list_frees_most_less_what_it_defines(problem: Problem) -> None:
    def key(memory: SlowMemory, op: int, held: int, net: int, peak: int) -> tuple[int, ...]:
        return net, -memory.num_users(op)

    assert XLA_LIST.order(problem).tolist() == slow_forward(problem, key)


@settings(max_examples=50)
@given(problem=problems(max_ops=10))
def test_reverse_greedy_needs_least_before_each_op(problem: Problem) -> None:
    assert REVERSE_GREEDY.order(problem).tolist() == slow_reverse(problem)


def test_bfs_runs_ops_in_the_sequence_in_which_they_become_ready() -> None:
    # a and d are ready at once; a makes b ready, d makes e ready, then b makes c ready.
    graph = graph_of({"a": ("", 1), "b": ("a", 1), "c": ("b", 1), "d": ("", 1), "e": ("d", 1), "f": ("c e", 1)})
    assert order_of(BFS, graph) == "a d b e c f"


@pytest.mark.parametrize(
    ("method", "ops", "order"),
    [
        # No tensor is shared, so extra users are 0 everywhere; history of b: 2 + 1, of d: 5 + 1 bytes.
        (DFS, {"a": ("", 2), "b": ("a", 1), "c": ("", 5), "d": ("c", 1), "e": ("b d", 1)}, "c d a b e"),
        # s has two readers, one more than one, so b counts an extra user; c is bigger but counts none.
        (DFS, {"c": ("", 9), "s": ("", 1), "b": ("s", 1), "x": ("c b s", 1)}, "s b c x"),
        # a (6) and its reader b (+1, peak 7, then 1 held). Then c needs 6 more: 7, no more than the peak; d needs 7.
        (LPMF, {"a": ("", 6), "b": ("a", 1), "d": ("b", 7), "c": ("b", 6), "e": ("c d", 1)}, "a b c d e"),
        # After a and b: c frees 8 for 1, d frees 2 for 1.
        (XLA_LIST, {"a": ("", 2), "b": ("", 8), "d": ("a", 1), "c": ("b", 1), "e": ("c d", 0)}, "a d b c e"),
        # Backwards from e: 3 bytes are held before d, 9 before c, so d goes last; then 1 before b, 10 before c.
        (REVERSE_GREEDY, {"a": ("", 8), "b": ("", 2), "c": ("a", 1), "d": ("b", 1), "e": ("c d", 0)}, "a c b d e"),
    ],
    ids=["dfs: more bytes", "dfs: extra users", "lpmf: under the peak", "xla: frees most", "backwards: a big tensor"],
)
def test_the_rule_of_an_order_decides(method: Any, ops: dict[str, tuple[str, int]], order: str) -> None:
    assert order_of(method, graph_of(ops)) == order


@pytest.mark.parametrize("method", ORDERS, ids=lambda method: method.name)
def test_equal_ops_keep_the_captured_order(method: OneDeviceOrder) -> None:
    graph = graph_of(dict.fromkeys("abcde", ("", 0)))
    assert order_of(method, graph) == "a b c d e"


@pytest.mark.parametrize("ops", [[0, 0], [1, 0], [0], [0, 1, 2], [-1, 0]])
def test_an_order_that_is_none_is_refused(ops: list[int]) -> None:
    problem = problem_of(graph_of({"a": ("", 1), "b": ("a", 1)}), machine_of(2))
    with pytest.raises(ValueError, match="not a valid order"):
        _core.list_schedule(problem.core, np.array(ops, np.int32), False)
    with pytest.raises(ValueError, match="not a valid order"):
        _core.best_transfers(problem.core, np.zeros(2, np.int32), np.array(ops, np.int32), 2)
