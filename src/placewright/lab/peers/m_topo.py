"""m-TOPO: devices filled in topological order up to a common share of the memory (Jeon et al., SoCC 2020)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from placewright.problem import Problem
from placewright.search.constructive.baseline import Baseline, Candidate
from placewright.search.constructive.cluster_list import op_bytes
from placewright.search.constructive.one_device import INPUT_ORDER


@dataclass(frozen=True, kw_only=True)
class MemoryTopo(Baseline):
    """Fills one device after another with ops in captured order until the next would exceed the cap: all memory divided
    by the number of devices, plus the largest op's (Baechi, section 3).

    An op counts its outputs, its workspace and the parameters no earlier op reads, none of them ever freed. Ops that
    must share a device count and move as one, at the first of them. As in Baechi only the cap counts: it balances where
    there are no limits, and limits below it are ignored. An op that may not use the device being filled goes to the
    least filled of those it may use.
    """

    name: str = "m-topo"

    def candidates(self, problem: Problem) -> Iterator[Candidate]:
        yield Candidate(name=self.name, device_of=_fill(problem), order=INPUT_ORDER.order(problem))


def _fill(problem: Problem) -> NDArray[np.int32]:
    """Return the placement, int32 [num scheduled ops]."""
    group, allowed = (array.tolist() for array in problem.groups)
    bytes_of = np.bincount(group, op_bytes(problem), minlength=len(group)).astype(np.int64).tolist()
    used = [0] * problem.machine.num_devices
    cap = sum(bytes_of) // len(used) + max(bytes_of)
    device_of, current = [-1] * len(group), 0
    for op, first in enumerate(group):
        if first == op:
            if used[current] + bytes_of[op] > cap and current + 1 < len(used):
                current += 1
            may = [device for device in range(len(used)) if allowed[op] >> device & 1]
            device_of[op] = current if current in may else min(may, key=used.__getitem__)
            used[device_of[op]] += bytes_of[op]
        device_of[op] = device_of[first]
    return np.array(device_of, np.int32)
