"""Lowering of a graph and a chip to a memory problem: the tensors, when they are held, and which ops move them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from itertools import accumulate

import numpy as np

from placewright.graph import Graph, Tensor
from placewright.importers.builder import DTYPE_BITS
from placewright.lab.memory_levels.chip import Chip
from placewright.lab.memory_levels.problem import MemoryProblem
from placewright.lab.memory_levels.work import compute_ps, work_of
from placewright.problem.lowering import Lowered, lower
from placewright.support.errors import InputError, shown
from placewright.support.quantities import QUANTITY_LIMIT, counted, format_bytes

_FLOATS = frozenset({"float16", "bfloat16", "float32", "float64"})
#: Ops of these kinds read no more of a tensor than they write.
_SELECTING = frozenset({"gather", "copy"})


@dataclass(slots=True)
class _Resident:
    """A parameter or constant: the ops that read it, and the bytes that each op overwrites in it."""

    name: str
    size: int
    readers: set[int] = field(default_factory=set)
    written: defaultdict[int, int] = field(default_factory=lambda: defaultdict(int))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Tensor:
    """A tensor to map. uses: bytes by op. writes: the ops that overwrite a weight."""

    name: str
    size_bytes: int
    is_weight: bool
    first: int
    last: int
    node: int
    uses: dict[int, int]
    writes: frozenset[int] = frozenset()
    is_table: bool = False

    def may_come_early(self, op: int) -> bool:
        """True if it can be fetched while the previous op runs: a weight that neither that op nor the op itself
        overwrites."""
        return self.is_weight and self.writes.isdisjoint((op - 1, op))


def make_memory_problem(graph: Graph, chip: Chip) -> MemoryProblem:
    """Return the problem of mapping the graph's tensors to the chip's levels.

    Raises InputError where there is nothing to map, or the slowest level cannot hold everything.
    """
    builder = _Builder(stored_on(graph, chip))
    if not builder.nodes:
        raise InputError(f"graph '{shown(graph.name)}' has inputs and views only, so there is nothing to map")
    tensors = sorted(
        (t for t in [*builder.weights(), *builder.activations()] if t.size_bytes > 0),
        key=lambda tensor: (tensor.node, not tensor.is_weight),
    )
    _check_fits(tensors, graph, chip, len(builder.nodes))
    uses: list[list[tuple[int, int]]] = [[] for _ in builder.nodes]
    for index, tensor in enumerate(tensors):
        for op, size in tensor.uses.items():
            if size >= QUANTITY_LIMIT:
                raise InputError(
                    f"an op of '{shown(graph.name)}' moves impossibly many bytes of '{shown(tensor.name)}'"
                )
            uses[op].append((index, size))
    flat = [use for of_op in uses for use in of_op]
    return MemoryProblem(
        graph=graph,
        chip=chip,
        graph_op=np.array(builder.nodes, np.int32),
        tensor_names=tuple(tensor.name for tensor in tensors),
        node=np.array([tensor.node for tensor in tensors], np.int32),
        size_bytes=np.array([tensor.size_bytes for tensor in tensors], np.int64),
        first=np.array([tensor.first for tensor in tensors], np.int32),
        last=np.array([tensor.last for tensor in tensors], np.int32),
        is_weight=np.array([tensor.is_weight for tensor in tensors], np.uint8),
        is_table=np.array([tensor.is_table for tensor in tensors], np.uint8),
        overhead_ps=np.full(len(builder.nodes), chip.op_overhead_ns * 1000, np.int64),
        compute_ps=np.array([_compute_ps(graph, index, chip) for index in builder.nodes], np.int64),
        fixed_bytes=np.array(builder.input_bytes(), np.int64),
        use_begin=np.cumsum([0, *map(len, uses)]).astype(np.int32),
        use_tensor=np.array([tensor for tensor, _ in flat], np.int32),
        use_bytes=np.array([size for _, size in flat], np.int64),
        use_is_early=np.array(
            [tensors[index].may_come_early(op) for op, of_op in enumerate(uses) for index, _ in of_op], np.uint8
        ),
    )


def stored_on(graph: Graph, chip: Chip) -> Graph:
    """Return the graph with its floating-point tensors as wide as the chip stores them."""
    if chip.float_bytes is None or not any(tensor.dtype in _FLOATS for tensor in graph.tensors):
        return graph
    return replace(graph, tensors=tuple(_stored(tensor, chip.float_bytes) for tensor in graph.tensors))


def _stored(tensor: Tensor, float_bytes: int) -> Tensor:
    if tensor.dtype not in _FLOATS:
        return tensor
    bits = DTYPE_BITS[tensor.dtype]
    held = None if tensor.memory_bytes is None else tensor.memory_bytes * 8 * float_bytes // bits
    return replace(tensor, size_bytes=tensor.size_bytes * 8 * float_bytes // bits, memory_bytes=held)


def _compute_ps(graph: Graph, index: int, chip: Chip) -> int:
    """Return the time of an op's computation in ps; a time that the graph states replaces the chip's."""
    op = graph.ops[index]
    time_ps = op.time_ns * 1000 if op.time_ns is not None else compute_ps(work_of(op, graph), chip)
    if time_ps >= QUANTITY_LIMIT:
        raise InputError(f"op '{shown(op.name)}' of '{shown(graph.name)}' takes impossibly long on '{chip.name}'")
    return time_ps


class _Builder:
    """Tensors of a lowered graph. Ops are numbered without the graph's inputs, which take no time."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.low: Lowered = lower(graph, "signal")
        kinds = [graph.ops[index].kind for index in self.low.graph_op]
        self._scheduled = [op for op, kind in enumerate(kinds) if kind != "input"]
        self.nodes = [int(self.low.graph_op[op]) for op in self._scheduled]
        self.node_of = {op: node for node, op in enumerate(self._scheduled)}
        number = {tensor: index for index, tensor in enumerate(self.low.graph_resident.tolist())}
        # For each tensor the parameter or constant whose memory it is; -1 for none.
        self._resident_of = [number.get(graph.base_of[tensor], -1) for tensor in self.low.graph_tensor.tolist()]

    def weights(self) -> Iterator[_Tensor]:
        """Yield parameters and constants; those that the same ops use are one tensor."""
        together: defaultdict[tuple[int, ...], list[_Resident]] = defaultdict(list)
        for resident in self._residents():
            together[tuple(sorted(resident.readers))].append(resident)
        for ops, residents in together.items():
            if ops:
                yield self._weight(ops, residents)

    def _residents(self) -> list[_Resident]:
        """Return each resident with its readers and writers, including writes under the names of results that overwrite
        it."""
        low = self.low
        sizes = low.resident_bytes.tolist()
        found = [_Resident(self.graph.tensors[t].name, sizes[i]) for i, t in enumerate(low.graph_resident.tolist())]
        reads = [*zip(low.resident_reader.tolist(), low.residents.tolist(), strict=True)]
        reads += [
            (op, self._resident_of[tensor])
            for op, tensor in zip(low.reader.tolist(), low.inputs.tolist(), strict=True)
            if self._resident_of[tensor] >= 0
        ]
        for op, resident in reads:
            if op in self.node_of:
                found[resident].readers.add(op)
        for op, tensor in self._results():
            if self._resident_of[tensor] >= 0 and op in self.node_of:
                found[self._resident_of[tensor]].written[op] += int(low.transfer_bytes[tensor])
        return found

    def _weight(self, ops: tuple[int, ...], residents: list[_Resident]) -> _Tensor:
        total = sum(resident.size for resident in residents)
        uses = {
            self.node_of[op]: sum(self._read_of_weight(op, each.size) + each.written.get(op, 0) for each in residents)
            for op in ops
        }
        lookups = all(self._kind(op) == "embedding" for op in ops)
        return _Tensor(
            name=max(residents, key=lambda resident: resident.size).name,
            size_bytes=total,
            is_weight=True,
            first=0,
            last=len(self.nodes) - 1,
            node=min(uses),
            uses=uses,
            writes=frozenset(self.node_of[op] for resident in residents for op in resident.written),
            is_table=lookups and max(uses.values()) < total,
        )

    def _read_of_weight(self, op: int, size: int) -> int:
        """Return the bytes read; for a table only the rows that are looked up, which may come from memory again and
        again."""
        if self._kind(op) == "embedding":
            return self._written(op)
        return min(size, self._written(op)) if self._kind(op) in _SELECTING else size

    def activations(self) -> Iterator[_Tensor]:
        """Yield the tensors that ops make and hold; views and in-place results are part of the tensor whose memory they
        share."""
        uses = self._activation_uses()
        for tensor in np.flatnonzero(self.low.storage == np.arange(len(self.low.storage))).tolist():
            producer = int(self.low.producer[tensor])
            if producer not in self.node_of or self._resident_of[tensor] >= 0:
                continue
            made = self.node_of[producer]
            last = len(self.nodes) - 1 if self.low.live_out[tensor] else max([made, *uses[tensor]])
            yield _Tensor(
                name=self._tensor_name(tensor),
                size_bytes=int(self.low.allocated_bytes[tensor]),
                is_weight=False,
                first=made,
                last=last,
                node=made,
                uses=dict(sorted(uses[tensor].items())),
            )

    def _activation_uses(self) -> defaultdict[int, defaultdict[int, int]]:
        """Return the bytes that each node reads or writes, by the tensor whose memory it is."""
        uses: defaultdict[int, defaultdict[int, int]] = defaultdict(lambda: defaultdict(int))
        for op, tensor, size in self._traffic():
            if op in self.node_of:
                uses[int(self.low.storage[tensor])][self.node_of[op]] += size
        return uses

    def input_bytes(self) -> list[int]:
        """Return the bytes of the network's inputs that each node reads."""
        sizes = [0] * len(self.nodes)
        for op, tensor, size in self._traffic():
            if op in self.node_of and int(self.low.producer[self.low.storage[tensor]]) not in self.node_of:
                sizes[self.node_of[op]] += size
        return sizes

    def _traffic(self) -> Iterator[tuple[int, int, int]]:
        """Yield (op, tensor, bytes) of everything but weights that is read, then of everything that is written."""
        for op, tensor in zip(self.low.reader.tolist(), self.low.inputs.tolist(), strict=True):
            if self._resident_of[tensor] < 0:
                size = int(self.low.transfer_bytes[tensor])
                yield op, tensor, min(size, self._written(op)) if self._kind(op) in _SELECTING else size
        for op, tensor in self._results():
            if self._resident_of[tensor] < 0:
                yield op, tensor, int(self.low.transfer_bytes[tensor])

    def _results(self) -> Iterator[tuple[int, int]]:
        """Yield each op with the tensors it writes; a smaller view, which is listed next to its result, has no
        writer."""
        for tensor, graph_tensor in enumerate(self.low.graph_tensor.tolist()):
            op = int(self.low.producer[tensor])
            if self.graph.producer_of[graph_tensor] == self.low.graph_op[op]:
                yield op, tensor

    def _written(self, op: int) -> int:
        return sum(self.graph.tensors[index].size_bytes for index in self.graph.ops[self.low.graph_op[op]].outputs)

    def _kind(self, op: int) -> str:
        kind: str = self.graph.ops[self.low.graph_op[op]].kind
        return kind

    def _tensor_name(self, tensor: int) -> str:
        name: str = self.graph.tensors[self.low.graph_tensor[tensor]].name
        return name


def _check_fits(tensors: list[_Tensor], graph: Graph, chip: Chip, num_ops: int) -> None:
    change = [0] * (num_ops + 1)
    for tensor in tensors:
        change[tensor.first] += tensor.size_bytes
        change[tensor.last + 1] -= tensor.size_bytes
    peak, slowest = max(accumulate(change)), chip.levels[-1]
    if peak > slowest.capacity_bytes:
        raise InputError(
            f"'{shown(graph.name)}' does not fit on chip '{shown(chip.name)}': "
            f"{counted(len(tensors), 'tensor')} take {format_bytes(peak)}, "
            f"and the slowest level, {slowest.name}, holds {format_bytes(slowest.capacity_bytes)}"
        )
