"""Block checkpointing, as frameworks do it: the results of a block's forward are made again when backward needs
them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import pairwise

from placewright.graph import Graph
from placewright.problem import Problem
from placewright.problem.running_again import again_before
from placewright.rematerialization.reruns import Rerun

#: A block: the forward ops that run again together, by index.
Block = tuple[int, ...]


def module_blocks(graph: Graph) -> dict[str, Block]:
    """Group the forward ops by their repeated module ("encoder.layer.3"), in the order of the graph.

    A module is repeated if its path ends in a number. One without submodules is a layer of its parent, which is then
    the block. Ops outside such modules belong to no block.
    """
    found: dict[str, list[int]] = {}
    for index, op in enumerate(graph.ops):
        if op.phase == "forward" and op.kind != "view" and (path := _repeated(op.module)):
            found.setdefault(path, []).append(index)
    blocks: dict[str, list[int]] = {}
    for path, ops in found.items():
        is_layer = all(graph.ops[op].module == path for op in ops)
        if name := path.rpartition(".")[0] if is_layer else path:
            blocks.setdefault(name, []).extend(ops)
    return {name: tuple(sorted(ops)) for name, ops in blocks.items()}


def _repeated(module: str) -> str:
    """Return the path up to its first number; empty if it has none."""
    parts = module.split(".")
    numbers = [place for place, part in enumerate(parts) if part.isdecimal()]
    return ".".join(parts[: numbers[0] + 1]) if numbers else ""


def merged(blocks: Sequence[Block], count: int) -> list[Block]:
    """Join neighbours until there are `count`, of about equally many blocks each."""
    bounds = [round(number * len(blocks) / count) for number in range(count + 1)]
    return [tuple(sorted(op for block in blocks[begin:end] for op in block)) for begin, end in pairwise(bounds)]


def checkpointed(problem: Problem, blocks: Sequence[Block]) -> tuple[Rerun, ...]:
    """List the reruns of a step in which every block is checkpointed, in their order.

    A result of a block that another forward op reads is held until that op and the backward of these readers have read
    it. The results that the block's own backward reads are made again, all of a block at once, right before the first
    of them is read. Ops that must not run again are left unchanged.
    """
    graph = problem.graph
    until = dict(zip(problem.lowered.graph_op.tolist(), again_before(problem).tolist(), strict=True))
    place = {op: index for index, op in enumerate(problem.lowered.graph_op.tolist())}
    readers = _readers(graph)
    found = sorted((_of_block(graph, block, readers) for block in blocks if block), key=lambda each: each[0])
    return tuple(
        Rerun(name=f"{graph.ops[op].name}@2", op=graph.ops[op].name, before=graph.ops[before].name, tensors=tensors)
        for before, runs in found
        for op, tensors in runs
        if until[op] > place[before]
    )


def with_inputs_held(again: Problem, graph: Graph, blocks: Sequence[Block]) -> Problem:
    """Return the step in which the inputs of a checkpointed block are held to the end of its backward, as PyTorch holds
    them to call the block again. again: the problem with the reruns of the graph's blocks as ops."""
    inputs = [list(op.inputs) for op in again.graph.ops]
    place = {op.name: index for index, op in enumerate(again.graph.ops)}
    last: dict[str, int] = {}
    for op in graph.ops:
        if op.phase == "backward" and op.kind != "view":
            last[_repeated(op.module)] = place[op.name]
    for block in blocks:
        own = set(block)
        end = max((last.get(_repeated(graph.ops[op].module), -1) for op in block), default=-1)
        given = {graph.base_of[tensor] for op in block for tensor in graph.ops[op].inputs}
        if end >= 0:
            inputs[end] += [tensor for tensor in given if graph.producer_of[tensor] not in {-1, *own}]
    ops = (replace(op, inputs=tuple(each)) for op, each in zip(again.graph.ops, inputs, strict=True))
    return replace(again, graph=replace(again.graph, ops=tuple(ops)))


def _readers(graph: Graph) -> dict[int, list[int]]:
    """Map each tensor that owns memory to the ops that read it, directly or through views."""
    readers: dict[int, list[int]] = {}
    for index, op in enumerate(graph.ops):
        if op.kind != "view":
            for tensor in op.inputs:
                readers.setdefault(graph.base_of[tensor], []).append(index)
    return readers


def _of_block(
    graph: Graph, block: Block, readers: dict[int, list[int]]
) -> tuple[int, list[tuple[int, tuple[str, ...]]]]:
    """Return the op before which a block runs again, and the ops of the rerun with the tensors that they make."""
    modules = {_repeated(graph.ops[op].module) for op in block}
    made = {tensor for op in block for tensor in _made(graph, op)}
    asked = [
        (reader, tensor)
        for tensor in made
        for reader in readers.get(tensor, ())
        if graph.ops[reader].phase != "forward"
    ]
    # Results that the block passes on are held for their readers, and still made again for the block's own backward.
    before = min(
        (reader for reader, _ in asked if _repeated(graph.ops[reader].module) in modules), default=len(graph.ops)
    )
    wanted = {tensor for tensor in made if any(reader >= before for reader in readers.get(tensor, ()))}
    for op in reversed(block):
        if wanted.intersection(_made(graph, op)):
            wanted |= {base for tensor in graph.ops[op].inputs if (base := graph.base_of[tensor]) in made}
    runs = [
        (op, tuple(graph.tensors[tensor].name for tensor in _made(graph, op)))
        for op in block
        if wanted.intersection(_made(graph, op))
    ]
    return before, runs


def _made(graph: Graph, op: int) -> Iterator[int]:
    """Yield the results of an op that own their memory."""
    return (tensor for tensor in graph.ops[op].outputs if graph.tensors[tensor].alias_of is None)
