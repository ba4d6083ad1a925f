"""A graph of forward and backward with memory that others hold between the two passes.

Graphs that run one after the other, such as equal blocks, each hold their saved tensors until their backward. All of
these count together, however little each graph takes while it runs. A tensor that exists only between the passes of one
graph turns a limit on its peak into a limit on its saved tensors.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from placewright.graph import Graph, Op, Tensor
from placewright.rematerialization.reruns import Move, Rerun

#: The ops that allocate the memory and free it.
_TAKEN, _GIVEN_BACK = "between:taken", "between:given back"


def with_memory_between(graph: Graph, is_forward: Callable[[str], bool], size: int) -> Graph:
    """Return the graph with so many more bytes in use between the passes. is_forward: True for the name of a forward
    op; all these come before the ops of backward."""
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
    """Convert the reruns and moves of a plan for such a graph to those of the graph itself."""
    last = max(place for place, op in enumerate(graph.ops) if is_forward(op.name))
    first = next(op.name for op in graph.ops[last + 1 :] if op.kind not in ("input", "view"))

    def own(name: str) -> str:
        return first if name in (_TAKEN, _GIVEN_BACK) else name

    def moved(move: Move) -> Move:
        leaves = None if move.leaves_before is None else own(move.leaves_before)
        return replace(move, leaves_before=leaves, returns_before=tuple(map(own, move.returns_before)))

    return [replace(each, before=own(each.before)) for each in reruns], [moved(each) for each in moves]
