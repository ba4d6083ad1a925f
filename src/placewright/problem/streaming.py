"""Weights that may stay in the host's memory during inference, and come to the device for their readers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from placewright.graph import Graph, Op
from placewright.problem.problem import Problem
from placewright.problem.running_again import read_by_views

#: Phases of a training step, whose weights stay on the device.
_TRAINING = ("backward", "optimizer")


def streamable(graph: Graph) -> tuple[int, ...]:
    """List the parameters of an inference that ops read, that share no memory, are no outputs and are never
    overwritten, nor is any other tensor that their views read. Empty for a training step."""
    if any(op.phase in _TRAINING for op in graph.ops):
        return ()
    # A parameter that only views read is no resident of any op.
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
    """Return the problem with an op at the beginning for each of these weights that makes it in no time and holds it to
    the end of the step, so that searches and bounds treat weights like other tensors."""
    graph = problem.graph
    if not weights:
        return problem
    tensors = list(graph.tensors)
    for weight in weights:
        tensors[weight] = replace(tensors[weight], role="activation", is_output=True)
    # Longer than any op's name ends, so that the new names are unique.
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
