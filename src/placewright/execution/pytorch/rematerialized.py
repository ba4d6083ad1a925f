"""A program with reruns: every run of an op is a call of its own.

Imported only where torch is known to be present.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch

from placewright.execution.pytorch.calls import Call, Value
from placewright.execution.pytorch.program import TorchProgram
from placewright.rematerialization.reruns import Move, Rerun, rewritten


def rewritten_program(
    program: TorchProgram,
    reruns: Sequence[Rerun],
    moves: Sequence[Move] = (),
    device_of: Mapping[str, int] | None = None,
) -> TorchProgram:
    """The program with reruns and moves, as by `rewritten`. Ops that draw random numbers run once. Raises InputError
    where a rerun or move names what the program does not have."""
    if not reruns and not moves:
        return program
    found = rewritten(program.graph, reruns, moves, device_of)
    calls: dict[int, Call] = {}
    for place, op in enumerate(found.op_of):
        if op not in program.calls:
            continue
        now = dict(zip(program.graph.ops[op].inputs, found.graph.ops[place].inputs, strict=True))
        now |= dict(zip(program.graph.ops[op].outputs, found.graph.ops[place].outputs, strict=True))
        calls[place] = _with_tensors(program.calls[op], now)
    place_of = {op: place for place, op in reversed(list(enumerate(found.op_of)))}
    return replace(
        program,
        graph=found.graph,
        calls=calls,
        strides=_of_copies(program.strides, found.tensor_of),
        homes=_of_copies(program.homes, found.tensor_of),
        random=tuple(place_of[op] for op in program.random),
    )


def _of_copies(known: Mapping[int, Any], tensor_of: Sequence[int]) -> dict[int, Any]:
    """A mapping by tensor, extended to the tensors that are copies or reruns of these."""
    return {place: known[tensor] for place, tensor in enumerate(tensor_of) if tensor in known}


def _with_tensors(call: Call, now: Mapping[int, int]) -> Call:
    def current(leaf: Any) -> Any:
        return Value(now[leaf.tensor]) if isinstance(leaf, Value) else leaf

    return replace(
        call,
        args=_mapped(call.args, current),
        kwargs={name: _mapped(value, current) for name, value in call.kwargs.items()},
        results=tuple(None if tensor is None else now[tensor] for tensor in call.results),
    )


def _mapped(value: Any, change: Callable[[Any], Any]) -> Any:
    """The value with its leaves changed, in sequences of the same sort."""
    if isinstance(value, torch.Size) or not isinstance(value, list | tuple | dict):
        return change(value)
    if isinstance(value, dict):
        return {key: _mapped(each, change) for key, each in value.items()}
    return type(value)(_mapped(each, change) for each in value)
