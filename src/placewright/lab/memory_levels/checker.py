"""An independent, slow check of a map: its tensors, times and memory from the graph and the chip alone.

It shares the model with the core (docs/lab/memory-levels.md) and no code, except the formulas for an op's work and the
lower bound, which is computed anew.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from fractions import Fraction

from placewright.graph import Graph, Op
from placewright.importers.builder import DTYPE_BITS
from placewright.lab.memory_levels.bounds import ALONE, PROGRAM, alone_bound
from placewright.lab.memory_levels.chip import Chip, MemoryLevel
from placewright.lab.memory_levels.lowering import make_memory_problem
from placewright.lab.memory_levels.record import MemoryMap
from placewright.lab.memory_levels.work import compute_ps, work_of
from placewright.support.errors import shown
from placewright.support.quantities import format_bytes

#: The tolerance of programs: a bound within a millionth proves a map optimal.
_TOLERANCE = 1e-6
_FLOATS = ("float16", "bfloat16", "float32", "float64")
_MAX_COMPLAINTS = 20


@dataclass(kw_only=True)
class _Held:
    """A tensor in the check: its size, when it is held, how many bytes of it each op moves, and, for a weight, which
    ops overwrite it."""

    size: int = 0
    is_weight: bool = False
    first: int = 0
    last: int = 0
    moved: defaultdict[int, int] = field(default_factory=lambda: defaultdict(int))
    overwritten: set[int] = field(default_factory=set)


def check_map(found: MemoryMap, graph: Graph) -> list[str]:
    """Return what is wrong with the map, one sentence each; an empty list where all is right."""
    return list(_complaints(found, graph))[:_MAX_COMPLAINTS]


def _complaints(found: MemoryMap, graph: Graph) -> Iterator[str]:
    ops = [op for op in graph.ops if op.kind not in ("view", "input")]
    if [op.name for op in ops] != [op.name for op in found.ops]:
        yield "the ops of the map are not those of the graph, in its order"
        return
    tensors, fixed = _tensors(graph, ops, found.chip)
    if sorted(t.name for t in found.tensors) != sorted(tensors):
        yield "the tensors of the map are not those of the graph"
        return
    for tensor in found.tensors:
        seen = tensors[tensor.name]
        claimed = (tensor.size_bytes, tensor.is_weight, tensor.first, tensor.last)
        if claimed != (seen.size, seen.is_weight, seen.first, seen.last):
            yield (
                f"tensor '{tensor.name}' takes {seen.size} bytes during ops {seen.first} to {seen.last}, "
                f"not {tensor.size_bytes} during {tensor.first} to {tensor.last}"
            )
    for name, level_of in (("the map", "level"), ("the compiler's map", "compiler_level")):
        levels = {tensor.name: int(getattr(tensor, level_of)) for tensor in found.tensors}
        yield from _overfull(found.chip, tensors, levels, len(ops), name)
        yield from _wrong_times(found, graph, ops, tensors, fixed, levels, name)
    yield from _wrong_bound(found, graph)
    for mapped, op in zip(found.ops, ops, strict=True):
        if (mapped.kind, mapped.module) != (op.kind, op.module):
            yield f"op '{mapped.name}' is of kind '{op.kind}' in module '{op.module}', and the map says otherwise"


def _tensors(graph: Graph, ops: list[Op], chip: Chip) -> tuple[dict[str, _Held], list[int]]:
    """Return the tensors to map by name, and per op the bytes of the network's inputs that it reads."""
    activations: dict[int, _Held] = {}
    # For each parameter the ops that use it under any name, each with the bytes it writes there.
    used: defaultdict[int, dict[int, int]] = defaultdict(dict)
    fixed = [0] * len(ops)
    inputs = {tensor for op in graph.ops if op.kind == "input" for tensor in op.outputs}
    for number, op in enumerate(ops):
        written = sum(_bytes(graph, chip, tensor) for tensor in op.outputs)
        for source in dict.fromkeys(_source(graph, tensor) for tensor in _touched(graph, op)):
            root = graph.base_of[source]
            size = _bytes(graph, chip, source)
            moved = min(size, written) if op.kind in ("gather", "copy") else size
            if graph.producer_of[root] < 0:
                used[root].setdefault(number, 0)
            elif root in inputs:
                fixed[number] += moved
            else:
                activations[root].moved[number] += moved
                activations[root].last = number
        for tensor in op.outputs:
            root = graph.base_of[tensor]
            if root == tensor:
                size = _held_bytes(graph, chip, tensor)
                activations[root] = _Held(size=size, first=number, last=number)
            if root in activations:
                activations[root].moved[number] += _bytes(graph, chip, tensor)
                activations[root].last = number
            elif root in inputs:
                fixed[number] += _bytes(graph, chip, tensor)
            else:
                used[root][number] += _bytes(graph, chip, tensor)
    for tensor, facts in enumerate(graph.tensors):
        if facts.is_output and graph.base_of[tensor] in activations:
            activations[graph.base_of[tensor]].last = len(ops) - 1
    held = {graph.tensors[root].name: one for root, one in activations.items() if one.size > 0}
    return held | _weights(graph, ops, chip, used), fixed


