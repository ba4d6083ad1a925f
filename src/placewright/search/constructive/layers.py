"""Layers of a network, found by the weights that its ops read, each on one device at all time steps."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

import placewright._core as _core
from placewright.graph import Tensor
from placewright.problem import Problem
from placewright.search.constructive.baseline import Baseline, Candidate, Fitness

#: Kinds of ops whose weights make a layer. An op that reads only a bias, a scale or a mask joins a neighbouring layer.
_WEIGHTED = frozenset({"matmul", "conv", "conv_backward", "embedding", "embedding_backward", "rnn", "rnn_backward"})
#: The kind of ops about which only inputs and outputs are known.
_UNKNOWN = "other"
#: Bytes added to every edge, since a control dependency also ties ops together.
_LEAST_BYTES = 1000
#: The most edges between an op and the layer it joins; ops farther away from all layers belong to none.
_REACH = 64
#: A network is recurrent if most of its work is in layers whose weights have at least so many readers; a layer that is
#: called once has one reader, and one more in the backward pass.
_READERS = 6
#: Shares of the moves: a layer changes its device, or two layers exchange theirs. The rest moves a part of a layer.
_WHOLE, _SWAP = 0.35, 0.3


@dataclass(frozen=True, kw_only=True, eq=False)
class LayersFound:
    """The layers of a network. layer: int64 [num ops], numbered by their first ops; -1 for ops that are connected to no
    layer. readers: int64 [num layers], the number of ops that read the layer's most-read weight."""

    layer: NDArray[np.int64]
    readers: NDArray[np.int64]


def find_layers(problem: Problem) -> LayersFound:
    """Find the layers of a network from its weights alone, without module paths.

    Ops that read one weight form one layer, in any time step and pass, together with ops that must share a device with
    them. Any other op joins the layer with which it exchanges the most bytes, outwards from the layers.

    An input of an op of unknown kind counts as a weight if it has more than one dimension or, where its shape is
    unknown as well, more bytes than the op writes: a bias or a scale is no larger than the tensor it is applied to.
    """
    lowered, first = problem.lowered, problem.groups[0].astype(np.int64)
    num_ops = len(first)
    seeds, weights = _weight_reads(problem)
    root = _components(
        num_ops + len(lowered.graph_resident),
        np.concatenate([seeds, np.arange(num_ops)]),
        np.concatenate([weights, first]),
    )[:num_ops]
    layer = _numbered(_joined(problem, np.where(np.isin(root, root[seeds]), root, -1)))
    readers = np.zeros(int(layer.max(initial=-1)) + 1, np.int64)
    np.maximum.at(readers, layer[seeds], np.bincount(weights, minlength=1)[weights])
    return LayersFound(layer=layer, readers=readers)


def _weight_reads(problem: Problem) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """List the ops that read a weight, and each one's weight: a resident, numbered after the ops, or the graph input
    that feeds it."""
    lowered, tensors = problem.lowered, problem.graph.tensors
    num_ops = len(problem.groups[0])
    kinds = [problem.graph.ops[index].kind for index in lowered.graph_op.tolist()]
    weighted = np.array([kind in _WEIGHTED for kind in kinds], bool)
    is_input = np.array([kind == "input" for kind in kinds], bool)
    is_weight = np.array([tensors[index].role == "parameter" for index in lowered.graph_resident.tolist()], bool)
    producer, reader = lowered.producer[lowered.inputs].astype(np.int64), lowered.reader
    is_unknown = np.array([kind == _UNKNOWN for kind in kinds], bool)
    written = np.bincount(lowered.producer, lowered.transfer_bytes, num_ops).tolist()

    def multiplied(readers: list[int], read: list[int]) -> NDArray[np.bool_]:
        return np.array(
            [
                bool(weighted[op]) or (bool(is_unknown[op]) and _is_large(tensors[tensor], written[op]))
                for op, tensor in zip(readers, read, strict=True)
            ],
            bool,
        )

    resident = is_weight[lowered.residents] & multiplied(
        lowered.resident_reader.tolist(), lowered.graph_resident[lowered.residents].tolist()
    )
    fed = is_input[producer] & multiplied(reader.tolist(), lowered.graph_tensor[lowered.inputs].tolist())
    seeds = np.concatenate([lowered.resident_reader[resident], reader[fed]])
    return seeds, np.concatenate([num_ops + lowered.residents[resident], producer[fed]])


