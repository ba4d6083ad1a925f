"""A digest of the code that made a row of maps, from what a solver does with a few small networks, as for methods that
place (code_version.py)."""

from __future__ import annotations

import random
from functools import cache
from typing import Any

from placewright.graph import Graph
from placewright.importers.builder import GraphBuilder
from placewright.lab.bench.code_version import digest_of
from placewright.lab.learning.egrl.solvers import MapLearner
from placewright.lab.memory_levels.chip import Chip, MemoryLevel
from placewright.lab.memory_levels.lowering import make_memory_problem
from placewright.lab.memory_levels.problem import MemoryProblem
from placewright.lab.memory_levels.run import MapSolver
from placewright.lab.memory_levels.solvers.table import make_map_solver
from placewright.search.run.budget import Budget
from placewright.search.run.search_run import SearchRun
from placewright.support.errors import InputError, MissingExtraError

_EVALUATIONS = 300
#: For a learner, whose evaluations are slow: two generations of the population.
_LEARNING_EVALUATIONS = 40
_LARGEST_BYTES, _LONGEST_NS = 2**16, 2_000


def code_of_map_solver(name: str) -> str:
    """Return the digest. Raises InputError for an unknown solver, MissingExtraError where its package is not
    installed."""
    solver = make_map_solver(name)
    evaluations = _LEARNING_EVALUATIONS if isinstance(solver, MapLearner) else _EVALUATIONS
    return digest_of([_decisions(solver, problem, Budget(evaluations=evaluations)) for problem in _probes()])


def _decisions(solver: MapSolver, problem: MemoryProblem, budget: Budget) -> Any:
    """Return levels, latency and number of evaluations; None where the solver cannot map for such a chip."""
    try:
        found = solver.solve(problem, SearchRun(budget))
    except MissingExtraError:
        raise
    except InputError:
        return None
    return [found.levels.tolist(), found.latency_ps, found.evaluations]


@cache
def _probes() -> tuple[MemoryProblem, ...]:
    """One chip of three levels, the faster two of which are tight, and one of two whose slower level is prefetched."""
    kib = 2**10
    chips = (
        _chip(("fast", 96 * kib, 1e11), ("middle", 256 * kib, 1e10), ("slow", 2**30, 1e9)),
        _chip(("fast", 128 * kib, 1e11), ("slow", 2**30, 4e9), prefetched=True),
    )
    return tuple(make_memory_problem(_network(12), chip) for chip in chips)


def _chip(*levels: tuple[str, int, float], prefetched: bool = False) -> Chip:
    return Chip(
        name="probe",
        levels=tuple(
            MemoryLevel(name=name, capacity_bytes=size, bandwidth_bytes_per_s=rate, is_prefetched=prefetched and i > 0)
            for i, (name, size, rate) in enumerate(levels)
        ),
        mac_rate=1e12,
        vector_rate=1e12,
        op_overhead_ns=100,
    )


def _network(num_ops: int) -> Graph:
    """Make a graph whose ops have a weight each and read one or two of the four ops before them. Uses only `random()`,
    whose numbers Python promises to keep."""
    draw = random.Random("levels").random
    graph = GraphBuilder("probe")
    made: list[int] = []
    for index in range(num_ops):
        weight = graph.add_tensor(f"w{index}", size_bytes=1 + int(_LARGEST_BYTES * draw()), role="parameter")
        read = sorted({made[max(0, index - 1 - int(4 * draw()))] for _ in range(2)}) if made else []
        made.append(graph.add_tensor(f"t{index}", size_bytes=1 + int(_LARGEST_BYTES * draw())))
        time_ns = 1 + int(_LONGEST_NS * draw())
        graph.add_op(f"op{index}", "matmul", inputs=[*read, weight], outputs=[made[-1]], time_ns=time_ns)
    return graph.build()
