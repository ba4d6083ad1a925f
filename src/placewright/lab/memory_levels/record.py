"""The map: the level of every tensor, the latency, and the latency of a compiler's map."""

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
        Name of the tensor; several parameters that the same ops read are one, named after the largest.
    op
        Index of the op it belongs to: the first that reads a weight, the one that makes an activation.
    is_weight
        True if it is held all the time.
    size_bytes
        Size in its level.
    first, last
        Indices of the ops between which it is held.
    level
        Index into the chip's levels.
    compiler_level
        Its level in the compiler's map.
    saved_ps
        How much longer the map would take if this tensor alone were where the compiler has it. Negative where it makes
        room for others.
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
        Time of the op.
    compute_ps
        Time of its computation.
    compiler_ps
        Time of the op with the compiler's map.
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
        In execution order.
    tensors
        Sorted by op, its weights before its results.
    latency_ps
        Latency of one run of the network.
    compiler, compiler_ps
        The compiler's rule whose map is fastest, with which this one is compared, and its latency.
    others
        Latency of other maps that were tried, by solver.
    bound_ps, bound_reason
        A lower bound on the latency of every map, and its reason. 0 where nothing is proven.
    status
        "optimal" or "feasible".
    solver, found_by, seed, evaluations, seconds, stopped_because
        As in a plan.
    configuration
        The solver's settings, and the options of the run.
    version
        Version of placewright.
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
        """The speed-up of the network over the compiler's map."""
        return self.compiler_ps / self.latency_ps if self.latency_ps else 1.0

    @property
    def gap(self) -> float:
        """The largest possible distance of the latency from the optimum: latency / bound - 1."""
        return self.latency_ps / self.bound_ps - 1 if self.bound_ps else float("inf")

    @cached_property
    def bytes_in_use(self) -> tuple[tuple[int, ...], ...]:
        """The bytes that each level holds, by level and op."""
        return in_use(self, [tensor.level for tensor in self.tensors])

    @cached_property
    def compiler_bytes_in_use(self) -> tuple[tuple[int, ...], ...]:
        """The bytes that each level holds with the compiler's map, by level and op."""
        return in_use(self, [tensor.compiler_level for tensor in self.tensors])

    def peak_bytes(self, level: int) -> int:
        """Return the most bytes that a level holds at once.

        Parameters
        ----------
        level
            Index into the chip's levels.
        """
        return max(self.bytes_in_use[level], default=0)


def in_use(found: MemoryMap, levels: list[int]) -> tuple[tuple[int, ...], ...]:
    """Return bytes by level and op for tensors in these levels."""
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
