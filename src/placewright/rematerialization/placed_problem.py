"""Placements on several devices with reruns or moves: the problem of a placement, and its schedule."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from copy import copy
from functools import cached_property
from itertools import chain
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from placewright.graph import HOST_TARGET, LEAVE_TARGET, Graph
from placewright.machines.host import HostMemory
from placewright.problem import Problem
from placewright.problem.running_again import again_before, may_move
from placewright.rematerialization.proofs import kept, kept_in_place
from placewright.rematerialization.reruns import Move, Rerun
from placewright.rematerialization.solve import in_order, in_other_order, with_reruns
from placewright.search.run.result import Solution, measure

Int32 = NDArray[np.int32]


class DeviceRewrites(NamedTuple):
    """Ops that run again on one device, and tensors that it moves to the host."""

    reruns: tuple[Rerun, ...] = ()
    moves: tuple[Move, ...] = ()


class PlacedProblem:
    """A placement, and a problem whose graph has the ops in the order of their first runs.

    until: as in `again_before`, -1 for ops that are kept. movable: 1 for tensors that may be moved. once: the schedule
    in which each op runs once.
    """

    def __init__(
        self, problem: Problem, device_of: Int32, ops: Int32, keep: Sequence[str], host: HostMemory | None
    ) -> None:
        self.problem = in_other_order(problem, ops)
        self.device_of = device_of[ops]
        self._ops, self._begins = ops, problem.lowered.output_begin
        self.until = again_before(self.problem).copy()
        self.until[kept(self.problem, keep)] = -1
        self.host = host
        stays = kept_in_place(self.problem, keep)[self.problem.lowered.producer]
        self.movable = np.where(stays, 0, may_move(self.problem)).astype(np.uint8)
        self.once = PlacedSchedule(self, ())

    def by_time(self) -> Int32:
        """List the ops, in the numbers of the given problem, by their start if each runs once."""
        graph, begins = self.problem.graph, self.once.times[0]
        starts = [begins[graph.ops[op].name][0] for op in self.problem.lowered.graph_op]
        return self._ops[np.argsort(starts, kind="stable")]

    def placed(self, device_of: Int32) -> PlacedProblem | None:
        """Return the problem with another placement; None if the placement is the same, or cannot fit whatever ops run
        again."""
        moved = copy(self)
        moved.device_of = device_of
        if (device_of == self.device_of).all() or not moved.may_fit():
            return None
        moved.once = PlacedSchedule(moved, ())
        return moved

    def is_slower_than(self, whole: PlacedSchedule) -> bool:
        """True if a step takes no less time than in `whole`, even without a rerun. Always False where the step time is
        not the objective or `whole` exceeds the limits."""
        counts = self.problem.objective == "step-time" and not whole.metrics.bytes_over_limit
        return counts and self.once.metrics.step_time_ns >= whole.metrics.step_time_ns

    def may_fit(self) -> bool:
        """True if the memory that each device holds at the end of the step, whatever ops run again, is within its
        limit."""
        lowered = self.problem.lowered
        for device, limit in enumerate(self.problem.memory_limits_bytes):
            is_here = self.device_of == device
            residents = np.unique(lowered.residents[is_here[lowered.resident_reader]])
            stays = is_here[lowered.producer] & (lowered.live_out == 1)
            held = int(lowered.resident_bytes[residents].sum() + lowered.allocated_bytes[stays].sum())
            if limit is not None and held > limit:
                return False
        return True

    def original(self, solution: Solution) -> Solution:
        """Convert a solution of the problem here to the numbers of the given one."""
        device_of = np.empty_like(self.device_of)
        device_of[self._ops] = self.device_of
        tensors = np.concatenate([np.arange(*self._begins[op : op + 2]) for op in self._ops.tolist()])
        step, destination = solution.order.T
        is_op = destination < 0
        order = np.empty_like(solution.order)
        order[is_op] = np.stack([self._ops[step[is_op]], destination[is_op]], axis=1)
        order[~is_op] = np.stack([tensors[step[~is_op]], destination[~is_op]], axis=1)
        return Solution(device_of=device_of, order=order)


class PlacedSchedule:
    """A schedule of all devices, with reruns and moves as ops, simulated in the order of the graph."""

    def __init__(self, start: PlacedProblem, found: Sequence[DeviceRewrites]) -> None:
        self.start = start
        problem, device_of = start.problem, start.device_of
        graph = problem.graph
        on = {
            graph.ops[op].name: device for op, device in zip(problem.lowered.graph_op, device_of.tolist(), strict=True)
        }
        self.reruns = tuple(chain.from_iterable(each.reruns for each in found))
        self.moves = tuple(chain.from_iterable(each.moves for each in found))
        self.problem = with_reruns(problem, self.reruns, self.moves, start.host, on)
        on |= {rerun.name: on[rerun.op] for rerun in self.reruns}
        runs = self.problem.lowered.graph_op
        self.solution = in_order(self.problem, _devices_of(self.problem.graph, runs, on, problem.machine.num_devices))
        self.metrics = measure(self.problem, self.solution)

    def fitness(self) -> tuple[int, int, int]:
        return self.metrics.fitness(self.problem.objective)

    def promise(self) -> float:
        """Return the step time, increased by the share by which devices exceed their limits: less is better."""
        limits = self.problem.memory_limits_bytes
        return self.metrics.step_time_ns * (1 + sum(excess / max(1, limits[each] or 0) for each, excess in self.over()))

    def over(self) -> Iterator[tuple[int, int]]:
        """Yield devices over their limit, with the bytes over it."""
        for device, limit in enumerate(self.problem.memory_limits_bytes):
            if limit is not None and self.metrics.peak_bytes[device] > limit:
                yield device, self.metrics.peak_bytes[device] - limit

    @cached_property
    def times(self) -> tuple[dict[str, tuple[int, int]], dict[tuple[int, int], tuple[int, int]]]:
        """Start and finish of ops, by name, and of transfers, by tensor of the graph and destination."""
        simulated = self.problem.core.simulate(self.solution.device_of, self.solution.order)
        lowered, ops = self.problem.lowered, self.problem.graph.ops
        of_ops, of_transfers = {}, {}
        spans = zip(
            self.solution.order.tolist(), simulated.start_ns.tolist(), simulated.finish_ns.tolist(), strict=True
        )
        for (step, destination), start, finish in spans:
            if destination < 0:
                of_ops[ops[lowered.graph_op[step]].name] = start, finish
            else:
                of_transfers[int(lowered.graph_tensor[step]), destination] = start, finish
        return of_ops, of_transfers


def _devices_of(graph: Graph, runs: Int32, on: Mapping[str, int], host: int) -> Int32:
    """Return the device of each run of a graph with moves. on: devices of ops and reruns, by name."""

    def device(run: int) -> int:
        op = graph.ops[run]
        if op.target == HOST_TARGET:
            return host
        return on[graph.ops[graph.producer_of[op.inputs[0]]].name if op.target == LEAVE_TARGET else op.name]

    return np.array([device(run) for run in runs.tolist()], np.int32)
