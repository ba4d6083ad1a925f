"""Lowering of the graph to the arrays of the core: views are folded away, parameters become residents of the ops that
read them, and control dependencies become order edges or tensors of size 0, as the problem's control mode says."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain

import numpy as np
from numpy.typing import NDArray

from placewright.graph import HOST_TARGET, LEAVE_TARGET, Graph
from placewright.support.arrays import sorted_unique
from placewright.support.garbage import collection_paused

Int32 = NDArray[np.int32]
Int64 = NDArray[np.int64]
#: Rows and values of a list of rows: value[i] is in row[i].
Pairs = tuple[Int64, Int64]


@dataclass(frozen=True, kw_only=True, eq=False)
class Lowered:
    """The graph as flat arrays over scheduled ops (every op but views) and their tensors.

    A scheduled tensor is an op's own output, a view smaller than what it shows (so that a transfer moves the view's
    bytes only), or a control tensor. Tensors are numbered by producer: op i owns [output_begin[i], output_begin[i+1]).

    graph_op: graph index of each scheduled op. graph_tensor: graph index of each scheduled tensor, -1 for control.
    allocated_bytes: what a tensor adds on its producer's device, 0 for aliases. transfer_bytes: what a transfer moves;
    copy_bytes: what the copy takes. storage: the scheduled tensor whose memory it shares at home (itself when it has
    its own).
    live_out: 1 where the memory stays to the end of the step. inputs, controls (successors), residents: CSR per op.
    graph_resident: graph index of each resident; resident_bytes: its size.
    together: pairs of scheduled ops that in-place results force onto one device.
    """

    graph_op: Int32
    graph_tensor: Int32
    output_begin: Int32
    allocated_bytes: Int64
    transfer_bytes: Int64
    copy_bytes: Int64
    storage: Int32
    live_out: NDArray[np.uint8]
    input_begin: Int32
    inputs: Int32
    control_begin: Int32
    controls: Int32
    resident_begin: Int32
    residents: Int32
    graph_resident: Int32
    resident_bytes: Int64
    workspace_bytes: Int64
    together: tuple[tuple[int, int], ...]

    @cached_property
    def producer(self) -> Int32:
        """Scheduled op that makes each scheduled tensor."""
        return np.repeat(np.arange(len(self.graph_op), dtype=np.int32), np.diff(self.output_begin))

    @cached_property
    def reader(self) -> Int64:
        """Scheduled op that reads each of inputs."""
        return np.repeat(np.arange(len(self.graph_op)), np.diff(self.input_begin))

    @cached_property
    def resident_reader(self) -> Int64:
        """Scheduled op that reads each of residents."""
        return np.repeat(np.arange(len(self.graph_op)), np.diff(self.resident_begin))


class _Arrays:
    """A graph as arrays. Pairs (op, tensor) are in the order of ops, then in that of the op's own list."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.is_view = np.array([op.kind == "view" for op in graph.ops])
        self.scheduled = np.flatnonzero(~self.is_view)
        self.op_of = np.cumsum(~self.is_view) - 1
        self.producer = np.array(graph.producer_of, np.int64)
        self.base = np.array(graph.base_of, np.int64)
        self.alias = np.array([-1 if t.alias_of is None else t.alias_of for t in graph.tensors], np.int64)
        self.size = np.array([tensor.size_bytes for tensor in graph.tensors], np.int64)
        self.held = np.array([tensor.held_bytes for tensor in graph.tensors], np.int64)
        self.inputs = _pairs([op.inputs for op in graph.ops])
        self.outputs = _pairs([op.outputs for op in graph.ops])

    def of_scheduled(self, pairs: Pairs) -> Pairs:
        """The pairs whose op is scheduled, by its new index."""
        op, tensor = pairs
        kept = ~self.is_view[op]
        return self.op_of[op[kept]], tensor[kept]


