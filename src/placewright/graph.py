"""The computation graph: ops, the tensors between them, and their dependencies."""

from __future__ import annotations

import hashlib
import heapq
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from types import MappingProxyType
from typing import Any, Literal

from placewright.support.errors import InputError, shown
from placewright.support.quantities import QUANTITY_LIMIT, counted

TensorRole = Literal["activation", "parameter", "constant"]
Phase = Literal["", "forward", "backward", "optimizer"]

#: Targets of ops of kind "copy" that move a tensor to the host's memory and back: on the host, which then has the
#: tensor or returns it; on the device, which may then free it.
HOST_TARGET, LEAVE_TARGET = "placewright.host", "placewright.leave"

#: Every op kind and its meaning. Costs have one formula per kind; learners read kinds as categories.
#: The attributes a kind carries are listed in docs/formats.md.
OP_KINDS: Mapping[str, str] = MappingProxyType(
    {
        "input": "a graph input: takes no time, produces the tensor fed from outside",
        "view": "only aliases its input: no time, no memory, stands on its base's device",
        "matmul": "matrix product, batched or not, with or without bias",
        "conv": "convolution of any dimension, grouped or transposed",
        "conv_backward": "gradients of a convolution",
        "attention": "fused scaled-dot-product attention",
        "attention_backward": "gradients of fused attention",
        "rnn": "a whole fused LSTM, GRU or plain recurrent layer",
        "rnn_backward": "gradients of a fused recurrent layer",
        "normalization": "batch, layer, group, instance or RMS normalisation",
        "normalization_backward": "gradients of a normalisation",
        "pooling": "average, maximum or adaptive pooling",
        "pooling_backward": "gradients of a pooling",
        "softmax": "softmax or log-softmax",
        "softmax_backward": "gradients of softmax or log-softmax",
        "embedding": "row lookup in a table",
        "embedding_backward": "scatter-add of gradients into a table",
        "reduction": "sum, mean, maximum, norm, loss ... over some axes",
        "elementwise": "arithmetic, activation, comparison or selection element by element",
        "copy": "moves data without arithmetic: concat, pad, materialised transpose, cast",
        "gather": "indexing, gather, scatter, roll",
        "sort": "sort, top-k, unique",
        "fill": "zeros, ones, full, range",
        "random": "random numbers, dropout masks",
        "optimizer": "parameter update; elementwise over parameter, gradient and state",
        "control_flow": "a whole If, Loop or Scan kept as one op",
        "other": "an op whose meaning the importer does not know",
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Tensor:
    """A value that one op produces and others read; or a parameter or constant, which no op produces.

    Attributes
    ----------
    name
        Unique in its graph.
    size_bytes
        Bytes that a transfer of the tensor moves, also for aliases.
    shape
        Extents as captured; None when the source lacks them.
    dtype
        As captured: "float32", "bfloat16", "int64", "bool" ...; None when the source lacks it.
    role
        Activations are produced by an op; parameters and constants are resident wherever they are read.
    alias_of
        Index of the tensor whose memory this one shares (a view or an in-place result); None if it has its own.
    is_output
        True if it is a graph output, kept in memory to the end of the step.
    memory_bytes
        Bytes it takes on a device, where the source counts them differently; None for `size_bytes`.
    """

    name: str
    size_bytes: int
    shape: tuple[int, ...] | None = None
    dtype: str | None = None
    role: TensorRole = "activation"
    alias_of: int | None = None
    is_output: bool = False
    memory_bytes: int | None = None

    @property
    def held_bytes(self) -> int:
        """Bytes it takes on a device: at home unless it is an alias, and as a copy."""
        return self.size_bytes if self.memory_bytes is None else self.memory_bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Op:
    """One node of the graph; runs once, on one device.

    Attributes
    ----------
    name
        Unique in its graph.
    kind
        One of `placewright.graph.OP_KINDS`.
    target
        The source framework's own name ("aten.convolution.default", "Conv").
    inputs, outputs
        Indices of tensors in the source's order; an input may repeat.
    controls
        Indices of ops that must come before this one without passing it a tensor.
    attributes
        Further inputs of costs and learners besides shapes (kernel, stride, groups, heads ...); JSON values only.
    module
        Dotted path of the layer ("encoder.layer.0.attention").
    source
        Where the op was written: "file.py:line".
    phase
        "forward", "backward", "optimizer", or "" where it is unknown.
    time_ns
        Running time in ns where the source states one; otherwise the cost model gives it.
    workspace_bytes
        Scratch memory held only while the op runs.
    """

    name: str
    kind: str
    target: str = ""
    inputs: tuple[int, ...] = ()
    outputs: tuple[int, ...] = ()
    controls: tuple[int, ...] = ()
    attributes: Mapping[str, Any] = field(default_factory=dict)
    module: str = ""
    source: str = ""
    phase: Phase = ""
    time_ns: int | None = None
    workspace_bytes: int = 0


@dataclass(frozen=True, kw_only=True, repr=False)
class Graph:
    """An immutable computation graph whose ops are in a valid order: the captured one.

    Attributes
    ----------
    name
        Name of the graph; not empty.
    ops
        In an order in which every op comes after all it depends on; `placewright.graph.in_topological_order` makes one.
    tensors
        The tensors in any order; ops refer to them by index.
    metadata
        The origin of the graph (framework, batch size, warnings of the importer); JSON values only.

    Raises
    ------
    InputError
        Naming the op or tensor, when names repeat, indices or sizes are impossible, a tensor has two producers, an
        activation has none, an op precedes one that it needs, or a view aliases no input of its own.
    """

    name: str
    ops: tuple[Op, ...]
    tensors: tuple[Tensor, ...]
    metadata: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not self.ops:
            raise InputError(f"graph '{shown(self.name)}' has no ops")
        _check_names("op", self.name, [op.name for op in self.ops])
        _check_names("tensor", self.name, [tensor.name for tensor in self.tensors])
        _check_tensors(self)
        _check_ops(self)

    def __repr__(self) -> str:
        return f"Graph({self.name!r}: {counted(len(self.ops), 'op')}, {counted(len(self.tensors), 'tensor')})"

    @cached_property
    def producer_of(self) -> tuple[int, ...]:
        """The index of the op that produces each tensor; -1 for parameters and constants."""
        return _producers(self.ops, self.tensors, self.name)

    @cached_property
    def consumers_of(self) -> tuple[tuple[int, ...], ...]:
        """The indices of the ops that read each tensor, ascending, each once."""
        consumers: list[list[int]] = [[] for _ in self.tensors]
        for index, op in enumerate(self.ops):
            for tensor in set(op.inputs):
                consumers[tensor].append(index)
        return tuple(tuple(ops) for ops in consumers)

    @cached_property
    def base_of(self) -> tuple[int, ...]:
        """The index of the tensor that owns each one's memory: itself, or the end of its chain of aliases."""
        base = list(range(len(self.tensors)))
        for start in range(len(self.tensors)):
            chain = [start]
            while (parent := self.tensors[chain[-1]].alias_of) is not None and base[chain[-1]] == chain[-1]:
                chain.append(parent)
            for link in chain:
                base[link] = base[chain[-1]]
        return tuple(base)

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256, as 64 hex digits, of all that a plan depends on: names, structure, sizes, kinds, attributes, times.

        Raises InputError, naming the op or tensor, where a value is no JSON value.
        """
        digest = hashlib.sha256()
        encoder = json.JSONEncoder(sort_keys=True)

        def encode(row: list[Any]) -> str:
            try:
                return encoder.encode(row)
            except (TypeError, ValueError) as error:
                raise InputError(f"graph '{shown(self.name)}': '{shown(row[0])}': {error}") from error

        for tensor in self.tensors:
            row = [
                tensor.name,
                tensor.size_bytes,
                tensor.shape,
                tensor.dtype,
                tensor.role,
                tensor.alias_of,
                tensor.is_output,
            ]
            digest.update(encode(row if tensor.memory_bytes is None else [*row, tensor.memory_bytes]).encode())
        for op in self.ops:
            links = [op.inputs, op.outputs, op.controls]
            row = [op.name, op.kind, *links, dict(op.attributes), op.time_ns, op.workspace_bytes]
            digest.update(encode(row).encode())
        return digest.hexdigest()


def in_topological_order(ops: Sequence[Op], tensors: Sequence[Tensor], graph_name: str) -> list[Op]:
    """Sort ops so that each comes after all it depends on, and keep the given order wherever dependencies allow.

    Parameters
    ----------
    ops
        In any order; their `controls` are indices into it.
    tensors
        The tensors that the ops refer to.
    graph_name
        The graph's name in errors.

    Returns
    -------
    list of Op
        The same ops, their `controls` renumbered.

    Raises
    ------
    InputError
        Naming one cycle, when there is no such order.
    """
    predecessors = _predecessors(ops, tensors, graph_name)
    order = _sorted(predecessors, range(len(ops)))
    if len(order) < len(ops):
        placed = set(order)
        cycle = _find_cycle(predecessors, [index for index in range(len(ops)) if index not in placed])
        raise InputError(f"graph '{shown(graph_name)}' has a cycle: {_described([ops[index].name for index in cycle])}")
    return _renumbered(ops, order)


def ops_in_order(graph: Graph, names: Iterable[str]) -> list[int]:
    """Sort the ops of a graph, by index, into the order of their names wherever dependencies allow.

    Unnamed ops, such as views, stay after the op before them, or come before the first op that waits for them.
    """
    predecessors = _predecessors(graph.ops, graph.tensors, graph.name)
    rank = {name: place for place, name in enumerate(names)}
    latest, ranks = -1, []
    for op in graph.ops:
        latest = rank.get(op.name, latest)
        ranks.append(latest)
    for index in range(len(ranks) - 1, -1, -1):
        for before in predecessors[index]:
            if graph.ops[before].name not in rank:
                ranks[before] = min(ranks[before], ranks[index])
    return _sorted(predecessors, ranks)


def reordered(graph: Graph, order: Sequence[int]) -> Graph:
    """Return the graph with its ops in another order, which must be topological as well."""
    return replace(graph, ops=tuple(_renumbered(graph.ops, order)))


def _sorted(predecessors: Sequence[set[int]], rank: Sequence[int]) -> list[int]:
    """Sort indices of an acyclic graph topologically: among ready ones, the least rank, then the least index."""
    successors: list[list[int]] = [[] for _ in predecessors]
    waiting = [len(before) for before in predecessors]
    for index, before in enumerate(predecessors):
        for predecessor in before:
            successors[predecessor].append(index)
    ready = [(rank[index], index) for index, count in enumerate(waiting) if count == 0]
    heapq.heapify(ready)
    order: list[int] = []
    while ready:
        order.append(heapq.heappop(ready)[1])
        for successor in successors[order[-1]]:
            waiting[successor] -= 1
            if waiting[successor] == 0:
                heapq.heappush(ready, (rank[successor], successor))
    return order


def _renumbered(ops: Sequence[Op], order: Sequence[int]) -> list[Op]:
    """Return the ops in the given order, with their control indices adapted."""
    position = {old: new for new, old in enumerate(order)}
    return [
        replace(ops[old], controls=tuple(position[control] for control in ops[old].controls))
        if ops[old].controls
        else ops[old]
        for old in order
    ]


def _predecessors(ops: Sequence[Op], tensors: Sequence[Tensor], graph_name: str) -> list[set[int]]:
    producers = _producers(ops, tensors, graph_name)
    return [{producers[tensor] for tensor in op.inputs} - {-1} | set(op.controls) for op in ops]


def _find_cycle(predecessors: Sequence[set[int]], stuck: Sequence[int]) -> list[int]:
    """Find one cycle among ops that never became ready, in dependency order, with its first op repeated at the end."""
    inside = set(stuck)
    path: list[int] = []
    seen: dict[int, int] = {}
    current = stuck[0]
    while current not in seen:
        seen[current] = len(path)
        path.append(current)
        current = min(predecessors[current] & inside)
    cycle = path[seen[current] :][::-1]
    return [*cycle, cycle[0]]


def _described(cycle: Sequence[str]) -> str:
    """List the names along a cycle; for a long cycle the first three, and the last before it closes."""
    names = [shown(name) for name in cycle]
    if len(names) > 7:
        names[3:-2] = [f"... and {len(names) - 5:,} more ..."]
    return " -> ".join(names)


def _producers(ops: Sequence[Op], tensors: Sequence[Tensor], graph_name: str) -> tuple[int, ...]:
    producer = [-1] * len(tensors)
    for index, op in enumerate(ops):
        for tensor in op.outputs:
            if not 0 <= tensor < len(tensors):
                label = f"graph '{shown(graph_name)}': op '{shown(op.name)}'"
                raise InputError(f"{label} names tensor {tensor}, which does not exist")
            if producer[tensor] != -1:
                both = f"'{shown(ops[producer[tensor]].name)}' and '{shown(op.name)}'"
                label = f"graph '{shown(graph_name)}': tensor '{shown(tensors[tensor].name)}'"
                raise InputError(f"{label} is produced by both {both}")
            producer[tensor] = index
    return tuple(producer)


def _check_names(what: str, graph_name: str, names: Sequence[str]) -> None:
    if len(set(names)) == len(names):
        return
    seen: set[str] = set()
    for name in names:
        if name in seen:
            raise InputError(f"graph '{shown(graph_name)}' has two {what}s named '{shown(name)}'")
        seen.add(name)


def _check_tensors(graph: Graph) -> None:
    for index, (tensor, producer) in enumerate(zip(graph.tensors, graph.producer_of, strict=True)):
        label = f"graph '{shown(graph.name)}': tensor '{shown(tensor.name)}'"
        if not 0 <= tensor.size_bytes < QUANTITY_LIMIT:
            raise InputError(f"{label} has an impossible size of {shown(tensor.size_bytes)} bytes")
        if not 0 <= tensor.held_bytes < QUANTITY_LIMIT:
            raise InputError(f"{label} takes an impossible {shown(tensor.held_bytes)} bytes of memory")
        if tensor.role == "activation" and producer == -1:
            subject = f"{label} is read but no op" if graph.consumers_of[index] else f"{label}: no op reads or"
            raise InputError(f"{subject} produces it, and it is neither a parameter nor a constant")
        if tensor.role != "activation" and producer != -1:
            raise InputError(f"{label} is a {tensor.role} but op '{shown(graph.ops[producer].name)}' produces it")
        if tensor.alias_of is not None and not 0 <= tensor.alias_of < len(graph.tensors):
            raise InputError(f"{label} aliases tensor {tensor.alias_of}, which does not exist")
        if tensor.alias_of is not None and (
            tensor.alias_of == index or producer == -1 or graph.producer_of[tensor.alias_of] > producer
        ):
            raise InputError(f"{label} aliases a tensor that does not exist before it")
    for index, tensor in enumerate(graph.tensors):
        if _aliases_in_a_ring(graph, index):
            label = f"graph '{shown(graph.name)}': tensor '{shown(tensor.name)}'"
            raise InputError(f"{label} aliases a tensor that aliases it back")


def _aliases_in_a_ring(graph: Graph, tensor: int) -> bool:
    """True if following the aliases among the outputs of one op leads back to `tensor`."""
    op = graph.producer_of[tensor]
    link, seen = graph.tensors[tensor].alias_of, {tensor}
    while link is not None and graph.producer_of[link] == op and link not in seen:
        seen.add(link)
        link = graph.tensors[link].alias_of
    return link == tensor


def _check_ops(graph: Graph) -> None:
    for index, op in enumerate(graph.ops):
        label = f"graph '{shown(graph.name)}': op '{shown(op.name)}'"
        if op.kind not in OP_KINDS:
            raise InputError(f"{label} has the unknown kind '{shown(op.kind)}'")
        if op.time_ns is not None and not 0 <= op.time_ns < QUANTITY_LIMIT:
            raise InputError(f"{label} has an impossible time of {shown(op.time_ns)} ns")
        if not 0 <= op.workspace_bytes < QUANTITY_LIMIT:
            raise InputError(f"{label} has an impossible workspace of {shown(op.workspace_bytes)} bytes")
        for tensor in op.inputs:
            if not 0 <= tensor < len(graph.tensors):
                raise InputError(f"{label} reads tensor {tensor}, which does not exist")
            if graph.producer_of[tensor] >= index:
                raise InputError(f"{label} reads tensor '{shown(graph.tensors[tensor].name)}' before it is produced")
        if op.kind == "input" and op.inputs:
            raise InputError(f"{label} is a graph input, so it can read no tensor")
        for control in op.controls:
            if not 0 <= control < index:
                raise InputError(f"{label} has a control dependency on op {control}, which does not stand before it")
        if op.kind == "view" and any(graph.tensors[tensor].alias_of not in op.inputs for tensor in op.outputs):
            raise InputError(f"{label} is a view but one of its outputs does not alias one of its inputs")
