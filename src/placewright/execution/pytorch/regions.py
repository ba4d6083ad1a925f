"""Regions: ops of one device that run without waiting for another device or handing it anything in between, so that one
call can compute them all.

Imported only where torch is known to be present.
"""

from __future__ import annotations

import operator
from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from typing import Any

import torch

from placewright.execution.pytorch.calls import Value
from placewright.execution.pytorch.program import TorchProgram, reads_of
from placewright.execution.steps import Region, Release, Run, Step, Steps

#: Kinds of ops that Inductor writes loops for.
_FUSED = frozenset(
    {"elementwise", "reduction", "normalization", "normalization_backward", "softmax", "softmax_backward", "copy"}
)


def with_regions(steps: Steps, program: TorchProgram, chosen: Collection[Region] | None = None) -> Steps:
    """The steps with regions in place of the ops that they hold. chosen: the regions wanted; None for all that may
    gain."""
    return replace(steps, of_device=tuple(tuple(_merged(device, program, chosen)) for device in steps.of_device))


def _merged(steps: Sequence[Step], program: TorchProgram, chosen: Collection[Region] | None) -> Iterator[Step]:
    for part in _parts(steps, program):
        if len(part) < 2:
            yield from part
            continue
        region = _region(part, program)
        if _may_gain(region, program) if chosen is None else region in chosen:
            yield region
            released = {tensor for step in part if isinstance(step, Release) for tensor in step.tensors}
            made = {tensor for op in region.ops for tensor in program.graph.ops[op].outputs}
            if gone := tuple(sorted(released - made)):
                yield Release(gone)
        else:
            yield from part


def _parts(steps: Sequence[Step], program: TorchProgram) -> Iterator[list[Step]]:
    """The steps in pieces: ops that one call may compute, with the releases among them, or one other step."""
    part: list[Step] = []
    for step in steps:
        if isinstance(step, Release) or (isinstance(step, Run) and _may_join(step.op, program)):
            part.append(step)
            continue
        if part:
            yield part
            part = []
        yield [step]
    if part:
        yield part


def _may_join(op: int, program: TorchProgram) -> bool:
    """True if an op is one call of PyTorch that changes nothing and draws no random numbers."""
    call, graph = program.calls.get(op), program.graph
    if call is None or not isinstance(call.function, torch._ops.OpOverload):
        return False
    aliases = any(graph.tensors[tensor].alias_of is not None for tensor in graph.ops[op].outputs)
    overwrites = aliases and graph.ops[op].kind != "view"
    draws = torch.Tag.nondeterministic_seeded in call.function.tags
    return not (overwrites or draws or call.function._schema.is_mutable)


def _region(part: Sequence[Step], program: TorchProgram) -> Region:
    ops = tuple(step.op for step in part if isinstance(step, Run))
    released = {tensor for step in part if isinstance(step, Release) for tensor in step.tensors}
    made: dict[int, None] = {}
    read: dict[int, None] = {}
    for op in ops:
        read.update(dict.fromkeys(tensor for tensor in reads_of(op, program) if tensor not in made))
        made.update(dict.fromkeys(tensor for tensor in program.calls[op].results if tensor is not None))
    # Others read the tensors of a region that are not released within it.
    return Region(ops, tuple(read), tuple(tensor for tensor in made if tensor not in released))


def _may_gain(region: Region, program: TorchProgram) -> bool:
    """True if there is something to fuse: two ops that a loop computes; libraries compute the heavy ones."""
    kinds = [program.graph.ops[op].kind for op in region.ops]
    return bool(region.outputs) and sum(kind in _FUSED for kind in kinds) > 1


def traced(region: Region, program: TorchProgram) -> torch.fx.GraphModule:
    """A region as PyTorch traces it: a function of its inputs that returns its outputs, each in order."""
    graph = torch.fx.Graph()
    node_of = {tensor: graph.placeholder(f"t{tensor}") for tensor in region.inputs}

    def node(value: Any) -> Any:
        if isinstance(value, Value):
            return node_of[value.tensor]
        if isinstance(value, (list, tuple)) and not isinstance(value, torch.Size):
            return [node(part) for part in value]
        return value

    for op in region.ops:
        call = program.calls[op]
        made = graph.call_function(
            call.function, tuple(map(node, call.args)), {k: node(v) for k, v in call.kwargs.items()}
        )
        for place, tensor in enumerate(call.results):
            if tensor is not None:
                node_of[tensor] = graph.call_function(operator.getitem, (made, place)) if call.several else made
    graph.output(tuple(node_of[tensor] for tensor in region.outputs))
    return torch.fx.GraphModule(torch.nn.Module(), graph)
