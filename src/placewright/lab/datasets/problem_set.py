"""A set of problems: graphs with the machine and the objective to plan for, to learn from or to measure methods on."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from random import Random
from typing import Any

from placewright.graph import Graph
from placewright.importers.graph_set import GraphSet
from placewright.machine import Machine
from placewright.machines import machine_to_json
from placewright.machines.specification import parse_specification
from placewright.problem import Problem, make_problem
from placewright.problem.objective import ControlMode, Objective
from placewright.search.constructive.one_device import INPUT_ORDER
from placewright.search.run.search_run import SearchRun
from placewright.support.errors import InputError

#: A size or time is multiplied by a number drawn uniformly between these.
LEAST_FACTOR, MAX_FACTOR = 0.5, 1.5


def noisy_copy(graph: Graph, number: int, seed: int) -> Graph:
    """Return the graph "NAME~number": the given one with other tensor sizes and op times.

    Every tensor size and every stated op time has its own factor in every copy; an alias has the factor of the tensor
    it aliases, so that views stay views of the same bytes. What was positive stays positive. A copy depends on the
    seed, the graph's name and its own number alone. Workspaces stay: the paper has noise for tensors and ops.
    """
    random = Random(f"{seed}/{graph.name}/{number}")
    factor = [random.uniform(LEAST_FACTOR, MAX_FACTOR) for _ in graph.tensors]
    sizes = [
        _scaled(tensor.size_bytes, factor[base]) for tensor, base in zip(graph.tensors, graph.base_of, strict=True)
    ]
    factors = [random.uniform(LEAST_FACTOR, MAX_FACTOR) for _ in graph.ops]
    times = [
        op.time_ns if op.time_ns is None else _scaled(op.time_ns, f) for op, f in zip(graph.ops, factors, strict=True)
    ]
    return Graph(
        name=f"{graph.name}~{number}",
        tensors=tuple(replace(tensor, size_bytes=size) for tensor, size in zip(graph.tensors, sizes, strict=True)),
        ops=tuple(replace(op, time_ns=time) for op, time in zip(graph.ops, times, strict=True)),
        metadata={**graph.metadata, "copy_of": graph.name, "copy": number, "noise_seed": seed},
    )


def _scaled(value: int, factor: float) -> int:
    """The product as a whole number within the bounds of the factors, positive when the value is."""
    return max(round(value * factor), min(value, 1))


#: The paper's machine: two equal devices, transfers that block and take no time.
PAPER_MACHINE = "2xideal/free"
#: The treatment of control dependencies in sets, suites and trainings that state none (docs/semantics.md).
DEFAULT_CONTROL: ControlMode = "order"
_NOISE_SEED = 0


@dataclass(frozen=True, kw_only=True, eq=False)
class ProblemSet:
    """Problems by number.

    graphs, copies: every graph and a number of noisy copies of each (REGAL A.1.2). memory_limit_bytes: of every device.
    memory_share: of the peak of the captured order on one device, another limit of every device.
    """

    name: str
    graphs: GraphSet
    machine: Machine
    objective: Objective = "step-time"
    control: ControlMode = DEFAULT_CONTROL
    memory_limit_bytes: int | None = None
    memory_share: float | None = None
    copies: int = 0

    @property
    def labels(self) -> list[str]:
        """Names of the instances: each graph's, then those of its copies ("name~1")."""
        return [
            label if copy == 0 else f"{label}~{copy}" for label in self.graphs.labels for copy in range(1 + self.copies)
        ]

    def graph(self, index: int) -> Graph:
        """Return the graph of an instance. Raises InputError naming the file when it cannot be read."""
        graph = self.graphs[index // (1 + self.copies)]
        copy = index % (1 + self.copies)
        return graph if copy == 0 else noisy_copy(graph, copy, _NOISE_SEED)

    def problem(self, graph: Graph) -> Problem:
        make = partial(make_problem, graph, self.machine, objective=self.objective, control=self.control)
        problem = make(memory_limit=self.memory_limit_bytes)
        if self.memory_share is None:
            return problem
        peak_bytes = INPUT_ORDER.solve(problem, SearchRun()).metrics.peak_memory_bytes
        limits = (self.memory_limit_bytes, int(self.memory_share * peak_bytes))
        return make(memory_limit=min(limit for limit in limits if limit is not None))

    @property
    def facts(self) -> list[object]:
        """Everything that determines the problems, as JSON values; their copies have their own labels."""
        facts: list[object] = [self.graphs.digest, _machine_fact(self.machine), self.objective, self.control]
        return [*facts, self.memory_limit_bytes, *([self.memory_share] if self.memory_share else [])]


def _machine_fact(machine: Machine) -> str | dict[str, Any]:
    """Return the name where it determines the machine, else all that a file states of it."""
    with suppress(InputError):
        if parse_specification(machine.name) == machine:
            return machine.name
    return machine_to_json(machine)


def spread(num_instances: int, take: int | None) -> Sequence[int]:
    """Return indices of `take` instances at even distances, or all for None: of graphs sorted by size, some of each
    size."""
    if take is None or take >= num_instances:
        return range(num_instances)
    return [position * num_instances // take for position in range(take)]
