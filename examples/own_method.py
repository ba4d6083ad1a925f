"""A method of one's own, in a file that --plugin takes: ops go where most of the bytes they read are.

placewright plan example:inception-v3 -d 2xp100 --plugin examples/own_method.py --solver near-inputs
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

import placewright
from placewright.problem import Problem
from placewright.search.constructive.baseline import Baseline, Candidate


@placewright.register_method
@dataclass(frozen=True, kw_only=True)
class NearInputs(Baseline):
    name: str = "near-inputs"

    def candidates(self, problem: Problem) -> Iterator[Candidate]:
        lowered, (group, allowed) = problem.lowered, problem.groups
        time_ns = problem.time_ns[lowered.graph_op]  # [scheduled ops, devices]
        num_ops, num_devices = time_ns.shape
        for price_ns in (0.0, 0.01, 0.1, 1.0):  # of a byte that comes from another device
            device_of, busy_ns = np.zeros(num_ops, np.int32), np.zeros(num_devices)
            for op in range(num_ops):  # the captured order
                tensors = lowered.inputs[lowered.input_begin[op] : lowered.input_begin[op + 1]]
                here = np.zeros(num_devices)
                np.add.at(here, device_of[lowered.producer[tensors]], lowered.transfer_bytes[tensors])
                cost = busy_ns + time_ns[op] + price_ns * (here.sum() - here)
                cost[[not int(allowed[op]) >> device & 1 for device in range(num_devices)]] = np.inf
                device_of[op] = np.argmin(cost) if group[op] == op else device_of[group[op]]
                busy_ns[device_of[op]] += time_ns[op, device_of[op]]
            yield Candidate(name=f"{price_ns:g} ns", device_of=device_of, order=np.arange(num_ops, dtype=np.int32))