def _joined(problem: Problem, layer: NDArray[np.int64]) -> NDArray[np.int64]:
    """Extend the layers by the ops that join them, from the layers outwards."""
    lowered, first = problem.lowered, problem.groups[0].astype(np.int64)
    producer, reader = lowered.producer[lowered.inputs].astype(np.int64), lowered.reader
    bytes_on = lowered.transfer_bytes[lowered.inputs].astype(np.float64) + _LEAST_BYTES
    source, target = np.concatenate([producer, reader]), first[np.concatenate([reader, producer])]
    bytes_on = np.concatenate([bytes_on, bytes_on])
    for _ in range(_REACH):
        edges = (layer[target] < 0) & (layer[source] >= 0)
        if not edges.any():
            break
        pairs, which = np.unique(np.column_stack([target[edges], layer[source[edges]]]), axis=0, return_inverse=True)
        shared = np.bincount(which.ravel(), bytes_on[edges])
        by_op = np.lexsort((-pairs[:, 1], shared, pairs[:, 0]))
        most = by_op[np.append(np.diff(pairs[by_op, 0]) > 0, True)]
        layer[pairs[most, 0]] = pairs[most, 1]
        layer = layer[first]
    return layer


def _is_large(read: Tensor, written_bytes: float) -> bool:
    """True if an op of unknown function that writes so many bytes is likely to multiply by this input."""
    if read.shape is None:
        return read.size_bytes > written_bytes
    return sum(length > 1 for length in read.shape) > 1


def _components(count: int, one: NDArray[np.int64], other: NDArray[np.int64]) -> NDArray[np.int64]:
    """Label each of [count] by the least member of its connected component."""
    least = np.arange(count)
    while True:
        low = np.minimum(least[one], least[other])
        found = least.copy()
        np.minimum.at(found, one, low)
        np.minimum.at(found, other, low)
        found = found[found]
        if np.array_equal(found, least):
            return least
        least = found


def _numbered(label: NDArray[np.int64]) -> NDArray[np.int64]:
    """Renumber labels from 0 in the order of their first occurrences; -1 stays."""
    found, at, which = np.unique(label, return_index=True, return_inverse=True)
    is_label = found >= 0
    number = np.full(len(found), -1, np.int64)
    number[is_label] = np.argsort(np.argsort(at[is_label]))
    return number[which.ravel()]


@dataclass(frozen=True, kw_only=True)
class Layers(Baseline):
    """Places each layer of a recurrent network on one device, at all time steps and in both passes, and dispatches its
    ops there, so that the steps of layers on different devices overlap like a wavefront.

    Layers are dealt to the devices in four ways; the best is changed while the budget lasts, and a change is kept if it
    is no worse: a layer goes to another device, two layers exchange theirs, or a part of a layer that may be separate,
    ops of one sort or all ops of some consecutive time steps, goes to another device.

    Networks that are not recurrent, one device and peak memory have one candidate: everything on one device, or the
    layers in turn.

    moves: number of changes to try.
    """

    name: str = "layers"
    moves: int = 400

    def candidates(self, problem: Problem) -> Iterator[Candidate]:
        return self._search(problem)

    def _search(self, problem: Problem) -> Generator[Candidate, Fitness | None, None]:
        """Yield candidates and receive their fitness. Without it nothing is changed."""
        dealt = _Dealt(problem)
        ranked: list[tuple[Fitness, int, NDArray[np.int64]]] = []
        for rank, (name, device_of) in enumerate(dealt.starts()):
            if (fitness := (yield dealt.candidate(name, device_of))) is not None:
                ranked.append((fitness, rank, device_of))
            if not dealt.is_worth_changing:
                return
        if not ranked:
            return
        reached, _, best = min(ranked)
        random = np.random.default_rng(0)
        for _ in range(self.moves):
            name, device_of = dealt.changed(best, random)
            if np.array_equal(device_of, best):
                continue
            fitness = yield dealt.candidate(name, device_of)
            if fitness is not None and fitness <= reached:
                best, reached = device_of, fitness