@collection_paused()
def lower(graph: Graph, control: str) -> Lowered:
    """Lower `graph` for one reading of control dependencies ("order", "transfer" or "signal")."""
    arrays = _Arrays(graph)
    num_ops = len(arrays.scheduled)
    touched = _touched(arrays)
    reads = _distinct(touched[0], _carriers(arrays)[touched[1]], len(graph.tensors))
    control_edges = _control_successors(arrays, touched)
    output_begin, graph_tensor = _scheduled_outputs(arrays, reads, control_edges if control == "transfer" else None)
    tensor_of = np.full(len(graph.tensors), -1)
    tensor_of[graph_tensor[graph_tensor >= 0]] = np.flatnonzero(graph_tensor >= 0)
    made = arrays.producer[reads[1]] >= 0
    inputs = reads[0][made], tensor_of[reads[1][made]]
    if control == "transfer":
        inputs = _with_control_tensors(inputs, control_edges, output_begin)
    residents = _resident_reads(arrays, reads)
    graph_resident = sorted_unique(residents[1])
    storage, kept = _storage(arrays, graph_tensor, tensor_of)
    allocated_bytes, transfer_bytes, copy_bytes = _sizes(arrays, graph_tensor, storage)
    input_begin, input_list = _csr(num_ops, inputs)
    control_begin, control_list = _csr(num_ops, _not_implied(control_edges, inputs, output_begin))
    resident_begin, resident_list = _csr(num_ops, (residents[0], np.searchsorted(graph_resident, residents[1])))
    return Lowered(
        graph_op=arrays.scheduled.astype(np.int32),
        graph_tensor=graph_tensor,
        output_begin=output_begin,
        allocated_bytes=allocated_bytes,
        transfer_bytes=transfer_bytes,
        copy_bytes=copy_bytes,
        storage=storage,
        live_out=kept,
        input_begin=input_begin,
        inputs=input_list,
        control_begin=control_begin,
        controls=control_list,
        resident_begin=resident_begin,
        residents=resident_list,
        graph_resident=graph_resident.astype(np.int32),
        resident_bytes=arrays.held[graph_resident],
        workspace_bytes=np.array([op.workspace_bytes for op in graph.ops], np.int64)[arrays.scheduled],
        together=(*_in_place_pairs(arrays, residents), *_leaving_pairs(arrays)),
    )


def _pairs(rows: Sequence[Sequence[int]]) -> Pairs:
    lengths = np.fromiter(map(len, rows), np.int64, len(rows))
    values = np.fromiter(chain.from_iterable(rows), np.int64, int(lengths.sum()))
    return np.repeat(np.arange(len(rows)), lengths), values


def _csr(num_rows: int, pairs: Pairs) -> tuple[Int32, Int32]:
    """Rows of values; in a row they keep their order."""
    row, value = pairs
    begin = np.zeros(num_rows + 1, np.int32)
    np.cumsum(np.bincount(row, minlength=num_rows), out=begin[1:])
    return begin, value[np.argsort(row, kind="stable")].astype(np.int32)


def _distinct(row: Int64, value: Int64, num_values: int) -> Pairs:
    """The pairs, sorted by row; each value of a row once, at its first place."""
    _, first = np.unique(row * num_values + value, return_index=True)
    first.sort()
    in_turn = first[np.argsort(row[first], kind="stable")]
    return row[in_turn], value[in_turn]


def _carriers(arrays: _Arrays) -> Int64:
    """The tensor that is sent, for each one, to a reader on another device: the smallest, then the earliest, along its
    chain of views. A view of a resident leads to the resident itself, and a view of a tensor that comes back from the
    host to that whole tensor."""
    graph = arrays.graph
    carrier = np.arange(len(graph.tensors))
    for index in np.flatnonzero(arrays.is_view).tolist():
        for tensor in graph.ops[index].outputs:
            parent = graph.tensors[tensor].alias_of
            if parent is None:
                continue
            above = int(carrier[parent])
            smaller = graph.tensors[tensor].size_bytes < graph.tensors[above].size_bytes
            maker = graph.producer_of[above]
            comes_whole = maker < 0 or graph.ops[maker].target == HOST_TARGET
            carrier[tensor] = tensor if smaller and not comes_whole else above
    return carrier


