"""Names that repeated layers share: "encoder.layer.0.output" becomes "encoder.layer.*.output"."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence

from placewright.plans.record import ScheduledOp

_NUMBERED_PART = re.compile(r"(?<![^.])\d+(?![^.])")


def layer_of_ops(ops: Sequence[ScheduledOp]) -> dict[str, str]:
    """Map each op's name to its name in a summary: its module with numbers as "*", its own name if it has no module, or
    its kind if no op has a module."""
    if not any(op.module for op in ops):
        return {op.name: op.kind for op in ops}
    return {op.name: module_pattern(op.module) or op.name for op in ops}


def module_pattern(module: str) -> str:
    """Replace the parts of a path that are numbers by "*"."""
    return _NUMBERED_PART.sub("*", module)


def module_of_parameter(name: str, modules: Collection[str]) -> str:
    """Find the module that owns a parameter or its optimizer state: the longest beginning of its dotted name that is
    one of `modules`; without one, all but the name's last part, or the name itself when it has only one part."""
    path = name
    while path := path.rpartition(".")[0]:
        if path in modules:
            return path
    return name.rpartition(".")[0] or name
