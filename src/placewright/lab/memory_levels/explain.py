"""Why a map takes what it takes, what moved, and what each other level would cost."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from placewright.lab.memory_levels.problem import Levels, MemoryProblem
from placewright.lab.memory_levels.record import MappedTensor, MemoryMap
from placewright.support.errors import InputError, did_you_mean, shown

_MAX_MOVES = 12


@dataclass(frozen=True, slots=True, kw_only=True)
class LevelUse:
    """One level of a map.

    Attributes
    ----------
    name
        Of the level.
    capacity_bytes
        What it holds.
    peak_bytes, compiler_peak_bytes
        The most in use, with the map and with the compiler's.
    weight_bytes, activation_bytes
        Of all tensors that lie there; activations need not be there at the same time.
    num_tensors
        How many.
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
    """A tensor that lies elsewhere than the compiler has it.

    Attributes
    ----------
    name, op
        Of the tensor, and of the op it belongs to.
    is_weight
        Whether it is held all the time.
    size_bytes
        What it takes.
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
    """What a map consists of.

    Attributes
    ----------
    compute_ps, overhead_ps, waiting_ps
        Parts of the latency: computation, launches, and waiting for memory beyond the computation.
    bound_ops
        How many ops wait for memory longer than they compute.
    levels
        Their use.
    transitions
        By the compiler's level and the map's, bytes of tensors.
    moves
        Those that save the most, and those that cost the most, in this order.
    num_moves
        How many tensors lie elsewhere.
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
    """Tell what a map consists of."""
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
        moves=tuple(_move(found, tensor, found.chip.level_names[tensor.compiler_level]) for tensor in told),
        num_moves=len(moved),
    )


def transitions(found: MemoryMap, *, weights: bool | None = None) -> tuple[tuple[int, ...], ...]:
    """Bytes of tensors by the compiler's level and the map's, of weights or activations only where that is said."""
    told = [tensor for tensor in found.tensors if weights is None or tensor.is_weight == weights]
    size = len(found.chip.levels)
    return _bytes_moved(((t.compiler_level, t.level, t.size_bytes) for t in told), size, size)


def _bytes_moved(moves: Iterable[tuple[int, int, int]], num_rows: int, num_columns: int) -> tuple[tuple[int, ...], ...]:
    """The sum of the bytes by origin and destination."""
    matrix = [[0] * num_columns for _ in range(num_rows)]
    for origin, destination, size in moves:
        matrix[origin][destination] += size
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