def _touched(arrays: _Arrays) -> Pairs:
    """The tensors that scheduled ops need: their inputs, then those that they overwrite in place, which need not be
    among the inputs; sorted by op."""
    reader, read = arrays.of_scheduled(arrays.inputs)
    writer, written = _in_place(arrays)
    overwritten = arrays.alias[written]
    other = arrays.producer[overwritten] != arrays.scheduled[writer]
    op, tensor = np.append(reader, writer[other]), np.append(read, overwritten[other])
    in_turn = np.argsort(op, kind="stable")
    return op[in_turn], tensor[in_turn]


def _in_place(arrays: _Arrays) -> Pairs:
    """Results of scheduled ops that take the memory of another tensor."""
    op, tensor = arrays.of_scheduled(arrays.outputs)
    aliased = arrays.alias[tensor] >= 0
    return op[aliased], tensor[aliased]


def _scheduled_producer(graph: Graph, tensor: int) -> int:
    """Graph index of the op that is not a view and made what `tensor` shows; -1 for residents."""
    producer = graph.producer_of[tensor]
    while producer >= 0 and graph.ops[producer].kind == "view":
        parent = graph.tensors[tensor].alias_of
        tensor = parent if parent is not None else tensor
        producer = graph.producer_of[tensor]
    return producer


def _scheduled_outputs(arrays: _Arrays, reads: Pairs, control_edges: Pairs | None) -> tuple[Int32, Int32]:
    """Per scheduled op its own outputs, then the smaller views of them that some op reads, then -1 for the control
    tensor of an op that others must follow, where there are such tensors."""
    op, tensor = arrays.of_scheduled(arrays.outputs)
    views = sorted_unique(reads[1])
    producer = arrays.producer[views]
    views = views[(producer >= 0) & arrays.is_view[producer]]
    owner = arrays.op_of[[_scheduled_producer(arrays.graph, view) for view in views.tolist()]] if len(views) else views
    control = sorted_unique(control_edges[0]) if control_edges is not None else views[:0]
    pairs = np.concatenate([op, owner, control]), np.concatenate([tensor, views, np.full(len(control), -1)])
    return _csr(len(arrays.scheduled), pairs)


def _storage(arrays: _Arrays, graph_tensor: Int32, tensor_of: Int64) -> tuple[Int32, NDArray[np.uint8]]:
    """The scheduled tensor that holds each one's memory at home, and a 1 for each whose memory stays to the end."""
    real = np.flatnonzero(graph_tensor >= 0)
    base = tensor_of[arrays.base[graph_tensor[real]]]
    storage = np.arange(len(graph_tensor), dtype=np.int32)
    storage[real] = np.where(base >= 0, base, real)
    kept = np.zeros(len(graph_tensor), np.uint8)
    outputs = np.flatnonzero([tensor.is_output for tensor in arrays.graph.tensors])
    base = tensor_of[arrays.base[outputs]]
    kept[base[base >= 0]] = 1
    return storage, kept


def _sizes(arrays: _Arrays, graph_tensor: Int32, storage: Int32) -> tuple[Int64, Int64, Int64]:
    """The bytes that each scheduled tensor adds at home, a transfer of it moves, and its copy takes; 0 for control."""
    real = np.flatnonzero(graph_tensor >= 0)
    tensors = graph_tensor[real]
    allocated, transferred, copied = np.zeros((3, len(graph_tensor)), np.int64)
    transferred[real], copied[real] = arrays.size[tensors], arrays.held[tensors]
    allocated[real] = np.where((storage[real] == real) & (arrays.alias[tensors] < 0), copied[real], 0)
    return allocated, transferred, copied


def _with_control_tensors(inputs: Pairs, control_edges: Pairs, output_begin: Int32) -> Pairs:
    """The reads of ops, then the control tensor, the last output, of each op that they must follow."""
    source, target = control_edges
    return np.append(inputs[0], target), np.append(inputs[1], output_begin[source + 1].astype(np.int64) - 1)


