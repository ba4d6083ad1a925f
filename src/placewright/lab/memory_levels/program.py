"""The problem as a mixed-integer program over the configurations of ops.

A configuration of an op assigns a level to each of its tensors, which determines its time. The program picks one per op
(y), and makes the ops agree about the tensors that they share (x). Its relaxation is tight: a program that only says
that an op takes at least the time of each port would hide fractions of slow traffic behind the computation.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import product

import numpy as np

from placewright.lab.memory_levels.problem import MemoryProblem

#: For an op with more configurations only the times of its ports bound its time, which is weaker.
_MAX_CONFIGURATIONS = 729
_MIB = 2.0**20
_PS_PER_US = 1e6


@dataclass(kw_only=True, eq=False)
class Program:
    """Minimise cost @ v with lower <= matrix @ v <= upper, 0 <= v, the first `num_binary` of v integers.

    Variable t * levels + l is 1 where tensor t is in level l. Costs are us, the sizes in rows MiB.
    """

    num_binary: int
    cost: list[float] = field(default_factory=list)
    rows: list[int] = field(default_factory=list)
    columns: list[int] = field(default_factory=list)
    values: list[float] = field(default_factory=list)
    lower: list[float] = field(default_factory=list)
    upper: list[float] = field(default_factory=list)

    def variable(self, cost: float = 0.0) -> int:
        self.cost.append(cost)
        return len(self.cost) - 1

    def row(self, terms: Iterator[tuple[int, float]] | list[tuple[int, float]], lower: float, upper: float) -> None:
        number = len(self.lower)
        for column, value in terms:
            self.rows.append(number)
            self.columns.append(column)
            self.values.append(value)
        self.lower.append(lower)
        self.upper.append(upper)


def count_variables(problem: MemoryProblem) -> int:
    """Return about how many variables the program has, without making it."""
    configurations = float(problem.num_levels) ** np.minimum(np.diff(problem.use_begin), 30)
    of_ops = int(np.where(configurations > _MAX_CONFIGURATIONS, 1, configurations).sum())
    return of_ops + problem.num_tensors * problem.num_levels


def configuration_program(problem: MemoryProblem) -> Program:
    """Return the program of a problem without prefetching."""
    levels = range(problem.num_levels)
    program = Program(num_binary=problem.num_tensors * problem.num_levels)
    for _ in range(program.num_binary):
        program.variable()
    for tensor in range(problem.num_tensors):
        program.row([(_x(problem, tensor, level), 1.0) for level in levels], 1, 1)
    for op in range(problem.num_ops):
        _add_op(program, problem, op)
    for level in levels[:-1]:
        _add_capacity(program, problem, level)
    return program


def _x(problem: MemoryProblem, tensor: int, level: int) -> int:
    return tensor * problem.num_levels + level


def _add_op(program: Program, problem: MemoryProblem, op: int) -> None:
    uses = range(int(problem.use_begin[op]), int(problem.use_begin[op + 1]))
    tensors = [int(problem.use_tensor[use]) for use in uses]
    times = _transfer_times(problem, op)
    if problem.num_levels ** len(tensors) > _MAX_CONFIGURATIONS:
        _add_ports(program, problem, op, tensors, times)
        return
    choices = list(product(range(problem.num_levels), repeat=len(tensors)))
    first = len(program.cost)
    for choice in choices:
        program.variable(_op_us(problem, op, times, choice))
    for place, tensor in enumerate(tensors):
        for level in range(problem.num_levels):
            chosen = [(first + number, 1.0) for number, choice in enumerate(choices) if choice[place] == level]
            program.row([*chosen, (_x(problem, tensor, level), -1.0)], 0, 0)
    if not tensors:
        program.row([(first, 1.0)], 1, 1)


def _add_ports(program: Program, problem: MemoryProblem, op: int, tensors: list[int], times: list[list[int]]) -> None:
    """Bound the time of an op from below by that of its computation and of each port."""
    fixed = _fixed_us(problem, op)
    longest = program.variable(1.0)
    program.row([(longest, 1.0)], (problem.compute_ps[op] + problem.overhead_ps[op]) / _PS_PER_US, np.inf)
    for level in range(problem.num_levels):
        terms = [(_x(problem, t, level), -times[place][level] / _PS_PER_US) for place, t in enumerate(tensors)]
        least = problem.overhead_ps[op] / _PS_PER_US + (fixed if level == problem.num_levels - 1 else 0.0)
        program.row([(longest, 1.0), *terms], least, np.inf)


def _transfer_times(problem: MemoryProblem, op: int) -> list[list[int]]:
    """Return the transfer time in ps by use and level."""
    uses = range(int(problem.use_begin[op]), int(problem.use_begin[op + 1]))
    return [[level.transfer_ps(int(problem.use_bytes[use])) for level in problem.chip.levels] for use in uses]


def _fixed_us(problem: MemoryProblem, op: int) -> float:
    return problem.chip.levels[-1].transfer_ps(int(problem.fixed_bytes[op])) / _PS_PER_US


def _op_us(problem: MemoryProblem, op: int, times: list[list[int]], choice: tuple[int, ...]) -> float:
    """Return the time in us of an op with its tensors in the chosen levels."""
    ports = [0.0] * problem.num_levels
    ports[-1] = _fixed_us(problem, op)
    for place, level in enumerate(choice):
        ports[level] += times[place][level] / _PS_PER_US
    busy = [
        port + level.latency_ns / 1000 if port > 0 else 0.0
        for port, level in zip(ports, problem.chip.levels, strict=True)
    ]
    return float(max([problem.compute_ps[op] / _PS_PER_US, *busy]) + problem.overhead_ps[op] / _PS_PER_US)


def _add_capacity(program: Program, problem: MemoryProblem, level: int) -> None:
    """Make weights, summed up once, and an op's activations fit together; only for ops whose activations are no subset
    of another op's."""
    capacity = problem.chip.levels[level].capacity_bytes / _MIB
    weights = program.variable()
    held = np.flatnonzero(problem.is_weight == 1)
    terms = [(_x(problem, int(t), level), float(problem.size_bytes[t]) / _MIB) for t in held]
    program.row([*terms, (weights, -1.0)], 0, 0)
    for live in _largest_sets(problem):
        terms = [(_x(problem, t, level), float(problem.size_bytes[t]) / _MIB) for t in live]
        program.row([*terms, (weights, 1.0)], -np.inf, capacity)


def _largest_sets(problem: MemoryProblem) -> Iterator[list[int]]:
    """Yield the activations held during ops after which one ends, or during the last; other ops hold subsets of
    these."""
    activations = np.flatnonzero(problem.is_weight == 0)
    first, last = problem.first[activations], problem.last[activations]
    begins = set(first.tolist())
    for op in range(problem.num_ops):
        grows_on = op + 1 in begins and not np.any(last == op)
        if not grows_on or op == problem.num_ops - 1:
            yield activations[(first <= op) & (last >= op)].tolist()
