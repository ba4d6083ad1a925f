"""Local search against the same search written slowly, move by move."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from reference import simulate, structure_of
from strategies import problems

from placewright.lab.peers.local_search import LocalSearch
from placewright.problem import Problem
from placewright.search.run.budget import Budget
from placewright.search.run.search_run import SearchRun

MASK = 2**64 - 1
STRIDE = 0x9E3779B97F4A7C15
PLACEMENT, MOVE = 1, 2
KIND, OP, TARGET = range(3)


def mixed(x: int) -> int:
    x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9 & MASK
    x = (x ^ x >> 27) * 0x94D049BB133111EB & MASK
    return x ^ x >> 31


class Stream:
    """The core's random numbers (cpp/core/support/random.hpp)."""

    def __init__(self, seed: int, generation: int, individual: int, purpose: int) -> None:
        self.key = mixed(seed + STRIDE & MASK)
        for part in (generation, individual, purpose):
            self.key = mixed(self.key + part & MASK)

    def below(self, index: int, bound: int) -> int:
        bits = mixed(self.key + (index + 1) * STRIDE & MASK)
        return (bits >> 32) * bound >> 32


class SlowSearch:
    """One op order, one placement; every move copies both, and keeps or drops the copy."""

    def __init__(self, problem: Problem, method: LocalSearch, seed: int) -> None:
        self.problem, self.method, self.seed = problem, method, seed
        self.structure = structure_of(problem)
        group, allowed = problem.groups
        self.group = group.tolist()
        everywhere = range(problem.machine.num_devices)
        self.allowed = [[d for d in everywhere if int(mask) >> d & 1] for mask in allowed]

    def run(self, evaluations: int) -> tuple[int, ...]:
        """Return the best cost, as `cost` states it: with memory only if some limit or the objective needs it."""
        per_start = -(-evaluations // self.method.starts)
        best = None
        for spent in range(evaluations):
            start, move = divmod(spent, per_start)
            if move == 0:
                device_of, ops = self.started(start)
                cost = self.cost(device_of, ops)
            else:
                new_device_of, new_ops = self.moved(Stream(self.seed, start, move, MOVE), device_of, ops)
                new_cost = self.cost(new_device_of, new_ops)
                if new_cost < cost or (self.method.accept_equal and new_cost == cost):
                    device_of, ops, cost = new_device_of, new_ops, new_cost
            if best is None or cost < best:
                best = cost
        assert best is not None
        return best

    def started(self, start: int) -> tuple[list[int], list[int]]:
        stream = Stream(self.seed, start, 0, PLACEMENT)
        ops = list(range(self.structure.num_ops))
        device_of = [self.allowed[op][stream.below(self.group[op], len(self.allowed[op]))] for op in ops]
        return device_of, ops

    def moved(self, stream: Stream, device_of: list[int], ops: list[int]) -> tuple[list[int], list[int]]:
        op = stream.below(OP, len(ops))
        if stream.below(KIND, 65536) < round(self.method.device_share * 65536):
            others = [device for device in self.allowed[op] if device != device_of[op]]
            if not others:
                return device_of, ops
            device = others[stream.below(TARGET, len(others))]
            moving = [self.group[other] == self.group[op] for other in range(len(ops))]
            return [device if moves else old for moves, old in zip(moving, device_of, strict=True)], ops
        rest = [other for other in ops if other != op]
        at = ops.index(op)
        places = [
            place
            for place in range(len(ops))
            if 0 < abs(place - at) <= self.method.reach and self.is_order([*rest[:place], op, *rest[place:]])
        ]
        if not places:
            return device_of, ops
        place = places[stream.below(TARGET, len(places))]
        return device_of, [*rest[:place], op, *rest[place:]]

    def is_order(self, ops: list[int]) -> bool:
        done: set[int] = set()
        for op in ops:
            before = {self.structure.producer[t] for t in self.structure.inputs[op]}
            if not before | set(self.structure.predecessors[op]) <= done:
                return False
            done.add(op)
        return True

    def some_limit_could_be_exceeded(self) -> bool:
        """True if all on one device exceed some limit: each tensor, all residents, the largest workspace."""
        lowered = self.problem.lowered
        everything = int(
            np.maximum(lowered.allocated_bytes, lowered.transfer_bytes).sum() + lowered.resident_bytes.sum()
        )
        everything += int(lowered.workspace_bytes.max())
        return any(limit is not None and limit < everything for limit in self.problem.memory_limits_bytes)

    def cost(self, device_of: list[int], ops: list[int]) -> tuple[int, ...]:
        needed = self.structure.needed_transfers(device_of)
        order = []
        for op in ops:
            order.append((op, -1))
            order += [step for step in needed if step[0] in self.structure.outputs[op]]
        cost = simulate(self.problem, device_of, order)
        if self.problem.objective != "peak-memory" and not self.some_limit_could_be_exceeded():
            return (0, cost.step_time_ns)
        times = (cost.step_time_ns, cost.peak_memory_bytes)
        return (cost.bytes_over_limit, *(times if self.problem.objective == "step-time" else times[::-1]))


@settings(max_examples=60)
@given(
    problem=problems(),
    seed=st.integers(0, 2**32),
    reach=st.sampled_from([1, 2, 100]),
    starts=st.sampled_from([1, 3, 60]),
    device_share=st.sampled_from([0.5, 0.0, 0.8, 1.0]),
    accept_equal=st.booleans(),
)
def test_it_is_the_slow_search_move_by_move(problem: Problem, seed: int, **fields: Any) -> None:
    method = LocalSearch(**fields)
    result = method.solve(problem, SearchRun(Budget(evaluations=40), seed=seed))
    fitness = SlowSearch(problem, method, seed).run(40)
    assert result.metrics.fitness(problem.objective)[: len(fitness)] == fitness
