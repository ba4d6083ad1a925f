"""The sort of op of each call of a program: two calls of one sort take as long on one device.

Imported only where torch is known to be present.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

import torch

from placewright.execution.op_library import BETWEEN_OPS, OpSort
from placewright.execution.pytorch.calls import Call, Value
from placewright.execution.pytorch.program import TorchProgram
from placewright.machines.detect import cpu_name


def host_name() -> str:
    """Processor and version of PyTorch: "AMD EPYC 7763, torch 2.13.0"."""
    return f"{cpu_name()}, torch {torch.__version__.partition('+')[0]}"


def sorts_of(program: TorchProgram, kind: str, devices_busy: int) -> list[OpSort]:
    """The sort of each op of the graph on a kind of device; graph inputs share one."""
    host = host_name()
    return [OpSort(*_call(program, op), kind, devices_busy, host) for op in range(len(program.graph.ops))]


def between_ops(kind: str, devices_busy: int) -> OpSort:
    """The sort for the gap between two ops."""
    return OpSort(BETWEEN_OPS, "", kind, devices_busy, host_name())


def _call(program: TorchProgram, op: int) -> tuple[str, str]:
    record, call = program.graph.ops[op], program.calls.get(op)
    if call is None:
        return "input", ""
    target = record.target or str(record.attributes.get("function", record.kind))
    parts = [_text(value, program) for value in call.args]
    parts += [f"{key}={_text(value, program)}" for key, value in call.kwargs.items()]
    return target, "; ".join([", ".join(parts), *_beside(program, op, call)])


def _beside(program: TorchProgram, op: int, call: Call) -> Iterator[str]:
    """Texts for what is done besides the call itself."""
    if isinstance(call.function, partial):
        yield "in training"
    if settings := getattr(call.function, "settings", ""):
        yield str(settings)
    record = program.graph.ops[op]
    overwrites = any(program.graph.tensors[tensor].alias_of is not None for tensor in record.outputs)
    if overwrites and record.kind != "view":
        yield "in place" if call.in_place else "copied into place"


def _text(value: Any, program: TorchProgram) -> str:
    if isinstance(value, Value):
        tensor = program.graph.tensors[value.tensor]
        shape = ",".join(map(str, tensor.shape or ()))
        strides = program.strides.get(value.tensor)
        laid_out = "" if strides is None or strides == _contiguous(tensor.shape or ()) else f"/{list(strides)}"
        return f"{tensor.dtype}[{shape}]{laid_out.replace(' ', '')}"
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(_text(part, program) for part in value)}]"
    written = repr(value)
    return type(value).__name__ if " at 0x" in written else written


def _contiguous(shape: Sequence[int]) -> tuple[int, ...]:
    strides, step = [], 1
    for extent in reversed(shape):
        strides.append(step)
        step *= max(1, extent)
    return tuple(reversed(strides))
