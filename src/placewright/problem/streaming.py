"""Weights that may lie in the host's memory while an inference runs, and come to the device for their readers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from placewright.graph import Graph, Op
from placewright.problem.problem import Problem
from placewright.problem.running_again import read_by_views

#: Phases of a step that trains, whose weights stay on the device.
_TRAINING = ("backward", "optimizer")


def streamable(graph: Graph) -> tuple[int, ...]:
    """The parameters of an inference that ops read and nothing writes to, nor to what their views read beside them, and
    that share no memory; empty for a step that trains."""
    if any(op.phase in _TRAINING for op in graph.ops):
        return ()
    # What only views read is no resident of any op.
    read = {graph.base_of[tensor] for op in graph.ops if op.kind != "view" for tensor in op.inputs}
    shared = {
        graph.base_of[index]
        for index, tensor in enumerate(graph.tensors)
        if tensor.alias_of is not None and not _is_view(graph, index)
    }
    outputs = {graph.base_of[index] for index, tensor in enumerate(graph.tensors) if tensor.is_output}
    changing = {base for base, others in read_by_views(graph).items() if others & shared}
    return tuple(
        index
        for index, tensor in enumerate(graph.tensors)
        if tensor.role == "parameter" and tensor.held_bytes > 0 and index in read - shared - outputs - changing
    )


def _is_view(graph: Graph, tensor: int) -> bool:
    producer = graph.producer_of[tensor]
    return producer >= 0 and graph.ops[producer].kind == "view"


def with_weights_made(problem: Problem, weights: Sequence[int]) -> Problem:
    """The problem in which each of these weights is what an op in front of all others makes, which takes no time and
    holds its result to the end of the step: so that searches and bounds see them as they see other tensors."""
    graph = problem.graph
    if not weights:
        return problem
    tensors = list(graph.tensors)
    for weight in weights:
        tensors[weight] = replace(tensors[weight], role="activation", is_output=True)
    # Longer than all others, so that no op has such a name.
    mark = "@" * (1 + max(len(op.name) for op in graph.ops))
    made = [Op(name=f"{graph.tensors[weight].name}{mark}", kind="input", outputs=(weight,)) for weight in weights]
    ops = [replace(op, controls=tuple(each + len(made) for each in op.controls)) for op in graph.ops]
    num_devices = problem.machine.num_devices
    origin = problem.time_origin
    if origin is not None:
        origin = np.concatenate([np.zeros((len(made), num_devices), origin.dtype), origin])
    return replace(
        problem,
        graph=replace(graph, ops=(*made, *ops), tensors=tuple(tensors)),
        time_ns=np.concatenate([np.zeros((len(made), num_devices), np.int64), problem.time_ns]),
        time_origin=origin,
    )
