"""The record of a lower bound."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

BoundReason = Literal[
    "critical path",
    "work divided over all devices",
    "work of ops that must share a device",
    "critical path with shared work and transfers",
    "work between earliest starts and latest finishes",
    "launches and what follows the last of them",
    "work divided over all devices and host threads",
    "largest op with its inputs, outputs and parameters",
    "parameters and outputs spread over all devices",
    "tensors alive together spread over all devices",
    "tensors that must be dropped and made again",
    "tensors that must be moved or made again",
    "proven by the solver",
]


@dataclass(frozen=True, slots=True)
class Bound:
    """A proof that no valid plan has an objective below value (ns or bytes); reason gives the argument in a few
    words."""

    value: int
    reason: BoundReason
