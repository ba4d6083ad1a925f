"""The slow, obvious oracle: what docs/semantics.md says about an order, in plain loops over `problem.lowered`."""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import pairwise, product

import numpy as np

from placewright.problem import Problem
from placewright.problem.constraints import placement_groups
from placewright.problem.lowering import Lowered

Order = list[tuple[int, int]]  # (op, -1) or (tensor, destination)


@dataclass(frozen=True, kw_only=True)
class Simulated:
    """The cost of one order; start and finish per position."""

    step_time_ns: int
    peak_memory_bytes: int
    bytes_over_limit: int
    peak_bytes: list[int]
    start_ns: list[int]
    finish_ns: list[int]


@dataclass(frozen=True, kw_only=True)
class Structure:
    """The lowered arrays as lists. producer[tensor]; inputs, outputs, residents, predecessors (by control) of an op."""

    lowered: Lowered

    @property
    def num_ops(self) -> int:
        return len(self.lowered.graph_op)

    @property
    def num_tensors(self) -> int:
        return len(self.lowered.graph_tensor)

    @cached_property
    def outputs(self) -> list[list[int]]:
        begin = self.lowered.output_begin
        return [list(range(begin[op], begin[op + 1])) for op in range(self.num_ops)]

    @cached_property
    def producer(self) -> list[int]:
        return [op for op in range(self.num_ops) for _ in self.outputs[op]]

    @cached_property
    def inputs(self) -> list[list[int]]:
        return _rows(self.lowered.input_begin, self.lowered.inputs)

    @cached_property
    def residents(self) -> list[list[int]]:
        return _rows(self.lowered.resident_begin, self.lowered.residents)

    @cached_property
    def predecessors(self) -> list[list[int]]:
        successors = _rows(self.lowered.control_begin, self.lowered.controls)
        return [[before for before in range(self.num_ops) if op in successors[before]] for op in range(self.num_ops)]

    def needed_transfers(self, device_of: list[int]) -> list[tuple[int, int]]:
        """(tensor, destination), ascending: once per device that reads a tensor made elsewhere."""
        needed = {(t, device_of[op]) for op in range(self.num_ops) for t in self.inputs[op]}
        return sorted((t, device) for t, device in needed if device != device_of[self.producer[t]])


def _rows(begin: np.ndarray, values: np.ndarray) -> list[list[int]]:
    return [[int(value) for value in values[first:last]] for first, last in pairwise(begin)]


@lru_cache(maxsize=8)
def structure_of(problem: Problem) -> Structure:
    return Structure(lowered=problem.lowered)


def rule_broken_by(problem: Problem, device_of: list[int], order: Order) -> str | None:
    """The first rule that an order breaks, or None: devices allowed, every step once, everything after its needs."""
    structure = structure_of(problem)
    group, allowed = placement_groups(problem.graph, problem.lowered, problem.machine, problem.constraints)
    for op, device in enumerate(device_of):
        if not 0 <= device < problem.machine.num_devices or not int(allowed[op]) >> device & 1:
            return f"op {op} may not be on device {device}"
        if device != device_of[group[op]]:
            return f"op {op} is apart from its group"
    steps = [(op, -1) for op in range(structure.num_ops)] + structure.needed_transfers(device_of)
    if sorted(order) != sorted(steps):
        return "the steps are not every op and every needed transfer, each once"
    position = {step: index for index, step in enumerate(order)}
    for tensor, destination in structure.needed_transfers(device_of):
        if position[tensor, destination] < position[structure.producer[tensor], -1]:
            return f"tensor {tensor} leaves before it is made"
    for op in range(structure.num_ops):
        before = [(p, -1) for p in structure.predecessors[op]]
        for tensor in structure.inputs[op]:
            maker = structure.producer[tensor]
            before.append((maker, -1) if device_of[maker] == device_of[op] else (tensor, device_of[op]))
        if any(position[step] > position[op, -1] for step in before):
            return f"op {op} stands before something it needs"
    return None


