"""The slow oracle of what a learned list scheduler sees: every feature of the core's `PairFeature` anew at each step,
in plain loops. For transfers that overlap with computing, without memory limits and host threads."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from reference import Order, _op_time, _overlapped_times, _transfer_time, structure_of

from placewright.problem import Problem
from placewright.problem.constraints import placement_groups


@dataclass(frozen=True, kw_only=True)
class Compared:
    """What one step compares: pairs of op and device with their features, and which of them is placed."""

    pairs: list[tuple[int, int]]
    features: list[list[float]]
    chosen: tuple[int, int]


class Oracle:
    def __init__(self, problem: Problem) -> None:
        self.problem, self.structure = problem, structure_of(problem)
        self.devices = range(problem.machine.num_devices)
        self.group, self.allowed = placement_groups(
            problem.graph, problem.lowered, problem.machine, problem.constraints
        )
        self.size = [int(size) for size in problem.lowered.transfer_bytes]
        self.mean = [sum(_op_time(problem, op, d) for d in self.devices) // len(self.devices) for op in self._ops]
        self.ns_per_byte = self._ns_per_byte()
        self.level = self._levels()

    @property
    def _ops(self) -> range:
        return range(self.structure.num_ops)

    def readers(self, tensor: int) -> list[int]:
        return [op for op in self._ops if tensor in self.structure.inputs[op]]

    def _links(self) -> list[tuple[int, int]]:
        return [(a, b) for a in self.devices for b in self.devices if a != b]

    def _ns_per_byte(self) -> float:
        rates = [self.problem.machine.links[a][b].inverse_bandwidth / 2**32 for a, b in self._links()]
        return sum(rates) / len(rates) if rates else 0.0

    def _levels(self) -> list[int]:
        links = [self.problem.machine.links[a][b] for a, b in self._links()]
        latency = int(sum(link.latency_ns for link in links) / max(1, len(links)))
        inverse = int(sum(link.inverse_bandwidth for link in links) / max(1, len(links)))
        level = [0] * len(self._ops)
        for op in reversed(self._ops):
            after = [level[c] for c in self._ops if op in self.structure.predecessors[c]]
            for tensor in self.structure.outputs[op]:
                transfer = latency + (self.size[tensor] * inverse >> 32)
                after += [transfer + level[reader] for reader in self.readers(tensor)]
            level[op] = self.mean[op] + max(after, default=0)
        return level

    def may_use(self, op: int, device_of: dict[int, int]) -> list[int]:
        """Devices, one where the op's group stands."""
        standing = [device_of[other] for other in device_of if self.group[other] == self.group[op]]
        return standing[:1] or [device for device in self.devices if int(self.allowed[op]) >> device & 1]

    def start(self, op: int, device: int, device_of: dict[int, int], steps: Order) -> int:
        """Were the op appended there with the transfers it needs."""
        return _overlapped_times(
            self.problem, self._complete({**device_of, op: device}), self._with(op, steps, device)
        )[-1][0]

    def _with(self, op: int, steps: Order, device: int, device_of: dict[int, int] | None = None) -> Order:
        known = {step for step in steps if step[1] == device}
        homes = self._homes
        missing = [t for t in self.structure.inputs[op] if homes[self.structure.producer[t]] != device]
        return [*steps, *((t, device) for t in missing if (t, device) not in known), (op, -1)]

    def _complete(self, device_of: dict[int, int]) -> list[int]:
        return [device_of.get(op, 0) for op in self._ops]

    def follow(self, device_of: list[int], ops: list[int], window: int) -> list[Compared]:
        placed: dict[int, int] = {}
        steps: Order = []
        found = []
        for op in ops:
            self._homes = placed
            pairs = self._pairs(placed, window, op)
            found.append(
                Compared(pairs=pairs, features=self._features(pairs, placed, steps), chosen=(op, device_of[op]))
            )
            steps = self._with(op, steps, device_of[op])
            placed = {**placed, op: device_of[op]}
        return found

    def _pairs(self, placed: dict[int, int], window: int, wanted: int) -> list[tuple[int, int]]:
        needs = [
            {self.structure.producer[t] for t in self.structure.inputs[op]} | set(self.structure.predecessors[op])
            for op in self._ops
        ]
        ready = [op for op in self._ops if op not in placed and needs[op] <= placed.keys()]
        ready.sort(key=lambda op: (-self.level[op], op))
        compared = ready[:window]
        if wanted not in compared:
            compared[-1] = wanted
        return [(op, device) for op in compared for device in self.may_use(op, placed)]

    def _features(self, pairs: list[tuple[int, int]], placed: dict[int, int], steps: Order) -> list[list[float]]:
        work = sum(self.mean)
        unit = max(1.0, work / 64)
        start = {pair: self.start(*pair, placed, steps) for pair in pairs}
        times = _overlapped_times(self.problem, self._complete(placed), steps)
        ends = [(placed[i], end) for (i, to), (_, end) in zip(steps, times, strict=True) if to < 0]
        clock = [max((end for own, end in ends if own == device), default=0) for device in self.devices]
        on = {(t, d) for t, d in steps if d >= 0} | {
            (t, placed[op]) for op in placed for t in self.structure.outputs[op]
        }
        first = {op: min(start[pair] for pair in pairs if pair[0] == op) for op, _ in pairs}
        latest_end = max(first[op] + self.level[op] for op in first)
        settled = {
            op: device for op in self._ops for other, device in placed.items() if self.group[op] == self.group[other]
        }
        every = sum(self.size)

        def units(ns: float) -> float:
            return math.copysign(math.log1p(abs(ns) / unit), ns)

        def quarter(ratio: float) -> float:
            return min(8.0, max(-8.0, math.log2(ratio) / 4)) if ratio > 0 else -8.0

        rows = []
        for op, device in pairs:
            inputs, outputs = self.structure.inputs[op], self.structure.outputs[op]
            time = _op_time(self.problem, op, device)
            least = min(_op_time(self.problem, op, each) for each in self.devices)
            finish = min(start[op, d] + _op_time(self.problem, op, d) for own, d in pairs if own == op)
            missing = [t for t in inputs if (t, device) not in on]
            arrival = sum(_transfer_time(self.problem, t, placed[self.structure.producer[t]], device) for t in missing)
            read = sum(self.size[t] for t in inputs)
            largest = max(inputs, key=lambda t: self.size[t], default=None)
            fixed = siblings_here = siblings_elsewhere = 0
            for tensor in outputs:
                for reader in self.readers(tensor):
                    if reader in settled and settled[reader] != device:
                        fixed += self.size[tensor]
                    for other in self.structure.inputs[reader]:
                        maker = self.structure.producer[other]
                        if maker not in placed:
                            continue
                        if placed[maker] == device:
                            siblings_here += self.size[other]
                        else:
                            siblings_elsewhere += self.size[other]
            rows.append(
                [
                    units(start[op, device] - min(start.values())),
                    units(start[op, device] - clock[device]),
                    units(clock[device] - min(clock)),
                    units(start[op, device] + time - finish),
                    units(max(self.level[each] for each in first) - self.level[op]),
                    units(start[op, device] + self.level[op] - latest_end),
                    units(time),
                    4 * quarter(time / least) if least > 0 else 0.0,
                    units(arrival),
                    sum(self.size[t] for t in inputs if (t, device) in on) / read if read else 1.0,
                    float(largest is not None and placed[self.structure.producer[largest]] == device),
                    units(self.ns_per_byte * sum(self.size[t] for t in outputs)),
                    units(self.ns_per_byte * fixed),
                    units(self.ns_per_byte * siblings_here),
                    units(self.ns_per_byte * siblings_elsewhere),
                    float(sum(own == op for own, _ in pairs) == 1),
                    0.0,
                    float(device not in placed.values()),
                    (work - sum(self.mean[each] for each in placed)) / work if work else 0.0,
                    1 / len(self.devices),
                    quarter(work / max(1, max(self.level))),
                    quarter(self.ns_per_byte * every / max(1.0, work)),
                ]
            )
        return rows


def followed(problem: Problem, device_of: np.ndarray, ops: np.ndarray, window: int) -> list[Compared]:
    """What each step compares where the ops are placed so, one after the other."""
    return Oracle(problem).follow(device_of.tolist(), ops.tolist(), window)