def _weights(graph: Graph, ops: list[Op], chip: Chip, used: Mapping[int, Mapping[int, int]]) -> dict[str, _Held]:
    """Return parameters and constants; those that the same ops use are one tensor, named after the largest."""
    groups: defaultdict[tuple[int, ...], list[int]] = defaultdict(list)
    for tensor in sorted(used):
        groups[tuple(used[tensor])].append(tensor)
    weights = {}
    for users, members in groups.items():
        sizes = [_held_bytes(graph, chip, tensor) for tensor in members]
        one = _Held(size=sum(sizes), is_weight=True, last=len(ops) - 1)
        for user in users:
            written = sum(_bytes(graph, chip, tensor) for tensor in ops[user].outputs)
            for member, size in zip(members, sizes, strict=True):
                kind = ops[user].kind
                looked_up = written if kind == "embedding" else min(size, written)
                read = looked_up if kind in ("embedding", "gather", "copy") else size
                one.moved[user] += read + used[member][user]
            if any(graph.base_of[tensor] in members for tensor in ops[user].outputs):
                one.overwritten.add(user)
        if one.size > 0:
            weights[graph.tensors[members[sizes.index(max(sizes))]].name] = one
    return weights


def _touched(graph: Graph, op: Op) -> list[int]:
    """Return the tensors that an op reads or overwrites without reading."""
    aliases = [graph.tensors[tensor].alias_of for tensor in op.outputs]
    return [*op.inputs, *(alias for alias in aliases if alias is not None and alias not in op.outputs)]


def _source(graph: Graph, tensor: int) -> int:
    """Return the smallest tensor along a chain of views, the earliest among equals; the parameter where the chain ends
    at one."""
    chain = [tensor]
    while (producer := graph.producer_of[chain[-1]]) >= 0 and graph.ops[producer].kind == "view":
        parent = graph.tensors[chain[-1]].alias_of
        if parent is None:
            break
        chain.append(parent)
    if graph.producer_of[chain[-1]] < 0:
        return chain[-1]
    return min(reversed(chain), key=lambda link: graph.tensors[link].size_bytes)


def _bytes(graph: Graph, chip: Chip, tensor: int) -> int:
    return _as_stored(graph.tensors[tensor].size_bytes, graph.tensors[tensor].dtype, chip)


def _held_bytes(graph: Graph, chip: Chip, tensor: int) -> int:
    return _as_stored(graph.tensors[tensor].held_bytes, graph.tensors[tensor].dtype, chip)


def _as_stored(size: int, dtype: str | None, chip: Chip) -> int:
    if chip.float_bytes is None or dtype not in _FLOATS:
        return size
    return size * 8 * chip.float_bytes // DTYPE_BITS[dtype]


def _overfull(
    chip: Chip, tensors: Mapping[str, _Held], levels: Mapping[str, int], num_ops: int, name: str
) -> Iterator[str]:
    for index, level in enumerate(chip.levels):
        for op in range(num_ops):
            inside = (t for tensor, t in tensors.items() if levels[tensor] == index and t.first <= op <= t.last)
            held = sum(t.size for t in inside)
            if held > level.capacity_bytes:
                yield (
                    f"{name} puts {format_bytes(held)} into {level.name} during op {op}, "
                    f"which holds {format_bytes(level.capacity_bytes)}"
                )
                break