def simulate(problem: Problem, device_of: list[int], order: Order) -> Simulated:
    """Times and memory of a valid order."""
    blocking = problem.machine.transfer_model == "blocking"
    times = _blocking_times(problem, device_of, order) if blocking else _overlapped_times(problem, device_of, order)
    peaks = _peaks(problem, device_of, order, times)
    limits = [2**62 if limit is None else limit for limit in problem.memory_limits_bytes]
    return Simulated(
        step_time_ns=max(finish for (_, destination), (_, finish) in zip(order, times, strict=True) if destination < 0),
        peak_memory_bytes=max(peaks),
        bytes_over_limit=sum(max(0, peak - limit) for peak, limit in zip(peaks, limits, strict=True)),
        peak_bytes=peaks,
        start_ns=[start for start, _ in times],
        finish_ns=[finish for _, finish in times],
    )


def _op_time(problem: Problem, op: int, device: int) -> int:
    return int(problem.time_ns[problem.lowered.graph_op[op], device])


def _transfer_time(problem: Problem, tensor: int, source: int, destination: int) -> int:
    size_bytes = int(problem.lowered.transfer_bytes[tensor])
    return problem.machine.links[source][destination].transfer_time_ns(size_bytes)


def _signal_time(problem: Problem, source: int, destination: int) -> int:
    return 0 if source == destination else problem.machine.links[source][destination].latency_ns


def _after_signals(problem: Problem, device_of: list[int], op: int, finish_of: dict[int, int]) -> int:
    """No start before this: what control predecessors ask for, in signal mode."""
    if problem.control != "signal":
        return 0
    predecessors = structure_of(problem).predecessors[op]
    return max((finish_of[p] + _signal_time(problem, device_of[p], device_of[op]) for p in predecessors), default=0)


def launched(problem: Problem, device_of: list[int], order: Order) -> list[int]:
    """The time at which each step has been launched: after all earlier launches of its host; 0 without a host.

    Transfers are launched by the host of the source, else of the destination; what takes no time is not launched.
    """
    machine, producer = problem.machine, structure_of(problem).producer
    launches: list[tuple[int, int]] = []  # host and time of each step
    for index, destination in order:
        if destination < 0:
            where, duration = device_of[index], _op_time(problem, index, device_of[index])
        else:
            source = device_of[producer[index]]
            where = source if machine.hosts[source] >= 0 else destination
            duration = _transfer_time(problem, index, source, destination)
        host = machine.hosts[where] if duration > 0 else -1
        launches.append((host, 0 if host < 0 else machine.devices[where].launch_overhead_ns))
    return [
        0 if host < 0 else sum(time for other, time in launches[: position + 1] if other == host)
        for position, (host, _) in enumerate(launches)
    ]


def _blocking_times(problem: Problem, device_of: list[int], order: Order) -> list[tuple[int, int]]:
    """A transfer starts when both devices are through with what stands before it, and holds both."""
    structure, launched_ns = structure_of(problem), launched(problem, device_of, order)
    clock = [0] * problem.machine.num_devices
    finish_of: dict[int, int] = {}
    times = []
    for position, (index, destination) in enumerate(order):
        if destination < 0:
            device = device_of[index]
            start = max(launched_ns[position], clock[device], _after_signals(problem, device_of, index, finish_of))
            finish = start + _op_time(problem, index, device)
            clock[device] = finish_of[index] = finish
        else:
            source = device_of[structure.producer[index]]
            start = max(launched_ns[position], clock[source], clock[destination])
            finish = start + _transfer_time(problem, index, source, destination)
            clock[source] = clock[destination] = finish
        times.append((start, finish))
    return times


def _overlapped_times(problem: Problem, device_of: list[int], order: Order) -> list[tuple[int, int]]:
    """A transfer starts when its tensor exists and its link is free; a consumer waits for its arrival."""
    structure, launched_ns = structure_of(problem), launched(problem, device_of, order)
    clock = [0] * problem.machine.num_devices
    link_free: dict[tuple[int, int], int] = {}
    arrival: dict[tuple[int, int], int] = {}
    finish_of: dict[int, int] = {}
    times = []
    for position, (index, destination) in enumerate(order):
        if destination < 0:
            device = device_of[index]
            remote = [t for t in structure.inputs[index] if device_of[structure.producer[t]] != device]
            arrivals = [arrival[t, device] for t in remote]
            signalled = _after_signals(problem, device_of, index, finish_of)
            start = max([launched_ns[position], clock[device], signalled, *arrivals])
            finish = start + _op_time(problem, index, device)
            clock[device] = finish_of[index] = finish
        else:
            source = device_of[structure.producer[index]]
            free = link_free.get((source, destination), 0)
            start = max(launched_ns[position], finish_of[structure.producer[index]], free)
            finish = start + _transfer_time(problem, index, source, destination)
            link_free[source, destination] = arrival[index, destination] = finish
        times.append((start, finish))
    return times