class _Dealt:
    """Placements of the layers of a problem."""

    def __init__(self, problem: Problem) -> None:
        self._core = problem.core
        self._num_devices = problem.core.num_devices
        self._first, masks = problem.groups
        bits = np.arange(self._num_devices, dtype=np.uint64)
        self._allowed = ((masks[:, None] >> bits) & np.uint64(1)).astype(bool)
        found = find_layers(problem)
        self._layer, self._count = np.maximum(found.layer, 0), len(found.readers)
        time_ns = problem.time_ns[problem.lowered.graph_op].mean(axis=1)
        self._work = np.bincount(self._layer, time_ns, minlength=max(1, self._count))
        repeated = self._work[: self._count][found.readers >= _READERS].sum()
        self.is_worth_changing = (
            self._num_devices > 1
            and self._count > 1
            and problem.objective == "step-time"
            and bool(2 * repeated > self._work.sum())
        )
        self._sorts = _Sorts(problem, self._layer) if self.is_worth_changing else None

    def starts(self) -> Iterator[tuple[str, NDArray[np.int64]]]:
        """Yield names and placements, [num ops]: in turn; by load in captured order, and the largest first; in runs."""
        seen = set[bytes]()
        for name, device in (
            ("in turn", np.arange(len(self._work)) % self._num_devices),
            ("least loaded", self._by_load(np.arange(len(self._work)))),
            ("largest first", self._by_load(np.argsort(-self._work, kind="stable"))),
            ("in runs", self._in_runs()),
        ):
            if device.tobytes() not in seen:
                seen.add(device.tobytes())
                yield name, device[self._layer]

    def _by_load(self, order: NDArray[np.int64]) -> NDArray[np.int64]:
        device, load = np.zeros(len(self._work), np.int64), np.zeros(self._num_devices)
        for layer in order.tolist():
            device[layer] = load.argmin()
            load[device[layer]] += self._work[layer]
        return device

    def _in_runs(self) -> NDArray[np.int64]:
        middle = np.cumsum(self._work) - self._work / 2
        share = middle / max(1.0, float(self._work.sum()))
        return np.minimum(self._num_devices - 1, (share * self._num_devices).astype(np.int64))

    def candidate(self, name: str, device_of: NDArray[np.int64]) -> Candidate:
        """Build a candidate that keeps the constraints: ops that must share a device follow the first of them, and
        those that may not run there go to the first allowed device."""
        device_of = device_of[self._first]
        allowed = self._allowed[np.arange(len(device_of)), device_of]
        placed = np.where(allowed, device_of, self._allowed.argmax(axis=1)).astype(np.int32)
        return Candidate(name=name, device_of=placed, order=_core.dispatch_order(self._core, placed))

    def changed(self, device_of: NDArray[np.int64], random: np.random.Generator) -> tuple[str, NDArray[np.int64]]:
        """Return the name of a random change, and the placement, which may be the same."""
        assert self._sorts is not None
        found, layer = device_of.copy(), int(random.integers(self._count))
        own, draw = self._layer == layer, float(random.random())
        if draw < _WHOLE:
            found[own] = random.integers(self._num_devices)
            return "a layer moved", found
        if draw < _WHOLE + _SWAP:
            other = self._layer == random.integers(self._count)
            here, there = _usual(device_of[own]), _usual(device_of[other])
            found[own], found[other] = there, here
            return "layers exchanged", found
        found[self._sorts.part(random)] = random.integers(self._num_devices)
        return "a part moved", found


def _usual(devices: NDArray[np.int64]) -> int:
    return int(np.bincount(devices).argmax())


class _Sorts:
    """Groups of ops of one layer with the same kind, phase and time: a recurrent layer has one of each for every
    step."""

    def __init__(self, problem: Problem, layer: NDArray[np.int64]) -> None:
        graph_op = problem.lowered.graph_op
        ops = [problem.graph.ops[index] for index in graph_op.tolist()]
        sort_of: dict[tuple[int, str, str, int], int] = {}
        pass_of: dict[tuple[int, str], int] = {}
        times = problem.time_ns[graph_op, 0].tolist()
        sorts, passes = [], []
        for op, own, time in zip(ops, layer.tolist(), times, strict=True):
            sorts.append(sort_of.setdefault((own, op.kind, op.phase, time), len(sort_of)))
            passes.append(pass_of.setdefault((own, op.phase), len(pass_of)))
        time = problem.time_ns[graph_op].mean(axis=1)
        self._members: list[list[NDArray[np.int64]]] = [_by_label(np.array(labels)) for labels in (sorts, passes)]
        self._label = [np.array(labels) for labels in (sorts, passes)]
        group, size = np.unique(problem.groups[0], return_inverse=True, return_counts=True)[1:]
        # Large groups are the layer itself, not a part of it.
        weight = np.where(size[group.ravel()] > 2, 0.0, time)
        self._chance = np.cumsum(weight)

    def part(self, random: np.random.Generator) -> NDArray[np.int64]:
        """Draw consecutive ops of one sort, or of one pass of a layer, in proportion to their times."""
        op = int(np.searchsorted(self._chance, random.random() * self._chance[-1], side="right"))
        which = int(random.random() < 0.5)
        op = min(op, len(self._chance) - 1)
        members = self._members[which][self._label[which][op]]
        length = max(1, int(len(members) * 2.0 ** -random.integers(0, 5)))
        begin = int(random.integers(0, len(members) - length + 1))
        found: NDArray[np.int64] = members[begin : begin + length]
        return found


def _by_label(label: NDArray[np.int64]) -> list[NDArray[np.int64]]:
    order = np.argsort(label, kind="stable")
    return list(np.split(order, np.flatnonzero(np.diff(label[order])) + 1))


LAYERS = Layers()
