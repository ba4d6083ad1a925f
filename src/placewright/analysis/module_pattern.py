"""Repeated layers under one name: "encoder.layer.0.output" is one of "encoder.layer.*.output"."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence

from placewright.plans.record import ScheduledOp

_NUMBERED_PART = re.compile(r"(?<![^.])\d+(?![^.])")


def layer_of_ops(ops: Sequence[ScheduledOp]) -> dict[str, str]:
    """By op name what stands for the op in a summary: its module with numbers as "*"; its own name without a module;
    its kind where no op has a module."""
    if not any(op.module for op in ops):
        return {op.name: op.kind for op in ops}
    return {op.name: module_pattern(op.module) or op.name for op in ops}


def module_pattern(module: str) -> str:
    """The path with those parts that are numbers as "*"."""
    return _NUMBERED_PART.sub("*", module)


def module_of_parameter(name: str, modules: Collection[str]) -> str:
    """The module a parameter or its optimizer state belongs to: the longest beginning of its dotted name that is one
    of `modules`; without one, all but the name's last part, or the name itself when it has only one."""
    path = name
    while path := path.rpartition(".")[0]:
        if path in modules:
            return path
    return name.rpartition(".")[0] or name