def _peaks(problem: Problem, device_of: list[int], order: Order, times: list[tuple[int, int]]) -> list[int]:
    """Per device the most bytes held after any event: everything held is listed with its first and last event, and
    after each event what is between the two is added up."""
    starts = [(start, position, 0) for position, (start, _) in enumerate(times)]
    finishes = [(finish, position, 1) for position, (_, finish) in enumerate(times)]
    before_all, after_all = (-1, -1, 0), (2**63, 0, 0)
    residents = {(r, device_of[op]) for op, own in enumerate(structure_of(problem).residents) for r in own}
    held = [(device, before_all, after_all, int(problem.lowered.resident_bytes[r])) for r, device in residents]
    for position, (index, destination) in enumerate(order):
        if destination >= 0:
            last = max(_uses(problem, device_of, order, finishes, {index}, destination))
            held.append((destination, starts[position], last, int(problem.lowered.copy_bytes[index])))
            continue
        device = device_of[index]
        workspace = int(problem.lowered.workspace_bytes[index])
        held.append((device, starts[position], finishes[position], workspace))
        for tensor in structure_of(problem).outputs[index]:
            sharing = {t for t, owner in enumerate(problem.lowered.storage) if owner == tensor}
            uses = _uses(problem, device_of, order, finishes, sharing, device)
            last = after_all if problem.lowered.live_out[tensor] else max([*uses, finishes[position]])
            held.append((device, starts[position], last, int(problem.lowered.allocated_bytes[tensor])))
    return [
        max(
            sum(size for where, first, last, size in held if where == device and first <= event < last)
            for event in [before_all, *starts, *finishes]
        )
        for device in range(problem.machine.num_devices)
    ]


def _uses(
    problem: Problem,
    device_of: list[int],
    order: Order,
    finishes: list[tuple[int, int, int]],
    tensors: set[int],
    device: int,
) -> list[tuple[int, int, int]]:
    """The finish of every step that reads one of the tensors on a device; a transfer reads on the sending one."""
    structure = structure_of(problem)
    uses = []
    for finish, (index, destination) in zip(finishes, order, strict=True):
        reads = set(structure.inputs[index]) if destination < 0 else {index}
        where = device_of[index] if destination < 0 else device_of[structure.producer[index]]
        if reads & tensors and where == device:
            uses.append(finish)
    return uses


def decode(problem: Problem, keys: np.ndarray) -> tuple[list[int], Order]:
    """REGAL A.5: devices by greatest affinity, then one queue of ready ops and transfers, greatest priority first."""
    structure, num_devices = structure_of(problem), problem.machine.num_devices
    device_of = _devices(problem, keys)
    op_priority = keys[structure.num_ops * num_devices :]
    transfer_priority = op_priority[structure.num_ops :]
    missing = [len(structure.inputs[op]) + len(structure.predecessors[op]) for op in range(structure.num_ops)]
    needed = structure.needed_transfers(device_of)
    queue = [(-int(op_priority[op]), op) for op in range(structure.num_ops) if missing[op] == 0]
    heapq.heapify(queue)
    order: Order = []

    def supply(ops: list[int]) -> None:
        for op in ops:
            missing[op] -= 1
            if missing[op] == 0:
                heapq.heappush(queue, (-int(op_priority[op]), op))

    while queue:
        item = heapq.heappop(queue)[1]
        if item >= structure.num_ops:
            tensor, destination = divmod(item - structure.num_ops, num_devices)
            order.append((tensor, destination))
            supply(_readers(structure, device_of, tensor, destination))
            continue
        order.append((item, -1))
        for tensor in structure.outputs[item]:
            supply(_readers(structure, device_of, tensor, device_of[item]))
            for slot in (t * num_devices + device for t, device in needed if t == tensor):
                heapq.heappush(queue, (-int(transfer_priority[slot]), structure.num_ops + slot))
        supply([op for op in range(structure.num_ops) if item in structure.predecessors[op]])
    return device_of, order


