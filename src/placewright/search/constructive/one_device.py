"""Orders of all ops on one device: the captured order, and those of the compilers' memory schedulers; and the best of
all of them, the yardstick for using more than one device."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import chain

import numpy as np
from numpy.typing import NDArray

import placewright._core as _core
from placewright.problem import Problem
from placewright.search.constructive.baseline import Baseline, Candidate, Fitness

#: Returns a valid order of the scheduled ops, int32 [num scheduled ops].
OpOrder = Callable[[Problem], NDArray[np.int32]]


@dataclass(frozen=True, kw_only=True)
class OneDeviceOrder(Baseline):
    """Runs `order` on the first device where it fits the memory limit, else on the one that it exceeds least.

    Ops that may not go there (pins, forbidden devices, and ops that must share their device) run on the first device
    that they may use. Devices that no op can distinguish are tried once.
    """

    name: str
    order: OpOrder

    def candidates(self, problem: Problem) -> Iterator[Candidate]:
        return one_device_candidates(problem, self.name, self.order)

    def is_enough(self, fitness: Fitness) -> bool:
        return fitness[0] == 0


def one_device_candidates(problem: Problem, name: str, order: OpOrder) -> Iterator[Candidate]:
    """Yield the order on each device in turn."""
    ops = order(problem)
    for device in distinct_devices(problem):
        yield Candidate(name=name, device_of=_core.all_on(problem.core, device), order=ops)


def distinct_devices(problem: Problem) -> Iterator[int]:
    """Yield devices in ascending order, without those that equal an earlier one in op times and memory limit; all of
    them with pins or forbidden devices, since links matter then too."""
    seen: set[tuple[int | None, bytes]] = set()
    restricted = problem.constraints.pins or problem.constraints.forbids
    for device, limit in enumerate(problem.memory_limits_bytes):
        looks = (limit, problem.time_ns[:, device].tobytes())
        if restricted or looks not in seen:
            seen.add(looks)
            yield device


def _captured(problem: Problem) -> NDArray[np.int32]:
    return np.arange(len(problem.lowered.graph_op), dtype=np.int32)


#: The captured order, which runs when nobody plans.
INPUT_ORDER = OneDeviceOrder(name="input-order", order=_captured)
#: Depth-first post-order, as XLA's DFSMemoryScheduler orders ops (hlo_memory_scheduler.cc).
DFS = OneDeviceOrder(name="dfs", order=lambda problem: _core.dfs_order(problem.core))
#: First in, first out: ops in the sequence in which they become ready.
BFS = OneDeviceOrder(name="bfs", order=lambda problem: _core.bfs_order(problem.core))
#: Least peak memory first, as PyTorch Inductor's topological_sort_lpmf (torch/_inductor/memory.py).
LPMF = OneDeviceOrder(name="lpmf", order=lambda problem: _core.lpmf_order(problem.core))
#: Most bytes freed first, as XLA's ListScheduler (hlo_memory_scheduler.cc).
XLA_LIST = OneDeviceOrder(name="xla-list", order=lambda problem: _core.xla_list_order(problem.core))
#: Greedy least memory from the outputs backwards.
REVERSE_GREEDY = OneDeviceOrder(name="reverse-greedy", order=lambda problem: _core.reverse_greedy_order(problem.core))

ORDERS = (INPUT_ORDER, DFS, BFS, LPMF, XLA_LIST, REVERSE_GREEDY)


@dataclass(frozen=True, kw_only=True)
class SingleDevice(Baseline):
    """Tries every simple order on every device and keeps the best by the problem's fitness. found_by names the
    order."""

    name: str = "single-device"

    def candidates(self, problem: Problem) -> Iterator[Candidate]:
        return chain.from_iterable(one_device_candidates(problem, m.name, m.order) for m in ORDERS)
