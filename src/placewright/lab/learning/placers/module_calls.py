"""The module call that each op belongs to, read from the graph alone."""

from __future__ import annotations

from collections import Counter
from typing import TypeAlias

from placewright.graph import Op
from placewright.problem import Problem

#: Path of a module, and the number of its earlier calls.
Call: TypeAlias = tuple[str, int]


def module_calls(problem: Problem) -> list[Call | None]:
    """Return per scheduled op its module and call; None outside modules, in backward passes and in optimizers.

    A module's call begins where its first op comes again: the same target from the same line. A module that calls no
    other, such as a Linear, counts as part of its caller, where that has ops of its own and is called as often.
    """
    graph = problem.graph
    calls, times = _own_calls(graph.ops)
    home = {path: _caller(path, times) for path in times}
    found: list[Call | None] = []
    for index in problem.lowered.graph_op.tolist():
        call = calls[index]
        found.append(None if call is None else (home[call[0]], call[1]))
    return found


def _own_calls(ops: tuple[Op, ...]) -> tuple[list[Call | None], Counter[str]]:
    """Return per op its module and call, and the number of calls of each module."""
    first: dict[str, tuple[str, str]] = {}
    times: Counter[str] = Counter()
    calls: list[Call | None] = []
    for op in ops:
        if not op.module or op.phase not in ("", "forward"):
            calls.append(None)
            continue
        signature = (op.target or op.kind, op.source)
        if signature == first.setdefault(op.module, signature):
            times[op.module] += 1
        calls.append((op.module, times[op.module] - 1))
    return calls, times


def _caller(path: str, times: Counter[str]) -> str:
    """Return the module that the ops of this one are counted to."""
    parent = path.rpartition(".")[0]
    calls_others = any(other.startswith(f"{path}.") for other in times)
    return parent if parent and not calls_others and times[parent] == times[path] else path
