"""The observation of learners of memory maps (EGRL, table 1): features of a network's ops, and the edges between
them."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from placewright.graph import OP_KINDS, Op, Tensor
from placewright.lab.memory_levels.problem import MemoryProblem

#: In the order of the paper's table, without the operation's id, which here is the kind of op, one-hot.
FEATURES = (
    *("weight_size", "ifm_x", "ifm_y", "ifm_z", "ofm_x", "ofm_y", "ofm_z", "ifm_size", "ofm_size"),
    *("n_ops_left", "n_w_left", "groups", "kernel_x", "kernel_y", "stride", "pad", "dilation", "batch"),
)
_KINDS = {kind: index for index, kind in enumerate(OP_KINDS)}
NUM_FEATURES = len(FEATURES) + len(_KINDS)
#: Divides logarithms: sizes of gigabytes are then near 2.
_SCALE = 10.0


@dataclass(frozen=True, kw_only=True, eq=False)
class Observation:
    """nodes: float32 [ops, features]. edges: int64 [2, edges], from each op to the readers of its result, and back."""

    nodes: NDArray[np.float32]
    edges: NDArray[np.int64]


def observe(problem: MemoryProblem) -> Observation:
    """Return the observation: the logarithm of 1 + each feature, scaled, so that networks of all sizes look alike."""
    weights = np.zeros(problem.num_ops, np.int64)
    is_weight = problem.is_weight == 1
    np.add.at(weights, problem.node[is_weight], problem.size_bytes[is_weight])
    rows = []
    for op in range(problem.num_ops):
        left = (problem.num_ops - op - 1, int((weights[op:] > 0).sum()))  # ops after it; from it on, those with weights
        rows.append([float(weights[op]), *_shapes(problem, op), *left, *_convolution(problem, op)])
    numbers = np.log1p(np.array(rows)) / _SCALE
    kinds = np.zeros((problem.num_ops, len(_KINDS)))
    kinds[np.arange(problem.num_ops), [_KINDS[_op(problem, op).kind] for op in range(problem.num_ops)]] = 1
    return Observation(nodes=np.hstack([numbers, kinds]).astype(np.float32), edges=_edges(problem))


def _op(problem: MemoryProblem, op: int) -> Op:
    found: Op = problem.graph.ops[problem.graph_op[op]]
    return found


def _shapes(problem: MemoryProblem, op: int) -> list[float]:
    """Return x, y, z of the first input that is not a weight, and of the first result, then how many elements each
    has."""
    graph, own = problem.graph, _op(problem, op)
    read = [graph.tensors[index] for index in own.inputs if graph.producer_of[index] >= 0]
    first, made = _first(read), _first([graph.tensors[index] for index in own.outputs])
    return [*first[1:], *made[1:], math.prod(first), math.prod(made)]


def _first(tensors: list[Tensor]) -> tuple[float, float, float, float]:
    """Return batch, x, y and z of the first tensor; 0 where there is none. For vectors z is their length, and x their
    number."""
    if not tensors:
        return (0, 0, 0, 0)
    shape = tensors[0].shape
    if shape is None:
        return (1, tensors[0].size_bytes, 1, 1)
    if len(shape) == 4:
        batch, depth, height, width = shape
        return (batch, width, height, depth)
    *before, last = shape or (1,)
    *outer, rows = before or (1,)
    return (1, rows, math.prod(outer), last)


def _convolution(problem: MemoryProblem, op: int) -> list[float]:
    """Return groups, kernel x and y, stride, padding and dilation, 0 for other ops; then the batch."""
    own, graph = _op(problem, op), problem.graph
    read = [graph.tensors[index] for index in own.inputs if graph.producer_of[index] >= 0]
    batch = _first(read)[0] or 1
    if own.kind != "conv":
        return [0, 0, 0, 0, 0, 0, batch]
    of = own.attributes
    kernel = _numbers(of.get("kernel"))
    return [
        _numbers(of.get("groups"))[0],
        kernel[-1],
        kernel[0],
        *(_numbers(of.get(name))[0] for name in ("stride", "padding", "dilation")),
        batch,
    ]


def _numbers(value: Any) -> list[float]:
    """Return an attribute, a number or a list, as a list of numbers; [0] where the graph states none."""
    listed = list(value) if isinstance(value, list | tuple) else [value]
    numbers = [float(each) for each in listed if isinstance(each, int | float) and each >= 0]
    return numbers or [0.0]


def _edges(problem: MemoryProblem) -> NDArray[np.int64]:
    """Return the edges in both directions, each once."""
    reader = np.repeat(np.arange(problem.num_ops), np.diff(problem.use_begin))
    maker = problem.node[problem.use_tensor].astype(np.int64)
    between = (problem.is_weight[problem.use_tensor] == 0) & (maker != reader)
    along = np.stack([maker[between], reader[between]])
    both = np.hstack([along, along[::-1]])
    return np.unique(both, axis=1) if both.shape[1] else both.astype(np.int64)
