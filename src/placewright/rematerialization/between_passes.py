"""A graph of forward and backward with memory that something else holds between the two.

Of graphs that run one after the other, as equal blocks do, each holds until its backward what it saved, and what all
of them save counts, however little each takes while it runs. A tensor that is there between the passes of one alone
makes a limit on what it saves out of a limit on its peak.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from placewright.graph import Graph, Op, Tensor
from placewright.rematerialization.reruns import Move, Rerun

#: The ops that take the memory and give it back.
_TAKEN, _GIVEN_BACK = "between:taken", "between:given back"


def with_memory_between(graph: Graph, is_forward: Callable[[str], bool], size: int) -> Graph:
    """The graph in which so many bytes are in use between the passes. is_forward: whether an op of that name is of
    forward, whose ops all stand before those of backward."""
    last = max(place for place, op in enumerate(graph.ops) if is_forward(op.name))
    before, after = graph.ops[: last + 1], graph.ops[last + 1 :]
    tensor = len(graph.tensors)
    taken = Op(name=_TAKEN, kind="other", outputs=(tensor,), controls=(last,), time_ns=0)
    given_back = Op(name=_GIVEN_BACK, kind="other", inputs=(tensor,), time_ns=0)
    moved = (replace(op, controls=tuple(control + 2 * (control > last) for control in op.controls)) for op in after)
    return replace(
        graph,
        ops=(*before, taken, given_back, *moved),
        tensors=(*graph.tensors, Tensor(name="between", size_bytes=size)),
    )


def without_memory_between(
    reruns: Sequence[Rerun], moves: Sequence[Move], graph: Graph, is_forward: Callable[[str], bool]
) -> tuple[list[Rerun], list[Move]]:
    """The reruns and moves of a plan for such a graph as those of the graph itself."""
    last = max(place for place, op in enumerate(graph.ops) if is_forward(op.name))
    first = next(op.name for op in graph.ops[last + 1 :] if op.kind not in ("input", "view"))

    def own(name: str) -> str:
        return first if name in (_TAKEN, _GIVEN_BACK) else name

    def moved(move: Move) -> Move:
        leaves = None if move.leaves_before is None else own(move.leaves_before)
        return replace(move, leaves_before=leaves, returns_before=tuple(map(own, move.returns_before)))

    return [replace(each, before=own(each.before)) for each in reruns], [moved(each) for each in moves]
