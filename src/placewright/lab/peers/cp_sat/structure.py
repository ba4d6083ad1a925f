"""A problem as lists, which models are built from, and the conversion of a model's values to a whole order."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from placewright.lab.peers.contention_free import rows
from placewright.problem import Problem
from placewright.search.run.result import Solution

if TYPE_CHECKING:
    from ortools.sat.python.cp_model import CpModel

#: A literal, variable or linear expression of a CP-SAT model.
Expression = Any
#: The value of a variable or expression in a solution of the model.
Value = Callable[[Expression], int]
Transfer = tuple[int, int]
Key = tuple[int, ...]


@dataclass(frozen=True, kw_only=True)
class Formulation:
    """A model of a problem, with hints where there is a warm start, and the decoder of its solutions.

    name: as results show it. decode: makes the whole solution from a solution of the model.
    bounds_all: the model admits every plan that keeps the limits, at no more than its objective, so that a bound of the
        model is one of the problem.
    """

    name: str
    model: CpModel
    decode: Callable[[Value], Solution]
    bounds_all: bool


@dataclass(frozen=True, kw_only=True)
class Structure:
    """Lists over scheduled ops and tensors.

    producer[tensor], readers[tensor], inputs[op], residents[op]; controls: pairs of ops, the second after the first;
    group[op]: the first op of those that share its device; allowed[op]: devices; time_ns[op][device].
    """

    problem: Problem
    producer: list[int]
    readers: list[list[int]]
    inputs: list[list[int]]
    residents: list[list[int]]
    controls: list[tuple[int, int]]
    group: list[int]
    allowed: list[list[int]]
    time_ns: list[list[int]]

    @property
    def num_ops(self) -> int:
        return len(self.inputs)

    @property
    def num_tensors(self) -> int:
        return len(self.producer)

    @property
    def num_devices(self) -> int:
        return self.problem.machine.num_devices

    @property
    def data_edges(self) -> list[tuple[int, int]]:
        """Pairs of ops, the second reading what the first makes, each once."""
        return sorted({(self.producer[t], op) for op, read in enumerate(self.inputs) for t in read})

    def destinations(self, tensor: int) -> list[int]:
        """Return the devices that may need a copy of the tensor."""
        return sorted({d for reader in self.readers[tensor] for d in self.allowed[reader]})

    def transfer_ns(self, tensor: int, source: int, destination: int) -> int:
        size_bytes = int(self.problem.lowered.transfer_bytes[tensor])
        return self.problem.machine.links[source][destination].transfer_time_ns(size_bytes)

    def needed_transfers(self, device_of: Sequence[int]) -> list[Transfer]:
        """Return (tensor, destination), once per device that reads a tensor made elsewhere."""
        needed = {(t, device_of[op]) for op, read in enumerate(self.inputs) for t in read}
        return sorted((t, d) for t, d in needed if device_of[self.producer[t]] != d)

    @property
    def devices_are_alike(self) -> bool:
        """True if renaming devices changes nothing: times, limits, links and allowed devices."""
        everywhere = list(range(self.num_devices))
        links = self.problem.machine.links
        return (
            len(set(self.problem.memory_limits_bytes)) == 1
            and all(own == everywhere for own in self.allowed)
            and all(len(set(times)) == 1 for times in self.time_ns)
            and len({links[a][b] for a in everywhere for b in everywhere if a != b}) <= 1
        )


def structure_of(problem: Problem) -> Structure:
    lowered = problem.lowered
    inputs = rows(lowered.input_begin, lowered.inputs)
    readers: list[list[int]] = [[] for _ in lowered.graph_tensor]
    for op, read in enumerate(inputs):
        for tensor in read:
            readers[tensor].append(op)
    group, allowed = problem.groups
    devices = range(problem.machine.num_devices)
    return Structure(
        problem=problem,
        producer=lowered.producer.tolist(),
        readers=readers,
        inputs=inputs,
        residents=rows(lowered.resident_begin, lowered.residents),
        controls=[(op, after) for op, row in enumerate(rows(lowered.control_begin, lowered.controls)) for after in row],
        group=group.tolist(),
        allowed=[[d for d in devices if mask >> d & 1] for mask in allowed.tolist()],
        time_ns=problem.time_ns[lowered.graph_op].tolist(),
    )


def whole_order(
    structure: Structure, device_of: Sequence[int], op_key: Sequence[Key], transfer_key: Mapping[Transfer, Key]
) -> Solution:
    """Return the valid order that always takes the ready step with the least key."""
    transfers = structure.needed_transfers(device_of)
    waits, after = _dependencies(structure, device_of, transfers)
    steps = [(op, -1) for op in range(structure.num_ops)] + transfers
    keys = [(*op_key[i], i) if d < 0 else (*transfer_key[i, d], index) for index, (i, d) in enumerate(steps)]
    ready = [(keys[index], index) for index, count in enumerate(waits) if count == 0]
    heapq.heapify(ready)
    order = []
    while ready:
        index = heapq.heappop(ready)[1]
        order.append(steps[index])
        for later in after[index]:
            waits[later] -= 1
            if waits[later] == 0:
                heapq.heappush(ready, (keys[later], later))
    return Solution(device_of=np.array(device_of, np.int32), order=np.array(order, np.int32).reshape(-1, 2))


def _dependencies(
    structure: Structure, device_of: Sequence[int], transfers: Sequence[Transfer]
) -> tuple[list[int], list[list[int]]]:
    """Return per step (ops, then transfers) the number of steps it waits for, and the steps that wait for it."""
    index_of = {transfer: structure.num_ops + index for index, transfer in enumerate(transfers)}
    pairs = [(structure.producer[t], index) for (t, _), index in index_of.items()]
    for op, read in enumerate(structure.inputs):
        pairs += [(index_of.get((t, device_of[op]), structure.producer[t]), op) for t in read]
    after: list[list[int]] = [[] for _ in range(structure.num_ops + len(transfers))]
    waits = [0] * len(after)
    for before, later in pairs + structure.controls:
        after[before].append(later)
        waits[later] += 1
    return waits, after


def positions_of(solution: Solution) -> dict[tuple[int, int], int]:
    """Return the position of each step in the order."""
    return {(index, destination): place for place, (index, destination) in enumerate(solution.order.tolist())}
