"""Memory in use on each device while ops are placed one after another."""

from __future__ import annotations

from placewright.lab.peers.contention_free import rows
from placewright.problem import Problem
from placewright.support.quantities import QUANTITY_LIMIT


class HeldMemory:
    """Free memory by device while ops are placed. Residents stay. An op's outputs, and the copies of inputs that were
    missing, stay until the last op that reads them is placed, on any device; graph outputs stay to the end; workspace
    counts for its op alone.

    free: bytes left of each device's limit; below 0 where it is exceeded.
    """

    def __init__(self, problem: Problem) -> None:
        lowered = problem.lowered
        self.free = [QUANTITY_LIMIT if limit is None else limit for limit in problem.memory_limits_bytes]
        self._inputs = rows(lowered.input_begin, lowered.inputs)
        self._output_begin: list[int] = lowered.output_begin.tolist()
        self._producer: list[int] = lowered.producer.tolist()
        self._storage: list[int] = lowered.storage.tolist()
        self._home_bytes: list[int] = lowered.allocated_bytes.tolist()
        self._copy_bytes: list[int] = lowered.copy_bytes.tolist()
        self._workspace_bytes: list[int] = lowered.workspace_bytes.tolist()
        self._residents = _Residents(problem)
        self._device_of = [-1] * len(self._inputs)
        self._copies: list[set[int]] = [set() for _ in self._producer]
        self._readers_left = [0] * len(self._producer)
        self._users_left: list[int] = lowered.live_out.astype(int).tolist()
        for tensor in (tensor for tensors in self._inputs for tensor in tensors):
            self._readers_left[tensor] += 1
            self._users_left[self._storage[tensor]] += 1

    def needed(self, op: int, device: int) -> int:
        """Return the bytes that the op would take while it runs if placed there now, including the residents of its
        whole group."""
        lasting = sum(self._home_bytes[t] for t in self._outputs(op))
        lasting += sum(self._copy_bytes[t] for t in self._missing(op, device))
        return lasting + self._workspace_bytes[op] + self._residents.missing_bytes(op, device)

    def place(self, op: int, device: int) -> None:
        self.free[device] -= self.needed(op, device) - self._workspace_bytes[op]
        self._residents.settle(op, device)
        for tensor in self._missing(op, device):
            self._copies[tensor].add(device)
        self._device_of[op] = device
        for tensor in self._inputs[op]:
            self._readers_left[tensor] -= 1
            if self._readers_left[tensor] == 0:
                self._free_copies(tensor)
            self._users_left[self._storage[tensor]] -= 1
        for storage in {*(self._storage[tensor] for tensor in self._inputs[op]), *self._outputs(op)}:
            if self._users_left[storage] == 0:
                self.free[self._device_of[self._producer[storage]]] += self._home_bytes[storage]

    def _outputs(self, op: int) -> range:
        return range(self._output_begin[op], self._output_begin[op + 1])

    def _missing(self, op: int, device: int) -> list[int]:
        """Return the inputs of the op that are not on the device."""
        return [
            tensor
            for tensor in self._inputs[op]
            if self._device_of[self._producer[tensor]] != device and device not in self._copies[tensor]
        ]

    def _free_copies(self, tensor: int) -> None:
        for device in self._copies[tensor]:
            self.free[device] += self._copy_bytes[tensor]


class _Residents:
    """Parameters and constants on each device; those of a group are placed together."""

    def __init__(self, problem: Problem) -> None:
        lowered = problem.lowered
        self._bytes: list[int] = lowered.resident_bytes.tolist()
        self._group: list[int] = problem.groups[0].tolist()
        self._of_group: list[set[int]] = [set() for _ in self._group]
        for op, residents in enumerate(rows(lowered.resident_begin, lowered.residents)):
            self._of_group[self._group[op]].update(residents)
        self._on: list[set[int]] = [set() for _ in range(problem.machine.num_devices)]

    def missing_bytes(self, op: int, device: int) -> int:
        return sum(self._bytes[resident] for resident in self._of_group[self._group[op]] - self._on[device])

    def settle(self, op: int, device: int) -> None:
        self._on[device] |= self._of_group[self._group[op]]
