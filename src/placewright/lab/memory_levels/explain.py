"""An explanation of a map: the parts of its latency, the use of its levels, and the tensors that moved."""

from __future__ import annotations

from dataclasses import dataclass

from placewright.lab.memory_levels.record import MappedTensor, MemoryMap

_MAX_MOVES = 12


@dataclass(frozen=True, slots=True, kw_only=True)
class LevelUse:
    """One level of a map.

    Attributes
    ----------
    name
        Name of the level.
    capacity_bytes
        Its capacity.
    peak_bytes, compiler_peak_bytes
        The most in use, with the map and with the compiler's.
    weight_bytes, activation_bytes
        Of all tensors in the level; activations need not be there at the same time.
    num_tensors
        Number of those tensors.
    """

    name: str
    capacity_bytes: int
    peak_bytes: int
    compiler_peak_bytes: int
    weight_bytes: int
    activation_bytes: int
    num_tensors: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TensorMove:
    """A tensor whose level differs from the compiler's.

    Attributes
    ----------
    name, op
        Name of the tensor, and of the op it belongs to.
    is_weight
        True if it is held all the time.
    size_bytes
        Size in its level.
    from_level, to_level
        Names of the levels: the compiler's, the map's.
    saved_ps
        As in the map.
    """

    name: str
    op: str
    is_weight: bool
    size_bytes: int
    from_level: str
    to_level: str
    saved_ps: int


@dataclass(frozen=True, slots=True, kw_only=True)
class MapExplanation:
    """The parts of a map's latency, and the tensors that moved.

    Attributes
    ----------
    compute_ps, overhead_ps, waiting_ps
        Parts of the latency: computation, launches, and waiting for memory beyond the computation.
    bound_ops
        Number of ops that wait for memory longer than they compute.
    levels
        The use of each level.
    transitions
        Bytes of tensors, by the compiler's level and the map's.
    moves
        The moves that save the most, and those that cost the most, in this order.
    num_moves
        Number of tensors whose level differs from the compiler's.
    """

    compute_ps: int
    overhead_ps: int
    waiting_ps: int
    bound_ops: int
    levels: tuple[LevelUse, ...]
    transitions: tuple[tuple[int, ...], ...]
    moves: tuple[TensorMove, ...]
    num_moves: int


def explain_map(found: MemoryMap) -> MapExplanation:
    """Explain what a map consists of."""
    moved = sorted((t for t in found.tensors if t.level != t.compiler_level), key=lambda t: -t.saved_ps)
    told = moved if len(moved) <= _MAX_MOVES else [*moved[: _MAX_MOVES - 3], *moved[-3:]]
    overhead = found.chip.op_overhead_ns * 1000
    compute = sum(op.compute_ps for op in found.ops)
    return MapExplanation(
        compute_ps=compute,
        overhead_ps=overhead * len(found.ops),
        waiting_ps=found.latency_ps - compute - overhead * len(found.ops),
        bound_ops=sum(op.time_ps - overhead > op.compute_ps for op in found.ops),
        levels=tuple(_level_use(found, level) for level in range(len(found.chip.levels))),
        transitions=transitions(found),
        moves=tuple(_move(found, tensor) for tensor in told),
        num_moves=len(moved),
    )


def transitions(found: MemoryMap) -> tuple[tuple[int, ...], ...]:
    """Sum the bytes of tensors by the compiler's level and the map's."""
    size = len(found.chip.levels)
    matrix = [[0] * size for _ in range(size)]
    for tensor in found.tensors:
        matrix[tensor.compiler_level][tensor.level] += tensor.size_bytes
    return tuple(map(tuple, matrix))


def _level_use(found: MemoryMap, level: int) -> LevelUse:
    inside = [tensor for tensor in found.tensors if tensor.level == level]
    return LevelUse(
        name=found.chip.levels[level].name,
        capacity_bytes=found.chip.levels[level].capacity_bytes,
        peak_bytes=found.peak_bytes(level),
        compiler_peak_bytes=max(found.compiler_bytes_in_use[level], default=0),
        weight_bytes=sum(tensor.size_bytes for tensor in inside if tensor.is_weight),
        activation_bytes=sum(tensor.size_bytes for tensor in inside if not tensor.is_weight),
        num_tensors=len(inside),
    )


def _move(found: MemoryMap, tensor: MappedTensor) -> TensorMove:
    return TensorMove(
        name=tensor.name,
        op=found.ops[tensor.op].name,
        is_weight=tensor.is_weight,
        size_bytes=tensor.size_bytes,
        from_level=found.chip.level_names[tensor.compiler_level],
        to_level=found.chip.level_names[tensor.level],
        saved_ps=tensor.saved_ps,
    )