def _not_implied(control_edges: Pairs, inputs: Pairs, output_begin: Int32) -> Pairs:
    """The control edges to ops that read nothing of the op that they must follow."""
    (source, target), num_ops = control_edges, len(output_begin) - 1
    producer = np.repeat(np.arange(num_ops), np.diff(output_begin))
    needed = ~np.isin(source * num_ops + target, producer[inputs[1]] * num_ops + inputs[0])
    return source[needed], target[needed]


def _resident_reads(arrays: _Arrays, reads: Pairs) -> Pairs:
    """Residents that each scheduled op reads or overwrites, sorted."""
    resident = arrays.producer[reads[1]] < 0
    writer, written = _in_place(arrays)
    base = arrays.base[written]
    parameter = arrays.producer[base] < 0
    op = np.append(reads[0][resident], writer[parameter])
    keys = sorted_unique(op * len(arrays.base) + np.append(arrays.base[reads[1][resident]], base[parameter]))
    return keys // len(arrays.base), keys % len(arrays.base)


def _in_place_pairs(arrays: _Arrays, residents: Pairs) -> Iterable[tuple[int, int]]:
    """An in-place result must be where its memory is: with the producer of its base, or, when it overwrites a
    parameter, with every op that holds the parameter, since copies of it would go stale."""
    holders: dict[int, list[int]] = {}
    writer, written = _in_place(arrays)
    if (arrays.producer[arrays.base[written]] < 0).any():
        for op, resident in zip(residents[0].tolist(), residents[1].tolist(), strict=True):
            holders.setdefault(resident, []).append(op)
    for op, base in zip(writer.tolist(), arrays.base[written].tolist(), strict=True):
        producer = arrays.graph.producer_of[base]
        together = holders[base] if producer < 0 else [int(arrays.op_of[producer])]
        yield from ((op, holder) for holder in together if holder != op)
        if producer < 0:
            # They share a device now; an op that overwrites the parameter later needs to join one of them only.
            holders[base] = together[:1]


def _leaving_pairs(arrays: _Arrays) -> Iterator[tuple[int, int]]:
    """A tensor that is moved to the host leaves the device of the op that makes it."""
    for index, op in enumerate(arrays.graph.ops):
        if op.target == LEAVE_TARGET:
            yield int(arrays.op_of[index]), int(arrays.op_of[arrays.graph.producer_of[op.inputs[0]]])


def _control_successors(arrays: _Arrays, touched: Pairs) -> Pairs:
    """Control edges between scheduled ops. Views are passed through: an op that waits for a view waits for all that the
    view needs, and an op that reads it waits for what it needs besides the tensor it shows (its controls, a shape
    computed by other ops)."""
    graph = arrays.graph
    behind: dict[int, set[int]] = {}
    beside: dict[int, set[int]] = {}
    sources: list[int] = []
    targets: list[int] = []
    needs_begin = np.searchsorted(touched[0], np.arange(len(arrays.scheduled) + 1)).tolist()
    for graph_index, op in enumerate(graph.ops):
        if op.kind != "view" and not op.controls and not beside:
            continue
        waits = set[int]().union(*(behind.get(control, {control}) for control in op.controls))
        if op.kind == "view":
            producers = {t: graph.producer_of[t] for t in op.inputs if graph.producer_of[t] >= 0}
            needs = {t: behind.get(producer, {producer}) for t, producer in producers.items()}
            behind[graph_index] = waits.union(*needs.values())
            for tensor in op.outputs:
                shown = graph.tensors[tensor].alias_of
                others = [before for t, before in needs.items() if t != shown]
                if before := waits.union(*others, beside.get(shown, ()) if shown is not None else ()):
                    beside[tensor] = before
            continue
        own = int(arrays.op_of[graph_index])
        if beside:
            read = touched[1][needs_begin[own] : needs_begin[own + 1]].tolist()
            waits = waits.union(*(beside.get(tensor, ()) for tensor in read))
        sources += [int(arrays.op_of[before]) for before in sorted(waits)]
        targets += [own] * len(waits)
    return np.array(sources, np.int64), np.array(targets, np.int64)