def _devices(problem: Problem, keys: np.ndarray) -> list[int]:
    """The allowed device for which the first op of the group has its greatest affinity; the lowest of equals."""
    group, allowed = placement_groups(problem.graph, problem.lowered, problem.machine, problem.constraints)
    num_devices = problem.machine.num_devices
    return [
        max(
            (device for device in range(num_devices) if int(allowed[op]) >> device & 1),
            key=lambda device: (keys[group[op] * num_devices + device], -device),
        )
        for op in range(len(group))
    ]


def _readers(structure: Structure, device_of: list[int], tensor: int, device: int) -> list[int]:
    return [op for op in range(structure.num_ops) if tensor in structure.inputs[op] and device_of[op] == device]


def every_solution(problem: Problem) -> Iterator[tuple[list[int], Order]]:
    """All placements, each with all its orders: for a handful of steps."""
    structure = structure_of(problem)
    for placement in product(range(problem.machine.num_devices), repeat=structure.num_ops):
        device_of = list(placement)
        steps = [(op, -1) for op in range(structure.num_ops)] + structure.needed_transfers(device_of)
        for order in _extensions(structure, device_of, [], steps):
            if rule_broken_by(problem, device_of, order) is None:
                yield device_of, order


def _extensions(structure: Structure, device_of: list[int], done: Order, left: Order) -> Iterator[Order]:
    if not left:
        yield done
    for step in left:
        index, destination = step
        if destination >= 0:
            ready = (structure.producer[index], -1) in done
        else:
            ready = all((p, -1) in done for p in structure.predecessors[index]) and all(
                (structure.producer[t], -1) in done
                and ((t, device_of[index]) in done or (t, device_of[index]) not in left)
                for t in structure.inputs[index]
            )
        if ready:
            yield from _extensions(structure, device_of, [*done, step], [other for other in left if other != step])


def best_objective(problem: Problem) -> int:
    """The least objective of any solution, by trying them all."""
    by_time = problem.objective == "step-time"
    outcomes = (simulate(problem, *solution) for solution in every_solution(problem))
    return min(outcome.step_time_ns if by_time else outcome.peak_memory_bytes for outcome in outcomes)


def least_peak_on_one_device(problem: Problem) -> tuple[int, Order]:
    """The least peak memory of any order of ops on device 0, and such an order: over all sets of ops that can have
    run, since what is held then depends on the set only."""
    structure = structure_of(problem)
    residents = {r for own in structure.residents for r in own}
    fixed = sum(int(problem.lowered.resident_bytes[r]) for r in residents)
    best: dict[frozenset[int], tuple[int, Order]] = {frozenset(): (fixed, [])}
    for _ in range(structure.num_ops):
        longer: dict[frozenset[int], tuple[int, Order]] = {}
        for done, (peak, order) in best.items():
            for op in set(range(structure.num_ops)) - done:
                needs = {structure.producer[t] for t in structure.inputs[op]} | set(structure.predecessors[op])
                if not needs <= done:
                    continue
                new = sum(int(problem.lowered.allocated_bytes[t]) for t in structure.outputs[op])
                during = fixed + held_after(problem, done) + new + int(problem.lowered.workspace_bytes[op])
                candidate = (max(peak, during), [*order, (op, -1)])
                key = done | {op}
                longer[key] = min(longer.get(key, candidate), candidate)
        best = longer
    return best[frozenset(range(structure.num_ops))]


def held_after(problem: Problem, done: frozenset[int]) -> int:
    """Bytes of tensors when exactly the ops in `done` have run on one device."""
    structure, lowered = structure_of(problem), problem.lowered
    waited_for = {
        int(lowered.storage[t]) for op in range(structure.num_ops) if op not in done for t in structure.inputs[op]
    }
    return sum(
        int(lowered.allocated_bytes[t])
        for op in done
        for t in structure.outputs[op]
        if lowered.live_out[t] or t in waited_for
    )
