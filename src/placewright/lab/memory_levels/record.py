"""The map: where every tensor lives, what that costs, and what a compiler's map would have cost."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from placewright.lab.memory_levels.chip import Chip

SCHEMA_VERSION = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class MappedTensor:
    """One tensor of a map.

    Attributes
    ----------
    name
        Of the tensor; several parameters that the same ops read are one, named after the largest.
    op
        Index of the op it belongs to: the first that reads a weight, the one that makes an activation.
    is_weight
        Whether it is held all the time.
    size_bytes
        What it takes in its level.
    first, last
        Indices of the ops between which it is held.
    level
        Index into the chip's levels.
    compiler_level
        Where the compiler's map has it.
    saved_ps
        What the map would take more, were this tensor alone where the compiler has it. Negative where it makes room
        for others.
    """

    name: str
    op: int
    is_weight: bool
    size_bytes: int
    first: int
    last: int
    level: int
    compiler_level: int
    saved_ps: int


@dataclass(frozen=True, slots=True, kw_only=True)
class MappedOp:
    """One op of a map.

    Attributes
    ----------
    name, kind, module
        As in the graph.
    time_ps
        What it takes.
    compute_ps
        What it computes, of that.
    compiler_ps
        What it takes with the compiler's map.
    """

    name: str
    kind: str
    module: str
    time_ps: int
    compute_ps: int
    compiler_ps: int


@dataclass(frozen=True, kw_only=True, repr=False)
class MemoryMap:
    """Levels of all tensors of a network on one chip, with the evidence of how they were found.

    Attributes
    ----------
    graph_name, graph_fingerprint, num_graph_ops
        Of the graph that the map is for.
    chip
        The chip that it is for.
    ops
        In the order in which they run.
    tensors
        By op, its weights before what it makes.
    latency_ps
        Of one run of the network.
    compiler, compiler_ps
        The compiler's rule whose map is fastest, with which this one is compared, and its latency.
    others
        Latency by name of what else ran.
    bound_ps, bound_reason
        No map is faster, and why. 0 where nothing is proven.
    status
        "optimal" or "feasible".
    solver, found_by, seed, evaluations, seconds, stopped_because
        As in a plan.
    configuration
        The solver's settings, and the options of the run.
    version
        Of placewright.
    """

    graph_name: str
    graph_fingerprint: str
    num_graph_ops: int
    chip: Chip
    ops: tuple[MappedOp, ...]
    tensors: tuple[MappedTensor, ...]
    latency_ps: int
    compiler: str
    compiler_ps: int
    others: Mapping[str, int]
    bound_ps: int
    bound_reason: str
    status: str
    solver: str
    found_by: str
    seed: int
    evaluations: int
    seconds: float
    stopped_because: str
    configuration: Mapping[str, Any]
    version: str

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}({self.graph_name!r} on {self.chip.name}: {self.latency_ps / 1e6:,.6g} us, "
            f"{self.speedup:.3g}x of {self.compiler})"
        )

    @property
    def speedup(self) -> float:
        """How many times faster the network runs than with the compiler's map."""
        return self.compiler_ps / self.latency_ps if self.latency_ps else 1.0

    @property
    def gap(self) -> float:
        """How far the latency may be above the optimum: latency / bound - 1."""
        return self.latency_ps / self.bound_ps - 1 if self.bound_ps else float("inf")

    @cached_property
    def bytes_in_use(self) -> tuple[tuple[int, ...], ...]:
        """By level and op what the level holds."""
        return in_use(self, [tensor.level for tensor in self.tensors])

    @cached_property
    def compiler_bytes_in_use(self) -> tuple[tuple[int, ...], ...]:
        """The same of the compiler's map."""
        return in_use(self, [tensor.compiler_level for tensor in self.tensors])

    def peak_bytes(self, level: int) -> int:
        """Tell the most that a level holds at once.

        Parameters
        ----------
        level
            Index into the chip's levels.
        """
        return max(self.bytes_in_use[level], default=0)


def in_use(found: MemoryMap, levels: list[int]) -> tuple[tuple[int, ...], ...]:
    """Bytes by level and op, were the tensors in these levels."""
    change = [[0] * (len(found.ops) + 1) for _ in found.chip.levels]
    for tensor, level in zip(found.tensors, levels, strict=True):
        change[level][tensor.first] += tensor.size_bytes
        change[level][tensor.last + 1] -= tensor.size_bytes
    return tuple(_running(row[:-1]) for row in change)


def _running(changes: list[int]) -> tuple[int, ...]:
    total, sums = 0, []
    for change in changes:
        total += change
        sums.append(total)
    return tuple(sums)
