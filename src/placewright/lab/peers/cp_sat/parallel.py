"""Step time on equal devices whose overlapped transfers are free: the classical P | prec | Cmax."""

from __future__ import annotations

import heapq

import numpy as np
from ortools.sat.python.cp_model import CpModel

from placewright.lab.peers.cp_sat.structure import Formulation, Structure, Value, positions_of, whole_order
from placewright.machine import Link
from placewright.search.run.result import Solution

#: Ops beyond which building a model takes longer than it is worth.
MAX_OPS = 10_000


def fits(structure: Structure, warm: Solution | None) -> bool:
    machine = structure.problem.machine
    links = {machine.links[a][b] for a in range(structure.num_devices) for b in range(structure.num_devices) if a != b}
    alone = structure.group == list(range(structure.num_ops))
    everywhere = all(len(own) == structure.num_devices for own in structure.allowed)
    alike = all(len(set(times)) == 1 for times in structure.time_ns)
    equal = links <= {Link()} and alone and everywhere and alike
    return machine.transfer_model == "overlapped" and equal and structure.num_ops <= MAX_OPS


def formulate(structure: Structure, warm: Solution | None, at_least: int, at_most: int) -> Formulation:
    """Formulate the model: at most as many ops at a time as there are devices; devices are assigned afterwards.

    The model leaves out control dependencies in mode "order", and the device that an op without duration needs; where
    that matters, the order made from a solution takes longer than the model's step time.
    """
    model = CpModel()
    times = [own[0] for own in structure.time_ns]
    starts = [model.new_int_var(0, at_most - time_ns, "") for time_ns in times]
    intervals = [model.new_fixed_size_interval_var(start, own, "") for start, own in zip(starts, times, strict=True)]
    model.add_cumulative(intervals, [1] * len(intervals), structure.num_devices)
    waits = structure.data_edges + (structure.controls if structure.problem.control == "signal" else [])
    for before, after in waits:
        model.add(starts[before] + times[before] <= starts[after])
    step_time = model.new_int_var(at_least, at_most, "")
    for start, time_ns in zip(starts, times, strict=True):
        model.add(start + time_ns <= step_time)
    model.minimize(step_time)
    if warm is not None:
        simulated = structure.problem.core.simulate(warm.device_of, warm.order)
        for (op, destination), place in positions_of(warm).items():
            if destination < 0:
                model.add_hint(starts[op], int(simulated.start_ns[place]))
        model.add_hint(step_time, simulated.step_time_ns)

    def decode(value: Value) -> Solution:
        return dealt(structure, [value(start) for start in starts])

    return Formulation(name="parallel", model=model, decode=decode, bounds_all=True)


def dealt(structure: Structure, start_ns: list[int]) -> Solution:
    """Assign ops in the order of their starts, each to the device that is free first."""
    finish_ns = [start + own[0] for start, own in zip(start_ns, structure.time_ns, strict=True)]
    free = [(0, device) for device in range(structure.num_devices)]
    device_of = [0] * structure.num_ops
    for op in np.lexsort((finish_ns, start_ns)):
        clock, device_of[op] = heapq.heappop(free)
        heapq.heappush(free, (max(clock, finish_ns[op]), device_of[op]))
    keys = {(t, d): (finish_ns[structure.producer[t]], 0) for t, d in structure.needed_transfers(device_of)}
    return whole_order(structure, device_of, [(s, f) for s, f in zip(start_ns, finish_ns, strict=True)], keys)