def _wrong_times(
    found: MemoryMap,
    graph: Graph,
    ops: list[Op],
    tensors: Mapping[str, _Held],
    fixed: list[int],
    levels: Mapping[str, int],
    name: str,
) -> Iterator[str]:
    """Report times of ops, or their sum, that differ from the map's."""
    times = _times(found.chip, graph, ops, tensors, fixed, levels)
    is_map = name == "the map"
    for op, time in zip(found.ops, times, strict=True):
        claimed = op.time_ps if is_map else op.compiler_ps
        if claimed != time:
            yield f"op '{op.name}' takes {time} ps with {name}, not {claimed}"
    claimed = found.latency_ps if is_map else found.compiler_ps
    if sum(times) != claimed:
        yield f"{name} takes {sum(times)} ps, not {claimed}"


def _times(
    chip: Chip,
    graph: Graph,
    ops: list[Op],
    tensors: Mapping[str, _Held],
    fixed: list[int],
    levels: Mapping[str, int],
) -> list[int]:
    """Return per op its overhead plus the longest of its computation and its ports, less what was prefetched."""
    uses: list[list[str]] = [[] for _ in ops]
    for name, held in tensors.items():
        for op in held.moved:
            uses[op].append(name)
    times: list[int] = []
    idle = [0] * len(chip.levels)
    fetched_before = 0
    for number, node in enumerate(ops):
        ports = [0] * len(chip.levels)
        ports[-1] = chip.levels[-1].transfer_ps(fixed[number])
        for name in uses[number]:
            ports[levels[name]] += chip.levels[levels[name]].transfer_ps(tensors[name].moved[number])
        fetched = 0
        if number > 0:
            room = min(_room(chip, tensors, levels, number - 1) - fetched_before, _room(chip, tensors, levels, number))
            wanted = [
                sum(
                    tensors[name].moved[number]
                    for name in uses[number]
                    if levels[name] == level and _comes_early(tensors[name], number)
                )
                for level in range(len(chip.levels))
            ]
            fetched = _fetch(chip, ports, wanted, idle, room)
        fetched_before = fetched
        for index, level in enumerate(chip.levels):
            if ports[index] > 0:
                ports[index] += level.latency_ns * 1000
        own = node.time_ns * 1000 if node.time_ns is not None else compute_ps(work_of(node, graph), chip)
        times.append(chip.op_overhead_ns * 1000 + max([own, *ports]))
        idle = [times[-1] - port for port in ports]
    return times


def _comes_early(held: _Held, number: int) -> bool:
    """True if it can be fetched while the previous op runs: a weight that neither that op nor the op itself
    overwrites."""
    return held.is_weight and number not in held.overwritten and number - 1 not in held.overwritten


def _fetch(chip: Chip, ports: list[int], wanted: list[int], idle: list[int], room: int) -> int:
    """Move weights to the fastest level while the previous op runs, changing the ports; return the number of bytes."""
    total = 0
    for index in range(len(chip.levels) - 1, 0, -1):
        level = chip.levels[index]
        if not level.is_prefetched:
            continue
        size = max(0, min(wanted[index], room - total, _within(level, idle[index] - level.latency_ns * 1000)))
        if size:
            ports[index] -= min(ports[index], level.transfer_ps(size))
            ports[0] += chip.levels[0].transfer_ps(size)
            total += size
    return total


def _within(level: MemoryLevel, time_ps: int) -> int:
    """Return the bytes that a level delivers in a time."""
    return int(Fraction(max(0, time_ps) * 2**20, level.inverse_rate))


def _room(chip: Chip, tensors: Mapping[str, _Held], levels: Mapping[str, int], op: int) -> int:
    inside = (t.size for name, t in tensors.items() if levels[name] == 0 and t.first <= op <= t.last)
    return chip.levels[0].capacity_bytes - sum(inside)


def _wrong_bound(found: MemoryMap, graph: Graph) -> Iterator[str]:
    """Check the bound of ops alone; a bound that a program proved must not be less, and the caller reports it as
    unchecked."""
    own = alone_bound(make_memory_problem(graph, found.chip))
    if found.bound_reason not in (ALONE, PROGRAM):
        yield f"the bound's reason, '{shown(found.bound_reason)}', is none that is known"
    elif found.bound_ps < own or (found.bound_ps > own and found.bound_reason == ALONE):
        yield f"the bound is {found.bound_ps} ps ({found.bound_reason}), expected {own} ps ({ALONE})"
    if found.bound_ps > found.latency_ps:
        yield f"the bound of {found.bound_ps} ps is above the map's {found.latency_ps} ps"
    status = "optimal" if found.latency_ps <= found.bound_ps * (1 + _TOLERANCE) else "feasible"
    if found.status != status:
        yield f"the map is called {shown(found.status)}, expected {status} with a bound of {found.bound_ps} ps"