def _move(found: MemoryMap, tensor: MappedTensor, origin: str) -> TensorMove:
    """A tensor that lies at `origin` in another map."""
    return TensorMove(
        name=tensor.name,
        op=found.ops[tensor.op].name,
        is_weight=tensor.is_weight,
        size_bytes=tensor.size_bytes,
        from_level=origin,
        to_level=found.chip.level_names[tensor.level],
        saved_ps=tensor.saved_ps,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class LevelChoice:
    """A level that a tensor could lie in.

    Attributes
    ----------
    level
        Its name.
    is_chosen
        Whether the tensor lies there.
    change_ps
        What moving it there alone adds to the latency.
    missing_bytes
        What the level lacks to hold it beside the others; 0 where it fits.
    """

    level: str
    is_chosen: bool
    change_ps: int
    missing_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TensorChoices:
    """Where a tensor lies, and where it could.

    Attributes
    ----------
    name, op
        Of the tensor, and of the op it belongs to.
    is_weight
        Whether it is held all the time.
    size_bytes
        What it takes.
    choices
        By level.
    """

    name: str
    op: str
    is_weight: bool
    size_bytes: int
    choices: tuple[LevelChoice, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class MapOpExplanation:
    """The tensors of an op or a module, and what their other levels would cost.

    Attributes
    ----------
    name
        Of the op or module.
    num_ops
        How many ops it is.
    time_ps, compute_ps, compiler_ps
        Of its ops together, as in the map.
    tensors
        That belong to them.
    """

    name: str
    num_ops: int
    time_ps: int
    compute_ps: int
    compiler_ps: int
    tensors: tuple[TensorChoices, ...]


def explain_map_op(found: MemoryMap, problem: MemoryProblem, name: str) -> MapOpExplanation:
    """Tell why the tensors of an op, or of all ops of a module, lie where they do.

    Raises InputError for a name of neither.
    """
    ops = [index for index, op in enumerate(found.ops) if name in (op.name, op.module)]
    ops = ops or [index for index, op in enumerate(found.ops) if op.module.startswith(f"{name}.")]
    if not ops:
        known = [op.name for op in found.ops] + [op.module for op in found.ops if op.module]
        near = did_you_mean(name, known, known[:3])
        raise InputError(f"the map has no op and no module '{shown(name)}'{near}")
    levels = np.array([tensor.level for tensor in found.tensors], np.uint8)
    chosen = [index for index, tensor in enumerate(found.tensors) if tensor.op in set(ops)]
    return MapOpExplanation(
        name=name,
        num_ops=len(ops),
        time_ps=sum(found.ops[op].time_ps for op in ops),
        compute_ps=sum(found.ops[op].compute_ps for op in ops),
        compiler_ps=sum(found.ops[op].compiler_ps for op in ops),
        tensors=_choices(found, problem, levels, chosen),
    )


def _choices(
    found: MemoryMap, problem: MemoryProblem, levels: Levels, chosen: Sequence[int]
) -> tuple[TensorChoices, ...]:
    return tuple(
        TensorChoices(
            name=found.tensors[index].name,
            op=found.ops[found.tensors[index].op].name,
            is_weight=found.tensors[index].is_weight,
            size_bytes=found.tensors[index].size_bytes,
            choices=tuple(_choice(found, problem, levels, index, level) for level in range(problem.num_levels)),
        )
        for index in chosen
    )


def _choice(found: MemoryMap, problem: MemoryProblem, levels: Levels, index: int, level: int) -> LevelChoice:
    moved = levels.copy()
    moved[index] = level
    tensor, capacity = found.tensors[index], found.chip.levels[level].capacity_bytes
    held = max(found.bytes_in_use[level][tensor.first : tensor.last + 1])
    needed = held if tensor.level == level else held + tensor.size_bytes
    return LevelChoice(
        level=found.chip.levels[level].name,
        is_chosen=tensor.level == level,
        change_ps=int(problem.time_as_they_are(moved[None])[0]) - found.latency_ps,
        missing_bytes=max(0, needed - capacity),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class MapComparison:
    """Two maps of one graph.

    Attributes
    ----------
    latency_ps
        Of the first and the second.
    chips
        Their names.
    solvers
        Who made them.
    peak_bytes
        By level of the first chip that both have, of the first and the second.
    transitions
        By level of the first and of the second, bytes of tensors; rows and columns as the levels of the chips.
    num_moves
        How many tensors lie in another level.
    moves
        The largest of them; saved_ps is what the second map saves there by itself, as far as it says.
    """

    latency_ps: tuple[int, int]
    chips: tuple[str, str]
    solvers: tuple[str, str]
    peak_bytes: dict[str, tuple[int, int]]
    transitions: tuple[tuple[int, ...], ...]
    num_moves: int
    moves: tuple[TensorMove, ...]


def compare_maps(first: MemoryMap, second: MemoryMap) -> MapComparison:
    """Compare two maps. Raises InputError where they are for different graphs."""
    if first.graph_fingerprint != second.graph_fingerprint:
        graphs = f"'{shown(first.graph_name)}' and '{shown(second.graph_name)}'"
        raise InputError(
            f"the maps are for different graphs, {graphs}"
            if first.graph_name != second.graph_name
            else f"the maps are for two graphs that are both called '{shown(first.graph_name)}' and differ"
        )
    if [tensor.name for tensor in first.tensors] != [tensor.name for tensor in second.tensors]:
        raise InputError(
            f"the maps are for '{shown(first.graph_name)}' both, but do not list the same tensors; `placewright check` "
            "tells which is wrong"
        )
    names = first.chip.level_names, second.chip.level_names
    pairs = list(zip(first.tensors, second.tensors, strict=True))
    sizes = [(one.level, other.level, other.size_bytes) for one, other in pairs]
    origins = [(other, names[0][one.level]) for one, other in pairs]
    moved = [_move(second, other, origin) for other, origin in origins if origin != names[1][other.level]]
    moved.sort(key=lambda move: -move.size_bytes)
    both = [name for name in names[0] if name in names[1]]
    return MapComparison(
        latency_ps=(first.latency_ps, second.latency_ps),
        chips=(first.chip.name, second.chip.name),
        solvers=(first.solver, second.solver),
        peak_bytes={name: (_peak(first, name), _peak(second, name)) for name in both},
        transitions=_bytes_moved(sizes, len(names[0]), len(names[1])),
        num_moves=len(moved),
        moves=tuple(moved[:_MAX_MOVES]),
    )


def _peak(found: MemoryMap, level: str) -> int:
    return found.peak_bytes(found.chip.level_names.index(level))
